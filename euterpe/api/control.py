"""The endpoints that change a job: they cancel it, retry it or replace its credentials."""

from collections.abc import Callable
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from euterpe.api import parameters
from euterpe.api.json_body import json_response, read_json_bytes
from euterpe.api.service import Service
from euterpe.domain.canonical import join_secrets
from euterpe.domain.errors import InvalidSpec
from euterpe.domain.replacement import new_secret
from euterpe.domain.scopes import Scope
from euterpe.domain.status import status_document
from euterpe.domain.strict_json import parse_json


class ControlEndpoints:
    def __init__(self, service: Service) -> None:
        self._authenticator, self._store, self._policy = service.authenticator, service.store, service.policy
        self._pool, self._sealing_pool = service.write_pool, service.sealing_pool
        self._body_s = service.timings.body_s
        self._max_body_bytes = service.limits.max_body_bytes

    async def cancel(self, request: Request) -> Response:
        return await self._change(request, self._store.control.cancel)

    async def retry(self, request: Request) -> Response:
        return await self._change(request, self._store.control.retry)

    async def put_credentials(self, request: Request) -> Response:
        principal = await self._authenticator.authenticate(request, Scope.WRITE)
        job_id = parameters.job_in_path(request)
        body = await read_json_bytes(request, self._max_body_bytes, self._body_s)
        requester_id = principal.requester_id
        replace = partial(self._replace, job_id, requester_id, body)
        version = await self._sealing_pool.run(replace, requester_id)
        return json_response({"credential_version": version})

    async def _change(self, request: Request, change: Callable[..., object]) -> Response:
        """Apply the change, and return the status of the job after the change."""
        requester_id = (await self._authenticator.authenticate(request, Scope.WRITE)).requester_id
        job_id = parameters.job_in_path(request)

        def changed() -> dict[str, Any]:
            change(job_id, requester_id=requester_id)
            return status_document(self._store.jobs.get(job_id, requester_id=requester_id))

        return json_response(await self._pool.run(changed, requester_id), 202)

    def _replace(self, job_id: str, requester_id: str, body: bytes) -> int:
        job = self._store.jobs.get(job_id, requester_id=requester_id)
        secret = new_secret(dict(job.spec), parse_json(body, self._max_body_bytes))
        if problems := self._policy.problems(join_secrets(dict(job.spec), secret)):
            raise InvalidSpec(problems)
        return self._store.credentials.replace(job_id, requester_id, secret)
