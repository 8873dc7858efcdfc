"""Groups of queue jobs: first in, first out, within a limit, and together with jobs without a group."""

import threading

import pytest
import sqlalchemy as sa

from euterpe.queue import Queue, ReservedJob
from euterpe.store.engine.database import Database
from tests.clock import SettableClock
from tests.queue.conftest import NAME, Caller, lease

TIMEOUT_MS = 30_000


def publish(caller: Caller, *ids: str, gid: str | None = "g", limit: int = 0) -> None:
    for job_id in ids:
        caller.publish(job_id=job_id, gid=gid, group_limit=limit, backoff_ms=0)


def reserved(caller: Caller) -> list[ReservedJob]:
    """Reserve all jobs that can be reserved."""
    found = []
    while (job := caller.queue.reserve(queue=NAME)) is not None:
        assert isinstance(job, ReservedJob)
        found.append(job)
    return found


def test_a_group_runs_one_job_at_a_time_in_order(caller: Caller) -> None:
    publish(caller, "c", "b", "a")
    for job_id in ("c", "b", "a"):
        (job,) = reserved(caller)
        assert job.job_id == job_id
        caller.queue.ack_success(**lease(job))


def test_the_first_limit_of_a_group_counts(caller: Caller) -> None:
    publish(caller, "1", limit=2)
    publish(caller, "2", "3", "4", limit=3)
    assert [job.job_id for job in reserved(caller)] == ["1", "2"]


def test_a_group_without_a_limit_gets_none_later(caller: Caller) -> None:
    publish(caller, "1")
    publish(caller, "2", limit=5)
    assert [job.job_id for job in reserved(caller)] == ["1"]


def test_every_end_of_an_attempt_makes_room(caller: Caller, clock: SettableClock) -> None:
    publish(caller, "1", "2", "3", "4")
    caller.queue.ack_success(**lease(caller.job()))
    clock.advance(1)
    second = caller.job()
    assert (second.job_id, caller.nothing()) == ("2", True)
    caller.queue.ack_fail(**lease(second))
    third = caller.job()
    assert (third.job_id, caller.nothing()) == ("3", True)
    clock.advance(TIMEOUT_MS + 1)
    caller.queue.reap_expired(queue=NAME)
    assert caller.job().job_id == "4"


def test_the_oldest_of_all_heads_comes_first(caller: Caller, clock: SettableClock) -> None:
    """Jobs without a group run, and so do jobs of each group that is below its limit."""
    for job_id, gid in (("g1", "g"), ("u1", None), ("g2", "g"), ("h1", "h"), ("u2", None), ("h2", "h")):
        publish(caller, job_id, gid=gid, limit=2 if gid == "h" else 1)
        clock.advance(1)
    assert [job.job_id for job in reserved(caller)] == ["g1", "u1", "h1", "u2", "h2"]


def test_a_full_group_does_not_delay_the_others(caller: Caller, clock: SettableClock) -> None:
    publish(caller, *(f"g{number}" for number in range(50)))
    clock.advance(1)
    publish(caller, "u", gid=None)
    publish(caller, "h", gid="h")
    assert [job.job_id for job in reserved(caller)] == ["g0", "u", "h"]


def test_a_delayed_job_joins_its_group_when_it_is_due(caller: Caller, clock: SettableClock) -> None:
    caller.publish(job_id="late", gid="g", due_ms=clock.now_ms + 10)
    publish(caller, "now")
    first = caller.job()
    assert first.job_id == "now"
    clock.advance(10)
    assert caller.queue.promote_delayed(queue=NAME) == 1
    assert caller.nothing()
    caller.queue.ack_success(**lease(first))
    assert caller.job().job_id == "late"


def test_groups_of_two_queues_are_two_groups(caller: Caller) -> None:
    publish(caller, "1")
    caller.queue.publish(queue="other", payload={}, gid="g")
    assert caller.job().job_id == "1"
    assert isinstance(caller.queue.reserve(queue="other"), ReservedJob)


def check_admission_waits(url: str, clock: SettableClock) -> None:
    """End one job of a group while a second job is being reserved. Then the third job can be reserved.

    The end must count the running jobs after the reserve has committed. If the end counted earlier, it would
    count the reserved job as waiting, and would leave the third job blocked for ever.
    """
    with Queue(url, clock=clock) as reserving, Queue(url, clock=clock) as ending:
        ids = [reserving.publish(queue=NAME, payload={}, gid="g", group_limit=2) for _ in range(3)]
        first = reserving.reserve(queue=NAME)
        assert isinstance(first, ReservedJob)
        threads: list[threading.Thread] = []

        def end_meanwhile(_: sa.Connection) -> None:
            if threads:
                return
            threads.append(threading.Thread(target=lambda: ending.ack_success(**lease(first))))
            threads[0].start()
            while threads[0].is_alive() and not waits_for_lock(ending._database):
                pass

        sa.event.listen(reserving._database._relaxed, "commit", end_meanwhile)
        second = reserving.reserve(queue=NAME)
        threads[0].join()
        third = reserving.reserve(queue=NAME)
        assert isinstance(second, ReservedJob)
        assert isinstance(third, ReservedJob)
        assert [first.job_id, second.job_id, third.job_id] == ids


def waits_for_lock(database: Database) -> bool:
    with database.snapshot() as connection:
        return bool(connection.execute(sa.text("SELECT 1 FROM pg_locks WHERE NOT granted")).first())


@pytest.mark.parametrize("engine", ["postgres"], indirect=True)
def test_an_end_that_meets_a_reserve_of_its_group_admits_the_next_job(url: str, clock: SettableClock) -> None:
    check_admission_waits(url, clock)
