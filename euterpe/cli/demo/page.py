"""Write the page of the demo: static files next to the outputs. Any web server can serve the folder."""

import json
import shutil
from collections.abc import Mapping, Sequence
from functools import partial
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler
from pathlib import Path
from typing import Any

from euterpe.cli.local_server import LocalServer

_STATIC = Path(__file__).parent / "static"
MEDIA = "media"  # the folder of the outputs, beside the page
# The policy allows the page to load files only from this server. hls.js sets a blob: URL in the video
# element, and an empty data: URL in each subtitle track.
_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "media-src blob: data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
    ),
    "x-content-type-options": "nosniff",
    "cache-control": "no-cache",
}
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css",
    ".js": "text/javascript",
    ".json": "application/json",
    ".m3u8": "application/vnd.apple.mpegurl",
    ".mpd": "application/dash+xml",
    ".mp4": "video/mp4",
    ".m4s": "video/iso.segment",
    ".vtt": "text/vtt",
    ".jpg": "image/jpeg",
    "": "application/octet-stream",
}
_IDLE_S = 30.0


def write_page(site: Path, outputs: Sequence[Mapping[str, Any]]) -> None:
    """Write the page into `site`, with the list of the requested outputs, which the page shows."""
    shutil.copytree(_STATIC, site, dirs_exist_ok=True)
    (site / "outputs.json").write_text(json.dumps(outputs, indent=2))


def page_server(site: Path) -> LocalServer:
    """Return a server for the files in `site`, on a free port of the loopback address."""
    return LocalServer(("127.0.0.1", 0), partial(_Handler, directory=str(site)))


class _Handler(SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    extensions_map = _TYPES
    timeout = _IDLE_S

    def end_headers(self) -> None:
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        super().end_headers()

    def list_directory(self, path: Any) -> None:  # noqa: ARG002  the signature of the base class
        self.send_error(HTTPStatus.NOT_FOUND)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  the name in the base class
        """Do nothing. The method of the base class would print a line for each request to stderr."""
