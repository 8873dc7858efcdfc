"""The docs page: the OpenAPI document as one self-contained HTML file."""

import re
from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256
from html import escape

from starlette.requests import Request
from starlette.responses import Response

from euterpe.api.backpressure import ApiLimits
from euterpe.api.openapi import Node, openapi_document
from euterpe.api.problems import PROBLEMS
from euterpe.api.responses import encoded
from euterpe.api.schemas import Schema

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8882; --accent: #7a4fd0 }
* { box-sizing: border-box }
body { display: grid; grid-template-columns: 17rem minmax(0, 1fr); margin: 0;
  font: 16px/1.55 system-ui, sans-serif }
nav { position: sticky; top: 0; height: 100vh; overflow: auto; padding: 1.5rem;
  border-right: 1px solid var(--line) }
nav a { display: block; padding: .15rem 0; color: inherit; text-decoration: none; font-size: .9rem }
nav a:hover, nav a:focus, td a, p a { color: var(--accent) }
nav h2 { margin: 1.4rem 0 .3rem;
  font-size: .75rem; letter-spacing: .08em; text-transform: uppercase; opacity: .7 }
main { max-width: 68rem; padding: 2rem clamp(1rem, 4vw, 4rem) 6rem }
section { margin-top: 2.5rem; padding-top: .5rem; border-top: 1px solid var(--line) }
code { padding: .1em .3em; border-radius: .25em; background: var(--soft);
  font: .875em ui-monospace, monospace }
h3 code { background: none; font-size: 1em }
table { width: 100%; margin: .4rem 0 1.2rem; border-collapse: collapse; font-size: .92rem }
th, td { padding: .35rem .8rem .35rem 0;
  border-bottom: 1px solid var(--line); text-align: left; vertical-align: top }
.method { display: inline-block; min-width: 3.6rem; color: var(--accent); font-weight: 700 }
.note { opacity: .75 }
@media (max-width: 50rem) { body { display: block } nav { position: static; height: auto } }
"""
_CSP = (
    "default-src 'none'; style-src 'sha256-{}'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
_LIMITS = {"minimum": "≥", "maximum": "≤", "minLength": "length ≥", "maxLength": "length ≤"}
_CODE = re.compile(r"`([^`]+)`")


class DocsEndpoints:
    def __init__(self, limits: ApiLimits) -> None:
        document = openapi_document(limits)
        self._openapi, self._page = encoded(document), page(document).encode()
        style = b64encode(sha256(_STYLE.encode()).digest()).decode()
        self._headers = {"content-security-policy": _CSP.format(style), "cache-control": "no-cache"}

    async def openapi(self, _: Request) -> Response:
        return Response(self._openapi, headers={"cache-control": "no-cache"}, media_type="application/json")

    async def page(self, _: Request) -> Response:
        return Response(self._page, headers=self._headers, media_type="text/html")


def page(document: Node) -> str:
    info = document["info"]
    calls = [
        (method, path, call) for path, item in document["paths"].items() for method, call in item.items()
    ]
    shapes = document["components"]["schemas"]
    body = "".join(
        (
            f"<h1>{escape(info['title'])} <small class=note>{escape(info['version'])}</small></h1>",
            "".join(f"<p>{_text(paragraph)}" for paragraph in info["description"].split("\n\n")),
            '<p>The same for programs: <a href="/openapi.json">/openapi.json</a>.',
            *(_call(*call) for call in calls),
            "<section><h2>Errors</h2>",
            _table(("status", "code", "what to do"), [_problem(code) for code in PROBLEMS]),
            "</section><section><h2>Shapes</h2>",
            *(_shape(name, shape) for name, shape in shapes.items()),
            "</section>",
        )
    )
    links = "".join(f'<a href="#{call["operationId"]}">{escape(call["summary"])}</a>' for _, _, call in calls)
    names = "".join(f'<a href="#{name}">{name}</a>' for name in shapes)
    return (
        '<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content="width=device-width">'
        f"<title>{escape(info['title'])}</title><style>{_STYLE}</style>"
        f"<nav><h2>Calls</h2>{links}<h2>Shapes</h2>{names}</nav><main>{body}</main></html>"
    )


def _call(method: str, path: str, call: Node) -> str:
    parts = [
        f'<section id="{call["operationId"]}"><h2>{escape(call["summary"])}</h2>',
        f"<h3><span class=method>{method.upper()}</span> <code>{escape(path)}</code></h3>",
        f"<p>{_text(call.get('description', ''))}",
    ]
    if takes := call.get("parameters"):
        rows = [
            (f"<code>{p['name']}</code>", p["in"], _type(p["schema"]), _text(p["description"])) for p in takes
        ]
        parts.append(_table(("parameter", "in", "type", ""), rows))
    if body := call.get("requestBody"):
        parts.append(f"<p>Body: {_type(body['content']['application/json']['schema'])}")
    answers = [
        (status, _contents(answer), _text(answer["description"]))
        for status, answer in call["responses"].items()
    ]
    return "".join((*parts, _table(("answer", "body", ""), answers), "</section>"))


def _problem(code: str) -> tuple[str, ...]:
    kind = PROBLEMS[code]
    return str(kind.status), f'<code id="{code}">{code}</code>', _text(kind.advice)


def _shape(name: str, shape: Schema) -> str:
    needed = shape.get("required", ())
    rows = [
        (f"<code>{escape(field)}</code>", _type(schema), "required" if field in needed else _default(schema))
        for field, schema in shape.get("properties", {}).items()
    ]
    described = f"<p>{_text(shape['description'])}" if "description" in shape else ""
    return f'<h3 id="{name}">{name}</h3>{described}{_table(("field", "type", ""), rows)}'


def _contents(answer: Node) -> str:
    return " ".join(
        f"{_type(body['schema'])} <span class=note>{media_type}</span>"
        for media_type, body in answer.get("content", {}).items()
    )


def _default(schema: Schema) -> str:
    return (
        f"<span class=note>default {escape(str(schema['default']))}</span>" if schema.get("default") else ""
    )


def _type(schema: Schema) -> str:
    """Return a short description of a type as HTML, with links to the schemas."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f'<a href="#{name}">{name}</a>'
    for choice in ("anyOf", "oneOf"):
        if choice in schema and "properties" not in schema:
            return " or ".join(_type(branch) for branch in schema[choice])
    if "const" in schema:
        return f"<code>{escape(str(schema['const']))}</code>"
    if "enum" in schema:
        return " ".join(f"<code>{escape(str(value))}</code>" for value in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    kinds = schema.get("type", "any")
    kind = " or ".join(kinds) if isinstance(kinds, list) else kinds
    limits = [f"{sign} {schema[name]}" for name, sign in _LIMITS.items() if name in schema]
    shown = ", ".join((str(schema.get("format", kind)), *limits))
    return f"<span>{escape(shown)}</span>"


def _text(text: str) -> str:
    return _CODE.sub(r"<code>\1</code>", escape(text))


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    if not rows:
        return ""
    head = "".join(f"<th>{name}</th>" for name in heads)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>"
