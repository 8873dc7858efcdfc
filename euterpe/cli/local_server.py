"""An HTTP server on loopback that runs until the user interrupts the command."""

import signal
import sys
import threading
from collections.abc import Callable
from http.server import ThreadingHTTPServer
from typing import Any

_ENDINGS = (signal.SIGINT, signal.SIGTERM)


class LocalServer(ThreadingHTTPServer):
    """A server on loopback. It prints no traceback when a client disconnects."""

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/"

    def handle_error(self, request: Any, client_address: Any) -> None:
        # An OSError means that the client disconnected or was too slow, which is not an error of this
        # program.
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)

    def serve_until_interrupted(
        self, announce: Callable[[], None], work: Callable[[], None] | None = None
    ) -> None:
        """Serve, call `announce` once requests are answered, and return after SIGINT or SIGTERM.

        `work` runs while requests are answered. A signal during `work` ends `work`, and stops the server.
        """
        # Block the signals before the thread starts, because the thread inherits the mask. Then only
        # `sigwait` receives the signals.
        signal.pthread_sigmask(signal.SIG_BLOCK, _ENDINGS)
        thread = threading.Thread(target=self.serve_forever)
        thread.start()
        announce()
        try:
            if work is not None:
                self._interruptible(work)
            signal.sigwait(_ENDINGS)
        except KeyboardInterrupt:
            pass  # the user ended `work`
        finally:
            # From here, a second signal ends the process at once.
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDINGS)
            self.shutdown()
            thread.join()

    def _interruptible(self, work: Callable[[], None]) -> None:
        """Call `work`. During this call, SIGINT and SIGTERM raise `KeyboardInterrupt`."""
        # Set the handler of SIGINT too: a shell lets programs in the background ignore SIGINT.
        before = [signal.signal(ending, signal.default_int_handler) for ending in _ENDINGS]
        try:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDINGS)
            work()
            signal.pthread_sigmask(signal.SIG_BLOCK, _ENDINGS)
        finally:
            for ending, handler in zip(_ENDINGS, before, strict=True):
                signal.signal(ending, handler)
