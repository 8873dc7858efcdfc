"""A background loop: a thread that calls a function again and again until the loop is stopped."""

import threading
import time
from collections.abc import Callable

import structlog

_log = structlog.get_logger(__name__)


class BackgroundLoop:
    """A daemon thread that calls `run_once` until `stop`.

    `run_once` returns the seconds to sleep before the next call, or None to end the loop. If it raises, the
    loop continues: `on_error` gets the exception and returns the seconds to sleep. Without `on_error`, or if
    `on_error` raises, the loop logs the exception and sleeps for a second.

    With `drains` the loop continues after `stop`, until `run_once` returns None. After `stop`, the loop
    sleeps only after an exception, and calls `drain_sleep` for this.
    """

    def __init__(
        self,
        name: str,
        run_once: Callable[[], float | None],
        *,
        on_error: Callable[[Exception], float] | None = None,
        first_pause_s: float = 0.0,
        drains: bool = False,
        drain_sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self._run_once, self._on_error = run_once, on_error or self._log_error
        self._first_pause_s, self._drains, self._drain_sleep = first_pause_s, drains, drain_sleep
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def is_stopping(self) -> bool:
        return self._stopping.is_set()

    def sleep(self, seconds: float) -> bool:
        """Sleep until the time is up or the loop is stopped. Return whether the loop is stopped."""
        return self._stopping.wait(seconds)

    def begin_stop(self) -> None:
        """Let the loop end after the current call of `run_once`. If `run_once` waits, wake it."""
        self._stopping.set()

    def stop(self) -> None:
        """Stop the loop and wait for its end. Do not wait if the loop was never started."""
        self.begin_stop()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        pause: float | None = self._first_pause_s
        while pause is not None:
            is_stopped = self._stopping.wait(pause)
            if is_stopped and not self._drains:
                return
            try:
                pause = self._run_once()
            except Exception as error:  # noqa: BLE001  without this thread the service would do nothing
                pause = self._pause_after(error)
                if is_stopped:
                    self._drain_sleep(pause)

    def _pause_after(self, error: Exception) -> float:
        try:
            return self._on_error(error)
        except Exception as second:  # noqa: BLE001  the handler may fail, too, for example without memory
            return self._log_error(second)

    def _log_error(self, error: Exception) -> float:
        _log.error("background_loop_failed", loop=self._thread.name, error=str(error), exc_info=error)
        return 1.0
