"""Webhook and refresh URLs in two parts: the address in the open, and the query, which may hold a token."""

import json
from collections.abc import Mapping
from typing import Any, Literal
from urllib.parse import parse_qsl

from euterpe.domain.locations import split_query, without_query
from euterpe.domain.spec import JobSpec
from euterpe.domain.strict_json import canonical_text

CallbackField = Literal["refresh_url", "status_webhook_url"]
CALLBACK_FIELDS: tuple[CallbackField, CallbackField] = ("refresh_url", "status_webhook_url")
# Shorter values stand in any text by chance.
_SHORTEST_TOKEN = 6
_HIDDEN = "…"


def callback_queries(spec: JobSpec) -> bytes | None:
    """Return the part of the callback URLs that must be sealed, if there is one."""
    urls = zip(CALLBACK_FIELDS, (spec.refresh_url, spec.status_webhook_url), strict=True)
    queries = {name: split_query(url)[1] for name, url in urls if url is not None and "?" in url}
    return canonical_text(queries).encode() if queries else None


def without_callback_queries(public: dict[str, Any]) -> dict[str, Any]:
    """Return the spec with the queries of its callback URLs cut off behind their question marks."""
    urls: dict[str, str] = {name: public[name] for name in CALLBACK_FIELDS if "?" in (public.get(name) or "")}
    return {**public, **{name: without_query(url) + "?" for name, url in urls.items()}} if urls else public


def with_callback_queries(public: Mapping[str, Any], queries: bytes | None) -> dict[str, Any]:
    """Return the spec with its whole callback URLs."""
    if queries is None:
        return dict(public)
    whole: dict[str, str] = {
        name: with_query(public[name], queries, name) for name in CALLBACK_FIELDS if public.get(name)
    }
    return {**public, **whole}


def with_query(url: str, queries: bytes, name: CallbackField) -> str:
    """Return the whole URL of this field."""
    query = json.loads(queries).get(name)
    return url if query is None else without_query(url) + str(query)


def is_hidden(url: str | None) -> bool:
    """Return whether the URL has lost its query."""
    return url is not None and url.endswith("?")


def hide_query(text: str, url: str) -> str:
    """Return the text without what it repeats of the URL's query: some servers quote what they refuse."""
    query = split_query(url)[1].removeprefix("?")
    pairs = query.split("&")
    values = (pair.partition("=")[2] for pair in pairs)
    tokens = {query, *pairs, *values, *(value for _, value in parse_qsl(query))}
    for token in sorted(tokens, key=len, reverse=True):
        if len(token) >= _SHORTEST_TOKEN:
            text = text.replace(token, _HIDDEN)
    return text
