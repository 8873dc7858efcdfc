"""`euterpe prune` removes finished queue jobs and empty groups. It does not remove transcoding jobs."""

import pytest
import sqlalchemy as sa

from euterpe.domain.errors import InvalidTransition
from euterpe.store.history.prune import PruneResult
from euterpe.store.store import Store
from euterpe.store.tables import inbox_jobs, job_outbox_events, queue_groups, queue_jobs
from tests.clock import SettableClock
from tests.queue.conftest import Caller, lease

DAY_MS = 24 * 3600 * 1000


def count(store: Store, table: sa.Table) -> int:
    with store.database.snapshot() as connection:
        return int(connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one())


def test_old_finished_queue_jobs_are_pruned(store: Store, caller: Caller, clock: SettableClock) -> None:
    for number in range(5):
        caller.publish(job_id=f"old {number}", gid="gone")
        caller.queue.ack_success(**lease(caller.job()))
    clock.advance(DAY_MS + 1)
    caller.publish(job_id="new", gid="kept")
    caller.queue.ack_success(**lease(caller.job()))
    caller.publish(job_id="waits", gid="kept")
    *_, done = store.prune.run(DAY_MS, batch=2)
    assert done == PruneResult(queue_jobs=5, groups=1)
    assert (count(store, queue_jobs), count(store, queue_groups)) == (2, 1)
    assert caller.publish(job_id="old 1") == "old 1"
    assert {caller.job().job_id, caller.job().job_id} == {"waits", "old 1"}


def test_a_group_keeps_its_limit_while_a_finished_job_is_kept(
    store: Store, caller: Caller, clock: SettableClock
) -> None:
    caller.publish(gid="g", group_limit=2)
    caller.queue.ack_success(**lease(caller.job()))
    clock.advance(1)
    assert list(store.prune.run(DAY_MS)) == []
    for _ in range(3):
        caller.publish(gid="g")
    assert [caller.job().gid, caller.job().gid, caller.nothing()] == ["g", "g", True]


def test_queue_jobs_touch_no_table_of_transcodes(store: Store, caller: Caller) -> None:
    caller.publish(gid="g", max_attempts=1)
    caller.publish()
    caller.queue.ack_fail(**lease(caller.job()))
    assert count(store, inbox_jobs) == count(store, job_outbox_events) == 0
    assert store.inbox.claim("w1", 10) == []


@pytest.mark.parametrize(
    "values", [{"status": "failed"}, {"status": "queued", "lane": "ready", "finished_at": None}]
)
def test_a_finished_job_stays_finished_for_whoever_writes_sql_by_hand(
    store: Store, caller: Caller, values: dict[str, object]
) -> None:
    caller.publish()
    caller.queue.ack_success(**lease(caller.job()))
    with pytest.raises(InvalidTransition), store.database.transaction() as connection:
        connection.execute(sa.update(queue_jobs).values(**values))
