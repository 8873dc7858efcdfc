"""POST /v1/jobs, GET /v1/jobs/{id} and POST /v1/jobs/{id}/cancel."""

import asyncio
import json
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar
from uuid import uuid4

from pydantic import BaseModel, Field, ValidationError
from redis.exceptions import ConnectionError as RedisConnectionError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from euterpe.bridges.stream_jobs import MOST_PAYLOAD_BYTES, job_document, job_key, parsed_json
from euterpe.bridges.stream_scripts import Created, NewStreamJob
from euterpe.domain.scopes import Scope
from euterpe.gateway.problems import GatewayRefusal, not_found
from euterpe.gateway.service import Gateway, job_in_path

_MOST_BODY_BYTES = MOST_PAYLOAD_BYTES + 16 * 1024  # room for blanks and for the other fields
_MOST_REASON_BYTES = 16 * 1024
_MOST_TTL_S = 30 * 86_400
_IDEMPOTENCY_KEY = re.compile(r"[\x21-\x7e]{1,255}")
Model = TypeVar("Model", bound=BaseModel)
_CLOSE = {"connection": "close"}  # the rest of the body is not read


class CreateJob(BaseModel):
    """The body of POST /v1/jobs. Unknown fields are ignored."""

    task: Literal["chat", "plan", "code", "tool", "rag", "embed"]
    payload: dict[str, Any]
    ttl_s: Annotated[int, Field(le=_MOST_TTL_S)] | None = None


class CancelJob(BaseModel):
    """The optional body of a cancellation."""

    reason: dict[str, Any] | None = None


class StreamJobsEndpoint:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def post(self, request: Request) -> Response:
        requester_id = await self._gateway.authenticate(request, Scope.WRITE)
        body = await _read(request, _MOST_BODY_BYTES, self._gateway.limits.body_s)
        wanted = _parse(CreateJob, body)
        job = NewStreamJob(
            job_id=str(uuid4()),
            task=wanted.task,
            payload=_payload_text(wanted.payload),
            # The gateway of the contract treats a TTL of 0 or less like a missing TTL.
            ttl_s=max(wanted.ttl_s or 0, 0) or self._gateway.limits.ttl_s,
            idempotency=_idempotency_of(request, requester_id),
            requester_id=requester_id,
        )
        created = await self._create(job)
        if created.job_id is None:
            raise self._backpressure(created)
        known = {"idempotent": True} if created.is_known else {}
        return JSONResponse({"job_id": created.job_id, **known})

    async def get(self, request: Request) -> Response:
        requester_id = await self._gateway.authenticate(request, Scope.READ)
        job_id = job_in_path(request)
        fields: Mapping[Any, Any] = await self._gateway.redis.hgetall(job_key(job_id))
        if not fields or (requester_id and fields.get("requester_id") != requester_id):
            raise not_found(job_id)
        # Unlike `JSONResponse`, this escapes surrogates, which a worker's result may contain.
        return Response(json.dumps(job_document(fields)), media_type="application/json")

    async def cancel(self, request: Request) -> Response:
        requester_id = await self._gateway.authenticate(request, Scope.WRITE)
        job_id = job_in_path(request)
        body = await _read(request, _MOST_REASON_BYTES, self._gateway.limits.body_s)
        reason = (_parse(CancelJob, body).reason or {}) if body.strip() else {}
        error = _json_text({"code": "canceled", "message": "canceled", "reason": reason}, "reason")
        status, changed = await self._gateway.scripts.cancel(job_id, error, error, requester_id)
        if status == "missing":
            raise not_found(job_id)
        return JSONResponse({"job_id": job_id, "status": status, "updated": changed})

    async def health(self, _: Request) -> Response:
        await self._gateway.redis.ping()
        return JSONResponse({"ok": True})

    async def _create(self, job: NewStreamJob) -> Created:
        """Create a job. If the connection breaks, repeat the call once.

        The repetition is safe, because both calls have the same job id.
        """
        limits = self._gateway.limits
        most, most_of_requester = limits.max_backlog, limits.share_of(limits.max_backlog)
        try:
            return await self._gateway.scripts.create(job, most, most_of_requester)
        except RedisConnectionError:
            return await self._gateway.scripts.create(job, most, most_of_requester)

    def _backpressure(self, created: Created) -> GatewayRefusal:
        limits = self._gateway.limits
        if created.of_requester:
            details = {"backlog": created.of_requester, "max": limits.share_of(limits.max_backlog)}
            says = "too many of your jobs wait or run; try again after Retry-After"
        else:
            backlog = created.pending + created.lag
            details = {"backlog": backlog, "pending": created.pending, "lag": created.lag}
            details["max"] = limits.max_backlog
            says = "the workers are behind; try again after Retry-After"
        return GatewayRefusal(429, "backpressure", says, details, {"retry-after": "1"})


def _idempotency_of(request: Request, requester_id: str) -> str | None:
    """Return the idempotency key. If the gateway requires API keys, add the requester to the key."""
    key = request.headers.get("idempotency-key")
    if not key:
        return None
    if not _IDEMPOTENCY_KEY.fullmatch(key):
        raise _invalid([{"loc": ["Idempotency-Key"], "msg": "must be 1 to 255 visible ASCII characters"}])
    return f"{requester_id}:{key}" if requester_id else key


def _payload_text(payload: dict[str, Any]) -> str:
    text = _json_text(payload, "payload")
    if len(text.encode()) > MOST_PAYLOAD_BYTES:
        raise GatewayRefusal(
            413, "payload_too_large", f"the payload may take {MOST_PAYLOAD_BYTES} bytes at most"
        )
    return text


def _json_text(document: dict[str, Any], field: str) -> str:
    """Return a document as compact JSON. Refuse surrogates, because UTF-8 has none."""
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    try:
        text.encode()
    except UnicodeEncodeError:
        raise _invalid([{"loc": [field], "msg": "must be text in UTF-8"}]) from None
    return text


async def _read(request: Request, most: int, timeout_s: float) -> bytes:
    declared, read = request.headers.get("content-length", ""), bytearray()
    if declared.isdigit() and int(declared[:20]) > most:
        raise _too_large(most)
    try:
        async with asyncio.timeout(timeout_s):
            async for chunk in request.stream():
                read += chunk
                if len(read) > most:
                    raise _too_large(most)
    except TimeoutError:
        raise GatewayRefusal(408, "body_timeout", "the body did not arrive in time", headers=_CLOSE) from None
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if read and kind != "application/json":
        raise GatewayRefusal(415, "unsupported_media_type", "send content-type: application/json")
    return bytes(read)


def _too_large(most: int) -> GatewayRefusal:
    return GatewayRefusal(413, "payload_too_large", f"the body may take {most} bytes at most", headers=_CLOSE)


def _parse(model: type[Model], body: bytes) -> Model:
    try:
        document = parsed_json(body.decode())
    except ValueError:
        says = "must be JSON in UTF-8 with finite numbers and at most 100 levels"
        raise _invalid([{"loc": ["body"], "msg": says}]) from None
    try:
        return model.model_validate(document)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False, include_context=False)
        raise _invalid([{"loc": list(one["loc"]), "msg": one["msg"]} for one in found]) from None


def _invalid(details: list[dict[str, Any]]) -> GatewayRefusal:
    return GatewayRefusal(
        422, "invalid_request", "the request is invalid; `details` lists all errors", details
    )
