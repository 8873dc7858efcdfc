"""Connections that take no more of us than a request is worth.

uvicorn's faster parser keeps whatever a client sends before its head is whole: 120 MB of headers became
500 MB of memory, and unread pipelined requests two gigabytes. h11 stops at 16 KiB, and reads one request
after the other.
"""

import asyncio
from secrets import token_hex
from typing import Any

import h11
import structlog
from uvicorn.protocols.http.h11_impl import H11Protocol

from euterpe.api.problems import problem
from euterpe.api.strict_http import StrictConnection

log = structlog.get_logger("euterpe.api")

# From the first byte to the end of a head, and from the connection to the first byte.
HEAD_S = 10.0


class Connection(H11Protocol):
    """Closes on whoever does not get a request's head out in time."""

    most = 1_000  # at once, all together; `ApiServer` sets it by the files that the process may open

    _deadline: asyncio.TimerHandle | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.conn = StrictConnection()

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

    def send_400_response(self, msg: str) -> None:
        """Answer with a problem document, unless an answer has begun already, and close the connection.

        The application behind the request, if it was reached, learns that its client has left.
        """
        del msg  # it is the same for every cause
        request_id = token_hex(16)
        log.info("request_malformed", request_id=request_id)
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.write(self._refusal(request_id))
        self._abandon_request()
        self.transport.close()

    def _refusal(self, request_id: str) -> bytes:
        answer = problem("malformed_http", "the request cannot be read in one way only; the connection ends")
        headers = [*answer.raw_headers, (b"x-request-id", request_id.encode()), (b"connection", b"close")]
        events = (
            h11.Response(status_code=answer.status_code, headers=headers, reason=b"Bad Request"),
            h11.Data(data=bytes(answer.body)),
            h11.EndOfMessage(),
        )
        return b"".join(self.conn.send(event) or b"" for event in events)

    def _abandon_request(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()

    def _await_head(self) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(HEAD_S, self.transport.abort)

    def _await_nothing(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
