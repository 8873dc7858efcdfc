"""Server-sent events: from bytes to messages, and how a watch goes on when its connection is lost."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from random import random

from euterpe.client import requests
from euterpe.client.documents import Event, Progress
from euterpe.client.errors import ClientError, UnexpectedAnswer, Unreachable
from euterpe.client.requests import ApiRequest, ApiResponse
from euterpe.client.responses import error_of, unexpected
from euterpe.client.retries import pause_before_retry
from euterpe.domain.states import FINISHED, JOB_TRANSITIONS

# A lone \r at the end may be half of a \r\n: it waits for the next byte.
_LINE_END = re.compile(rb"\r\n|\n|\r(?=.)", re.DOTALL)
_LONGEST_MESSAGE = 4 * 1024 * 1024
# Nothing follows these. What a failed job's last event is, only the end of the stream tells.
_FINAL = tuple(status for status, edges in JOB_TRANSITIONS.items() if not edges)


@dataclass(frozen=True)
class Message:
    type: str
    data: str


class Messages:
    """Collects the bytes of one connection."""

    def __init__(self) -> None:
        self._rest = b""
        self._type, self._data = "", list[str]()

    def take(self, chunk: bytes) -> Iterator[Message]:
        *lines, self._rest = _LINE_END.split(self._rest + chunk)
        if len(self._rest) + sum(map(len, self._data)) > _LONGEST_MESSAGE:
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
    """What was seen of a job's events, over however many connections. No I/O."""

    def __init__(self, job_id: str) -> None:
        self.is_over = False
        self.pause_s = 0.0  # before the next call
        self.outage: ClientError | None = None  # that has just begun
        self._job_id = job_id
        self._messages = Messages()
        self._sequence, self._status = 0, ""
        self._tried = 0

    def call(self) -> ApiRequest:
        self._messages = Messages()
        return requests.events(self._job_id, self._sequence)

    def take(self, chunk: bytes) -> Iterator[Event | Progress]:
        """The events that `chunk` completes, each once."""
        for message in self._messages.take(chunk):
            self._tried = 0
            if message.type == "hello":
                continue
            told = _told(message)
            if isinstance(told, Progress):
                yield told
            elif told.sequence > self._sequence:
                self._sequence, self._status = told.sequence, told.status
                self.is_over = told.status in _FINAL
                yield told

    def refused(self, answer: ApiResponse) -> None:
        if answer.status == 204:  # a resumed watch of a job that has nothing more to tell
            self.is_over = True
        else:
            self.lost(error_of(answer) or unexpected(answer, "is no event stream"))

    def ended(self) -> None:
        """By the server, in good order."""
        if self._status in FINISHED:
            self.is_over = True
        else:
            self.lost(Unreachable(f"the events of job {self._job_id} ended before the job did"))

    def lost(self, error: ClientError) -> None:
        """Raises it, unless the watch is to go on."""
        self._tried += 1
        pause = pause_before_retry(error, tried=self._tried, repeatable=True, draw=random())  # noqa: S311
        if pause is None:
            raise error
        self.pause_s = pause
        self.outage = error if self._tried == 1 else None


def _told(message: Message) -> Event | Progress:
    try:
        document = json.loads(message.data)
        return Progress.read(document) if message.type == "progress" else Event.read(document)
    except (ValueError, RecursionError):
        raise UnexpectedAnswer(f"an event {message.type!r} is not what Euterpe sends") from None
