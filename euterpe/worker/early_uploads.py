"""Send finished files of an attempt to the object store while the attempt continues. Publish nothing yet."""

import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

import structlog

from euterpe.domain.spec import JobSpec
from euterpe.storage.errors import StorageError
from euterpe.storage.publication import Owner
from euterpe.storage.storage import Storage
from euterpe.storage.transfer import OnChunk, SentFile, UploadDestination
from euterpe.worker.attempt_control import AttemptControl, Interruption
from euterpe.worker.credentials import CredentialAccess

_log = structlog.get_logger(__name__)
# Aborts run in parallel, because each abort sends a request, and a failed attempt must not hold its slot for
# long.
_ABORTS_AT_ONCE = 8
# A stopping worker has 10 s to write its releases. Without this limit, a store that does not answer would
# delay the worker by 30 s or more.
_END_WAIT_S = 5.0


class _Stopped(Exception):
    """Raised in the thread when the current file is not needed any more."""


@dataclass(frozen=True)
class _Offer:
    name: str
    path: Path
    content_type: str
    round: int


class EarlyUploads:
    """A thread that sends the files given to `offer`. Use it as a context manager.

    If a file cannot be sent now, the upload at the end of the attempt sends it or reports the error. Refused
    credentials are not refreshed, because the upload at the end may need the whole refresh budget. At the end
    of the block, the thread removes the unpublished bytes from the store. The block waits for this removal
    for at most `end_wait_s`.
    """

    def __init__(
        self,
        storage: Storage,
        access: CredentialAccess,
        control: AttemptControl,
        owner: Owner,
        *,
        on_sent: OnChunk,
        end_wait_s: float = _END_WAIT_S,
    ) -> None:
        self._storage, self._access, self._control = storage, access, control
        self._owner, self._on_sent, self._end_wait_s = owner, on_sent, end_wait_s
        self._waiting: deque[_Offer] = deque()
        self._sending: _Offer | None = None
        self._sent: dict[str, SentFile] = {}
        self._all_sent: list[SentFile] = []  # all sent files, including forgotten files and earlier versions
        self._round = 0
        self._opened: tuple[JobSpec, UploadDestination] | None = None
        self._is_over = self._is_stopped = False
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._changed:
            self._is_over = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(self._end_wait_s)
            if self._thread.is_alive():
                _log.warning("early_upload_still_ends")

    def offer(self, name: str, path: Path, content_type: str) -> None:
        """Send a finished file, if it is large enough for an early upload to save time."""
        try:
            size = path.lstat().st_size
        except OSError:  # the check of the outputs will report the missing file
            return
        if size < self._storage.least_early_bytes:
            return
        with self._changed:
            self._waiting.append(_Offer(name, path, content_type, self._round))
            self._changed.notify_all()
        if self._thread is None:
            # Run the thread in a copy of the context, so that its log lines have the fields of the attempt.
            run = partial(copy_context().run, self._run)
            thread = threading.Thread(target=run, name="euterpe-early-upload", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # the system allows no more threads
                _log.warning("early_upload_skipped", reason="no thread")
            else:
                self._thread = thread

    def take(self, name: str) -> SentFile | None:
        """Return the sent file, for publication. Wait while the thread sends this file.

        Return None if the file was not sent. In this case the thread does not send the file later. After
        `stop`, do not wait.
        """
        with self._changed:
            self._waiting = deque(offer for offer in self._waiting if offer.name != name)
            self._changed.wait_for(
                lambda: self._is_stopped or self._sending is None or self._sending.name != name
            )
            return self._sent.get(name)

    def forget(self) -> None:
        """Drop all files that were offered so far. Call this method before the files are removed."""
        with self._changed:
            self._round += 1
            self._waiting.clear()
            self._sent.clear()

    def stop(self) -> None:
        """Send no more files, and interrupt the upload of the current file."""
        with self._changed:
            self._is_stopped = True
            self._changed.notify_all()

    def _run(self) -> None:
        self._send_all()
        if self._all_sent:
            newest: UploadDestination | None = None
            with suppress(StorageError):  # after an error, abort with the credentials that sent the file
                newest = self._destination()
            with ThreadPoolExecutor(_ABORTS_AT_ONCE, thread_name_prefix="euterpe-abort") as pool:
                aborts = [pool.submit(copy_context().run, sent.abort, newest) for sent in self._all_sent]
                for abort in aborts:
                    abort.result()

    def _destination(self) -> UploadDestination:
        spec, credentials = self._access.now("output")
        if self._opened is None or self._opened[0] is not spec:
            self._opened = spec, self._storage.destination(spec.output, credentials, self._owner)
        return self._opened[1]

    def _send_all(self) -> None:
        while (offer := self._next()) is not None:
            try:
                self._send(self._destination(), offer)
            except _Stopped:
                pass  # continue, because other files may be offered after `forget`
            except Interruption:
                self._is_stopped = True
            except StorageError as error:
                # Send no further file: it would probably fail in the same way, and each try costs requests.
                _log.info("early_upload_ended", code=error.code)
                self._is_stopped = True
            except Exception:  # noqa: BLE001  the upload at the end does not need this thread
                if offer.round == self._round:  # after `forget`, the file may be gone: then ignore the error
                    _log.exception("early_upload_failed")
                    self._is_stopped = True
            finally:
                with self._changed:
                    self._sending = None
                    self._changed.notify_all()

    def _send(self, destination: UploadDestination, offer: _Offer) -> None:
        sent = destination.send(
            *(offer.name, offer.path),
            content_type=offer.content_type,
            on_chunk=lambda size: self._on_chunk(offer, size),
        )
        if sent is not None:
            _log.info("sent_early", output_file=offer.name)
            with self._changed:
                self._all_sent.append(sent)
                if offer.round == self._round:
                    self._sent[offer.name] = sent

    def _next(self) -> _Offer | None:
        """Wait for a file to send. Return None at the end of the block."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_over or (self._waiting and not self._is_stopped))
            if self._is_over:
                return None
            offer = self._waiting.popleft()
            self._sending = offer
            return offer

    def _on_chunk(self, offer: _Offer, size: int) -> None:
        if self._is_over or self._is_stopped or offer.round != self._round:
            raise _Stopped
        self._control.check()
        self._on_sent(size)
