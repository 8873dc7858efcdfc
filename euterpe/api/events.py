"""GET /transcode/{job_id}/events: a job's events as server-sent events (SSE), each once and in order."""

from functools import partial

from starlette.requests import Request
from starlette.responses import Response

from euterpe.api import parameters
from euterpe.api.service import Service
from euterpe.api.sse import EventPage, EventStream
from euterpe.domain.scopes import Scope

_PAGE = 500  # events, of some KiB each


class EventsEndpoint:
    def __init__(self, service: Service) -> None:
        self._authenticator, self._jobs, self._pool = (
            service.authenticator,
            service.store.jobs,
            service.read_pool,
        )
        self._watcher, self._stream_slots = service.watcher, service.stream_slots

    async def get(self, request: Request) -> Response:
        requester_id = (await self._authenticator.authenticate(request, Scope.READ)).requester_id
        job_id = parameters.job_in_path(request)
        last_sequence = parameters.last_event_id(request)
        read = partial(self._read, job_id, requester_id)
        page = await read(last_sequence)
        if page.is_last and not page.events:
            # A browser's EventSource reconnects after any response but 204.
            return Response(status_code=204)
        slot = partial(self._stream_slots.taken, requester_id)
        return EventStream(job_id, last_sequence, read, slot, partial(self._watcher.watch, [job_id]))

    async def _read(self, job_id: str, requester_id: str, last_sequence: int) -> EventPage:
        return await self._pool.run(partial(self._page, job_id, requester_id, last_sequence), requester_id)

    def _page(self, job_id: str, requester_id: str, last_sequence: int) -> EventPage:
        job = self._jobs.get(job_id, requester_id=requester_id)
        events = self._jobs.events(job_id, after=last_sequence, limit=_PAGE)
        return EventPage(job, events, last_sequence, is_full=len(events) == _PAGE)
