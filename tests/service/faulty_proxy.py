"""An HTTP proxy that loses, doubles, delays and reorders calls, and records the end of each attempt."""

import asyncio
import json
import re
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from random import Random
from typing import Any

_CALL = re.compile(rb"POST /internal/worker/([a-z]+) ")
_RECORDED = ("claim", "complete", "fail", "release")
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_BAD_GATEWAY = b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\n\r\n"
_LOST = (OSError, asyncio.IncompleteReadError)
# A held call is forwarded after this time, even if no other call has overtaken it.
_LONGEST_HOLD_S = 0.5
# Most late or repeated calls arrive within _LATE_S. One in twenty of these calls arrives after the lease
# has expired.
_LATE_S, _VERY_LATE_S = 0.3, 3.5


class Fault(StrEnum):
    REQUEST_LOST = "request_lost"
    ANSWER_LOST = "answer_lost"  # the server executes the call, but the worker gets no answer
    TWICE = "twice"  # the proxy sends the request again, at once or after the answer
    LATE = "late"  # the request or the answer is delayed
    REORDERED = "reordered"  # the next call overtakes this call


RATES = {
    Fault.REQUEST_LOST: 0.05,
    Fault.ANSWER_LOST: 0.10,
    Fault.TWICE: 0.10,
    Fault.LATE: 0.10,
    Fault.REORDERED: 0.05,
}


@dataclass
class ReportedEnd:
    """The first request that reported this end of an attempt, and the answers to all its copies."""

    request: bytes
    answers: list[tuple[int, dict[str, Any]]] = field(default_factory=list)


class FaultyProxy:
    """A proxy in front of `port` on loopback. The proxy runs on an event loop in a separate thread."""

    def __init__(self, port: int, *, seed: int) -> None:
        self._upstream, self._random = port, Random(seed)
        self.faults: Counter[str] = Counter()
        self.ends: dict[tuple[str, str], ReportedEnd] = {}  # the keys are (call, attempt id)
        self.has_faults = True
        # By claim id: for each request, the time of its arrival, and the time of its answer or abort.
        self.claims: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
        self.empty_claims: dict[str, float] = {}  # by claim id: the time of its first answer without jobs
        # The start and the end of each outage of the server, by the wall clock.
        self.outages: list[tuple[float, float]] = []
        self._away_since: float | None = None
        self._calls, self._counted = 0, threading.Condition()
        self._loop = asyncio.new_event_loop()
        self._passed = asyncio.Event()
        self._copies: set[asyncio.Task[Any]] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, name="faulty-proxy")
        self._thread.start()
        self._server = self._run(asyncio.start_server(self._serve, "127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    @property
    def calls(self) -> int:
        return self._calls

    def await_calls(self, count: int, timeout_s: float = 60.0) -> None:
        """Wait until `count` more calls have arrived."""
        with self._counted:
            target = self._calls + count
            arrived = self._counted.wait_for(lambda: self._calls >= target, timeout_s)
        assert arrived, "no worker calls any more"

    def send_again(self, ends: Sequence[ReportedEnd]) -> None:
        """Send the requests of these ends again, and record the answers."""
        self._forward_all([end.request for end in ends])

    def contradict(self, ends: Sequence[ReportedEnd]) -> list[tuple[int, dict[str, Any]]]:
        """Send the opposite report for each end: `fail` for a completed attempt, else `complete`.

        Return the answers without recording them.
        """
        answers = self._forward_all([_opposite(end.request) for end in ends], is_recorded=False)
        return [(int(answer[9:12]), _document(answer)) for answer in answers]

    def _forward_all(self, requests: Sequence[bytes], *, is_recorded: bool = True) -> list[bytes]:
        async def forward() -> list[bytes | None]:
            calls = (self._forward(request, is_recorded=is_recorded) for request in requests)
            return await asyncio.gather(*calls)

        answers = [answer for answer in self._run(forward()) if answer is not None]
        assert len(answers) == len(requests)
        return answers

    def close(self) -> None:
        self._run(self._abort())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    async def _abort(self) -> None:
        self._server.close()
        running = asyncio.all_tasks() - {asyncio.current_task()}
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(*_LOST):
                answer: bytes | None = b""
                while answer is not None:
                    request, arrived_at = await _message(reader), time.time()
                    answer = await self._answer_to(request, reader)
                    if _name_of(request) == "claim":
                        self.claims[_document(request)["claim_id"]].append((arrived_at, time.time()))
                    if answer is not None:
                        writer.write(answer)
                        await writer.drain()
        except asyncio.CancelledError:
            pass  # asyncio would log this error, because the stream protocol does not await the task
        finally:
            writer.close()

    async def _answer_to(self, request: bytes, reader: asyncio.StreamReader) -> bytes | None:
        """Return the answer, or None if the proxy must close the connection without an answer."""
        with self._counted:
            self._calls += 1
            self._counted.notify_all()
        call = self._background(self._call(request))
        # The client sends nothing before the answer, so this read ends only if the client hangs up.
        hung_up = asyncio.ensure_future(reader.read(1))
        await asyncio.wait({call, hung_up}, return_when=asyncio.FIRST_COMPLETED)
        if call.done():
            hung_up.cancel()
            await asyncio.wait({hung_up})
            return call.result()
        if self._random.random() < 0.5:  # some real proxies notice a disconnect, and others do not
            call.cancel()
        return None

    def _background(self, coroutine: Any) -> "asyncio.Task[bytes | None]":
        task = self._loop.create_task(coroutine)
        self._copies.add(task)
        task.add_done_callback(self._copies.discard)
        return task

    async def _call(self, request: bytes) -> bytes | None:
        fault = self._draw()
        if fault is Fault.REQUEST_LOST:
            return None
        is_answer_late = self._random.random() < 0.5
        if fault is Fault.TWICE and not is_answer_late:
            self._background(self._forward(request))
        elif fault is Fault.REORDERED:
            self._passed.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._passed.wait(), _LONGEST_HOLD_S)
        elif fault is Fault.LATE and not is_answer_late:
            await asyncio.sleep(self._delay_s())
        answer = await self._forward(request)
        if fault is Fault.LATE and is_answer_late:
            await asyncio.sleep(self._delay_s())
        if fault is Fault.TWICE and is_answer_late:
            self._background(self._repeat(request, self._delay_s()))
        return None if fault is Fault.ANSWER_LOST else answer

    def _draw(self) -> Fault | None:
        drawn = self._random.random() if self.has_faults else 1.0
        for fault, rate in RATES.items():
            drawn -= rate
            if drawn < 0:
                self.faults[fault] += 1
                return fault
        return None

    def _delay_s(self) -> float:
        is_very_late = self._random.random() < 0.05
        return self._random.random() * _LATE_S + (_VERY_LATE_S if is_very_late else 0.0)

    async def _repeat(self, request: bytes, delay_s: float) -> None:
        await asyncio.sleep(delay_s)
        await self._forward(request)

    async def _forward(self, request: bytes, *, is_recorded: bool = True) -> bytes | None:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self._upstream)
        except OSError:
            self.faults["server_away"] += 1
            self._away_since = self._away_since or time.time()
            return _BAD_GATEWAY if self._random.random() < 0.5 else None
        try:
            writer.write(request)
            answer = await _message(reader)
        except _LOST:
            return None  # the server was killed
        finally:
            writer.close()
        self._passed.set()
        if self._away_since is not None:
            self.outages.append((self._away_since, time.time()))
            self._away_since = None
        if is_recorded:
            self._record(request, answer)
        return answer

    def _record(self, request: bytes, answer: bytes) -> None:
        """Record the answer to an end or to a claim, even if it will not reach the worker.

        Do not record an answer with a status of 500 or more.
        """
        name, status = _name_of(request), int(answer[9:12])
        if name not in _RECORDED or status >= 500:
            return
        values, document = _document(request), _document(answer)
        if name == "claim":
            if document.get("claimed") is False:
                self.empty_claims.setdefault(values["claim_id"], time.time())
        elif "attempt_id" in values:
            end = self.ends.setdefault((name, values["attempt_id"]), ReportedEnd(request))
            end.answers.append((status, document))


def _opposite(request: bytes) -> bytes:
    """Return the request that fails an attempt that was completed, or completes one that has failed."""
    head = request.partition(b"\r\n\r\n")[0]
    other = b"fail" if b"/complete " in head else b"complete"
    error = {"code": "internal_error", "message": "the opposite", "retryable": True}
    content = json.dumps({**_document(request), "error": error, "result": {}}).encode()
    head = re.sub(rb"/(complete|fail|release) ", b"/%s " % other, head, count=1)
    head = _LENGTH.sub(b"\r\ncontent-length: %d" % len(content), head)
    return head + b"\r\n\r\n" + content


def _name_of(request: bytes) -> str:
    found = _CALL.match(request)
    return "" if found is None else found[1].decode()


def _document(message: bytes) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(message.partition(b"\r\n\r\n")[2])
    return document


async def _message(reader: asyncio.StreamReader) -> bytes:
    """Return the head and the body of the next request or answer."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = _LENGTH.search(head)
    return head + (await reader.readexactly(int(length[1])) if length else b"")
