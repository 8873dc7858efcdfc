"""Move jobs through the missing statuses of an attempt, with one transition and one event per status.

A worker that uses only the calls `claim`, `heartbeat`, `complete` and `fail` completes a job that is still
`claimed`. The state table has no transition from `claimed` to `succeeded`, so the job passes all statuses in
between, in one transaction.
"""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

import sqlalchemy as sa

from euterpe.domain.states import IN_PROGRESS, JobStatus, Lane
from euterpe.store.engine.batch_rows import TEXT, AnyRow, Rows, as_parameter, fetch_all
from euterpe.store.queue.event_rows import context_of
from euterpe.store.queue.failures import FAILURE_COLUMNS
from euterpe.store.queue.job_transitions import JobTransitions
from euterpe.store.queue.lanes import lane_is
from euterpe.store.queue.transition import NOTHING, Fence, Transition
from euterpe.store.tables import inbox_jobs

_job = inbox_jobs.c
# The length of the lease while a job moves to `succeeded`. The same transaction ends the lease.
_WALK_LEASE_MS = 60_000
_NO_VALUES: Mapping[str, Mapping[str, object]] = MappingProxyType({})
_NO_LEASES: Mapping[str, int] = MappingProxyType({})


class StatusWalk:
    """Move claimed jobs from one status in progress to a later status in progress."""

    def __init__(self, transitions: JobTransitions) -> None:
        self._transitions = transitions
        wanted = sa.select(Rows({"id": TEXT})["id"])
        self._locked = (
            sa.select(*FAILURE_COLUMNS, _job.worker_id, _job.lease_expires_at)
            .where(_job.job_id.in_(wanted), lane_is(inbox_jobs, Lane.LEASED))
            .order_by(_job.job_id)
            .with_for_update()
        )

    def lock(self, connection: sa.Connection, job_ids: Iterable[str]) -> Sequence[AnyRow]:
        """Lock and return the rows of those jobs that are in progress."""
        rows = as_parameter({"id": job_id} for job_id in sorted(set(job_ids)))
        return fetch_all(connection.execute(self._locked, rows))

    def to(
        self,
        connection: sa.Connection,
        rows: Sequence[AnyRow],
        target: JobStatus,
        *,
        values: Mapping[str, Mapping[str, object]] = _NO_VALUES,
        leases: Mapping[str, int] = _NO_LEASES,
    ) -> None:
        """Move locked jobs to `target`. A job that has reached this status is not changed.

        `values` contains, by job id, the values that the last step writes. `leases` contains, by job id, the
        new length of each lease.
        """
        way = IN_PROGRESS[: IN_PROGRESS.index(target) + 1]
        for number, source in enumerate(way[:-1]):
            moving = [row for row in rows if row.status in way[: number + 1]]
            step, is_last = way[number + 1], number + 2 == len(way)
            self._transitions.apply(
                connection,
                [
                    _step(
                        row,
                        source,
                        step,
                        leases.get(row.job_id, _WALK_LEASE_MS),
                        values.get(row.job_id, NOTHING) if is_last else NOTHING,
                    )
                    for row in moving
                ],
            )

    def success(self, row: AnyRow, values: Mapping[str, object]) -> Transition:
        """Return the transition of a job from `uploading` to `succeeded`."""
        fence = Fence(row.job_id, row.claim_version, JobStatus.UPLOADING)
        return Transition.finish(
            fence, JobStatus.SUCCEEDED, Lane.REST, values=values, context=context_of(row)
        )


def _step(
    row: AnyRow, source: JobStatus, target: JobStatus, lease_ms: int, values: Mapping[str, object]
) -> Transition:
    fence = Fence(row.job_id, row.claim_version, source)
    return Transition.step(
        fence, target, worker_id=row.worker_id, lease_ms=lease_ms, values=values, context=context_of(row)
    )
