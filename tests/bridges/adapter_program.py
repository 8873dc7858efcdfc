"""A program with adapters of foreign queues, which runs in the environment with their packages.

It reads one command per line, as JSON: the name of an adapter's method, the number of the adapter, and the
arguments. A job is named by the number of its delivery, because its handle stays in this process.
"""

import asyncio
import json
import sys
from typing import Any

import structlog

from euterpe.bridges.adapter import ForeignAdapter, ForeignFailure, ForeignJob
from euterpe.bridges.config import BridgeConfig, BridgeKind
from euterpe.wiring.bridges import open_adapter

CONFIG: dict[str, Any] = {
    "name": "videos",
    "requester": "newsroom",
    "slots": 8,
    "prefix": None,
    "schema": None,
    "group": None,
    "jobs": {},
}


class Adapters:
    def __init__(self) -> None:
        self._adapters: list[ForeignAdapter] = []
        self._jobs: list[ForeignJob] = []

    async def open(self, *, kind: str, reap_rest_s: float | None = None, **fields: Any) -> int:
        """Open an adapter, and return its number. `reap_rest_s` is an option of OmniQ's adapter."""
        config = BridgeConfig(kind=BridgeKind(kind), **CONFIG, **fields)
        if reap_rest_s is None:
            self._adapters.append(open_adapter(config))
        else:
            from euterpe.bridges.omniq import OmniqAdapter  # noqa: PLC0415  its package is only in one environment

            self._adapters.append(OmniqAdapter(config, reap_rest_s=reap_rest_s))
        return len(self._adapters) - 1

    async def start(self, *, adapter: int) -> None:
        await self._adapters[adapter].start()

    async def examine(self, *, adapter: int) -> str:
        return await self._adapters[adapter].examine()

    async def take(self, *, adapter: int, limit: int, wait_s: float) -> list[dict[str, Any]]:
        jobs = await self._adapters[adapter].take(limit, wait_s)
        first = len(self._jobs)
        self._jobs += jobs
        return [_shown(number, job) for number, job in enumerate(jobs, first)]

    async def heartbeat(self, *, adapter: int, jobs: list[int]) -> list[str]:
        return [
            str(lease) for lease in await self._adapters[adapter].heartbeat([self._jobs[n] for n in jobs])
        ]

    async def progress(self, *, adapter: int, job: int, percent: float) -> None:
        await self._adapters[adapter].progress(self._jobs[job], percent)

    async def succeed(self, *, adapter: int, job: int, result: dict[str, Any]) -> str:
        return str(await self._adapters[adapter].succeed(self._jobs[job], result))

    async def fail(self, *, adapter: int, job: int, **failure: Any) -> str:
        return str(await self._adapters[adapter].fail(self._jobs[job], ForeignFailure(**failure)))

    async def release(self, *, adapter: int, job: int) -> None:
        await self._adapters[adapter].release(self._jobs[job])

    async def break_stalled_check(self, *, adapter: int) -> None:
        """Make the next check for stalled jobs raise an error that is not an error of the connection."""
        backend: Any = self._adapters[adapter]._backend  # type: ignore[attr-defined]
        whole = backend.moveStalledJobsToWait

        async def broken(*_: object) -> None:
            backend.moveStalledJobsToWait = whole
            raise LookupError("unexpected")

        backend.moveStalledJobsToWait = broken

    async def break_reading(self, *, adapter: int, job_id: str) -> None:
        """Make the client of OmniQ raise an unknown error for this job."""
        client: Any = self._adapters[adapter]._client  # type: ignore[attr-defined]
        whole = client.heartbeat

        def broken(**fields: Any) -> Any:
            if fields["job_id"] == job_id:
                raise RuntimeError("an unknown error")
            return whole(**fields)

        client.heartbeat = broken

    async def stop(self, *, adapter: int) -> None:
        await self._adapters[adapter].stop()


def _shown(number: int, job: ForeignJob) -> dict[str, Any]:
    return {
        "number": number,
        "job_id": job.job_id,
        "source_ref": job.source_ref,
        "name": job.name,
        "data": job.data,
        "attempts": job.attempts,
        "past_failures": job.past_failures,
    }


async def main() -> None:
    adapters, loop = Adapters(), asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        command = json.loads(line)
        try:
            said = {"answer": await getattr(adapters, command.pop("call"))(**command)}
        except Exception as error:  # noqa: BLE001  the test sees it
            said = {"error": f"{type(error).__name__}: {error}"}
        sys.stdout.write(json.dumps(said) + "\n")
        sys.stdout.flush()


structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
asyncio.run(main())
