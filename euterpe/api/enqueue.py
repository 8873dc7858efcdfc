"""POST /transcode: a job is accepted once it is durable, and not a moment before."""

import asyncio
from functools import partial

from starlette.requests import Request
from starlette.responses import Response

from euterpe.api.answers import json_answer
from euterpe.api.body import read_json_bytes
from euterpe.api.callbacks import callback_problems
from euterpe.api.exchange import exchange_of
from euterpe.api.problems import Refused
from euterpe.api.service import Service
from euterpe.domain.canonical import request_hash
from euterpe.domain.errors import InvalidSpec
from euterpe.domain.scopes import Scope
from euterpe.domain.spec import JobSpec, parse_spec_json
from euterpe.store.enqueue import Accepted
from euterpe.store.errors import IdempotencyConflict
from euterpe.store.requesters import Principal

# A usual request is read sooner than a thread is woken for it; a long one would keep the others waiting.
_READ_AT_ONCE = 8_192


class Enqueueing:
    def __init__(self, service: Service) -> None:
        self._store, self._door = service.store, service.door
        self._policy, self._egress = service.policy, service.egress
        self._backpressure, self._calls = service.backpressure, service.calls
        self._max_body_bytes, self._limits = service.limits.max_body_bytes, service.limits.of_a_job

    async def post(self, request: Request) -> Response:
        principal = await self._door.admit(request, Scope.WRITE)
        body = await read_json_bytes(request, self._max_body_bytes)
        read = partial(self._read, body)
        spec = read() if len(body) <= _READ_AT_ONCE else await self._calls.run(read, principal.requester_id)
        accepted = await self._accept(spec, principal, request.headers.get("idempotency-key"))
        exchange_of(request).about.update(job_id=accepted.job_id, replayed=accepted.replayed)
        headers = {"location": f"/transcode/status?job_id={accepted.job_id}"}
        if accepted.replayed:
            headers["idempotent-replayed"] = "true"
        return json_answer(accepted.response, 202, headers)

    def _read(self, body: bytes) -> JobSpec:
        spec = parse_spec_json(body, self._max_body_bytes)
        if problems := (*self._policy.problems(spec), *callback_problems(spec, self._egress)):
            raise InvalidSpec(problems)
        return spec

    async def _accept(self, spec: JobSpec, principal: Principal, key: str | None) -> Accepted:
        requester_id, limits = principal.requester_id, principal.limits.tightest(self._limits)
        try:
            limits.check(spec)
            async with self._backpressure.place(requester_id) as place:
                committed = self._store.submit(spec, requester_id, idempotency_key=key, limits=limits)
                accepted = await asyncio.wrap_future(committed)
                place.used = not accepted.replayed
        except (Refused, InvalidSpec):
            # A request that was accepted before keeps its answer, whatever the limits are now.
            stored = None if key is None else await self._stored_answer(spec, requester_id, key)
            if stored is None:
                raise
            return stored
        return accepted

    async def _stored_answer(self, spec: JobSpec, requester_id: str, key: str) -> Accepted | None:
        """A retry needs no place: its job has one."""
        ask = self._store.enqueue.stored_answer
        answer = await self._calls.run(partial(ask, requester_id, key, request_hash(spec)), requester_id)
        if isinstance(answer, IdempotencyConflict):
            raise answer
        return answer
