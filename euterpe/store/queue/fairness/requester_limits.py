"""Limits that the operator sets for a requester: weight, cap on running jobs, bounds on a job's options."""

from collections.abc import Mapping
from typing import Literal

import sqlalchemy as sa

from euterpe.domain.states import JobStatus, Lane
from euterpe.store.checks import check_count
from euterpe.store.engine.database import Database
from euterpe.store.engine.wakeup import Topic
from euterpe.store.errors import NotFound
from euterpe.store.queue.fairness.fair_shares import MAX_WEIGHT
from euterpe.store.queue.lanes import own_jobs
from euterpe.store.tables import fair_shares, inbox_jobs, requesters

LimitName = Literal["weight", "max_running", "max_timeout_seconds", "max_attempts", "max_priority"]
LONGEST_TIMEOUT_S = 604_800
_BOUNDS: Mapping[LimitName, tuple[int, int]] = {
    "weight": (1, MAX_WEIGHT),
    "max_running": (1, 100_000),
    "max_timeout_seconds": (1, LONGEST_TIMEOUT_S),
    "max_attempts": (1, 100),
    "max_priority": (0, 100),
}
# These limits also apply to jobs that were enqueued before the change.
_OF_THE_QUEUE: frozenset[LimitName] = frozenset({"weight", "max_running"})
_BATCH = 1_000
_job = inbox_jobs.c


class RequesterLimits:
    def __init__(self, database: Database) -> None:
        self._database = database

    def set(self, requester_id: str, changes: Mapping[LimitName, int | None]) -> None:
        """Change the named limits; None removes a limit. A weight cannot be removed."""
        for name, value in changes.items():
            if value is not None or name == "weight":
                check_count(value, name, *_BOUNDS[name])
        is_named = requesters.c.requester_id == requester_id
        with self._database.transaction() as connection:
            # FOR UPDATE, the strongest lock, waits for all enqueues that have ranked jobs by the old limits.
            held = connection.execute(sa.select(requesters.c.name).where(is_named).with_for_update()).first()
            if held is None:
                raise NotFound(f"there is no requester {requester_id!r}")
            connection.execute(sa.update(requesters).where(is_named).values(changes))
        if not _OF_THE_QUEUE.isdisjoint(changes):
            self._rank_again(requester_id)

    def _rank_again(self, requester_id: str) -> None:
        """Move the ready jobs of a requester to the lane `capped`, where the sweep ranks them again.

        Jobs that are already `capped` are ranked by the new limits when they are admitted. If this call is
        interrupted, the remaining jobs keep their ranks.
        """
        own = fair_shares.c.requester_id == requester_id
        with self._database.transaction() as connection:
            # Lock the rows in the same order as an enqueue does: otherwise both transactions could deadlock.
            connection.execute(
                sa.select(fair_shares).where(own).order_by(fair_shares.c.queue).with_for_update()
            )
            connection.execute(sa.update(fair_shares).where(own).values(finish=0))
        after = ""
        while batch := self._move_behind_cap(requester_id, after):
            after = batch

    def _move_behind_cap(self, requester_id: str, after: str) -> str | None:
        """Move one batch of ready jobs to `capped`; return the last job's id, or None if no job was left."""
        some = own_jobs(Lane.READY, _job.job_id).where(_job.requester_id == requester_id, _job.job_id > after)
        some = some.order_by(_job.job_id).limit(_BATCH).with_for_update()
        with self._database.transaction() as connection:
            job_ids = connection.execute(some).scalars().all()
            if not job_ids:
                return None
            connection.execute(
                sa.update(inbox_jobs)
                .where(_job.job_id.in_(job_ids), _job.status == JobStatus.QUEUED)
                .values(lane=Lane.CAPPED.value, rank=None)
            )
            self._database.announce(connection, Topic.INBOX)
        return str(job_ids[-1])
