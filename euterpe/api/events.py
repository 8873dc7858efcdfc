"""GET /transcode/{job_id}/events: a job's events as they happen, each once and in order."""

from functools import partial

from starlette.requests import Request
from starlette.responses import Response

from euterpe.api import parameters
from euterpe.api.news import News
from euterpe.api.service import Service
from euterpe.api.stream import EventStream
from euterpe.domain.scopes import Scope

_PAGE = 500  # events, of some KiB each


class Events:
    def __init__(self, service: Service) -> None:
        self._door, self._jobs, self._calls = service.door, service.store.jobs, service.calls
        self._watcher, self._seats = service.watcher, service.seats

    async def get(self, request: Request) -> Response:
        requester_id = (await self._door.admit(request, Scope.READ)).requester_id
        job_id = parameters.job_in_path(request)
        told = parameters.last_event_id(request)
        read = partial(self._read, job_id, requester_id)
        news = await read(told)
        if news.is_last and not news.events:
            # After any other end, a browser's EventSource comes back.
            return Response(status_code=204)
        seat = partial(self._seats.taken, requester_id)
        return EventStream(job_id, told, read, seat, partial(self._watcher.watch, [job_id]))

    async def _read(self, job_id: str, requester_id: str, told: int) -> News:
        return await self._calls.run(partial(self._news, job_id, requester_id, told), requester_id)

    def _news(self, job_id: str, requester_id: str, told: int) -> News:
        job = self._jobs.get(job_id, requester_id=requester_id)
        events = self._jobs.events(job_id, after=told, limit=_PAGE)
        return News(job, events, told, is_full=len(events) == _PAGE)
