"""Upload an object by a single PUT, in parts (S3, Google) or in blocks (Azure).

The object is not visible before it is published.
"""

import re
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from html import unescape
from secrets import token_hex
from types import MappingProxyType
from typing import Protocol
from xml.sax.saxutils import escape

from euterpe.net.egress import EgressResponse
from euterpe.net.pace import TransferPace
from euterpe.storage.errors import StorageError, StorageUnreachable, reason_in, status_error
from euterpe.storage.objects.client import ObjectClient
from euterpe.storage.objects.dialects import Dialect, bare_etag
from euterpe.storage.objects.request import ObjectRequest, encode_query
from euterpe.storage.publication import Changed, ConditionsUnsupported, ObjectState

# A part stays in memory until its last try has ended. The tries take half a second if each of them fails
# immediately, and 90 s if each of them hangs.
_PART_TRIES = 3
_ABORT_S = 10.0
_NONE: Mapping[str, str] = MappingProxyType({})
_UPLOAD_ID = re.compile(r"<UploadId>([^<]{1,2048})</UploadId>")
_ETAG = re.compile(r"<ETag>([^<]{1,1024})</ETag>")


@dataclass(frozen=True)
class UploadTarget:
    """The object to upload, and the client and the settings for the upload."""

    client: ObjectClient
    dialect: Dialect
    key: str
    where: str
    kept: dict[str, str]  # the headers that the store keeps with the object
    pace: TransferPace
    on_slice: Callable[[], None] = field(repr=False)

    def send(self, request: ObjectRequest) -> EgressResponse:
        """Send a body and return the response. Retry after a transient failure."""

        def attempt() -> EgressResponse:
            self.on_slice()
            answer = self.client.send(self.where, request, self.pace, self.on_slice)
            return self.client.succeeded(self.where, answer)

        return self.retry(attempt)

    def retry(self, call: Callable[[], EgressResponse]) -> EgressResponse:
        return self.client.retry.run(call, tries=_PART_TRIES)

    def ask(self, request: ObjectRequest) -> EgressResponse:
        """Return the response to one short call. Raise if its status is not 2xx."""
        return self.client.succeeded(self.where, self.client.ask(self.where, request))

    def begin(self, request: ObjectRequest) -> EgressResponse:
        """Return the response to a call that a store answers at once. Raise if its status is not 2xx."""
        return self.client.succeeded(self.where, self.client.ask(self.where, request, self.client.idle_s))

    def request(
        self, method: str, query: str = "", body: bytes = b"", headers: Mapping[str, str] = _NONE
    ) -> ObjectRequest:
        return ObjectRequest(method, self.client.path(self.key), query, headers, body)


class Upload(Protocol):
    """The upload of one object. `publish` may be called again after it has raised Changed.

    Between two calls, `target` may be replaced by a target with newer credentials.
    """

    is_conditional: bool
    target: UploadTarget

    def send(self, part: bytes) -> None:
        """Send the next part. The object stays invisible."""
        ...

    def publish(self, expected: ObjectState | None, *, conditional: bool) -> str | None:
        """Make the object visible. Return its identity, or None if the store does not report the identity.

        Raise Changed when the existing object is not `expected`. If `expected` is None, there must be no
        object. Raise ConditionsUnsupported when the store does not support conditions.
        """
        ...

    def abort(self) -> None:
        """Remove the bytes of an unpublished upload from the store. Raise if the store refuses."""
        ...


class WholeObject:
    """An upload by a single PUT, which sends and publishes the object at once."""

    is_conditional = True

    def __init__(self, target: UploadTarget) -> None:
        self.target, self._body = target, b""

    def send(self, part: bytes) -> None:
        self._body = part

    def publish(self, expected: ObjectState | None, *, conditional: bool) -> str | None:
        target = self.target
        condition = target.dialect.condition(expected) if conditional else {}
        headers = {
            **target.kept,
            **target.dialect.put,
            **target.dialect.checksum(self._body),
            **condition,
        }
        request = target.request("PUT", body=self._body, headers=headers)
        answer = _published(lambda: target.send(request), condition)
        return target.dialect.identity(answer.headers)

    def abort(self) -> None:
        """Do nothing, because no part is in the store."""


class PartsUpload:
    """The multipart upload of S3, which Google supports as well."""

    def __init__(self, target: UploadTarget) -> None:
        self.target, self._etags = target, list[str]()
        self.is_conditional = target.dialect.conditional_parts
        self._id = self._begin()

    def _begin(self) -> str:
        target = self.target
        request = target.request("POST", "uploads=", headers=target.kept)
        answer = target.retry(lambda: target.begin(request))
        match = _UPLOAD_ID.search(answer.body.decode("utf-8", "replace"))
        if match is None:
            raise StorageUnreachable(target.where, "began an upload without naming it", side="output")
        return unescape(match[1])

    def send(self, part: bytes) -> None:
        number = str(len(self._etags) + 1)
        request = self.target.request(
            "PUT", self._query(partNumber=number), part, self.target.dialect.checksum(part)
        )
        etag = self.target.send(request).headers.get("etag")
        if etag is None:
            raise StorageUnreachable(self.target.where, "took a part without an ETag", side="output")
        self._etags.append(etag)

    def publish(self, expected: ObjectState | None, *, conditional: bool) -> str | None:
        target = self.target
        condition = target.dialect.condition(expected) if conditional and self.is_conditional else {}
        parts = "".join(
            f"<Part><ETag>{escape(etag)}</ETag><PartNumber>{number}</PartNumber></Part>"
            for number, etag in enumerate(self._etags, 1)
        )
        body = f"<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>".encode()
        request = target.request("POST", self._query(), body, condition)
        answer = _published(lambda: target.retry(lambda: self._completed(request)), condition)
        if target.dialect.has_generations:
            return target.dialect.identity(answer.headers)
        etag = _ETAG.search(answer.body.decode("utf-8", "replace"))
        return bare_etag(unescape(etag[1])) if etag else None

    def _completed(self, request: ObjectRequest) -> EgressResponse:
        """Complete the upload.

        Check the body too, because S3 may send status 200 early and then report a failure in the body.
        """
        target = self.target
        answer = target.ask(request)
        if b"<Error>" in answer.body:
            text = answer.body.decode("utf-8", "replace")
            raise status_error(target.where, 500, "output", reason_in(text))
        return answer

    def abort(self) -> None:
        client = self.target.client.unbounded  # the abort must also work after the attempt's timeout
        answer = client.ask(self.target.where, self.target.request("DELETE", self._query()), _ABORT_S)
        if answer.status != 404:  # the store has no such upload any more
            client.succeeded(self.target.where, answer)

    def _query(self, **more: str) -> str:
        return encode_query(uploadId=self._id, **more)


class BlocksUpload:
    """An upload in blocks to Azure. Azure deletes uncommitted blocks after a week."""

    is_conditional = True

    def __init__(self, target: UploadTarget) -> None:
        self.target, self._ids = target, list[str]()
        self._prefix = token_hex(8)  # two attempts must not mix their blocks

    def send(self, part: bytes) -> None:
        # Azure requires that all block ids have the same length.
        block = b64encode(f"{self._prefix}{len(self._ids):08}".encode()).decode()
        query = encode_query(comp="block", blockid=block)
        self.target.send(self.target.request("PUT", query, part, self.target.dialect.checksum(part)))
        self._ids.append(block)

    def publish(self, expected: ObjectState | None, *, conditional: bool) -> str | None:
        target = self.target
        condition = target.dialect.condition(expected) if conditional else {}
        blocks = "".join(f"<Uncommitted>{block}</Uncommitted>" for block in self._ids)
        body = f'<?xml version="1.0" encoding="utf-8"?><BlockList>{blocks}</BlockList>'.encode()
        request = target.request("PUT", "comp=blocklist", body, {**target.kept, **condition})
        answer = _published(lambda: target.retry(lambda: target.ask(request)), condition)
        return target.dialect.identity(answer.headers)

    def abort(self) -> None:
        """Do nothing, because Azure has no call that deletes uncommitted blocks."""


def _published(call: Callable[[], EgressResponse], condition: dict[str, str]) -> EgressResponse:
    """Return the response. Raise Changed or ConditionsUnsupported when the store refuses the condition."""
    try:
        return call()
    except StorageError as refused:
        if not condition or refused.status is None:
            raise
        if refused.status == 412 or refused.reason in ("BlobAlreadyExists", "ConditionNotMet", "NoSuchKey"):
            raise Changed from None
        if refused.status == 501:
            raise ConditionsUnsupported from None
        raise
