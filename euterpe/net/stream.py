"""An httpcore network stream that applies the limits of the request to every wait."""

import select
import socket
import ssl
import time
from typing import Any

import httpcore

from euterpe.net.errors import EgressUnreachable
from euterpe.net.limits import Clock, RequestLimits

# A connection older than this is not used again. So the host's name is resolved, and its address is checked
# by the policy, at least this often.
_MAX_AGE_S = 60.0


class GuardedStream(httpcore.NetworkStream):
    """A socket that applies the `RequestLimits` of the request to each wait.

    httpcore passes these limits to `read` and `write` as `timeout`.
    """

    def __init__(self, sock: socket.socket, clock: Clock = time.monotonic) -> None:
        self._sock, self._clock = sock, clock
        self._dialled = clock()
        self._head: bytes | None = None  # the head of a request, until the next write sends it

    def read(self, max_bytes: int, timeout: Any = None) -> bytes:
        limits: RequestLimits = timeout
        self._head = None  # the first write after a response starts another request
        for seconds in limits.ticks():
            self._sock.settimeout(seconds)
            try:
                data = self._sock.recv(max_bytes)
            except TimeoutError:
                continue
            except OSError as error:
                raise connection_cut_error(limits, error) from None
            limits.received(len(data))
            return data
        raise AssertionError("`ticks` ends by raising")

    def write(self, buffer: bytes, timeout: Any = None) -> None:
        """Keep the head of the request and send it together with the next write.

        This saves a system call, and each such call is a quarter of the work of a small request. Another
        write always follows the head, because httpcore ends each request with a write, which may be empty.
        """
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
                # After a WriteError httpcore reads the response. The response is useful: a server that
                # refuses a body early may have sent the reason.
                raise httpcore.WriteError from error
            limits.end_wait(sent)
            unsent = unsent[sent:]

    def close(self) -> None:
        self._sock.close()

    def get_extra_info(self, info: str) -> Any:
        """Answer httpcore's query `is_readable`: return True if this idle connection must not be used again.

        A connection that is too old or readable must not be used again. An idle connection is readable if the
        peer has closed it.
        Return None for any other `info`.
        """
        if info != "is_readable":
            return None
        if self._clock() - self._dialled > _MAX_AGE_S:
            return True
        poll = select.poll()
        poll.register(self._sock, select.POLLIN)
        return bool(poll.poll(0))


def connection_cut_error(limits: RequestLimits, error: OSError) -> EgressUnreachable:
    """Return the error for a cut connection.

    Its message has the reason that the system or OpenSSL gives, and no data of the request.
    """
    limits.end_wait(0)
    what = error.reason if isinstance(error, ssl.SSLError) else error.strerror
    return EgressUnreachable(limits.where, f"the connection was cut ({what})")
