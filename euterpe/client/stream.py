"""Parse server-sent events (SSE) from bytes, and resume after a lost connection. This module does no I/O."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from euterpe.client import requests
from euterpe.client.documents import Event, Progress
from euterpe.client.errors import ClientError, UnexpectedAnswer, Unreachable
from euterpe.client.requests import ApiRequest, ApiResponse
from euterpe.client.responses import error_of, unexpected
from euterpe.client.retries import DEFAULT_RETRY, RetryPolicy
from euterpe.domain.states import FINISHED, JOB_TRANSITIONS

# A \r at the end of a chunk may be half of a \r\n, so it stays in the buffer until the next byte.
_LINE_END = re.compile(rb"\r\n|\n|\r(?=.)", re.DOTALL)
_LONGEST_MESSAGE = 4 * 1024 * 1024
# No event follows these states. Another event may follow `failed`, so after `failed` the watch waits for the
# end of the stream.
_FINAL = tuple(status for status, edges in JOB_TRANSITIONS.items() if not edges)


@dataclass(frozen=True)
class Message:
    type: str
    data: str


class SseParser:
    """An SSE parser for the bytes of one connection."""

    def __init__(self) -> None:
        self._buffer = b""
        self._type, self._data = "", list[str]()

    def take(self, chunk: bytes) -> Iterator[Message]:
        """Yield the messages that `chunk` completes. Raise UnexpectedAnswer if a message is too long."""
        *lines, self._buffer = _LINE_END.split(self._buffer + chunk)
        if len(self._buffer) + sum(map(len, self._data)) > _LONGEST_MESSAGE:
            raise UnexpectedAnswer(f"an event is longer than {_LONGEST_MESSAGE} bytes")
        for line in lines:
            if line:
                self._read(line.decode(errors="replace"))
            else:
                yield from self._end()

    def _read(self, line: str) -> None:
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "event":
            self._type = value
        elif name == "data":
            self._data.append(value)

    def _end(self) -> Iterator[Message]:
        if self._type or self._data:
            yield Message(self._type, "\n".join(self._data))
        self._type, self._data = "", []


class EventWatch:
    """The position in a job's event stream. The position stays valid when the connection is replaced."""

    def __init__(self, job_id: str, retry: RetryPolicy = DEFAULT_RETRY) -> None:
        self.is_over = False
        self.pause_s = 0.0  # the pause before the next request
        self.outage: ClientError | None = None  # the first error of an outage
        self._job_id, self._retry = job_id, retry
        self._messages = SseParser()
        self._sequence, self._status = 0, ""
        self._tried = 0

    def call(self) -> ApiRequest:
        """Return the request for a new connection, which resumes after the last event received."""
        self._messages = SseParser()
        return requests.events(self._job_id, self._sequence)

    def take(self, chunk: bytes) -> Iterator[Event | Progress]:
        """Yield the progress and the new events that `chunk` completes. Skip repeated events."""
        for message in self._messages.take(chunk):
            self._tried = 0
            if message.type == "hello":
                continue
            document = _parse(message)
            if isinstance(document, Progress):
                yield document
            elif document.sequence > self._sequence:
                self._sequence, self._status = document.sequence, document.status
                self.is_over = document.status in _FINAL
                yield document

    def refused(self, answer: ApiResponse) -> None:
        """Handle a response that is not a stream. Raise the response's error unless a retry is allowed."""
        if answer.status == 204:  # all events were received before the request
            self.is_over = True
        else:
            self.lost(error_of(answer) or unexpected(answer, "is not an event stream"))

    def ended(self) -> None:
        """Handle the end of the stream. Raise if the job is unfinished and no retry is left."""
        if self._status in FINISHED:
            self.is_over = True
        else:
            self.lost(Unreachable(f"the event stream ended before job {self._job_id} was finished"))

    def lost(self, error: ClientError) -> None:
        """Set the pause before the next connection, or raise the error if no retry is allowed."""
        self._tried += 1
        pause = self._retry.pause_s(error, tried=self._tried, idempotent=True)
        if pause is None:
            raise error
        self.pause_s = pause
        self.outage = error if self._tried == 1 else None


def _parse(message: Message) -> Event | Progress:
    try:
        document = json.loads(message.data)
        return Progress.read(document) if message.type == "progress" else Event.read(document)
    except (ValueError, RecursionError):
        raise UnexpectedAnswer(f"the data of an event {message.type!r} is malformed") from None
