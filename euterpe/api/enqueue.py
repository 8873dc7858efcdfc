"""POST /transcode: validate a job, enqueue it, and answer after the commit.

A dry run answers with its plan.
"""

import asyncio
from collections.abc import Iterator
from functools import partial
from ipaddress import ip_address

from starlette.requests import Request
from starlette.responses import Response

from euterpe.api import parameters
from euterpe.api.dry_run import DryRunEndpoint
from euterpe.api.json_body import json_response, read_json_bytes
from euterpe.api.middleware import context_of
from euterpe.api.problems import Refused
from euterpe.api.service import Service
from euterpe.crypto.errors import KeyProviderUnavailable
from euterpe.domain.canonical import may_have_secrets, request_hash
from euterpe.domain.errors import FieldError, InvalidSpec
from euterpe.domain.job_limits import JobLimits
from euterpe.domain.scopes import Scope
from euterpe.domain.spec import JobSpec, parse_spec_json
from euterpe.domain.storage_profiles import with_stored_credentials
from euterpe.domain.text import check_text
from euterpe.net.errors import EgressRefused
from euterpe.net.policy import EgressPolicy
from euterpe.net.target import Target
from euterpe.store.errors import IdempotencyConflict
from euterpe.store.queue.enqueue import Accepted, NewJob
from euterpe.store.secrets.requesters import Principal

# Parsing a usual body takes less time than waking a thread, but a long body would block the event loop.
_INLINE_BYTES = 8_192


class EnqueueEndpoint:
    def __init__(self, service: Service) -> None:
        self._store, self._authenticator = service.store, service.authenticator
        self._policy, self._egress = service.policy, service.egress
        self._profiles, self._storage_profiles = service.profiles, service.storage_profiles
        self._backpressure, self._pool = service.backpressure, service.read_pool
        self._body_s = service.timings.body_s
        self._sealing_pool = service.sealing_pool
        self._dry_run = DryRunEndpoint(service)
        self._max_body_bytes, self._limits = service.limits.max_body_bytes, service.limits.job

    async def post(self, request: Request) -> Response:
        principal = await self._authenticator.authenticate(request, Scope.WRITE)
        parameters.check_names(request, "dry_run")
        is_dry_run = parameters.flag(request, "dry_run")
        body = await read_json_bytes(request, self._max_body_bytes, self._body_s)
        parse = partial(self._parse, body, principal)
        spec = parse() if len(body) <= _INLINE_BYTES else await self._pool.run(parse, principal.requester_id)
        key = request.headers.get("idempotency-key")
        if is_dry_run:
            # A dry run does not use the idempotency key, but the later submission needs a valid key.
            if key is not None:
                check_text("idempotency_key", key, "idempotency_key")
            principal.limits.min_with(self._limits).check(spec)
            return await self._dry_run.answer(spec, principal.requester_id)
        accepted = await self._accept(spec, principal, key)
        context_of(request).about.update(job_id=accepted.job_id, replayed=accepted.replayed)
        headers = {"location": f"/transcode/status?job_id={accepted.job_id}"}
        if accepted.replayed:
            headers["idempotent-replayed"] = "true"
        return json_response(accepted.response, 202, headers)

    def _parse(self, body: bytes, principal: Principal) -> JobSpec:
        spec = parse_spec_json(body, self._max_body_bytes, self._profiles)
        spec = with_stored_credentials(spec, principal.name, self._storage_profiles)
        if problems := (*self._policy.problems(spec), *callback_problems(spec, self._egress)):
            raise InvalidSpec(problems)
        return spec

    async def _accept(self, spec: JobSpec, principal: Principal, key: str | None) -> Accepted:
        requester_id, limits = principal.requester_id, principal.limits.min_with(self._limits)
        try:
            limits.check(spec)
            async with self._backpressure.place(requester_id) as place:
                job = await self._new_job(spec, requester_id, key, limits)
                accepted = await asyncio.wrap_future(self._store.commits.submit(job))
                place.used = not accepted.replayed
        except (Refused, InvalidSpec, KeyProviderUnavailable):
            # If an earlier request with this key was accepted, repeat its answer, even if a limit or an
            # unavailable key provider would refuse the request now.
            stored = None if key is None else await self._stored_answer(spec, requester_id, key)
            if stored is None:
                raise
            return stored
        return accepted

    async def _new_job(self, spec: JobSpec, requester_id: str, key: str | None, limits: JobLimits) -> NewJob:
        """Return the job with its secrets sealed. Seal in a thread, because a key provider can be remote."""
        make = partial(self._store.new_job, spec, requester_id, idempotency_key=key, limits=limits)
        return await self._sealing_pool.run(make, requester_id) if may_have_secrets(spec) else make()

    async def _stored_answer(self, spec: JobSpec, requester_id: str, key: str) -> Accepted | None:
        """Return the answer to an earlier request with this key, or None. Reserve no place in the quota.

        Raise IdempotencyConflict if the earlier request was different.
        """
        ask = self._store.enqueue.stored_answer
        answer = await self._pool.run(partial(ask, requester_id, key, request_hash(spec)), requester_id)
        if isinstance(answer, IdempotencyConflict):
            raise answer
        return answer


def callback_problems(spec: JobSpec, egress: EgressPolicy) -> Iterator[FieldError]:
    """Yield an error for each callback URL that the egress policy refuses, without resolving names."""
    for field in ("refresh_url", "status_webhook_url"):
        url: str | None = getattr(spec, field)
        if url is None:
            continue
        try:
            _check(url, egress)
        except EgressRefused as refused:
            yield FieldError((field,), str(refused).removeprefix(f"{refused.where}: "))


def _check(url: str, egress: EgressPolicy) -> None:
    target = Target.parse(url)
    try:
        address = ip_address(target.host)
    except ValueError:
        return
    egress.check(target.host, address, target.port)
