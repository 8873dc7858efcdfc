"""Connections that take no more of us than a request is worth.

uvicorn's faster parser keeps whatever a client sends before its head is whole: 120 MB of headers became
500 MB of memory, and unread pipelined requests two gigabytes. h11 stops at 64 KiB, and reads one request
after the other.
"""

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

# From the first byte to the end of a head, and from the connection to the first byte.
HEAD_S = 10.0


class Connection(H11Protocol):
    """Closes on whoever does not get a request's head out in time."""

    most = 1_000  # at once, all together; `ApiServer` sets it by the files that the process may open

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self.most:
            transport.abort()
        else:
            self._await_head()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state is h11.IDLE:
            self._await_head()
        else:
            self._await_nothing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._await_nothing()
        super().connection_lost(exc)

    def _await_head(self) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(HEAD_S, self.transport.abort)

    def _await_nothing(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
