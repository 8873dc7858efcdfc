"""The common part of all calls of remote workers: key, body, lease token, headers and refusals."""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from euterpe.api.json_body import json_response, read_json_bytes
from euterpe.api.middleware import context_of
from euterpe.api.problems import ProblemCode, Refused, answer_known_error, problem
from euterpe.api.service import Service
from euterpe.api.worker.fields import RequestFields
from euterpe.client.worker_calls import PROTOCOL
from euterpe.control.lease_tokens import InvalidLeaseToken
from euterpe.control.reported_attempts import AttemptRefused, LeaseProof
from euterpe.domain.errors import EuterpeError
from euterpe.domain.leased_job import Unavailable
from euterpe.domain.scopes import Scope
from euterpe.store.errors import StoreUnavailable
from euterpe.store.queue.attempt_answers import ReportRefusal

# A body of this size has room for a result of 256 KiB with its lease and a stack trace, or for the heartbeats
# of 1,000 leases.
MAX_BODY = 512 * 1024
LONGEST_TOKEN = 1_024
_RETRY_S = 2
_CODES: Mapping[ReportRefusal, ProblemCode] = {
    ReportRefusal.ATTEMPT_ENDED: ProblemCode.ATTEMPT_ENDED,
    ReportRefusal.LEASE_LOST: ProblemCode.LEASE_LOST,
    ReportRefusal.UNKNOWN_JOB: ProblemCode.NOT_FOUND,
    ReportRefusal.PRUNED: ProblemCode.PRUNED,
}
Answer = Mapping[str, Any]


class WorkerCall:
    """A request of a worker: the owner of the API key, and the fields of the body."""

    def __init__(
        self,
        request: Request,
        requester_id: str,
        fields: RequestFields,
        require_key: Callable[[], Awaitable[object]],
    ) -> None:
        self.request, self.requester_id, self.fields = request, requester_id, fields
        self.worker_id = fields.text("worker_id")
        # Raise if the key is not valid any more. A call that has waited must check the key before it answers.
        self.require_key = require_key

    def proof(self, *, has_attempt: bool = True) -> LeaseProof:
        """Return the lease that the request names. The caller must call `fields.check` afterwards."""
        return proof_of(self.fields, self.requester_id, has_attempt=has_attempt)


def proof_of(fields: RequestFields, requester_id: str, *, has_attempt: bool) -> LeaseProof:
    return LeaseProof(
        requester_id,
        fields.text("job_id"),
        fields.text("lease_token", longest=LONGEST_TOKEN),
        fields.text("attempt_id") if has_attempt else fields.optional_text("attempt_id"),
    )


def worker_endpoint(
    service: Service, handle: Callable[[WorkerCall], Awaitable[Answer]]
) -> Callable[[Request], Awaitable[Response]]:
    """Return an endpoint that reads a call and answers with the document of `handle` or with an error."""

    async def post(request: Request) -> Response:
        try:
            authenticate = partial(service.authenticator.authenticate, request, Scope.WORKER)
            principal = await authenticate()
            body = await read_json_bytes(request, MAX_BODY, service.timings.body_s)
            fields = RequestFields.parse(body, MAX_BODY)
            call = WorkerCall(request, principal.requester_id, fields, authenticate)
            response = json_response(await handle(call))
        except EuterpeError as error:
            response = await _refusal(request, error)
        response.headers["euterpe-protocol"] = str(PROTOCOL)
        return response

    return post


async def _refusal(request: Request, error: EuterpeError) -> Response:
    match error:
        case InvalidLeaseToken():
            return problem(ProblemCode.INVALID_LEASE_TOKEN, str(error), members={"ok": False, "ack": False})
        case AttemptRefused():
            context_of(request).about["code"] = error.code
            members: dict[str, object] = {"ok": False, "ack": True}
            if error.outcome is not None and error.reason is ReportRefusal.ATTEMPT_ENDED:
                members["outcome"] = error.outcome
            return problem(_CODES[error.reason], str(error), members=members)
        case Unavailable() if not isinstance(error, StoreUnavailable):
            refused = Refused(ProblemCode.OVERLOADED, str(error), retry_after_s=_RETRY_S)
            return await answer_known_error(request, refused)
    return await answer_known_error(request, error)


def refusal_code(error: EuterpeError) -> str:
    """Return the error code of a refused lease, for the answer to a heartbeat of several leases."""
    return _CODES[error.reason].value if isinstance(error, AttemptRefused) else error.code
