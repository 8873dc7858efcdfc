"""No requester delays other requesters beyond its share, whatever it sends (invariant `fair`)."""

import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial

import pytest
import sqlalchemy as sa

from euterpe.crypto.local_key_ring import LocalKeyRing
from euterpe.domain.error_codes import ErrorCode, RetryClass
from euterpe.domain.retry import JobError
from euterpe.domain.states import JobStatus
from euterpe.store.queue.enqueue import Key
from euterpe.store.queue.fairness.fair_shares import DEFAULT_WEIGHT, JOB_COST, FairShares
from euterpe.store.queue.inbox import ClaimedJob
from euterpe.store.store import Store
from euterpe.store.tables import fair_shares, inbox_jobs, queues, requesters
from tests.clock import SettableClock
from tests.store.attempts import fail_job, release_job
from tests.store.jobs import SPEC, advance, claim_one, enqueue, new_job, statuses

FLAKY = JobError(ErrorCode.SOURCE_UNREACHABLE, "it broke", "fetching", RetryClass.TRANSIENT)


def owners(jobs: Sequence[ClaimedJob]) -> list[str]:
    return [job.requester_id for job in jobs]


def claim_each(store: Store, count: int) -> list[ClaimedJob]:
    return [claim_one(store) for _ in range(count)]


def create_with_weight(store: Store, requester_id: str, weight: int) -> None:
    row = {"requester_id": requester_id, "name": requester_id, "created_at": 1, "weight": weight}
    with store.database.transaction() as connection:
        connection.execute(sa.insert(requesters).values(row))


def test_the_next_job_of_another_requester_goes_before_a_backlog(store: Store) -> None:
    enqueue(store, 500, requester_id="large")
    claim_each(store, 3)
    enqueue(store, 1, requester_id="small")
    assert "small" in owners(claim_each(store, 2))


def test_two_backlogs_take_turns(store: Store) -> None:
    enqueue(store, 100, requester_id="large")
    claim_each(store, 10)
    enqueue(store, 20, requester_id="other")
    turns = owners(claim_each(store, 20))
    for count in range(2, 21):
        assert abs(Counter(turns[:count])["other"] - count / 2) <= 1


def test_a_batch_is_as_fair_as_single_claims(store: Store) -> None:
    enqueue(store, 100, requester_id="large")
    store.inbox.claim("w1", 10)
    enqueue(store, 20, requester_id="other")
    assert abs(Counter(owners(store.inbox.claim("w1", 30)))["other"] - 15) <= 1


def test_turns_are_in_proportion_to_weights(store: Store) -> None:
    create_with_weight(store, "heavy", 300)
    enqueue(store, 60, requester_id="heavy")
    enqueue(store, 60, requester_id="light")
    assert abs(Counter(owners(claim_each(store, 40)))["heavy"] - 30) <= 1


def test_nobody_is_punished_for_what_it_used_while_nobody_else_came(store: Store) -> None:
    enqueue(store, 200, requester_id="first")
    store.inbox.claim("w1", 200)
    enqueue(store, 50, requester_id="second")
    enqueue(store, 50, requester_id="first")
    turns = owners(claim_each(store, 20))
    assert abs(Counter(turns)["first"] - 10) <= 1


def test_nobody_saves_up_a_share_by_waiting(store: Store, clock: SettableClock) -> None:
    """If delayed jobs kept their old ranks, jobs that become due together would all run before other jobs."""
    enqueue(store, 100, requester_id="saver", not_before=clock.now_ms + 1_000)
    enqueue(store, 300, requester_id="steady")
    claim_each(store, 150)
    clock.advance(1_000)
    assert abs(Counter(owners(claim_each(store, 40)))["saver"] - 20) <= 1


def test_a_retry_takes_a_new_turn(store: Store, clock: SettableClock) -> None:
    """If retries kept their old ranks, jobs that fail quickly would run before new jobs again and again."""
    enqueue(store, 30, requester_id="failing", max_attempts=100)
    for job in store.inbox.claim("w1", 30):
        fail_job(store, job, FLAKY)
    enqueue(store, 60, requester_id="steady")
    claim_each(store, 30)
    clock.advance(900_000)
    assert abs(Counter(owners(claim_each(store, 40)))["failing"] - 20) <= 1


def test_a_priority_counts_within_a_requesters_share_only(store: Store) -> None:
    enqueue(store, 50, requester_id="modest", priority=0)
    enqueue(store, 50, requester_id="pushy", priority=100)
    assert abs(Counter(owners(claim_each(store, 20)))["modest"] - 10) <= 1


def test_many_levels_of_priority_are_one_share(store: Store) -> None:
    """If ranks were counted for each priority, each level of priority would get its own share."""
    enqueue(store, 50, requester_id="modest")
    for priority in range(0, 101, 10):
        enqueue(store, 50, requester_id="pushy", priority=priority)
    assert abs(Counter(owners(claim_each(store, 40)))["modest"] - 20) <= 1


def test_within_a_share_a_higher_priority_goes_first_and_equals_in_their_order(
    store: Store, clock: SettableClock
) -> None:
    low = enqueue(store, 4, priority=10)
    clock.advance(1)
    high = enqueue(store, 2, priority=90)
    clock.advance(1)
    middle = enqueue(store, 2)
    enqueue(store, 8, requester_id="other")
    own = [job.job_id for job in claim_each(store, 16) if job.requester_id == "r1"]
    assert own == high + middle + low


def test_a_job_that_makes_way_keeps_its_line(store: Store, clock: SettableClock) -> None:
    low = enqueue(store, 6, priority=10)
    clock.advance(1)
    high = enqueue(store, 3, priority=90)
    batches = [[job.job_id for job in store.inbox.claim("w1", 2)] for _ in range(5)]
    assert [sorted(batch) for batch in batches] == [
        high[:2],
        sorted([high[2], low[0]]),
        low[1:3],
        low[3:5],
        low[5:],
    ]


def test_a_job_that_was_handed_back_keeps_its_turn(store: Store) -> None:
    enqueue(store, 50, requester_id="large")
    enqueue(store, 1, requester_id="small")
    held = next(job for job in claim_each(store, 2) if job.requester_id == "small")
    enqueue(store, 50, requester_id="other")
    assert release_job(store, held)
    assert "small" in owners(claim_each(store, 3))


def test_shares_are_of_a_queue(store: Store) -> None:
    enqueue(store, 50, requester_id="r1", queue="bulk")
    enqueue(store, 10, requester_id="r1")
    enqueue(store, 10, requester_id="r2")
    assert abs(Counter(owners(claim_each(store, 10)))["r1"] - 5) <= 1


def test_groups_take_their_requesters_turns(store: Store) -> None:
    """Each group has one ready job, but a requester with many groups must not get many shares."""
    for number in range(40):
        enqueue(store, 2, requester_id="grouped", group_id=f"g{number}")
    enqueue(store, 40, requester_id="plain")
    assert abs(Counter(owners(claim_each(store, 30)))["plain"] - 15) <= 1


def test_a_replayed_request_costs_no_share(store: Store) -> None:
    for _ in range(50):
        store.enqueue.many([new_job(requester_id="careful", key=Key("k", "h"))])
    enqueue(store, 10, requester_id="careful")
    enqueue(store, 20, requester_id="other")
    assert abs(Counter(owners(claim_each(store, 16)))["careful"] - 8) <= 2


def test_the_virtual_time_never_goes_back(store: Store) -> None:
    enqueue(store, 20)
    claim_each(store, 20)
    before = virtual_time(store)
    enqueue(store, 1, requester_id="late")
    claim_one(store)
    assert virtual_time(store) >= before > 0


def virtual_time(store: Store) -> int:
    with store.database.snapshot() as connection:
        return int(connection.execute(sa.select(queues.c.virtual_time)).scalar_one())


class ManualClock:
    """A monotonic clock that changes only when a test sets it."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@contextmanager
def open_store(url: str, ring: LocalKeyRing, clock: SettableClock) -> Iterator[tuple[Store, ManualClock]]:
    """Open a store with the default interval of 100 ms between writes of the virtual time."""
    monotonic = ManualClock()
    with Store(url, ring, clock=clock, shares=partial(FairShares, monotonic=monotonic)) as store:
        yield store, monotonic


def claim_for_a_while(store: Store, monotonic: ManualClock) -> None:
    for _ in range(40):
        claim_one(store)
        monotonic.now += 0.02


def test_the_virtual_time_is_written_at_its_interval(
    url: str, ring: LocalKeyRing, clock: SettableClock
) -> None:
    """If the virtual time were never written, a new requester's jobs would run before all waiting jobs."""
    with open_store(url, ring, clock) as (store, monotonic):
        enqueue(store, 100, requester_id="large")
        claim_for_a_while(store, monotonic)
        enqueue(store, 40, requester_id="new")
        turns = owners(claim_each(store, 40))
    ahead = 5  # the number of jobs that are claimed within 100 ms
    assert abs(turns.count("new") - 20) <= ahead


def test_a_claim_that_is_rolled_back_does_not_stop_the_virtual_time(
    url: str, ring: LocalKeyRing, clock: SettableClock
) -> None:
    with open_store(url, ring, clock) as (store, monotonic):
        enqueue(store, 100, requester_id="large")
        with suppress(ZeroDivisionError), store.database.transaction() as connection:
            store.inbox.shares.note_claimed(connection, "default", 1)
            raise ZeroDivisionError
        claim_for_a_while(store, monotonic)
        with store.database.snapshot() as connection:
            virtual_time = connection.execute(sa.select(queues.c.virtual_time)).scalar_one()
    assert virtual_time > 30 * JOB_COST // DEFAULT_WEIGHT


@pytest.mark.parametrize("jobs", [1, 3])
def test_an_idle_claim_writes_no_virtual_time(
    url: str, ring: LocalKeyRing, clock: SettableClock, jobs: int
) -> None:
    """Claims that find no jobs must not write the virtual time.

    This must also hold after the first claim of a queue, and after claims of another process.
    """
    written: list[str] = []
    with open_store(url, ring, clock) as (store, monotonic), open_store(url, ring, clock) as (other, _):
        enqueue(store, jobs)
        store.inbox.claim("w1", 1)
        store.inbox.claim("w1", 1)
        other.inbox.claim("w2", 1)
        monotonic.now += 1
        store.inbox.claim("w1", 1)
        sa.event.listen(
            store.database.engines.write, "before_cursor_execute", lambda *event: written.append(event[2])
        )
        for _ in range(3):
            monotonic.now += 1
            assert store.inbox.claim("w1", 1) == []
    assert [text for text in written if "queues SET" in text or "INTO queues" in text] == []


@pytest.mark.parametrize("weight", [3, 7, 300, 9_999])
def test_any_weight_charges_whole_numbers(store: Store, clock: SettableClock, weight: int) -> None:
    """SQLite refuses a fractional rank, so the enqueue and the sweeps of all requesters would fail."""
    create_with_weight(store, "newsroom", weight)
    enqueue(store, 1, requester_id="newsroom")
    enqueue(store, 1, requester_id="newsroom", not_before=clock.now_ms + 1)
    enqueue(store, 2, requester_id="newsroom", group_id="g")
    clock.advance(2)
    for job in claim_each(store, 3):
        advance(store, job, until=JobStatus.SUCCEEDED)
    claim_one(store)


def test_shares_without_unfinished_jobs_are_pruned(store: Store) -> None:
    """A requester can name any number of queues, so the number of rows that are kept must be limited."""
    for number in range(30):
        enqueue(store, 1, queue=f"q{number}")
    for number in range(29):
        advance(store, claim_one(store, queues=(f"q{number}",)), until=JobStatus.SUCCEEDED)
    list(store.prune.run(0))
    with store.database.snapshot() as connection:
        left = connection.execute(sa.select(fair_shares.c.queue)).scalars().all()
    assert left == ["q29"]


def test_every_ready_job_has_a_rank(store: Store, clock: SettableClock) -> None:
    enqueue(store, 3)
    enqueue(store, 3, group_id="g")
    enqueue(store, 3, not_before=clock.now_ms + 5)
    clock.advance(5)
    store.inbox.sweep()
    with store.database.snapshot() as connection:
        rows = connection.execute(sa.select(inbox_jobs.c.lane, inbox_jobs.c.rank)).all()
    assert Counter((row.lane, row.rank is not None) for row in rows) == {
        ("ready", True): 7,
        ("blocked", False): 2,
    }


# -- caps


def set_cap(store: Store, requester_id: str, max_running: int | None) -> None:
    store.requester_limits.set(requester_id, {"max_running": max_running})


@pytest.fixture
def newsroom(store: Store) -> str:
    return store.requesters.create("newsroom").requester_id


def test_a_requester_runs_no_more_jobs_than_its_cap(store: Store, newsroom: str) -> None:
    set_cap(store, newsroom, 2)
    enqueue(store, 5, requester_id=newsroom)
    enqueue(store, 3, requester_id="other")
    held = store.inbox.claim("w1", 10) + store.inbox.claim("w1", 10)
    assert Counter(owners(held)) == {newsroom: 2, "other": 3}
    own = next(job for job in held if job.requester_id == newsroom)
    assert advance(store, own, until=JobStatus.SUCCEEDED)
    assert owners(store.inbox.claim("w1", 10)) == [newsroom]


def test_a_cap_counts_over_all_queues(store: Store, newsroom: str) -> None:
    set_cap(store, newsroom, 1)
    enqueue(store, 2, requester_id=newsroom, queue="a")
    enqueue(store, 2, requester_id=newsroom, queue="b")
    assert len(store.inbox.claim("w1", 10, queues=("a", "b"))) == 1
    assert store.inbox.claim("w1", 10, queues=("b", "a")) == []


def test_a_capped_requester_gets_its_most_urgent_job_next(store: Store, newsroom: str) -> None:
    set_cap(store, newsroom, 1)
    enqueue(store, 3, requester_id=newsroom, priority=10)
    running = claim_one(store)
    (urgent,) = enqueue(store, requester_id=newsroom, priority=90)
    advance(store, running, until=JobStatus.SUCCEEDED)
    assert claim_one(store).job_id == urgent


def test_a_cap_holds_for_groups_retries_and_delayed_jobs(
    store: Store, newsroom: str, clock: SettableClock
) -> None:
    set_cap(store, newsroom, 1)
    enqueue(store, 2, requester_id=newsroom, group_id="g", group_limit=5)
    enqueue(store, 2, requester_id=newsroom, not_before=clock.now_ms + 10)
    (first,) = enqueue(store, 1, requester_id=newsroom)
    clock.advance(10)
    for _ in range(5):
        (job,) = store.inbox.claim("w1", 10)
        assert store.inbox.claim("w2", 10) == []
        advance(store, job, until=JobStatus.SUCCEEDED)
    assert statuses(store, [first]) == [JobStatus.SUCCEEDED]
    (failed,) = enqueue(store, 1, requester_id=newsroom)
    fail_job(store, claim_one(store), JobError(ErrorCode.SOURCE_NOT_MEDIA, "not media", "fetching"))
    enqueue(store, 1, requester_id=newsroom)
    running = claim_one(store)
    store.control.retry(failed)
    assert store.inbox.claim("w1", 10) == []
    advance(store, running, until=JobStatus.SUCCEEDED)
    assert claim_one(store).job_id == failed


def test_a_canceled_job_leaves_the_line_of_its_cap_and_of_its_group(store: Store, newsroom: str) -> None:
    set_cap(store, newsroom, 1)
    enqueue(store, 1, requester_id=newsroom)
    first, second = enqueue(store, 2, requester_id=newsroom, group_id="g")
    running = claim_one(store)
    store.control.cancel(first)
    advance(store, running, until=JobStatus.SUCCEEDED)
    assert claim_one(store).job_id == second


def test_a_cap_may_come_and_go_while_jobs_wait(store: Store, newsroom: str) -> None:
    waiting = enqueue(store, 6, requester_id=newsroom)
    set_cap(store, newsroom, 2)
    assert len(store.inbox.claim("w1", 10)) == 2
    assert store.inbox.claim("w1", 10) == []
    set_cap(store, newsroom, 3)
    assert len(store.inbox.claim("w1", 10)) == 1
    set_cap(store, newsroom, None)
    assert len(store.inbox.claim("w1", 10)) == 3
    assert set(statuses(store, waiting)) == {JobStatus.CLAIMED}


def test_a_new_weight_counts_for_jobs_that_wait_already(store: Store, newsroom: str) -> None:
    enqueue(store, 60, requester_id="other")
    enqueue(store, 60, requester_id=newsroom)
    store.requester_limits.set(newsroom, {"weight": 300})
    assert abs(Counter(owners(claim_each(store, 40)))[newsroom] - 30) <= 2


def test_a_backlog_behind_a_cap_delays_nobody(store: Store, newsroom: str) -> None:
    set_cap(store, newsroom, 1)
    enqueue(store, 200, requester_id=newsroom)
    enqueue(store, 5, requester_id="other", spec=SPEC)
    assert Counter(owners(store.inbox.claim("w1", 10))) == {newsroom: 1, "other": 5}


@pytest.mark.parametrize("engine", ["sqlite", "postgres"], indirect=True)
def test_a_cap_holds_among_many_workers(store: Store, newsroom: str) -> None:
    """Two concurrent sweeps must not admit jobs on the basis of the same count of running jobs."""
    cap, workers = 3, 8
    set_cap(store, newsroom, cap)
    jobs = enqueue(store, 120, requester_id=newsroom)
    most, lock, errors = [0], threading.Lock(), list[Exception]()

    def work(name: str) -> None:
        try:
            while any(status is JobStatus.QUEUED for status in statuses(store, jobs[-5:])):
                for job in store.inbox.claim(name, 2):
                    with lock:
                        most[0] = max(most[0], ready_or_running(store, newsroom))
                    advance(store, job, until=JobStatus.SUCCEEDED)
        except Exception as error:  # noqa: BLE001  the assertion below shows it
            errors.append(error)

    threads = [threading.Thread(target=work, args=(f"w{number}",)) for number in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert errors == []
    assert 1 < most[0] <= cap


def ready_or_running(store: Store, requester_id: str) -> int:
    job = inbox_jobs.c
    working = sa.select(sa.func.count()).where(
        job.requester_id == requester_id, job.lane.in_(["ready", "leased"])
    )
    with store.database.snapshot() as connection:
        return int(connection.execute(working).scalar_one())
