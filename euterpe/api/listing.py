"""GET /transcode/jobs: a requester's own jobs, newest first, page by page."""

from functools import partial

from starlette.requests import Request
from starlette.responses import Response

from euterpe.api import parameters
from euterpe.api.answers import json_answer
from euterpe.api.service import Service
from euterpe.domain.scopes import Scope
from euterpe.domain.status import status_document


class Listing:
    def __init__(self, service: Service) -> None:
        self._door, self._jobs, self._calls = service.door, service.store.jobs, service.calls

    async def get(self, request: Request) -> Response:
        principal = await self._door.admit(request, Scope.READ)
        limit = parameters.whole_number(request, "limit", parameters.DEFAULT_PAGE, 1, parameters.MAX_PAGE)
        page = partial(
            self._jobs.page,
            statuses=parameters.statuses(request),
            requester_id=principal.requester_id,
            before=parameters.cursor(request),
            limit=limit + 1,  # one more tells whether there is another page
        )
        rows = await self._calls.run(page, principal.requester_id)
        shown, more = rows[:limit], len(rows) > limit
        return json_answer(
            {
                "jobs": [status_document(row) for row in shown],
                "next_cursor": parameters.cursor_after(shown[-1]["job_id"]) if more else None,
            }
        )
