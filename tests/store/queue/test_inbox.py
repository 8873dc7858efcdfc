"""Claims, releases, groups and steps of the inbox."""

import contextlib
import itertools
import threading
from collections.abc import Callable

import pytest
import sqlalchemy as sa

from euterpe.crypto.local_key_ring import LocalKeyRing
from euterpe.domain.error_codes import ErrorCode, RetryClass
from euterpe.domain.retry import JobError
from euterpe.domain.states import FINISHED, JobStatus, Lane
from euterpe.store.engine.engines import Engines
from euterpe.store.errors import Conflict, StoreUnavailable
from euterpe.store.queue.fairness.groups import Group, Groups
from euterpe.store.queue.inbox import ClaimedJob
from euterpe.store.queue.transition import Transition
from euterpe.store.store import Store
from euterpe.store.tables import inbox_jobs
from tests.clock import SettableClock
from tests.store.attempts import fail_job, release_job
from tests.store.jobs import SPEC, advance, claim_one, enqueue, new_job, statuses, waits_for_a_lock

FLAKY = JobError(ErrorCode.SOURCE_UNREACHABLE, "it broke", "fetching", RetryClass.TRANSIENT)


def ids(jobs: list[ClaimedJob]) -> list[str]:
    return [job.job_id for job in jobs]


def test_a_claim_sets_everything_that_the_contract_says(store: Store, clock: SettableClock) -> None:
    (job_id,) = enqueue(store)
    job = claim_one(store, "worker-7", lease_ms=5_000)
    row = store.jobs.get(job_id)
    assert row.status == JobStatus.CLAIMED
    assert row.worker_id == "worker-7"
    assert row.lease_expires_at == clock.now_ms + 5_000
    assert row.heartbeat_at == clock.now_ms
    assert row.claim_version == job.claim_version == 1
    assert row.attempt_count == job.attempt_count == 1
    assert row.started_at == clock.now_ms
    (attempt,) = store.jobs.attempts(job_id)
    assert (attempt.attempt_no, attempt.claim_version, attempt.worker_id) == (1, 1, "worker-7")
    assert attempt.ended_at is None


def test_one_owner_a_claimed_job_is_not_claimed_again(store: Store) -> None:
    enqueue(store, 3)
    assert len(store.inbox.claim("w1", 2)) == 2
    assert len(store.inbox.claim("w2", 2)) == 1
    assert store.inbox.claim("w3", 2) == []


def test_higher_priority_goes_first_and_equals_go_in_order(store: Store, clock: SettableClock) -> None:
    low = enqueue(store, 2, priority=10)
    clock.advance(1)
    high = enqueue(store, 2, priority=90)
    assert ids(store.inbox.claim("w1", 10)) == high + low


def test_queues_are_taken_in_the_callers_order(store: Store) -> None:
    first = enqueue(store, 2, queue="bulk", priority=100)
    second = enqueue(store, 2, queue="live", priority=0)
    assert ids(store.inbox.claim("w1", 3, queues=("live", "bulk"))) == second + first[:1]


def test_other_queues_are_left_alone(store: Store) -> None:
    enqueue(store, queue="bulk")
    assert store.inbox.claim("w1", 10) == []


def test_a_paused_queue_gives_nothing_and_keeps_everything(store: Store) -> None:
    waiting = enqueue(store, 2)
    running = claim_one(store)
    store.control.pause("default")
    assert store.control.paused_queues() == ["default"]
    assert store.inbox.claim("w1", 10) == []
    assert statuses(store, waiting) == [JobStatus.CLAIMED, JobStatus.QUEUED]
    assert advance(store, running, until=JobStatus.SUCCEEDED)
    store.control.resume("default")
    assert ids(store.inbox.claim("w1", 10)) == waiting[1:]


def test_a_job_is_not_claimed_before_its_time(store: Store, clock: SettableClock) -> None:
    (job_id,) = enqueue(store, not_before=clock.now_ms + 1_000)
    clock.advance(999)
    assert store.inbox.claim("w1", 1) == []
    clock.advance(1)
    assert ids(store.inbox.claim("w1", 1)) == [job_id]


def test_a_heap_of_delayed_jobs_does_not_hide_a_lower_priority(store: Store, clock: SettableClock) -> None:
    enqueue(store, 200, priority=100, not_before=clock.now_ms + 60_000)
    (ready,) = enqueue(store, priority=0)
    assert ids(store.inbox.claim("w1", 10)) == [ready]


def test_a_group_runs_one_at_a_time_in_its_order_whatever_the_priority(store: Store) -> None:
    first = enqueue(store, group_id="album", priority=1)
    second = enqueue(store, group_id="album", priority=99)
    job = claim_one(store)
    assert [job.job_id] == first
    assert store.inbox.claim("w1", 10) == []
    advance(store, job, until=JobStatus.SUCCEEDED)
    assert ids(store.inbox.claim("w1", 10)) == second


def test_a_group_runs_as_many_as_its_limit(store: Store) -> None:
    jobs = enqueue(store, 5, group_id="album", group_limit=2)
    running = store.inbox.claim("w1", 10) + store.inbox.claim("w1", 10) + store.inbox.claim("w1", 10)
    assert ids(running) == jobs[:2]
    fail_job(store, running[0], JobError(ErrorCode.SOURCE_NOT_MEDIA, "not media", "processing"))
    assert ids(store.inbox.claim("w1", 10)) == jobs[2:3]


@pytest.mark.parametrize("engine", ["postgres"], indirect=True)
def test_a_group_keeps_its_limit_however_postgres_plans(store: Store) -> None:
    """In an earlier version, Postgres ran a subquery for each row, and admitted four jobs instead of one."""
    methods = ("hashagg", "sort", "hashjoin", "mergejoin", "material", "memoize", "indexscan", "bitmapscan")
    enqueue(store, 100, group_id="album")
    store.database.vacuum_and_analyze()
    waits = sa.update(inbox_jobs).values(lane=Lane.BLOCKED.value)
    for disabled in itertools.combinations(methods, 3):
        with store.database.transaction() as connection:
            connection.execute(waits)
            for method in disabled:
                connection.exec_driver_sql(f"SET LOCAL enable_{method} = off")
            groups = Groups(store.database)
            assert len(groups.next_in_line(connection, [Group("default", "r1", "album")])) == 1, disabled


def test_the_first_limit_of_a_group_wins(store: Store) -> None:
    enqueue(store, 1, group_id="album", group_limit=1)
    enqueue(store, 3, group_id="album", group_limit=3)
    assert len(store.inbox.claim("w1", 10)) == 1
    assert store.inbox.claim("w1", 10) == []


def test_groups_of_other_requesters_and_queues_are_other_groups(store: Store) -> None:
    for requester_id, queue in (("r1", "default"), ("r2", "default"), ("r1", "bulk")):
        enqueue(store, 2, requester_id=requester_id, queue=queue, group_id="album")
    assert len(store.inbox.claim("w1", 10, queues=("default", "bulk"))) == 3


def test_a_blocked_group_starves_nobody(store: Store) -> None:
    enqueue(store, 500, group_id="album", priority=100)
    ungrouped = enqueue(store, 3, priority=0)
    claimed = store.inbox.claim("w1", 4)
    assert len(claimed) == 4
    assert ids(claimed)[1:] == ungrouped


def test_a_retried_job_keeps_its_place_in_its_group(store: Store, clock: SettableClock) -> None:
    first, second, third = enqueue(store, 3, group_id="album")
    fail_job(store, claim_one(store), FLAKY)
    overtaking = claim_one(store)
    assert overtaking.job_id == second, "a job in backoff blocks no other job"
    clock.advance(1_000)
    assert store.inbox.claim("w1", 10) == []
    advance(store, overtaking, until=JobStatus.SUCCEEDED)
    assert claim_one(store).job_id == first, "the older job must go before the younger job again"
    assert statuses(store, [third]) == [JobStatus.QUEUED]


def test_hostile_group_names_are_only_names(store: Store) -> None:
    for name in ("'; DROP TABLE inbox_jobs; --", "%", "_", "\\", "🎬" * 255, "null", "{}", '"'):
        (job_id,) = enqueue(store, group_id=name)
        enqueue(store, group_id=name)
        assert [job.job_id for job in store.inbox.claim("w1", 10)] == [job_id]


def test_an_attempt_is_given_back_with_a_job_that_was_not_worked_on(store: Store) -> None:
    (job_id,) = enqueue(store)
    assert release_job(store, claim_one(store))
    row = store.jobs.get(job_id)
    assert (row.status, row.attempt_count, row.claim_version) == (JobStatus.QUEUED, 0, 1)
    assert [a.outcome for a in store.jobs.attempts(job_id)] == ["released"]
    assert claim_one(store).claim_version == 2


def test_a_queue_that_nobody_drains_is_swept_all_the_same(store: Store, clock: SettableClock) -> None:
    (job_id,) = enqueue(store, queue="forgotten")
    claim_one(store, queues=("forgotten",), lease_ms=1_000)
    clock.advance(1_001)
    store.inbox.claim("w2", 1, queues=("other",))
    assert statuses(store, [job_id]) == [JobStatus.QUEUED]


def test_a_batch_larger_than_the_queue_claims_the_whole_queue(store: Store) -> None:
    waiting = enqueue(store, 30)
    assert sorted(ids(store.inbox.claim("w1", 1_000))) == sorted(waiting)


def test_steps_of_many_jobs_share_a_transaction_and_each_is_fenced_by_itself(
    store: Store, clock: SettableClock
) -> None:
    enqueue(store, 10)
    jobs = store.inbox.claim("w1", 10, lease_ms=1_000)
    clock.advance(900)
    store.inbox.heartbeat(jobs[5:], lease_ms=1_000)
    clock.advance(200)
    store.inbox.sweep()
    held = store.inbox.advance(
        [Transition.advance(job, JobStatus.CLAIMED, JobStatus.FETCHING) for job in jobs]
    )
    assert held == {job.job_id for job in jobs[5:]}


def test_a_batch_that_names_a_job_twice_is_refused_whole(store: Store) -> None:
    (job_id,) = enqueue(store)
    job = claim_one(store)
    step = Transition.advance(job, JobStatus.CLAIMED, JobStatus.FETCHING)
    with pytest.raises(ValueError, match="twice"):
        store.inbox.advance([step, step])
    assert statuses(store, [job_id]) == [JobStatus.CLAIMED]


def test_ids_ascend_in_the_order_of_creation() -> None:
    made = [new_job().job_id for _ in range(5_000)]
    assert made == sorted(set(made))


def test_a_finished_job_forgets_its_owner_and_its_lease(store: Store) -> None:
    enqueue(store)
    job = claim_one(store)
    advance(store, job, until=JobStatus.SUCCEEDED)
    leased = sa.select(inbox_jobs.c.worker_id, inbox_jobs.c.lease_expires_at, inbox_jobs.c.heartbeat_at)
    with store.database.snapshot() as connection:
        assert connection.execute(leased).one() == (None, None, None), "no-lease-at-rest"


@pytest.mark.parametrize("engine", ["postgres"], indirect=True)
def test_a_group_goes_on_though_its_next_job_is_being_written_to(store: Store) -> None:
    """An update of credentials can lock the row of the waiting job while the group's previous job ends."""
    _, second = enqueue(store, 2, group_id="album")
    first = claim_one(store)
    finishing = threading.Thread(target=lambda: advance(store, first, until=JobStatus.SUCCEEDED))
    with store.database.transaction() as connection:
        connection.execute(sa.update(inbox_jobs).where(inbox_jobs.c.job_id == second).values(refresh_count=1))
        finishing.start()
        while not waits_for_a_lock(store):
            assert finishing.is_alive(), "the end skipped the locked row instead of waiting for it"
    finishing.join(30)
    assert ids(store.inbox.claim("w1", 10)) == [second]


@pytest.mark.parametrize("engine", ["postgres"], indirect=True)
def test_cancels_retries_claims_and_endings_of_one_group_never_deadlock(store: Store) -> None:
    jobs = enqueue(store, 120, group_id="album", group_limit=3)
    errors: list[Exception] = []

    def run(work: Callable[[], object]) -> threading.Thread:
        def guarded() -> None:
            try:
                work()
            except Exception as error:  # noqa: BLE001  the assertion below shows it
                errors.append(error)

        thread = threading.Thread(target=guarded)
        thread.start()
        return thread

    def work_off() -> None:
        while not all(status in FINISHED for status in statuses(store, jobs)):
            for job in store.inbox.claim("w", 3):
                fail_job(store, job, JobError(ErrorCode.SOURCE_NOT_MEDIA, "not media", "claimed"))

    def cancel_all(some: list[str]) -> None:
        for job_id in some:
            with contextlib.suppress(Conflict):
                store.control.cancel(job_id)
                store.control.retry(job_id)

    threads = [
        run(work_off),
        run(work_off),
        run(lambda: cancel_all(jobs[::2])),
        run(lambda: cancel_all(jobs[::-3])),
    ]
    for thread in threads:
        thread.join(60)
    assert errors == []
    assert set(statuses(store, jobs)) == {JobStatus.FAILED}


def test_a_job_may_be_handed_back_for_later(store: Store, clock: SettableClock) -> None:
    (job_id,) = enqueue(store)
    assert release_job(store, claim_one(store), delay_ms=5_000)
    assert store.inbox.claim("w2", 1) == []
    clock.advance(5_000)
    job = claim_one(store, "w2")
    assert (job.job_id, job.attempt_count) == (job_id, 1)


def test_claimed_rows_reach_their_owner_though_the_next_batch_fails(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Engines, "read_limit", 2)
    parts = iter([[1, 2]])

    def claim(limit: int) -> list[int]:
        assert limit == 2
        for part in parts:
            return part
        raise StoreUnavailable("the server is away")

    assert store.database.claim_in_batches(5, claim) == [1, 2]
    with pytest.raises(StoreUnavailable):
        store.database.claim_in_batches(5, claim)


def test_large_specs_of_many_quotes_are_claimed_whatever_their_number(store: Store) -> None:
    """libSQL's driver refuses answers over 4 MiB. An answer is JSON that contains the spec as JSON text.

    So each quotation mark of the spec takes four bytes.
    """
    enqueue(store, 20, spec={**SPEC, "note": '"' * 120_000})
    assert len(store.inbox.claim("w1", 20)) == 20


@pytest.mark.parametrize("engine", ["postgres"], indirect=True)
def test_groups_go_on_whatever_isolation_the_server_has_by_default(url: str, ring: LocalKeyRing) -> None:
    """A count that holds the lock of a group must see all rows committed before the lock was granted."""
    strict = {"options": r"-c default_transaction_isolation=repeatable\ read"}
    strictly = sa.make_url(url).update_query_dict(strict).render_as_string(hide_password=False)
    with Store(strictly, ring, sweep_every_ms=0) as store:
        enqueue(store, group_id="g")
        first, second = claim_one(store), new_job(group_id="g")
        with store.database.transaction() as connection:
            now = store.database.read_clock(connection)  # with REPEATABLE READ, the snapshot would begin here
            advance(store, first, until=JobStatus.SUCCEEDED)
            store.enqueue._insert(connection, [second], now)
        assert claim_one(store).job_id == second.job_id
