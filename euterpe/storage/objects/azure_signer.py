"""Sign Azure Blob Storage requests with a shared access signature (SAS) or the account key (SharedKey)."""

import hmac
import re
from base64 import b64decode, b64encode
from dataclasses import dataclass, field, replace
from datetime import datetime
from email.utils import format_datetime
from urllib.parse import unquote

from euterpe.storage.objects.request import ObjectRequest

_VERSION = "2023-11-03"
_SAS = re.compile(r"[^=&#\s]+=[^&#\s]*(?:&[^=&#\s]+=[^&#\s]*)*")
# The standard headers that are signed, in this order. The x-ms-* headers are signed as well.
_SIGNED = (
    "content-encoding",
    "content-language",
    "content-length",
    "content-md5",
    "content-type",
    "date",
    "if-modified-since",
    "if-match",
    "if-none-match",
    "if-unmodified-since",
    "range",
)


class SharedAccessSignature:
    def __init__(self, token: str) -> None:
        """Raise ValueError when the token is not a query string."""
        self._query = token.removeprefix("?")
        if not _SAS.fullmatch(self._query):
            raise ValueError("the SAS token is not a query")

    def sign(self, request: ObjectRequest, host: str, now: datetime) -> ObjectRequest:
        del host
        query = f"{request.query}&{self._query}" if request.query else self._query
        return replace(_dated(request, now), query=query)


@dataclass(frozen=True)
class AccountKey:
    account: str
    key: bytes = field(repr=False)

    @classmethod
    def decode(cls, account: str, key: str) -> "AccountKey":
        """Raise ValueError when the key is not base64."""
        return cls(account, b64decode(key, validate=True))

    def sign(self, request: ObjectRequest, host: str, now: datetime) -> ObjectRequest:
        del host
        dated = _dated(request, now)
        signature = b64encode(hmac.digest(self.key, self._text(dated).encode(), "sha256")).decode()
        return dated.with_headers(authorization=f"SharedKey {self.account}:{signature}")

    def _text(self, request: ObjectRequest) -> str:
        length = {"content-length": str(len(request.body)) if request.body else ""}
        headers = {**request.headers, **length}
        azure_headers = sorted(name for name in headers if name.startswith("x-ms-"))
        return "\n".join(
            (
                request.method,
                *(headers.get(name, "") for name in _SIGNED),
                *(f"{name}:{headers[name]}" for name in azure_headers),
                self._resource(request),
            )
        )

    def _resource(self, request: ObjectRequest) -> str:
        parameters = sorted(pair.partition("=") for pair in request.query.split("&") if pair)
        lines = (f"{name}:{unquote(value)}" for name, _, value in parameters)
        return "\n".join((f"/{self.account}{request.path}", *lines))


def _dated(request: ObjectRequest, now: datetime) -> ObjectRequest:
    return request.with_headers(date=format_datetime(now, usegmt=True), x_ms_version=_VERSION)
