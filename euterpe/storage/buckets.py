"""Read and write objects of a bucket: `s3://`, `gs://` and `az://`."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from urllib.parse import unquote

import structlog

from euterpe.domain.error_codes import ErrorCode
from euterpe.net.limits import OnWait
from euterpe.net.pace import TransferPace
from euterpe.storage.errors import StorageError, StorageUnreachable
from euterpe.storage.objects.client import ObjectClient
from euterpe.storage.objects.dialects import DIALECTS
from euterpe.storage.objects.request import ObjectRequest
from euterpe.storage.objects.uploads import BlocksUpload, PartsUpload, Upload, UploadTarget, WholeObject
from euterpe.storage.publication import (
    UNKNOWN,
    Changed,
    ConditionsUnsupported,
    ObjectState,
    Owner,
    conflict,
    is_same,
)
from euterpe.storage.responses import body_range, check_range, read_refusal
from euterpe.storage.transfer import Body, ObjectInfo, OnChunk, Outgoing, SentFile, Stored, UploadDestination

_log = structlog.get_logger(__name__)
PART = 16 * 1024 * 1024
# A file below this size is sent in one request when it is published. An early upload would take three
# requests, and so cost three times as much. At 20 MB/s it would save less than 0.25 s. Besides, S3 accepts no
# parts below 5 MiB.
LEAST_EARLY = 5 * 1024 * 1024
_MAX_PARTS = 10_000
# The errors that a store can return when it no longer has the parts or blocks of an upload.
_MAY_BE_LOST = (ErrorCode.OUTPUT_NOT_FOUND, ErrorCode.OUTPUT_REFUSED)
# The number of tries to publish an object. A try fails when another writer replaces the object between our
# check of its state and our write.
_PUBLISH_TRIES = 3


class BucketReader:
    def __init__(self, url: str, scheme: str, client: ObjectClient, pace: TransferPace) -> None:
        self.where = url
        self._key = split_bucket(url)[1]
        self._client, self.pace = client, pace
        self._dialect = DIALECTS[scheme]

    def stat(self) -> ObjectInfo:
        answer = self._client.ask(self.where, self._request("HEAD"), self._client.idle_s)
        headers = self._client.succeeded(self.where, answer).headers
        return ObjectInfo(body_range(headers)[1], headers.get("etag"))

    @contextmanager
    def open(self, offset: int, on_wait: OnWait) -> Iterator[Body]:
        request = self._request("GET")
        if offset:
            request = request.with_headers(range=f"bytes={offset}-")
        with self._client.open(self.where, request, self.pace, on_wait) as answer:
            if answer.status not in (200, 206):
                raise read_refusal(self.where, "source", answer)
            start, size = body_range(answer.headers)
            if start > offset:
                raise StorageUnreachable(
                    self.where, "answered with another range than asked for", side="source"
                )
            yield Body(ObjectInfo(size, answer.headers.get("etag")), start, answer.chunks)

    @contextmanager
    def open_range(
        self, start: int, end: int, expect: ObjectInfo, *, idle_s: float, on_wait: OnWait
    ) -> Iterator[Iterator[bytes]]:
        request = self._request("GET").with_headers(
            range=f"bytes={start}-{end - 1}", if_match=expect.etag or "*"
        )
        with self._client.open(self.where, request, None, on_wait, idle_s=idle_s) as answer:
            check_range(self.where, answer, start, end, expect)
            yield answer.chunks

    def _request(self, method: str) -> ObjectRequest:
        return ObjectRequest(method, self._client.path(self._key))


@dataclass
class _SentParts:
    """A file whose parts or blocks were sent to the store. `sha256` is the hash of the sent bytes."""

    name: str
    upload: Upload
    sha256: str
    is_published: bool = False

    def abort(self, newest: UploadDestination | None = None) -> None:
        if self.is_published:
            return
        if isinstance(newest, BucketDestination):
            self.upload.target = newest.renewed(self.upload.target)
        _abort(self.upload)


class BucketDestination:
    """A destination below one prefix of a bucket.

    `honours_conditions` means that the store is known to enforce If-Match and If-None-Match. In any other
    store, the state of each object is also read immediately before the object is replaced.
    """

    def __init__(
        self,
        prefix: str,
        scheme: str,
        client: ObjectClient,
        pace: TransferPace,
        *,
        owner: Owner | None = None,
        honours_conditions: bool = False,
        part_bytes: int = PART,
        least_early_bytes: int = LEAST_EARLY,
    ) -> None:
        self._prefix, self._key = prefix, split_bucket(prefix)[1]
        self._client, self.pace, self._owner = client, pace, owner
        self._dialect, self._part_bytes = DIALECTS[scheme], part_bytes
        # Google accepts a condition for an object that is sent in one request, but not for an upload in
        # parts.
        in_one_request = 0 if self._dialect.conditional_parts else part_bytes + 1
        self._least_early_bytes = max(least_early_bytes, in_one_request)
        self._honours_conditions = honours_conditions
        self._reads_first, self._is_conditional = not honours_conditions, True

    def send(self, name: str, file: Path, *, content_type: str, on_chunk: OnChunk) -> SentFile | None:
        outgoing = Outgoing(file, on_chunk)
        if outgoing.size < self._least_early_bytes:
            return None
        upload, digest = self._begin_parts(self._target(name, outgoing, content_type)), sha256()
        try:
            for part in outgoing.parts(part_size(outgoing.size, self._part_bytes)):
                digest.update(part)
                upload.send(part)
        except BaseException:
            _abort(upload)
            raise
        return _SentParts(name, upload, digest.hexdigest())

    def put(
        self,
        name: str,
        file: Path,
        *,
        content_type: str,
        before_publish: Callable[[], None],
        on_chunk: OnChunk,
        sent: SentFile | None = None,
    ) -> Stored:
        outgoing = Outgoing(file, on_chunk)
        if isinstance(sent, _SentParts) and (sent.name, sent.sha256) == (name, outgoing.sha256):
            try:
                sent.upload.target = self._target(name, outgoing, content_type)
                identity = self._publish(name, sent.upload, outgoing.sha256, before_publish)
            except StorageError as error:
                # A store can lose the parts of an upload, for example by a lifecycle rule. In this case send
                # the file again.
                if not (isinstance(error, StorageUnreachable) or error.code in _MAY_BE_LOST):
                    raise
            else:
                sent.is_published = True
                return outgoing.stored(self._prefix + name, identity)
        # Try the whole upload only twice, because the upload retries each part itself.
        identity = self._client.retry.run(
            lambda: self._put(name, outgoing, content_type, before_publish), tries=2
        )
        return outgoing.stored(self._prefix + name, identity)

    def check(self, name: str, stored: Stored) -> None:
        found = self._read_state(name)
        if found is UNKNOWN:
            return  # these credentials permit writes, but no reads
        if not is_same(found, stored):
            raise (self._owner or Owner("", 0)).differs(self._prefix + name, found)

    def _put(
        self, name: str, outgoing: Outgoing, content_type: str, before_publish: Callable[[], None]
    ) -> str | None:
        upload = self._begin(name, outgoing, content_type)
        try:
            for part in outgoing.parts(part_size(outgoing.size, self._part_bytes)):
                upload.send(part)
            return self._publish(name, upload, outgoing.sha256, before_publish)
        except BaseException:
            _abort(upload)
            raise

    def renewed(self, target: UploadTarget) -> UploadTarget:
        """Return `target` with the credentials of this destination."""
        return replace(target, client=self._client)

    def _begin(self, name: str, outgoing: Outgoing, content_type: str) -> Upload:
        target = self._target(name, outgoing, content_type)
        return WholeObject(target) if outgoing.size <= self._part_bytes else self._begin_parts(target)

    def _begin_parts(self, target: UploadTarget) -> Upload:
        return BlocksUpload(target) if self._dialect is DIALECTS["az"] else PartsUpload(target)

    def _target(self, name: str, outgoing: Outgoing, content_type: str) -> UploadTarget:
        return UploadTarget(
            self._client,
            self._dialect,
            self._key + name,
            self._prefix + name,
            self._dialect.describe(content_type, self._metadata(outgoing)),
            self.pace,
            lambda: outgoing.on_chunk(0),
        )

    def _metadata(self, outgoing: Outgoing) -> dict[str, str]:
        return {**self._owner.metadata, "sha256": outgoing.sha256} if self._owner else {}

    def _publish(
        self, name: str, upload: Upload, sha256: str, before_publish: Callable[[], None]
    ) -> str | None:
        """Publish if the object is unchanged since its state was read. Return the new object's identity."""
        where = self._prefix + name
        reads = self._reads_first or not (self._is_conditional and upload.is_conditional)
        found = self._read_state(name) if reads else None
        for _ in range(_PUBLISH_TRIES):
            if self._owner is not None:
                self._owner.refuse_foreign(where, found, sha256)
            before_publish()
            try:
                identity = upload.publish(found, conditional=self._is_conditional)
            except Changed:
                # An object of this name exists, so objects of the next names probably exist, too. From now
                # on, read the state of each object first.
                self._reads_first = True
            except ConditionsUnsupported:
                self._reads_first, self._is_conditional = True, False
            else:
                return identity if self._honours_conditions else self._identity_after_publish(name)
            found = self._read_state(name)
        raise conflict(where)

    def _identity_after_publish(self, name: str) -> str | None:
        """Return the identity that a HEAD shows immediately after publication.

        The response to the upload is not enough: for a multipart upload, `rclone serve s3` returns an ETag
        that differs from the ETag of a later HEAD.
        """
        found = self._read_state(name)
        return None if found is None else found.identity

    def _read_state(self, name: str) -> ObjectState | None:
        """Return the state of an object, None if there is no object, or UNKNOWN if reads are forbidden."""
        where, request = self._prefix + name, ObjectRequest("HEAD", self._client.path(self._key + name))

        def head() -> ObjectState | None:
            answer = self._client.ask(where, request, self._client.idle_s)
            if answer.status == 404:
                return None
            if answer.status in (400, 401, 403, 405, 501):
                return UNKNOWN
            return self._dialect.state(self._client.succeeded(where, answer).headers)

        return self._client.retry.run(head, tries=3)


def _abort(upload: Upload) -> None:
    try:
        upload.abort()
    except StorageError as error:  # do not raise: the caller reports the error that caused the abort
        _log.warning("upload_left", where=upload.target.where, code=error.code)


def part_size(size: int, part_bytes: int = PART) -> int:
    """Return the size of all parts except the last.

    R2 requires parts of equal size, and S3 accepts at most 10,000 parts. So the parts of a file above 156 GiB
    are larger than `part_bytes`.
    """
    return max(part_bytes, -(-size // _MAX_PARTS))


def split_bucket(url: str) -> tuple[str, str]:
    """Return the bucket, and the key or prefix with its percent escapes decoded."""
    bucket, _, key = url.partition("://")[2].partition("/")
    return bucket, unquote(key)
