"""Fetch the source of an attempt, or take the kept source of an earlier attempt of the job."""

from collections.abc import Callable
from pathlib import Path

import structlog

from euterpe.domain.credentials import StorageCredentials
from euterpe.domain.spec import JobSpec
from euterpe.storage.source import SourceObject
from euterpe.storage.source_file import SourceFile
from euterpe.storage.storage import Storage
from euterpe.storage.transfer import ObjectInfo
from euterpe.worker.credentials import CredentialAccess
from euterpe.worker.disk import DiskReservation
from euterpe.worker.kept_sources import FileState, KeptSources, SourceIdentity

_log = structlog.get_logger(__name__)
# The arguments are the number of new bytes, the number of all fetched bytes, and the size of the source, or
# None if the size is unknown.
OnReceived = Callable[[int, int, int | None], None]


class SourceFetcher:
    """Fetch the source of one attempt to `path`. `on_received` may raise to stop the fetch.

    `on_begun` is called before the first bytes are requested. If a kept source is used, `on_begun` is not
    called.
    """

    def __init__(
        self,
        path: Path,
        storage: Storage,
        kept: KeptSources,
        room: DiskReservation,
        *,
        job_id: str,
        max_source_bytes: int,
        on_received: OnReceived,
        on_begun: Callable[[SourceFile], None] = lambda _: None,
    ) -> None:
        self._path, self._storage, self._kept, self._room = path, storage, kept, room
        self._job_id, self._max_source_bytes = job_id, max_source_bytes
        self._on_received, self._on_begun = on_received, on_begun
        self._open: tuple[JobSpec, SourceObject] | None = None
        self._fetched: tuple[SourceIdentity, FileState] | None = None

    def fetch(self, access: CredentialAccess) -> int:
        """Fetch the source. Return its size."""
        # Check the job for permanent errors before reserving disk, because such errors take precedence over a
        # lack of room on this worker.
        identity = access.on("source", self._announced)
        if self._kept.take(self._job_id, identity, self._path):
            _log.info("kept_source_used", size_bytes=identity.info.size)
            self._note_fetched(identity)
            self._room.adopt(self._path.stat().st_size)
        self._room.reserve(identity.info.size)
        if self._fetched is None:
            self._fetch(access, identity.info)
            self._note_fetched(identity)
        self._room.allow_growth()
        return self._path.stat().st_size

    def keep(self) -> None:
        """Keep the source for a retry of the job: move it out of the attempt's folder.

        Do nothing if the source was not fetched completely, or if this method was called before.
        """
        if self._fetched is not None:
            identity, state = self._fetched
            self._kept.keep(self._job_id, identity, self._path, state)
            self._fetched = None

    def _announced(self, spec: JobSpec, credentials: StorageCredentials | None) -> SourceIdentity:
        source = self._object(spec, credentials)
        info = source.stat()
        source.check_announced(info, self._limit_of(spec))
        return SourceIdentity(source.where, info)

    def _fetch(self, access: CredentialAccess, expected: ObjectInfo) -> None:
        with self._path.open("xb") as opened:
            file = SourceFile(opened.fileno(), expected)
            self._on_begun(file)

            def on_chunk(size: int) -> None:
                self._on_received(size, file.received, expected.size)

            def fetch(spec: JobSpec, credentials: StorageCredentials | None) -> None:
                limit = self._limit_of(spec)
                self._object(spec, credentials).fetch(file, max_bytes=limit, on_chunk=on_chunk)

            access.on("source", fetch)

    def _note_fetched(self, identity: SourceIdentity) -> None:
        self._fetched = identity, FileState.of(self._path)

    def _object(self, spec: JobSpec, credentials: StorageCredentials | None) -> SourceObject:
        """Return the source object for a version of the credentials.

        Reuse the object for later calls with the same version, because creating its client takes 3 ms.
        """
        if self._open is None or self._open[0] is not spec:
            self._open = spec, self._storage.source(spec.source, credentials)
        return self._open[1]

    def _limit_of(self, spec: JobSpec) -> int:
        return min(self._max_source_bytes, spec.max_source_bytes or self._max_source_bytes)
