"""GET /transcode/{job_id}/events: stream a job's events as server-sent events (SSE), each once, in order."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Send
from starlette.types import Scope as ConnectionScope

from euterpe.api import parameters
from euterpe.api.disconnect import run_until, while_connected
from euterpe.api.json_body import encoded
from euterpe.api.problems import Refused
from euterpe.api.service import DEFAULT_TIMINGS, ApiTimings, Service
from euterpe.api.watcher import Watch
from euterpe.domain.documents import ProgressDocument, members
from euterpe.domain.events import event_type
from euterpe.domain.rows import EventRow, JobRow
from euterpe.domain.scopes import Scope
from euterpe.domain.states import FINISHED, IN_PROGRESS
from euterpe.store.errors import StoreUnavailable, Unauthorized

BEAT = b": beat\n\n"

_PAGE = 500  # the number of events in one read; an event has some KiB
_TERMINAL = frozenset(map(event_type, FINISHED))


@dataclass(frozen=True)
class EventPage:
    """A job and its events after `last_sequence`.

    The job is read before the events, so an event can be newer than the job's row.
    """

    job: JobRow
    events: Sequence[EventRow]
    last_sequence: int
    is_full: bool = False  # there may be more events in the database

    @property
    def next_sequence(self) -> int:
        return self.events[-1].sequence if self.events else self.last_sequence

    @property
    def is_last(self) -> bool:
        """Return whether the stream ends after this page.

        A `failed` event ends the stream only if it is the last event of the page, because a `dead_letter`
        event of the same transaction can follow it.
        """
        if self.events:
            return not self.is_full and self.events[-1].type in _TERMINAL
        return self.job.status in FINISHED and self.job.event_sequence <= self.last_sequence

    @property
    def figures(self) -> tuple[float | None, ...] | None:
        """Return the progress figures.

        Return None if all figures are empty or 0, if the job is not in progress, or if the job has an event
        after this page.
        """
        if self.job.status not in IN_PROGRESS or self.job.event_sequence != self.next_sequence:
            return None
        figures = (self.job.progress, self.job.eta_seconds, self.job.speed)
        return figures if any(figures) else None

    def progress(self) -> bytes:
        job = self.job
        document = ProgressDocument(
            job_id=job.job_id,
            status=job.status,
            progress=job.progress,
            eta_seconds=job.eta_seconds,
            speed=job.speed,
        )
        return frame("progress", encoded(members(document)))

    def frames(self) -> bytes:
        return b"".join(
            b"id: %d\n" % event.sequence + frame(event.type, event.payload.encode()) for event in self.events
        )


def hello_frame(job_id: str) -> bytes:
    return frame("hello", encoded({"job_id": job_id}))


def frame(name: str, data: bytes) -> bytes:
    """Return one SSE frame. `data` must be JSON without line breaks, because a line break ends the field."""
    return b"event: %b\ndata: %b\n\n" % (name.encode(), data)


class EventStream(Response):
    """An SSE response with a job's events and progress.

    The stream ends after the last event, after `stream_s` seconds, or when the service stops.
    """

    media_type = "text/event-stream"

    def __init__(
        self,
        job_id: str,
        last_sequence: int,
        read: Callable[[int], Awaitable[EventPage]],
        slot: Callable[[], AbstractContextManager[None]],
        watch: Callable[[], AbstractContextManager[Watch]],
        *,
        timings: ApiTimings = DEFAULT_TIMINGS,
    ) -> None:
        self.status_code = 200
        self.init_headers({"cache-control": "no-cache, no-transform", "x-accel-buffering": "no"})
        self._job_id, self._last_sequence, self._read = job_id, last_sequence, read
        self._slot, self._watch, self._timings = slot, watch, timings
        self._figures: tuple[float | None, ...] | None = None

    async def __call__(self, scope: ConnectionScope, receive: Receive, send: Send) -> None:
        del scope
        with self._slot(), self._watch() as watch:
            await while_connected(self._send_events(send, watch), receive)

    async def _send_events(self, send: Send, watch: Watch) -> None:
        loop = asyncio.get_running_loop()
        end_at = loop.time() + self._timings.stream_s
        push = partial(_push, send, watch, timeout_s=self._timings.stream_send_s)
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        await push(hello_frame(self._job_id))
        while not watch.ended and loop.time() < end_at:
            try:
                page = await self._page()
            except (Unauthorized, Refused):
                break  # the key was revoked, or has lost its scope
            if page is not None:
                if fresh := self._new_frames(page):
                    await push(fresh)
                if page.is_last:
                    break
                if page.is_full:
                    continue
            pause_s = self._timings.stream_retry_s if page is None else self._timings.stream_beat_s
            if not await watch.changed(pause_s):
                await push(BEAT)
        await push(b"", more=False)

    async def _page(self) -> EventPage | None:
        try:
            return await self._read(self._last_sequence)
        except StoreUnavailable:
            return None  # the stream continues, and the read is repeated later

    def _new_frames(self, page: EventPage) -> bytes:
        self._last_sequence = page.next_sequence
        figures = page.figures
        if figures is None or figures == self._figures:
            return page.frames()
        self._figures = figures
        return page.frames() + page.progress()


async def _push(send: Send, watch: Watch, frames: bytes, *, timeout_s: float, more: bool = True) -> None:
    """Send the frames. Raise ClientDisconnect if the client is too slow or if the service stops."""
    sending = send({"type": "http.response.body", "body": frames, "more_body": more})
    try:
        async with asyncio.timeout(timeout_s):
            await run_until(watch.over(), sending)
    except TimeoutError:
        raise ClientDisconnect from None


class EventsEndpoint:
    def __init__(self, service: Service) -> None:
        self._authenticator, self._jobs, self._pool = (
            service.authenticator,
            service.store.jobs,
            service.read_pool,
        )
        self._watcher, self._stream_slots = service.watcher, service.stream_slots
        self._timings = service.timings

    async def get(self, request: Request) -> Response:
        requester_id = (await self._authenticator.authenticate(request, Scope.READ)).requester_id
        job_id = parameters.job_in_path(request)
        last_sequence = parameters.last_event_id(request)
        read = partial(self._read, request, job_id)
        page = await self._read(request, job_id, last_sequence)
        if page.is_last and not page.events:
            # The EventSource of a browser reconnects after any response except 204.
            return Response(status_code=204)
        slot = partial(self._stream_slots.taken, requester_id)
        watch = partial(self._watcher.watch, [job_id])
        return EventStream(job_id, last_sequence, read, slot, watch, timings=self._timings)

    async def _read(self, request: Request, job_id: str, last_sequence: int) -> EventPage:
        """Return the next page. Raise if the key is not valid any more, which can happen during a stream."""
        requester_id = (await self._authenticator.authenticate(request, Scope.READ)).requester_id
        return await self._pool.run(partial(self._page, job_id, requester_id, last_sequence), requester_id)

    def _page(self, job_id: str, requester_id: str, last_sequence: int) -> EventPage:
        job = self._jobs.get(job_id, requester_id=requester_id)
        events = self._jobs.events(job_id, after=last_sequence, limit=_PAGE)
        return EventPage(job, events, last_sequence, is_full=len(events) == _PAGE)
