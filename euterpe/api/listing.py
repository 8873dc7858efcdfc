"""GET /transcode/jobs: pages of a requester's jobs, newest first. GET /transcode/profiles: all profiles."""

from functools import partial

from starlette.requests import Request
from starlette.responses import Response

from euterpe.api import parameters
from euterpe.api.json_body import json_response
from euterpe.api.service import Service
from euterpe.domain.scopes import Scope
from euterpe.domain.status import status_document


class JobsEndpoint:
    def __init__(self, service: Service) -> None:
        self._authenticator, self._jobs, self._pool = (
            service.authenticator,
            service.store.jobs,
            service.read_pool,
        )

    async def get(self, request: Request) -> Response:
        principal = await self._authenticator.authenticate(request, Scope.READ)
        limit = parameters.whole_number(request, "limit", parameters.DEFAULT_PAGE, 1, parameters.MAX_PAGE)
        page = partial(
            self._jobs.page,
            statuses=parameters.statuses(request),
            requester_id=principal.requester_id,
            before=parameters.cursor(request),
            limit=limit + 1,  # one extra row shows whether there is another page
        )
        rows = await self._pool.run(page, principal.requester_id)
        shown, more = rows[:limit], len(rows) > limit
        return json_response(
            {
                "jobs": [status_document(row) for row in shown],
                "next_cursor": parameters.cursor_after(shown[-1].job_id) if more else None,
            }
        )


class ProfilesEndpoint:
    def __init__(self, service: Service) -> None:
        self._authenticator = service.authenticator
        self._document = {"profiles": [profile.document() for profile in service.profiles.values()]}

    async def get(self, request: Request) -> Response:
        await self._authenticator.authenticate(request, Scope.READ)
        return json_response(self._document)
