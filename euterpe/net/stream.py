"""A connection whose every wait is bounded by the request that it serves."""

import select
import socket
import ssl
import time
from typing import Any

import httpcore

from euterpe.net.errors import EgressUnreachable
from euterpe.net.limits import RequestLimits

# An idle connection older than this is not used again: a destination that moved is looked up, and
# judged by the policy, at least this often.
MAX_AGE_S = 60.0


class GuardedStream(httpcore.NetworkStream):
    """`timeout` is the `RequestLimits` of the request: httpcore hands through whatever its timeouts hold."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._dialled = time.monotonic()
        self._head: bytes | None = None  # of the request that is being written

    def read(self, max_bytes: int, timeout: Any = None) -> bytes:
        limits: RequestLimits = timeout
        self._head = None  # what is written after an answer is another request
        self._sock.settimeout(limits.begin_wait())
        try:
            data = self._sock.recv(max_bytes)
        except TimeoutError:
            raise limits.timeout() from None
        except OSError as error:
            raise cut(limits, error) from None
        limits.received(len(data))
        return data

    def write(self, buffer: bytes, timeout: Any = None) -> None:
        """The head goes out with what follows it: each send is a quarter of the work of a small exchange.
        Something always follows: httpcore writes the end of every request, and be it empty."""
        if self._head is None:
            self._head = buffer
            return
        head, self._head = self._head, b""
        self._send(head + buffer, timeout)

    def _send(self, data: bytes, limits: RequestLimits) -> None:
        unsent = memoryview(data)
        while unsent:
            self._sock.settimeout(limits.begin_wait())
            try:
                sent = self._sock.send(unsent)
            except TimeoutError:
                raise limits.timeout() from None
            except OSError as error:
                limits.end_wait(0)
                # httpcore goes on to read then: who refuses a body early may have said why.
                raise httpcore.WriteError from error
            limits.end_wait(sent)
            unsent = unsent[sent:]

    def close(self) -> None:
        self._sock.close()

    def get_extra_info(self, info: str) -> Any:
        """httpcore asks before it uses an idle connection again; a readable one was closed over there."""
        if info != "is_readable":
            return None
        if time.monotonic() - self._dialled > MAX_AGE_S:
            return True
        poll = select.poll()
        poll.register(self._sock, select.POLLIN)
        return bool(poll.poll(0))


def cut(limits: RequestLimits, error: OSError) -> EgressUnreachable:
    """With the system's words, or OpenSSL's; neither quotes what was sent."""
    limits.end_wait(0)
    what = error.reason if isinstance(error, ssl.SSLError) else error.strerror
    return EgressUnreachable(limits.where, f"the connection was cut ({what})")
