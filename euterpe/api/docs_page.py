"""GET /openapi.json, and GET /docs: the same document in Swagger UI, with a table of the error codes."""

import re
from collections.abc import AsyncIterator, Awaitable, Callable
from html import escape
from pathlib import Path
from string import Template

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from euterpe.api.backpressure import ApiLimits
from euterpe.api.json_body import encoded, etag_of, known_etags
from euterpe.api.openapi import openapi_document
from euterpe.api.problems import ProblemCode

_STATIC = Path(__file__).parent / "static"
# The page loads files only from this service. Swagger UI also loads its icons from data: URLs.
_CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
_HEADERS = {"content-security-policy": _CSP, "cache-control": "no-cache"}
_MEDIA_TYPES = {".js": "text/javascript", ".css": "text/css", ".txt": "text/plain"}
_PIECE_BYTES = 65_536
_CODE = re.compile(r"`([^`]+)`")


def docs_routes(limits: ApiLimits) -> list[Route]:
    """Return the routes of the OpenAPI document, the page and the page's files."""
    document, page = encoded(openapi_document(limits)), docs_html().encode()

    async def get_document(_: Request) -> Response:
        return Response(document, headers={"cache-control": "no-cache"}, media_type="application/json")

    async def get_page(_: Request) -> Response:
        return Response(page, headers=_HEADERS, media_type="text/html")

    return [
        Route("/openapi.json", get_document),
        Route("/docs", get_page),
        Route("/docs/static/{name:path}", _static_files(), include_in_schema=False),
    ]


def _static_files() -> Callable[[Request], Awaitable[Response]]:
    """Return the endpoint of the page's files, which a browser caches and revalidates by ETag.

    The files are sent from memory: with an open file for each slow download, 165 clients used up 256 file
    descriptors. The files are sent in pieces: otherwise each slow connection would buffer a whole file.
    """
    files = {
        file.relative_to(_STATIC).as_posix(): file.read_bytes()
        for file in _STATIC.rglob("*")
        if file.suffix in _MEDIA_TYPES and file.name != "docs.html"
    }
    etags = {name: etag_of(body) for name, body in files.items()}

    async def get_file(request: Request) -> Response:
        name = request.path_params["name"]
        if name not in files:
            raise HTTPException(404)
        headers = {"etag": etags[name], "cache-control": "no-cache"}
        if etags[name] in known_etags(request):
            return Response(status_code=304, headers=headers)
        headers["content-length"] = str(len(files[name]))
        return StreamingResponse(_pieces(files[name]), 200, headers, _MEDIA_TYPES[Path(name).suffix])

    return get_file


async def _pieces(body: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(body), _PIECE_BYTES):
        yield body[start : start + _PIECE_BYTES]


def docs_html() -> str:
    """Return the page with a table of the error codes.

    The `type` of a problem document links to the row of its code.
    """
    rows = (
        f'<tr id="{code}"><td>{code.status}</td><td><code>{code}</code></td>'
        f"<td>{_text(code.headline)}</td><td>{_text(code.advice)}</td></tr>"
        for code in ProblemCode
    )
    return Template((_STATIC / "docs.html").read_text()).substitute(errors="\n".join(rows))


def _text(text: str) -> str:
    return _CODE.sub(r"<code>\1</code>", escape(text))
