"""HTTP connections with limits on their number, on their memory and on the time for a request head.

uvicorn can parse with httptools or with h11. httptools is faster, but it buffers all bytes that a client
sends before the head is complete: 120 MB of headers took 500 MB of memory, and unread pipelined requests took
2 GB. h11 refuses a head of more than 16 KiB, and reads one request at a time.
"""

import asyncio
from secrets import token_hex
from typing import Any

import h11
import structlog
from uvicorn.protocols.http.h11_impl import H11Protocol

from euterpe.api.problems import ProblemCode, problem
from euterpe.api.strict_http import StrictConnection

_log = structlog.get_logger(__name__)


class Connection(H11Protocol):
    """An h11 connection that is aborted if a request head is not complete in time."""

    # `ApiServer` sets `most` and `head_s` in a subclass, because uvicorn's configuration takes a class.
    most = 1_000  # open connections
    # The time limit for a request head. For the first request, the time runs from the start of the
    # connection. For each later request, the time runs from the first byte of the head.
    head_s = 10.0

    _deadline: asyncio.TimerHandle | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.conn = StrictConnection()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self.most:
            transport.abort()
        else:
            self._start_deadline()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state is h11.IDLE:
            self._start_deadline()
        else:
            self._cancel_deadline()

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_deadline()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Send a problem document, unless a response has already begun, and close the connection.

        If the application is already handling the request, it receives `http.disconnect`.
        """
        del msg  # the response does not depend on the cause
        request_id = token_hex(16)
        _log.info("request_malformed", request_id=request_id)
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.write(self._refusal(request_id))
        self._disconnect_application()
        self.transport.close()

    def _refusal(self, request_id: str) -> bytes:
        answer = problem(
            ProblemCode.MALFORMED_HTTP, "the request is malformed or ambiguous; the connection is closed"
        )
        headers = [*answer.raw_headers, (b"x-request-id", request_id.encode()), (b"connection", b"close")]
        events = (
            h11.Response(status_code=answer.status_code, headers=headers, reason=b"Bad Request"),
            h11.Data(data=bytes(answer.body)),
            h11.EndOfMessage(),
        )
        return b"".join(self.conn.send(event) or b"" for event in events)

    def _disconnect_application(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()

    def _start_deadline(self) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(self.head_s, self.transport.abort)

    def _cancel_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
