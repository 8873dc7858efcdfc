"""Upload the outputs of one attempt, and check the stored objects before the job succeeds."""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from functools import partial
from itertools import groupby
from typing import Protocol

from euterpe.domain.credentials import StorageCredentials
from euterpe.domain.error_codes import ErrorCode
from euterpe.domain.own_source import ADVICE, find_overwritten_source
from euterpe.domain.spec import JobSpec
from euterpe.media.encoding.verify import MadeFile
from euterpe.storage.buckets import PART
from euterpe.storage.errors import StorageError
from euterpe.storage.publication import Owner
from euterpe.storage.storage import Storage
from euterpe.storage.transfer import Stored, UploadDestination
from euterpe.worker.attempt_control import AttemptControl
from euterpe.worker.credentials import CredentialAccess
from euterpe.worker.early_uploads import EarlyUploads

# Files are uploaded in parallel: an HLS output has thousands of segments, and a request takes 20 to 60 ms
# even for a small segment.
_FILES_AT_ONCE = 8
# The memory limit for parallel uploads: an upload keeps one part, or a smaller file as a whole, in memory.
_BYTES_AT_ONCE = 2 * PART
# Checks run in parallel for the same reason as uploads.
_CHECKS_AT_ONCE = 8
_CHECK_EVERY_S = 0.5


class ProveOwnership(Protocol):
    """A function that raises unless the attempt owns its job.

    `refers` is true if the file to publish refers to other files.
    """

    def __call__(self, *, refers: bool) -> None: ...


class _Stopped(Exception):
    """Raised in a thread of an upload when another thread of the upload has failed."""


class SharedCheck:
    """A check for several threads. Calls that arrive during a run share the next run.

    When a run fails, its error is raised in all waiting threads and in all later calls.
    """

    def __init__(self, check: Callable[[], None]) -> None:
        self._check = check
        self._begun = self._ended = 0
        self._error: BaseException | None = None
        self._changed = threading.Condition()

    def __call__(self) -> None:
        """Wait for the end of a run that began after this call. Raise the error of the check."""
        with self._changed:
            needed = self._begun + 1
            self._changed.wait_for(lambda: self._ended >= needed or self._begun == self._ended)
            is_ours = self._ended < needed and self._error is None
            if is_ours:
                self._begun += 1
        if is_ours:
            self._run()
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        error: BaseException | None = None
        try:
            self._check()
        except BaseException as raised:  # noqa: BLE001  raised again in each thread
            error = raised
        with self._changed:
            self._error = error
            self._ended += 1
            self._changed.notify_all()


def _has_room(running: Iterable[tuple[int, int]], size: int) -> bool:
    """Return whether a file of this size may be uploaded in parallel with the running uploads."""
    sizes = [min(one, PART) for _, one in running]
    return not sizes or (len(sizes) < _FILES_AT_ONCE and sum(sizes) + min(size, PART) <= _BYTES_AT_ONCE)


class Uploader:
    """Publish files under the fence: `prove_ownership` runs before each object becomes visible.

    Several threads call `on_sent`, with the size of each chunk that was sent. `on_sent` may raise to stop the
    upload. `early` holds the files that were sent during the encode.
    """

    def __init__(
        self,
        storage: Storage,
        access: CredentialAccess,
        control: AttemptControl,
        owner: Owner,
        prove_ownership: ProveOwnership,
        *,
        on_sent: Callable[[int], None],
        early: EarlyUploads,
    ) -> None:
        self._storage, self._access, self._control = storage, access, control
        self._owner = owner
        self._prove_ownership = {
            refers: SharedCheck(partial(prove_ownership, refers=refers)) for refers in (False, True)
        }
        self._on_sent, self._early = on_sent, early
        self._open: tuple[JobSpec, UploadDestination] | None = None
        self._opening = threading.Lock()
        self._stopping = threading.Event()

    def publish(
        self, made: Sequence[MadeFile], on_stored: Callable[[Stored], None] = lambda _: None
    ) -> list[Stored]:
        """Upload the files, and return them in the given order. Call `on_stored` after each file.

        In `made`, each file must come after the files that it refers to. A file that refers to other files is
        published alone: after all files before it in `made`, and before all files after it. Other files, such
        as segments, are published in parallel. When this method returns or raises, no thread publishes any
        more.
        """
        if (name := find_overwritten_source(self._access.spec, [file.name for file in made])) is not None:
            raise StorageError(ErrorCode.OUTPUT_IS_SOURCE, f"{name}: {ADVICE}", side="output")
        stored = list[Stored]()
        for refers, files in groupby(made, key=lambda file: file.refers):
            if refers:
                for file in files:
                    stored.append(self._put(file))
                    on_stored(stored[-1])
            else:
                stored += self._publish_together([*files], on_stored)
        return stored

    def _publish_together(
        self, files: Sequence[MadeFile], on_stored: Callable[[Stored], None]
    ) -> Iterator[Stored]:
        """Publish files in parallel, in any order. Yield the stored objects in the given order."""
        waiting = deque(enumerate((file, file.path.stat().st_size) for file in files))
        running: dict[Future[Stored], tuple[int, int]] = {}
        stored: dict[int, Stored] = {}
        with ThreadPoolExecutor(_FILES_AT_ONCE, thread_name_prefix="euterpe-upload") as pool:
            try:
                while waiting or running:
                    while waiting and _has_room(running.values(), waiting[0][1][1]):
                        place, (file, size) = waiting.popleft()
                        # Run `_put` in a copy of the context, so that its log lines have the fields of the
                        # attempt.
                        running[pool.submit(copy_context().run, self._put, file)] = place, size
                    for future in wait(running, _CHECK_EVERY_S, FIRST_COMPLETED).done:
                        place, _ = running.pop(future)
                        stored[place] = future.result()
                        on_stored(stored[place])
                    self._control.check()
            except BaseException:
                self._stopping.set()
                self._early.stop()  # end the wait of a thread for the early upload of its file
                raise
            finally:
                self._stopping.set()
                pool.shutdown(cancel_futures=True)
                self._stopping.clear()
        return (stored[place] for place in range(len(files)))

    def check(self, made: Sequence[MadeFile], stored: Sequence[Stored]) -> None:
        """Raise if an object was replaced after its upload, because its recorded `sha256` would be wrong."""
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
        sent = self._early.take(file.name)

        def put(spec: JobSpec, credentials: StorageCredentials | None) -> Stored:
            destination = self._destination(spec, credentials)
            with destination.pace.shared():
                return destination.put(
                    file.name,
                    file.path,
                    content_type=file.content_type,
                    before_publish=lambda: self._before_publish(refers=file.refers),
                    on_chunk=self._on_chunk,
                    sent=sent,
                )

        return self._access.on("output", put)

    def _before_publish(self, *, refers: bool) -> None:
        self._refuse_when_stopping()
        self._prove_ownership[refers]()
        self._refuse_when_stopping()

    def _on_chunk(self, size: int) -> None:
        self._refuse_when_stopping()
        self._on_sent(size)

    def _refuse_when_stopping(self) -> None:
        if self._stopping.is_set():
            raise _Stopped

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
        with self._opening:
            if self._open is None or self._open[0] is not spec:
                self._open = spec, self._storage.destination(spec.output, credentials, self._owner)
            return self._open[1]
