"""Validation of the URLs that a job may read, write and call, before any URL is opened.

Percent escapes in a path are decoded once, and the decoded path must obey the same rules. IP addresses are
not checked here. The egress policy checks each address when the connection is made.
"""

import re
from collections.abc import Callable
from typing import Annotated, NamedTuple
from urllib.parse import unquote

from euterpe.domain.text import TextRule, has_control

OBJECT_STORES = ("s3", "gs", "az")
MAX_LOCATION = 8192  # a presigned URL with a session token has about 2,000 characters
MAX_CALLBACK = 2048

_URL = re.compile(r"([a-z][a-z0-9]*)://([^/?#]*)([^?#]*)(\?[^#]*)?(#.*)?")
_HOST = re.compile(r"(?:[A-Za-z0-9][A-Za-z0-9._-]{0,252}|\[[0-9A-Fa-f:.]{2,45}\])(?::([0-9]{1,5}))?")
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,221}")
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")


class _Url(NamedTuple):
    scheme: str
    authority: str
    path: str
    query: str | None
    fragment: str | None


def split_query(url: str) -> tuple[str, str]:
    """Return the URL without its query, and the query with its question mark."""
    path, mark, query = url.partition("?")
    return path, mark + query


def without_query(url: str) -> str:
    return split_query(url)[0]


def scheme_of(url: str) -> str:
    return url.partition("://")[0]


def _parse(url: str, schemes: tuple[str, ...]) -> _Url:
    if not url.isprintable() or " " in url or "\\" in url:
        raise ValueError("must not contain blanks, backslashes or unprintable characters: escape them")
    match = _URL.fullmatch(url)
    if not match or match[1] not in schemes:
        raise ValueError(f"must begin with {' or '.join(f'{scheme}://' for scheme in schemes)}")
    parsed = _Url._make(match.groups())
    if parsed.fragment is not None:
        raise ValueError("must not have a fragment (a '#' in a path is written %23)")
    _check_path(parsed.path)
    if parsed.scheme in ("http", "https"):
        _check_host(parsed.authority)
    else:
        _check_object(parsed)
    return parsed


def _check_path(path: str) -> None:
    if _BAD_ESCAPE.search(path):
        raise ValueError("must have two hex digits after each '%' (a '%' itself is written %25)")
    try:
        decoded = unquote(path, errors="strict")
    except UnicodeDecodeError:
        raise ValueError("must have percent escapes that are valid UTF-8") from None
    if has_control(decoded):
        raise ValueError("must not have control characters as percent escapes")
    if not {".", ".."}.isdisjoint(decoded.split("/")):
        raise ValueError("must not have '.' or '..' as a part of its path")


def _check_host(authority: str) -> None:
    if "@" in authority:
        raise ValueError("must not have a user name or password in it")
    match = _HOST.fullmatch(authority)
    if not match:
        raise ValueError("must name a host, by its ASCII name or its address")
    if match[1] is not None and not 1 <= int(match[1]) <= 65535:
        raise ValueError("must have a port between 1 and 65535")


def _check_object(url: _Url) -> None:
    if url.query is not None:
        raise ValueError("must not have a query (a '?' in a path is written %3F)")
    if url.scheme == "file":
        if url.authority:
            raise ValueError("must not name a host: an absolute path follows file://")
    elif not _BUCKET.fullmatch(url.authority):
        raise ValueError(f"must name a bucket: {url.scheme}://bucket/key")
    if not url.path.startswith("/") or "//" in unquote(url.path):
        raise ValueError("must have a path whose parts are not empty")


def _check_one_object(url: _Url) -> None:
    if url.scheme != "https" and unquote(url.path).endswith("/"):
        raise ValueError("must name one object, not a prefix that ends with '/'")


def _check_no_query(url: _Url) -> None:
    if url.query is not None:
        raise ValueError("must not have a query")


def _rule(
    schemes: tuple[str, ...], longest: int, *checks: Callable[[_Url], None], ending: str = ""
) -> TextRule:
    def check(url: str) -> str:
        if len(url) > longest:
            raise ValueError(f"must not be longer than {longest} characters")
        parsed = _parse(url, schemes)
        for extra_check in checks:
            extra_check(parsed)
        if not parsed.path.endswith(ending):
            raise ValueError(f"must be a prefix that ends with '{ending}'")
        return url

    return TextRule(check, {"pattern": f"^({'|'.join(schemes)})://.*{ending}$", "maxLength": longest})


SourceUrl = Annotated[str, _rule((*OBJECT_STORES, "https", "file"), MAX_LOCATION, _check_one_object)]
OutputPrefix = Annotated[str, _rule((*OBJECT_STORES, "file"), MAX_LOCATION, ending="/")]
SignedUrl = Annotated[str, _rule(("https",), MAX_LOCATION)]
KeyUrl = Annotated[str, _rule(("https",), MAX_CALLBACK)]
CallbackUrl = Annotated[str, _rule(("https", "http"), MAX_CALLBACK)]
EndpointUrl = Annotated[str, _rule(("https", "http"), MAX_CALLBACK, _check_no_query)]
