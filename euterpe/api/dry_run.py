"""POST /transcode?dry_run=true: answer with the plan of a job, and store nothing."""

from functools import partial

import structlog
from starlette.responses import Response

from euterpe.api.json_body import json_response
from euterpe.api.problems import ProblemCode, Refused
from euterpe.api.service import Service
from euterpe.domain.error_codes import ErrorCode, Fault
from euterpe.domain.errors import EuterpeError
from euterpe.domain.spec import JobSpec

_log = structlog.get_logger(__name__)
_RETRY_S = 2


class DryRunEndpoint:
    def __init__(self, service: Service) -> None:
        self._dry_run, self._pool = service.dry_run, service.dry_run_pool
        self._busy: set[str] = set()  # the requesters with a dry run under way

    async def answer(self, spec: JobSpec, requester_id: str) -> Response:
        """Answer with the plan. Raise `Refused` with the error that the job would fail with."""
        if self._dry_run is None:
            raise _unavailable()
        # A dry run occupies one of two threads for up to 30 s, and at most 32 dry runs may be under way. So
        # each requester may have only one dry run under way.
        if requester_id in self._busy:
            code = ProblemCode.TOO_MANY_DRY_RUNS
            raise Refused(code, code.summary, retry_after_s=_RETRY_S)
        self._busy.add(requester_id)
        try:
            return json_response(await self._pool.run(partial(self._dry_run.plan, spec), requester_id))
        except OSError as error:
            _log.error("dry_run_unavailable", exc_info=error)
            raise _unavailable() from None
        except EuterpeError as error:
            if not isinstance(error.code, ErrorCode):
                raise
            if error.code.fault is Fault.WORKER:
                _log.error("dry_run_unavailable", exc_info=error)
                raise _unavailable() from None
            raise Refused(ProblemCode.DRY_RUN_FAILED, f"{error.code}: {error}") from None
        finally:
            self._busy.discard(requester_id)


def _unavailable() -> Refused:
    code = ProblemCode.DRY_RUN_UNAVAILABLE
    return Refused(code, code.public_detail)
