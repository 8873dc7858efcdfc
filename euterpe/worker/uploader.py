"""Upload the outputs of one attempt in order, and check the stored objects before the job succeeds."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

from euterpe.domain.credentials import StorageCredentials
from euterpe.domain.error_codes import ErrorCode
from euterpe.domain.own_source import ADVICE, find_overwritten_source
from euterpe.domain.spec import JobSpec
from euterpe.media.encoding.verify import MadeFile
from euterpe.storage.errors import StorageError
from euterpe.storage.publication import Owner
from euterpe.storage.storage import Storage
from euterpe.storage.transfer import Stored, UploadDestination
from euterpe.worker.attempt_control import AttemptControl
from euterpe.worker.credentials import CredentialAccess

# Checks run in parallel, because an HLS output has thousands of files, and each check takes some 20 ms.
_CHECKS_AT_ONCE = 8
_CHECK_EVERY_S = 0.5


class Uploader:
    """An uploader that publishes under the fence: `prove_ownership` runs before each object becomes visible.

    `on_sent` is called with the size of each chunk that was sent. It may raise to stop the upload.
    """

    def __init__(
        self,
        storage: Storage,
        access: CredentialAccess,
        control: AttemptControl,
        owner: Owner,
        prove_ownership: Callable[[], None],
        *,
        on_sent: Callable[[int], None],
    ) -> None:
        self._storage, self._access, self._control = storage, access, control
        self._owner, self._prove_ownership, self._on_sent = owner, prove_ownership, on_sent
        self._open: tuple[JobSpec, UploadDestination] | None = None

    def publish(self, made: Sequence[MadeFile]) -> Iterator[Stored]:
        """Upload the files in the given order, and yield each file after it is stored.

        `made` must have each file after the files that it refers to, so that no published file refers to a
        file that is not stored yet.
        """
        if (name := find_overwritten_source(self._access.spec, [file.name for file in made])) is not None:
            raise StorageError(ErrorCode.OUTPUT_IS_SOURCE, f"{name}: {ADVICE}", side="output")
        for file in made:
            yield self._put(file)

    def check(self, made: Sequence[MadeFile], stored: Sequence[Stored]) -> None:
        """Raise when an object was replaced after its upload: the recorded `sha256` would be wrong."""
        pairs = iter(zip(made, stored, strict=True))
        running: set[Future[None]] = set()
        with ThreadPoolExecutor(_CHECKS_AT_ONCE, thread_name_prefix="euterpe-check") as pool:
            try:
                while True:
                    while len(running) < 2 * _CHECKS_AT_ONCE and (pair := next(pairs, None)):
                        running.add(pool.submit(self._check, *pair))
                    if not running:
                        return
                    done, running = wait(running, _CHECK_EVERY_S, FIRST_COMPLETED)
                    for future in done:
                        future.result()
                    self._control.check()
            finally:
                pool.shutdown(wait=False, cancel_futures=True)

    def _put(self, file: MadeFile) -> Stored:
        def put(spec: JobSpec, credentials: StorageCredentials | None) -> Stored:
            return self._destination(spec, credentials).put(
                file.name,
                file.path,
                content_type=file.content_type,
                before_publish=self._prove_ownership,
                on_chunk=self._on_sent,
            )

        return self._access.on("output", put)

    def _check(self, file: MadeFile, stored: Stored) -> None:
        """Check an object with the credentials of the last upload.

        Skip the check if these credentials do not allow reading.
        """
        if self._open is not None:
            self._open[1].check(file.name, stored)

    def _destination(self, spec: JobSpec, credentials: StorageCredentials | None) -> UploadDestination:
        """Return the destination, and open a new one only for a new version of the credentials.

        All files must share one destination, because its minimum pace applies to all files together.
        """
        if self._open is None or self._open[0] is not spec:
            self._open = spec, self._storage.destination(spec.output, credentials, self._owner)
        return self._open[1]
