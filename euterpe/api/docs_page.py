"""GET /openapi.json, and GET /docs: the same document in Swagger UI, with a table of the error codes."""

import re
from html import escape
from pathlib import Path
from string import Template
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from euterpe.api.backpressure import ApiLimits
from euterpe.api.json_body import encoded
from euterpe.api.openapi import openapi_document
from euterpe.api.problems import ProblemCode

_STATIC = Path(__file__).parent / "static"
# The page loads from this service alone; Swagger UI draws its icons from data: URLs.
_CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
_HEADERS = {"content-security-policy": _CSP, "cache-control": "no-cache"}
_CODE = re.compile(r"`([^`]+)`")


def docs_routes(limits: ApiLimits) -> list[Route | Mount]:
    """Return the routes of the OpenAPI document, the page and the page's files."""
    document, page = encoded(openapi_document(limits)), docs_html().encode()

    async def get_document(_: Request) -> Response:
        return Response(document, headers={"cache-control": "no-cache"}, media_type="application/json")

    async def get_page(_: Request) -> Response:
        return Response(page, headers=_HEADERS, media_type="text/html")

    return [
        Route("/openapi.json", get_document),
        Route("/docs", get_page),
        Mount("/docs/static", _RevalidatedFiles(directory=_STATIC)),
    ]


class _RevalidatedFiles(StaticFiles):
    """Static files that a browser keeps, and asks for anew with their ETag."""

    def file_response(self, *args: Any, **options: Any) -> Response:
        response = super().file_response(*args, **options)
        response.headers["cache-control"] = "no-cache"
        return response


def docs_html() -> str:
    """Return the page, with a row for each code that the `type` of a problem document links to."""
    rows = (
        f'<tr id="{code}"><td>{code.status}</td><td><code>{code}</code></td>'
        f"<td>{_text(code.headline)}</td><td>{_text(code.advice)}</td></tr>"
        for code in ProblemCode
    )
    return Template((_STATIC / "docs.html").read_text()).substitute(errors="\n".join(rows))


def _text(text: str) -> str:
    return _CODE.sub(r"<code>\1</code>", escape(text))
