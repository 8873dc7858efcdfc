"""Play HLS and DASH in headless Chromium with hls.js, dash.js and Shaka Player, and report what happened."""

import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, TypeAlias
from urllib.parse import unquote, urlencode, urlsplit

from playwright.sync_api import ConsoleMessage, Page, Route

from tests.browser import chromium
from tests.node import NODE_MODULES

Player = Literal["hls.js", "dash.js", "shaka"]
Track: TypeAlias = dict[str, Any]

# The folder of the page. The server serves the players under /lib/ and the media under /media/.
_PAGE = Path(__file__).parent
_TYPES = {
    ".html": "text/html",
    ".js": "text/javascript",
    ".m3u8": "application/vnd.apple.mpegurl",
    ".mpd": "application/dash+xml",
    ".mp4": "video/mp4",
    ".m4s": "video/iso.segment",
    ".vtt": "text/vtt",
}
NO_KEYS: Mapping[str, bytes] = MappingProxyType({})
_RANGE = re.compile(r"bytes=(\d+)-(\d*)")


@dataclass(frozen=True)
class PlayReport:
    """The report of a player. `levels` are the video renditions, in the order of the player."""

    errors: list[str]
    ended: int  # how often the playback reached the end
    duration: float
    buffered: list[tuple[float, float]]  # the buffered ranges when the end was first reached
    pictures: int  # the number of pictures decoded until the end was first reached
    dropped: int  # the number of decoded pictures that the browser did not show
    levels: list[dict[str, Any]]
    played_levels: list[int]  # the level of each video segment, in the order of loading
    sounds: list[Track]
    played_sound: int | None
    texts: list[Track]
    cues: list[tuple[float, float, str]]
    waits: int  # how often playback stopped for lack of data, until the end was first reached
    size: tuple[int, int]
    trick_play: int  # the number of I-frame variants that the player found
    keyframe_ranges: list[str]  # the byte ranges of keyframe files that the server sent


@dataclass(frozen=True)
class Play:
    """One playback: a manifest, a player, and its actions.

    With `switches`, the player changes the video rendition with every segment. With `tour`, the player seeks
    forwards and backwards after the end, changes the sound, and plays to the end again. With `text`, the
    player shows the first subtitle track. With `trick`, Shaka Player plays fast with keyframes.
    """

    player: Player
    manifest: str
    switches: bool = False
    tour: bool = False
    text: bool = False
    trick: bool = False
    rate: float = 4.0


def play(
    folder: Path, *plays: Play, timeout_s: float = 60.0, keys: Mapping[str, bytes] = NO_KEYS
) -> list[PlayReport]:
    """Play manifests of one folder in parallel in one browser, and return their reports in order.

    `keys` maps the URLs of keys on other hosts to the responses.

    A playback with errors is repeated alone, because hls.js can fail on a busy machine: it sometimes appends
    a segment twice after a change of the level. If the media have a fault, the repetition reports it again.
    """
    reports = _play(folder, plays, timeout_s, keys)
    return [
        _play(folder, [one], timeout_s, keys)[0] if report.errors else report
        for one, report in zip(plays, reports, strict=True)
    ]


def _play(
    folder: Path, plays: Sequence[Play], timeout_s: float, keys: Mapping[str, bytes]
) -> list[PlayReport]:
    with ExitStack() as ended:
        address = ended.enter_context(_served(folder))
        browser = ended.enter_context(chromium(*_IN_BACKGROUND))
        pages = []
        for one in plays:
            page = browser.new_context().new_page()
            errors = _console_errors(page)
            for url, key in keys.items():
                page.route(url, partial(_answer, key))
            page.goto(f"{address}/page/player.html?{_query(one)}")
            pages.append((page, errors))
        return [_report(page, errors, timeout_s) for page, errors in pages]


def _answer(key: bytes, route: Route) -> None:
    route.fulfill(body=key, headers={"access-control-allow-origin": "*"})


# Background pages must play at full speed.
_IN_BACKGROUND = (
    "--disable-background-timer-throttling",
    "--disable-backgrounding-occluded-windows",
    "--disable-renderer-backgrounding",
    "--autoplay-policy=no-user-gesture-required",
)


def _query(play: Play) -> str:
    flags = {name: "1" for name in ("switches", "tour", "text", "trick") if getattr(play, name)}
    return urlencode({"player": play.player, "url": f"/media/{play.manifest}", "rate": play.rate, **flags})


def _console_errors(page: Page) -> list[str]:
    """Return the list to which the errors of the page's console will be added."""
    errors: list[str] = []

    def note(message: ConsoleMessage) -> None:
        if message.type == "error":
            errors.append(f"console: {message.text}")

    page.on("console", note)
    return errors


def _report(page: Page, errors: Sequence[str], timeout_s: float) -> PlayReport:
    try:
        page.wait_for_function("window.report", timeout=timeout_s * 1000)
    except Exception as error:
        raise AssertionError(f"{page.url} stands at {page.evaluate('progress()')} {errors}") from error
    found = page.evaluate("window.report")
    return PlayReport(
        **{
            **{name: value for name, value in found.items() if name != "trickPlay"},
            "trick_play": found["trickPlay"],
            "errors": [*found["errors"], *errors],
            "buffered": [tuple(range_) for range_ in found["buffered"]],
            "cues": sorted(tuple(cue) for cue in found["cues"]),
            "size": tuple(found["size"]),
        }
    )


@contextmanager
def _served(folder: Path) -> Iterator[str]:
    """Serve a folder on loopback, with byte ranges, and yield the address."""
    roots = {"media": folder, "page": _PAGE, "lib": NODE_MODULES}

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            root, _, name = unquote(urlsplit(self.path).path).lstrip("/").partition("/")
            path = roots.get(root, folder) / name
            if root not in roots or not path.is_file():
                self.send_error(404)
                return
            data, status, headers = path.read_bytes(), 200, {}
            if found := _RANGE.fullmatch(self.headers.get("range", "")):
                first, last = int(found[1]), min(int(found[2] or len(data)), len(data) - 1)
                headers["content-range"] = f"bytes {first}-{last}/{len(data)}"
                data, status = data[first : last + 1], 206
            self.send_response(status)
            headers |= {"content-type": _TYPES.get(path.suffix, "application/octet-stream")}
            for key, value in {**headers, "content-length": str(len(data))}.items():
                self.send_header(key, value)
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            """Do nothing, because players abort requests."""

    with Server(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
