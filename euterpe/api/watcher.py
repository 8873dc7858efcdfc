"""Poll the versions of jobs in one thread, for all event streams and long polls that wait for a change."""

import asyncio
import threading
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress

import structlog

from euterpe.domain.errors import EuterpeError
from euterpe.runtime.background_loop import BackgroundLoop

_log = structlog.get_logger(__name__)

_AT_ONCE = 10_000  # SQLite allows 32,766 parameters in a statement

Versions = Callable[[Collection[str]], Mapping[str, object]]


class Watch:
    """A wait for changes of some jobs. It belongs to the event loop in which it was created."""

    def __init__(self, job_ids: Collection[str]) -> None:
        self.job_ids = tuple(job_ids)
        self.ended = False
        self._seen: list[object] | None = None
        self._loop = asyncio.get_running_loop()
        self._woken, self._over = asyncio.Event(), asyncio.Event()

    async def over(self) -> None:
        """Wait until the service is stopping."""
        await self._over.wait()

    async def changed(self, timeout_s: float) -> bool:
        """Return True when a job may have changed, and False after `timeout_s`.

        The first True can come without a change, because the first poll has no earlier poll to compare with.
        """
        try:
            async with asyncio.timeout(timeout_s):
                await self._woken.wait()
        except TimeoutError:
            return False
        self._woken.clear()
        return True

    def look(self, versions: Mapping[str, object]) -> None:
        """Wake the waiting task if a version differs from the version in the previous poll.

        Only the watcher's thread may call this method.
        """
        seen = [versions.get(job_id) for job_id in self.job_ids]
        if seen != self._seen:
            self._seen = seen
            self._set(self._woken)

    def end(self) -> None:
        """End the wait because the service is stopping. Any thread may call this method."""
        self.ended = True
        self._set(self._woken)
        self._set(self._over)

    def _set(self, event: asyncio.Event) -> None:
        with suppress(RuntimeError):  # the event loop is closed, so nothing waits
            self._loop.call_soon_threadsafe(event.set)


class Watcher:
    """A thread that polls the versions of all watched jobs together. It sleeps while no job is watched."""

    def __init__(self, versions: Versions, every_s: float) -> None:
        self._versions, self._every_s = versions, every_s
        self._watches: set[Watch] = set()
        self._changed = threading.Condition()
        self._poller = BackgroundLoop("euterpe-watcher", self._poll_once, on_error=self._pause_after)

    def start(self) -> None:
        self._poller.start()

    def end_all(self) -> None:
        """End all watches, because the service is stopping. A watch that begins later ends at once."""
        with self._changed:
            self._poller.begin_stop()
            self._changed.notify()
            for watch in self._watches:
                watch.end()

    def stop(self) -> None:
        self.end_all()
        self._poller.stop()

    @contextmanager
    def watch(self, job_ids: Collection[str]) -> Iterator[Watch]:
        watch = Watch(job_ids)
        with self._changed:
            self._watches.add(watch)
            self._changed.notify()
            if self._poller.is_stopping:
                watch.end()
        try:
            yield watch
        finally:
            with self._changed:
                self._watches.discard(watch)

    def _poll_once(self) -> float:
        with self._changed:
            self._changed.wait_for(lambda: self._watches or self._poller.is_stopping)
            watches = list(self._watches)
        self._poll(watches)
        return self._every_s

    def _pause_after(self, error: Exception) -> float:
        """Log the error of a poll and return the pause before the next poll.

        No change is lost, because the next poll compares its versions with those of the last successful poll.
        """
        if isinstance(error, EuterpeError):
            _log.warning("watch_failed", code=error.code)
        else:
            _log.error("watch_failed", traceback="".join(traceback.format_exception(error)))
        return self._every_s

    def _poll(self, watches: Collection[Watch]) -> None:
        job_ids = list({job_id for watch in watches for job_id in watch.job_ids})
        versions: dict[str, object] = {}
        for start in range(0, len(job_ids), _AT_ONCE):
            versions |= self._versions(job_ids[start : start + _AT_ONCE])
        for watch in watches:
            watch.look(versions)
