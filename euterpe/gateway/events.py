"""GET /v1/jobs/{id}/events: the events of a job as server-sent events (SSE)."""

import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Send
from starlette.types import Scope as ConnectionScope

from euterpe.bridges.stream_jobs import TERMINAL, events_key, job_key, json_or_raw
from euterpe.domain.scopes import Scope
from euterpe.gateway.event_hub import Ended, StreamEvent, Subscription, position_of
from euterpe.gateway.problems import GatewayRefusal, not_found
from euterpe.gateway.service import Gateway, job_in_path

_HEADERS = {"cache-control": "no-cache, no-transform", "x-accel-buffering": "no"}


class JobEventStream:
    """An SSE response. It subscribes before it begins, so that it can still be refused."""

    def __init__(
        self,
        subscribe: Callable[[], AbstractContextManager[Subscription]],
        frames: Callable[[Subscription], AsyncIterator[bytes]],
    ) -> None:
        self._subscribe, self._frames = subscribe, frames

    async def __call__(self, scope: ConnectionScope, receive: Receive, send: Send) -> None:
        with self._subscribe() as subscription:
            frames = self._frames(subscription)
            answer = StreamingResponse(frames, headers=_HEADERS, media_type="text/event-stream")
            await answer(scope, receive, send)


class StreamEventsEndpoint:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def get(self, request: Request) -> Response | JobEventStream:
        requester_id = await self._gateway.authenticate(request, Scope.READ)
        job_id, after = job_in_path(request), request.headers.get("last-event-id", "")
        pipeline = self._gateway.redis.pipeline(transaction=False)
        pipeline.hmget(job_key(job_id), "status", "requester_id")
        pipeline.xrevrange(events_key(job_id), count=1)
        (status, owner), last = await pipeline.execute()
        if status is None or (requester_id and owner != requester_id):
            raise not_found(job_id)
        if status in TERMINAL and last and position_of(after) >= position_of(last[0][0]):
            # The EventSource of a browser reconnects after any response except 204.
            return Response(status_code=204)
        subscribe = partial(self._gateway.hub.subscribe, job_id, after, requester_id)
        return JobEventStream(subscribe, partial(self._frames, request, job_id, is_there=bool(last)))

    async def _frames(
        self, request: Request, job_id: str, subscription: Subscription, *, is_there: bool
    ) -> AsyncIterator[bytes]:
        yield _frame("hello", {"job_id": job_id, "ts": _now_ms()})
        if not is_there:
            yield _expired()
            return
        every_s = self._gateway.limits.comment_every_s
        check_at = time.monotonic() + every_s
        while True:
            events = await subscription.next(every_s)
            if not events or time.monotonic() >= check_at:
                if await self._is_revoked(request):
                    return
                check_at = time.monotonic() + every_s
            for event in events:
                yield _event_frame(event)
                if event.fields.get("type") in TERMINAL:
                    return
            if subscription.ended is Ended.EXPIRED:
                yield _expired()
            if subscription.ended is not None:
                return
            if not events:
                yield b": heartbeat\n\n"

    async def _is_revoked(self, request: Request) -> bool:
        """Return whether the key was revoked, or lost its scope.

        Return False while keys cannot be checked.
        """
        try:
            await self._gateway.authenticate(request, Scope.READ)
        except GatewayRefusal as refusal:
            return refusal.status in (401, 403)
        return False


def _event_frame(event: StreamEvent) -> bytes:
    kind, data = event.fields.get("type", "message"), event.fields.get("data", "")
    ts = event.fields.get("ts", "")
    document = {
        "id": event.event_id,
        "type": kind,
        "ts": int(ts) if ts.isascii() and ts.isdigit() and len(ts) < 20 else 0,
        "step": event.fields.get("step", ""),
        "data": json_or_raw(data) if data else None,
    }
    return b"id: %b\n" % event.event_id.encode() + _frame(kind, document)


def _expired() -> bytes:
    """Return the last frame of a stream whose job has expired or was removed.

    The frame is no event, so it has no `id`.
    """
    data = {"code": "expired", "message": "the job has expired or was removed"}
    return _frame(
        "error", {"id": None, "type": "error", "ts": _now_ms(), "step": "gateway.events", "data": data}
    )


def _frame(kind: str, document: dict[str, Any]) -> bytes:
    """Return one SSE frame. Cut the type at a line break, because writers of the stream choose the type."""
    name = kind.partition("\n")[0].partition("\r")[0]
    # `json.dumps` escapes surrogates and line separators.
    return f"event: {name}\ndata: {json.dumps(document)}\n\n".encode(errors="replace")


def _now_ms() -> int:
    return int(time.time() * 1000)
