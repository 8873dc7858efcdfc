"""An HTTP request to an object store, and the protocol of signers."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Protocol
from urllib.parse import quote


@dataclass(frozen=True)
class ObjectRequest:
    """A request, signed or not. `path` and `query` are already percent-encoded and are sent unchanged."""

    method: str
    path: str
    query: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)  # the names are in lower case
    body: bytes = field(default=b"", repr=False)

    @property
    def target(self) -> str:
        return f"{self.path}?{self.query}" if self.query else self.path

    def with_headers(self, **added: str) -> "ObjectRequest":
        """Return a copy with more headers. An underscore in a name means a hyphen."""
        named = {name.replace("_", "-"): value for name, value in added.items()}
        return replace(self, headers={**self.headers, **named})


class Signer(Protocol):
    """A signer adds credentials to a request. `host` is the request's `Host` header."""

    def sign(self, request: ObjectRequest, host: str, now: datetime) -> ObjectRequest: ...


class Anonymous:
    """A signer that leaves requests unsigned, for objects that everybody may read."""

    def sign(self, request: ObjectRequest, host: str, now: datetime) -> ObjectRequest:
        del host, now
        return request


def encode_path(key: str) -> str:
    """Escape all characters except unreserved ones and slashes, because S3's signature requires this."""
    return quote(key, safe="/~")


def encode_query(**parameters: str) -> str:
    """Sort and escape the parameters, because S3's signature requires this."""
    pairs = sorted((quote(name, safe="~"), quote(value, safe="~")) for name, value in parameters.items())
    return "&".join(f"{name}={value}" for name, value in pairs)
