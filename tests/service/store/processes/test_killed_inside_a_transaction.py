"""SIGKILL between the statements of one transaction: afterwards it has never been."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any

import pytest
import sqlalchemy as sa

from euterpe.domain.retry import Backoff, JobError, RetryClass
from euterpe.domain.states import JobStatus
from euterpe.store.engine.ids import new_id
from euterpe.store.queue.enqueue import Accepted, Key
from euterpe.store.queue.inbox import Advance, ClaimedJob
from euterpe.store.store import Store
from euterpe.store.tables import idempotency_keys, inbox_jobs, job_attempts, job_groups, job_outbox_events
from tests.service.store.processes import kill_points
from tests.service.store.processes.child_process import open_store
from tests.service.store.processes.invariants import check_integrity, check_stories, read_lives
from tests.service.store.processes.process_pool import ProcessPool
from tests.store.jobs import advance, claim_one, enqueue, new_job

TABLES = (inbox_jobs, job_attempts, job_outbox_events, job_groups, idempotency_keys)
Deed = tuple[str, tuple[Any, ...], dict[str, Any]]
HOUR_MS = 3_600_000
PASSING = JobError("test", "on purpose", "processing", RetryClass.TRANSIENT)
FATAL = JobError("test", "on purpose", "processing", RetryClass.UNRECOVERABLE)


def _hold(
    store: Store, *, until: JobStatus = JobStatus.CLAIMED, lease_ms: int = HOUR_MS, **job: Any
) -> ClaimedJob:
    queue = new_id()  # of its own: what the other deeds leave behind is not claimed here
    enqueue(store, queue=queue, max_attempts=9, **job)
    held = claim_one(store, queues=[queue], lease_ms=lease_ms)
    assert advance(store, held, until=until)
    return held


def _claim(store: Store) -> Deed:
    enqueue(store, 3, queue="waiting", max_attempts=9, group_id="g")
    return "inbox.claim", ("w2", 3), {"queues": ["waiting"]}


def _advance(store: Store) -> Deed:
    step = Advance(_hold(store), JobStatus.CLAIMED, JobStatus.FETCHING)
    return "inbox.advance", ([step],), {}


def _succeed(store: Store) -> Deed:
    job = _hold(store, until=JobStatus.UPLOADING, group_id="g")
    return "inbox.advance", ([Advance(job, JobStatus.UPLOADING, JobStatus.SUCCEEDED)],), {}


def _requeue(store: Store) -> Deed:
    return "inbox.fail", (_hold(store, until=JobStatus.PROCESSING), PASSING), {}


def _bury(store: Store) -> Deed:
    """Two transitions and two events in one transaction."""
    return "inbox.fail", (_hold(store, until=JobStatus.PROCESSING), FATAL), {}


def _release(store: Store) -> Deed:
    return "inbox.release", (_hold(store),), {}


def _sweep(store: Store) -> Deed:
    _hold(store, until=JobStatus.FETCHING, lease_ms=1)
    return "inbox.sweep", (), {}


def _cancel(store: Store) -> Deed:
    (job_id,) = enqueue(store, max_attempts=9)
    return "control.cancel", (job_id,), {}


DEEDS: tuple[Callable[[Store], Deed], ...] = (
    _claim,
    _advance,
    _succeed,
    _requeue,
    _bury,
    _release,
    _sweep,
    _cancel,
)


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    """No job comes back by itself while we look: that would be a change too."""
    with open_store(url, backoff=Backoff(base_ms=HOUR_MS, cap_ms=HOUR_MS)) as opened:
        yield opened


@pytest.mark.parametrize("seam", kill_points.BEFORE)
def test_what_was_killed_inside_its_transaction_has_never_been(
    process_pool: ProcessPool, store: Store, seam: str
) -> None:
    """event-per-transition: neither the transition nor its event, its attempt or its place in the group"""
    for prepare in DEEDS:
        what, arguments, options = prepare(store)
        before = _everything(store)
        _die_doing(process_pool, seam, what, arguments, options)
        assert _everything(store) == before, f"{prepare.__name__}: half of it is there"
        attrgetter(what)(store)(*arguments, **options)
        assert _everything(store) != before, f"{prepare.__name__}: it could not be done any more"
    check_integrity(store)


def test_what_was_killed_right_after_its_commit_is_all_there(process_pool: ProcessPool, store: Store) -> None:
    """event-per-transition: no event, attempt or place in a group was still to follow"""
    for prepare in DEEDS:
        what, arguments, options = prepare(store)
        before = _everything(store)
        _die_doing(process_pool, kill_points.AFTER, what, arguments, options)
        assert _everything(store) != before
        check_stories(read_lives(store))
    check_integrity(store)


def _die_doing(
    process_pool: ProcessPool, seam: str, what: str, arguments: Sequence[Any], options: Mapping[str, Any]
) -> None:
    victim = process_pool.launch(f"the one who dies {seam} in {what}")
    victim.start(kill_points.die_doing, seam, what, arguments, options)
    victim.join()
    assert victim.was_killed


def test_an_enqueue_that_was_killed_has_not_taken_its_key(process_pool: ProcessPool, store: Store) -> None:
    """same-key-same-job: a key without its job would swallow the request for ever"""
    job = new_job(key=Key("k", "hash"), group_id="g")
    _die_doing(process_pool, "before the job is inserted", "enqueue.many", ([job],), {})
    assert not any(_everything(store).values())
    (answer,) = store.enqueue.many([job])
    assert isinstance(answer, Accepted)
    assert not answer.replayed


def _everything(store: Store) -> dict[str, list[Any]]:
    with store.database.snapshot() as connection:
        return {table.name: sorted(map(repr, connection.execute(sa.select(table)).all())) for table in TABLES}
