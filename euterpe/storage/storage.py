"""The way to every kind of storage: the one place that looks at a URL's scheme."""

from euterpe.domain.credentials import Side, StorageCredentials
from euterpe.domain.spec import Output, Source
from euterpe.net.egress import Egress
from euterpe.storage.buckets import BucketDestination, BucketReader
from euterpe.storage.clients import forget_ambient_keys
from euterpe.storage.errors import StorageError
from euterpe.storage.files import FileDestination, FileReader
from euterpe.storage.policy import ENDPOINT_ADVICE, StoragePolicy
from euterpe.storage.signed import SignedDestination, SignedReader
from euterpe.storage.source import SourceObject
from euterpe.storage.transfer import Destination, Reader


class Storage:
    """One for each process: from here on the process has no cloud credentials of its own."""

    def __init__(self, policy: StoragePolicy, egress: Egress) -> None:
        forget_ambient_keys()
        self._policy, self._egress = policy, egress

    def source(self, source: Source, credentials: StorageCredentials | None) -> SourceObject:
        return SourceObject(self._reader(source, credentials))

    def _reader(self, source: Source, credentials: StorageCredentials | None) -> Reader:
        if source.scheme == "https":
            return SignedReader(self._egress, source.url)
        if source.scheme == "file":
            return FileReader(self._policy, source.url)
        self._check_endpoint(credentials, "source")
        return BucketReader(source.url, credentials)

    def destination(self, output: Output, credentials: StorageCredentials | None) -> Destination:
        if output.url is None:
            return SignedDestination(self._egress, output.urls or {})
        if output.scheme == "file":
            return FileDestination(self._policy, output.url)
        self._check_endpoint(credentials, "output")
        return BucketDestination(output.url, credentials)

    def _check_endpoint(self, credentials: StorageCredentials | None, side: Side) -> None:
        """Again, though the API has: a refresh may bring another endpoint."""
        if credentials and not self._policy.allows(credentials.endpoint):
            problem = f"{credentials.endpoint}: {ENDPOINT_ADVICE}"
            raise StorageError("endpoint_not_allowed", problem, side=side)
