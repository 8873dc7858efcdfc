"""/healthz and /readyz: liveness and readiness probes, which need no API key."""

import asyncio
import time
from collections.abc import Callable

import structlog
from starlette.requests import Request
from starlette.responses import Response

from euterpe.api.json_body import json_response
from euterpe.api.service import Service
from euterpe.api.thread_pool import StoreThreadPool
from euterpe.store.engine.health import check_writes
from euterpe.store.engine.migrations import require_current
from euterpe.store.errors import StoreUnavailable

_log = structlog.get_logger(__name__)


class WriteProbe:
    """A test write whose result all callers share.

    The write runs at most once in `every_s` seconds, because anybody can call /readyz without an API key.
    """

    def __init__(
        self,
        write: Callable[[], None],
        pool: StoreThreadPool,
        *,
        every_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._write, self._pool, self._every_s, self._clock = write, pool, every_s, clock
        self._last: asyncio.Task[StoreUnavailable | None] | None = None
        self._again_at = 0.0

    async def check(self) -> None:
        """Raise StoreUnavailable if the last test write failed."""
        if self._last is None or (self._last.done() and self._clock() >= self._again_at):
            self._again_at = self._clock() + self._every_s
            self._last = asyncio.ensure_future(self._try_write())
        if trouble := await asyncio.shield(self._last):
            raise trouble

    async def _try_write(self) -> StoreUnavailable | None:
        try:
            await self._pool.run(self._write)
        except StoreUnavailable as error:
            _log.warning("write_probe_failed", error=str(error))
            return error
        return None


class HealthEndpoints:
    def __init__(self, service: Service) -> None:
        self._database, self._pool = service.store.database, service.read_pool
        self._timeout_s = service.timings.readiness_s
        self._probe = WriteProbe(
            lambda: check_writes(self._database),
            service.write_pool,
            every_s=service.timings.write_probe_every_s,
        )

    async def alive(self, _: Request) -> Response:
        return json_response({"status": "ok"})

    async def ready(self, _: Request) -> Response:
        """Check that the database answers in time, has this program's schema version and accepts writes."""
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._pool.run(lambda: require_current(self._database))
                await self._probe.check()
        except TimeoutError:
            raise StoreUnavailable(f"the database has not answered for {self._timeout_s} s") from None
        return json_response({"status": "ready"})
