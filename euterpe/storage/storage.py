"""Open the source or destination of a job: choose the implementation by the scheme of the URL."""

from collections.abc import Callable
from copy import copy
from urllib.parse import urlsplit

from euterpe.domain.credentials import Side, StorageCredentials
from euterpe.domain.error_codes import ErrorCode
from euterpe.domain.job_urls import job_urls
from euterpe.domain.locations import scheme_of
from euterpe.domain.source import Source
from euterpe.domain.spec import JobSpec, Output
from euterpe.net.egress import Egress
from euterpe.net.pace import MinimumPace, TransferPace
from euterpe.storage.buckets import LEAST_EARLY, PART, BucketDestination, BucketReader, split_bucket
from euterpe.storage.clients import IDLE_S, open_client
from euterpe.storage.errors import MissingStorage
from euterpe.storage.files import FileDestination, FileReader, require_root
from euterpe.storage.objects.client import ObjectClient
from euterpe.storage.policy import ENDPOINT_ADVICE, StoragePolicy, given_credentials
from euterpe.storage.publication import Owner
from euterpe.storage.range_readers import DEFAULT_PARALLEL, ParallelFetch
from euterpe.storage.signed import SignedDestination, SignedReader
from euterpe.storage.source import SourceObject
from euterpe.storage.transfer import DEFAULT_RETRY, Reader, TransferRetry, UploadDestination


class Storage:
    """The storage of a process. For object stores, the egress also allows the operator's endpoints."""

    def __init__(
        self,
        policy: StoragePolicy,
        egress: Egress,
        *,
        pace: MinimumPace | None = None,
        idle_s: float = IDLE_S,
        part_bytes: int = PART,
        least_early_bytes: int = LEAST_EARLY,
        retry: TransferRetry = DEFAULT_RETRY,
        parallel: ParallelFetch = DEFAULT_PARALLEL,
    ) -> None:
        self._policy, self._egress = policy, egress
        self._stores = egress.with_allowed(_pair(endpoint) for endpoint in policy.endpoints)
        self._pace, self._idle_s, self._part_bytes = pace or MinimumPace(), idle_s, part_bytes
        self._retry, self._parallel = retry, parallel
        self.least_early_bytes = least_early_bytes  # a smaller file is sent only when it is published

    def bounded(self, seconds_left: Callable[[], float]) -> "Storage":
        """Return a copy for one attempt. The copy limits the time of each request (`Egress.bounded`)."""
        bounded = copy(self)
        bounded._egress, bounded._stores = (
            egress.bounded(seconds_left) for egress in (self._egress, self._stores)
        )
        return bounded

    def require(self, spec: JobSpec) -> None:
        """Raise `MissingStorage` if this process lacks a folder or an endpoint of the job.

        A worker calls this before it fetches the source. Otherwise a missing folder of the outputs would be
        found only after the encode.
        """
        for _, side, url in job_urls(spec):
            if scheme_of(url) == "file":
                require_root(self._policy, url, side)
        for _, side, given in given_credentials(spec):
            self._check_endpoint(given, side)

    def source(self, source: Source, credentials: StorageCredentials | None) -> SourceObject:
        reader = self._reader(source, credentials, TransferPace(self._pace))
        return SourceObject(reader, self._retry, self._parallel)

    def _reader(self, source: Source, credentials: StorageCredentials | None, pace: TransferPace) -> Reader:
        if source.scheme == "https":
            return SignedReader(self._egress, source.url, pace)
        if source.scheme == "file":
            return FileReader(self._policy, source.url, pace)
        client = self._client(source.scheme, source.url, credentials, "source")
        return BucketReader(source.url, source.scheme, client, pace)

    def destination(
        self, output: Output, credentials: StorageCredentials | None, owner: Owner | None = None
    ) -> UploadDestination:
        """Return the destination of the attempt `owner`.

        All uploads to this destination share one measurement of the pace.
        """
        pace = TransferPace(self._pace)
        if output.url is None:
            return SignedDestination(self._egress, output.urls or {}, pace, retry=self._retry)
        if output.scheme == "file":
            return FileDestination(self._policy, output.url, pace, owner)
        return BucketDestination(
            output.url,
            output.scheme,
            self._client(output.scheme, output.url, credentials, "output"),
            pace,
            owner=owner,
            honours_conditions=self._policy.is_a_cloud(credentials.endpoint if credentials else None),
            part_bytes=self._part_bytes,
            least_early_bytes=self.least_early_bytes,
        )

    def _client(
        self, scheme: str, url: str, credentials: StorageCredentials | None, side: Side
    ) -> ObjectClient:
        self._check_endpoint(credentials, side)
        bucket = split_bucket(url)[0]
        return open_client(
            self._stores, scheme, bucket, credentials, side, idle_s=self._idle_s, retry=self._retry
        )

    def _check_endpoint(self, credentials: StorageCredentials | None, side: Side) -> None:
        """Raise if the endpoint is not allowed.

        This check is needed, because refreshed credentials may name an endpoint that nobody has checked.
        """
        if credentials and not self._policy.allows(credentials.endpoint):
            problem = f"{credentials.endpoint}: {ENDPOINT_ADVICE}"
            raise MissingStorage(ErrorCode.STORAGE_ENDPOINT_MISSING, problem, side=side)


def _pair(endpoint: str) -> str:
    """Return the `host:port` of an endpoint. The origin of an endpoint always includes the port."""
    return urlsplit(endpoint).netloc
