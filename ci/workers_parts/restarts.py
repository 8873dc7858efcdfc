"""Measure how long a fleet takes to reconnect after a stop or a kill of the API and its restart."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass

import uvloop

from ci.queue_bench import Databases
from ci.workers_parts.fleet import Enqueuer, Failure, Fleet
from ci.workers_parts.servers import Api, deployed
from ci.workers_parts.sizes import Sizes
from euterpe.bench.figures import Figure

_JOB_S = 3.0
# Euterpe's own workers reconnect within 30 s. The simulated workers reconnect within 2 s, so the load on the
# new API process is higher than with Euterpe's own workers.
_LONGEST_PAUSE_S = 2.0
_PER_SECOND_OF_A_WORKER = 0.02  # jobs enqueued per second and worker: 20 a second for 1,000 workers
_BEFORE_S, _CALM_AFTER_S = 2.0, 5.0
_LONGEST_RESTART_S = 30.0
_ENDS = {"SIGTERM": signal.SIGTERM, "SIGKILL": signal.SIGKILL}


@dataclass(frozen=True)
class _Return:
    """The times (`time.monotonic()`) at which the new process started and the last worker reached it."""

    started_at: float
    returned_at: float
    took_s: float  # from the signal that stops the old process to the start of the new process


def measure_restarts(databases: Databases, sizes: Sizes) -> list[Figure]:
    found = []
    for name, number in _ENDS.items():
        with deployed(databases) as one:
            enqueuer = one.enqueuer()
            fleet = one.fleet(workers=sizes.workers, job_s=_JOB_S, longest_pause_s=_LONGEST_PAUSE_S)
            (api,) = one.apis
            most_s = _BEFORE_S + _LONGEST_RESTART_S + 2 * sizes.after_restart_s
            back = uvloop.run(
                fleet.run(lambda: _restart(api, number, fleet, enqueuer, sizes), most_s=most_s)  # noqa: B023
            )
        found += _figures(name, fleet.tally.failures, back)
    return found


async def _restart(
    api: Api, number: signal.Signals, fleet: Fleet, enqueuer: Enqueuer, sizes: Sizes
) -> _Return:
    """Restart the API while jobs are enqueued. Return when all of these jobs are claimed."""
    per_second = _PER_SECOND_OF_A_WORKER * sizes.workers
    async with asyncio.TaskGroup() as group:
        arrivals = group.create_task(enqueuer.run(per_second, _LONGEST_RESTART_S + sizes.after_restart_s))
        await asyncio.sleep(_BEFORE_S)
        ended_at = time.monotonic()
        await asyncio.to_thread(api.stop, number)
        await asyncio.to_thread(api.start)
        started_at = time.monotonic()
        await fleet.await_return()
        returned_at = time.monotonic()
        await asyncio.sleep(max(0.0, started_at + sizes.after_restart_s - returned_at))
        arrivals.cancel()
    await enqueuer.waits_ms(fleet.tally)
    return _Return(started_at, returned_at, started_at - ended_at)


def _figures(name: str, failures: Sequence[Failure], back: _Return) -> list[Figure]:
    after = [failure for failure in failures if failure.at >= back.started_at]
    late = [one for one in after if one.at > back.started_at + _CALM_AFTER_S]
    last_s = max((failure.at - back.started_at for failure in after), default=0.0)
    return [
        Figure(f"{name}: the API is away for", "s", back.took_s),
        Figure(f"{name}: 5xx after the start", "answers", sum(one.is_5xx for one in after)),
        Figure(
            f"{name}: 5xx later than 5 s after the start",
            "answers",
            sum(one.is_5xx for one in late),
            at_most=0,
        ),
        Figure(
            f"{name}: failed connections later than 5 s after the start",
            "times",
            sum(not one.is_5xx for one in late),
        ),
        Figure(f"{name}: last failed request after the start", "s", last_s),
        Figure(
            f"{name}: all workers have reached the new process after", "s", back.returned_at - back.started_at
        ),
    ]
