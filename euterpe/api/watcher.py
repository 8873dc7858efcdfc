"""Poll the database once for all event streams and long polls that wait for a job to change."""

import asyncio
import threading
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress

import structlog

from euterpe.domain.errors import EuterpeError

_log = structlog.get_logger(__name__)

_EVERY_S = 0.2
_AT_ONCE = 10_000  # SQLite takes 32,766 parameters in a statement

Versions = Callable[[Collection[str]], Mapping[str, object]]


class Watch:
    """A wait for changes of some jobs, in the event loop that created it."""

    def __init__(self, job_ids: Collection[str]) -> None:
        self.job_ids = tuple(job_ids)
        self.ended = False
        self._seen: list[object] | None = None
        self._loop = asyncio.get_running_loop()
        self._woken, self._over = asyncio.Event(), asyncio.Event()

    async def over(self) -> None:
        """Return when the service is stopping."""
        await self._over.wait()

    async def changed(self, timeout_s: float) -> bool:
        """Return True when a job may have changed, and False when the time is up.

        The first True may be wrong, because the first poll cannot be compared with what the caller read.
        """
        try:
            async with asyncio.timeout(timeout_s):
                await self._woken.wait()
        except TimeoutError:
            return False
        self._woken.clear()
        return True

    def look(self, versions: Mapping[str, object]) -> None:
        """Wake the waiter if a version differs from the last poll. Called in the watcher's thread."""
        seen = [versions.get(job_id) for job_id in self.job_ids]
        if seen != self._seen:
            self._seen = seen
            self._set(self._woken)

    def end(self) -> None:
        """End the wait because the service is stopping. Called in any thread."""
        self.ended = True
        self._set(self._woken)
        self._set(self._over)

    def _set(self, event: asyncio.Event) -> None:
        with suppress(RuntimeError):  # the loop is closed, so nothing waits
            self._loop.call_soon_threadsafe(event.set)


class Watcher:
    """A thread that polls the versions of all watched jobs in one query, and sleeps while there are none."""

    def __init__(self, versions: Versions, every_s: float = _EVERY_S) -> None:
        self._versions, self._every_s = versions, every_s
        self._watches: set[Watch] = set()
        self._changed = threading.Condition()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="euterpe-watcher", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def end_all(self) -> None:
        """End all watches, and every later one at once, because the service is stopping."""
        with self._changed:
            self._stopped.set()
            self._changed.notify()
            for watch in self._watches:
                watch.end()

    def stop(self) -> None:
        self.end_all()
        self._thread.join()

    @contextmanager
    def watch(self, job_ids: Collection[str]) -> Iterator[Watch]:
        watch = Watch(job_ids)
        with self._changed:
            self._watches.add(watch)
            self._changed.notify()
            if self._stopped.is_set():
                watch.end()
        try:
            yield watch
        finally:
            with self._changed:
                self._watches.discard(watch)

    def _loop(self) -> None:
        while not self._stopped.is_set():
            with self._changed:
                self._changed.wait_for(lambda: self._watches or self._stopped.is_set())
                watches = list(self._watches)
            try:
                self._poll(watches)
            except EuterpeError as error:
                _log.warning("watch_failed", code=error.code)  # the next poll reports the change
            except Exception:  # noqa: BLE001  all watches would hang if the thread ended
                _log.error("watch_failed", traceback=traceback.format_exc())
            self._stopped.wait(self._every_s)

    def _poll(self, watches: Collection[Watch]) -> None:
        job_ids = list({job_id for watch in watches for job_id in watch.job_ids})
        versions: dict[str, object] = {}
        for start in range(0, len(job_ids), _AT_ONCE):
            versions |= self._versions(job_ids[start : start + _AT_ONCE])
        for watch in watches:
            watch.look(versions)
