"""The long polls of remote workers, over a real store."""

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import wait
from typing import Any

import pytest

from euterpe.control.claim_desk import ClaimDesk, DeskTimings
from euterpe.control.waiting_claims import Waiting
from euterpe.domain.leased_job import Unavailable
from euterpe.store.engine.wakeup import Topic
from euterpe.store.queue.claims import ClaimRequest, ClaimResult
from euterpe.store.store import Store
from tests.store.attempts import release
from tests.store.jobs import enqueue

# With SELDOM, a poll cannot find the job before the wake-up does. OFTEN is for libSQL, which sends no
# wake-ups.
SELDOM, OFTEN = DeskTimings(poll_s=60.0), DeskTimings(poll_s=0.05)
LONG_S = 30.0


class Claims:
    """The claims of a store. A test can make them fail or wait, and can count claims without jobs."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.empty = self.calls = 0
        self.errors: list[Exception] = []
        self.begun, self.may_go_on = threading.Event(), threading.Event()
        self.queues: list[int] = []  # the number of different queues of each claim
        self.loses_answers = False
        self.may_go_on.set()

    def claim_for(
        self, requests: Sequence[ClaimRequest], unsure: Sequence[ClaimRequest]
    ) -> Sequence[ClaimResult]:
        self.calls += 1
        self.queues.append(len({queue for one in requests for queue in one.queues}))
        self.begun.set()
        assert self.may_go_on.wait(LONG_S)
        if self.errors and not self.loses_answers:
            raise self.errors.pop()
        results = self._store.inbox.claim_for(requests, unsure)
        if self.errors:
            raise self.errors.pop()
        self.empty += not any(result.jobs for result in results)
        return results


Open = Callable[..., ClaimDesk]


@pytest.fixture
def claims(store: Store) -> Claims:
    return Claims(store)


@pytest.fixture
def desk(store: Store, claims: Claims) -> Iterator[ClaimDesk]:
    desk = desk_of(store, claims)
    desk.start()
    yield desk
    claims.may_go_on.set()
    desk.stop()


def desk_of(store: Store, claims: Claims, timings: DeskTimings | None = None, **options: Any) -> ClaimDesk:
    listener = store.database.listen(Topic.INBOX)
    hints = store.database.engines.read_limit > 100
    timings = timings or (SELDOM if hints else OFTEN)
    return ClaimDesk(claims.claim_for, listener, timings=timings, **options)


def request(worker_id: str = "w1", limit: int = 1, **options: object) -> ClaimRequest:
    return ClaimRequest(worker_id, limit, **options)  # type: ignore[arg-type]


def ids(waiting: Waiting) -> list[str]:
    return [job.job_id for job in waiting.jobs.result(LONG_S)]


def test_a_waiting_worker_gets_the_next_job(store: Store, desk: ClaimDesk) -> None:
    waiting = desk.enter(request())
    (job_id,) = enqueue(store)
    assert ids(waiting) == [job_id]


def test_workers_are_served_in_the_order_of_their_arrival(store: Store, claims: Claims) -> None:
    desk = desk_of(store, claims)
    waiting = [desk.enter(request(f"w{number}")) for number in range(5)]
    job_ids = enqueue(store, 3)
    desk.start()
    assert [ids(one) for one in waiting[:3]] == [[job_id] for job_id in job_ids]
    assert not any(one.jobs.done() for one in waiting[3:])
    desk.stop()


def test_of_2000_waiting_workers_one_gets_the_only_job(store: Store, claims: Claims) -> None:
    hints = store.database.engines.read_limit > 100
    desk = desk_of(store, claims, SELDOM if hints else DeskTimings())
    desk.start()
    waiting = [desk.enter(request(f"w{number}", claim_id=f"c{number}")) for number in range(2_000)]
    look(desk)
    empty_before = claims.empty
    if hints:
        assert empty_before <= 3, "workers that arrive do not each cause a claim"
    (job_id,) = enqueue(store)
    wait([one.jobs for one in waiting], LONG_S, return_when="FIRST_COMPLETED")
    empty = claims.empty - empty_before
    look(desk)
    winners = [one for one in waiting if one.jobs.done()]
    assert [ids(one) for one in winners] == [[job_id]]
    assert winners == waiting[:1]
    assert empty <= 2
    desk.stop()


def look(desk: ClaimDesk) -> None:
    """Wait until the desk has served all earlier requests."""
    assert ids(desk.enter(request("looker"), waits=False)) == []


def test_a_worker_that_does_not_wait_is_answered_by_one_claim(store: Store, desk: ClaimDesk) -> None:
    assert ids(desk.enter(request(), waits=False)) == []
    (job_id,) = enqueue(store)
    assert ids(desk.enter(request(), waits=False)) == [job_id]


def test_a_lost_answer_is_given_again(store: Store, desk: ClaimDesk) -> None:
    (job_id,) = enqueue(store)
    first = desk.enter(request(claim_id="c1"))
    assert ids(first) == [job_id]
    again = desk.enter(request(claim_id="c1"))
    assert again.jobs.result(LONG_S)[0].attempt_id == first.jobs.result()[0].attempt_id
    assert store.jobs.get(job_id).attempt_count == 1


def test_a_repeated_claim_of_an_empty_queue_is_found_by_the_next_claim(store: Store, claims: Claims) -> None:
    """The next claim of the desk finds the repeated claim, although five workers have waited longer."""
    enqueue(store)
    desk = desk_of(store, claims, SELDOM, most_at_once=2)
    desk.start()
    first = desk.enter(request(claim_id="c1"))
    (job,) = first.jobs.result(LONG_S)
    others = [desk.enter(request(f"w{number}")) for number in range(5)]
    look(desk)
    again = desk.enter(request(claim_id="c1"))
    new = desk.enter(request(claim_id="c2"))
    look(desk)
    assert again.jobs.result(LONG_S)[0].attempt_id == job.attempt_id
    assert not any(one.jobs.done() for one in (new, *others))
    assert desk.leave(new), "its claim was looked for"
    desk.stop()


def test_a_claim_is_for_more_workers_while_there_are_jobs_for_all(store: Store, claims: Claims) -> None:
    desk = desk_of(store, claims, SELDOM, most_jobs=store.database.engines.read_limit)
    waiting = [desk.enter(request(f"w{number}", claim_id=f"c{number}")) for number in range(60)]
    job_ids = enqueue(store, 60)
    desk.start()
    assert [ids(one) for one in waiting] == [[job_id] for job_id in job_ids]
    assert claims.calls <= 6, "8 with eight workers for each claim"
    desk.stop()


def test_a_claim_whose_attempts_have_ended_is_answered_without_jobs(store: Store, desk: ClaimDesk) -> None:
    enqueue(store)
    (job,) = desk.enter(request(claim_id="c1")).jobs.result(LONG_S)
    store.attempt_ends.end([release(job, delay_ms=1_000_000)])
    assert ids(desk.enter(request(claim_id="c1"))) == []


def test_a_request_that_was_sent_twice_shares_its_answer(store: Store, claims: Claims) -> None:
    """A claim of this desk is for at most one worker, so no claim contains both copies of the request."""
    desk = desk_of(store, claims, most_at_once=1)
    waiting = [desk.enter(request(claim_id="c1")) for _ in range(2)]
    (job_id, _) = enqueue(store, 2)
    desk.start()
    assert [ids(one) for one in waiting] == [[job_id], [job_id]]
    desk.stop()


def test_a_copy_that_waits_behind_other_workers_shares_the_answer_too(store: Store, claims: Claims) -> None:
    """After the job is claimed, the queue is empty. The copy must not wait for the claim of a later job."""
    desk = desk_of(store, claims, most_at_once=2)
    desk.start()
    first, _, copy = (
        desk.enter(request(claim_id="c1")),
        desk.enter(request("w2")),
        desk.enter(request(claim_id="c1")),
    )
    look(desk)
    (job_id,) = enqueue(store)
    assert [ids(first), ids(copy)] == [[job_id], [job_id]]
    desk.stop()


def test_a_full_claim_does_not_show_that_the_queue_is_empty(store: Store, claims: Claims) -> None:
    desk = desk_of(store, claims, SELDOM, most_jobs=1, most_at_once=1)
    waiting = [desk.enter(request(f"w{number}")) for number in range(3)]
    enqueue(store, 3)
    desk.start()
    assert all(len(ids(one)) == 1 for one in waiting)
    desk.stop()


@pytest.mark.parametrize("loses_answers", [False, True])
def test_an_error_of_a_claim_loses_nobody(store: Store, claims: Claims, *, loses_answers: bool) -> None:
    """The desk uses the claim ids to find the jobs of a claim whose answer was lost."""
    claims.errors, claims.loses_answers = [Unavailable("away"), RuntimeError("a bug")], loses_answers
    desk = desk_of(store, claims, OFTEN)
    waiting = [desk.enter(request(f"w{number}", claim_id=f"c{number}")) for number in range(3)]
    job_ids = enqueue(store, 3)
    desk.start()
    assert sorted(ids(one)[0] for one in waiting) == job_ids
    assert [store.jobs.get(job_id).attempt_count for job_id in job_ids] == [1, 1, 1]
    assert not desk.is_failing
    desk.stop()


def test_a_stop_answers_all_waiting_workers_first(store: Store, claims: Claims) -> None:
    desk = desk_of(store, claims, SELDOM)  # no poll, because a poll would claim for the waiting workers
    desk.start()
    waiting = [desk.enter(request(f"w{number}")) for number in range(50)]
    look(desk)
    claims.begun.clear()
    claims.may_go_on.clear()
    busy = desk.enter(request("busy"), waits=False)
    assert claims.begun.wait(LONG_S)
    desk.begin_stop()  # the claim thread is still blocked
    assert [ids(one) for one in waiting] == [[]] * 50
    assert not busy.jobs.done()
    claims.may_go_on.set()
    assert ids(busy) == []
    with pytest.raises(Unavailable):
        desk.enter(request())
    desk.stop()


def test_a_worker_that_is_left_out_by_its_claim_is_answered_by_the_stop(
    desk: ClaimDesk, claims: Claims
) -> None:
    claims.may_go_on.clear()
    waiting = desk.enter(request())
    assert claims.begun.wait(LONG_S)
    desk.begin_stop()
    claims.may_go_on.set()
    assert ids(waiting) == []


def test_a_stop_does_not_deny_a_claim_that_was_not_looked_for(store: Store, claims: Claims) -> None:
    """The worker must repeat the claim, because an earlier request with this id may have claimed jobs."""
    desk = desk_of(store, claims)
    waiting = desk.enter(request(claim_id="c1"))
    desk.begin_stop()
    with pytest.raises(Unavailable):
        waiting.jobs.result(LONG_S)
    desk.stop()


def test_too_many_workers_are_refused(store: Store, claims: Claims) -> None:
    desk = desk_of(store, claims, most_waiting=2)
    one, _ = desk.enter(request()), desk.enter(request())
    with pytest.raises(Unavailable, match="2 workers"):
        desk.enter(request())
    assert desk.leave(one)
    desk.enter(request())
    desk.stop()


def test_a_worker_that_left_gets_no_job(store: Store, claims: Claims) -> None:
    desk = desk_of(store, claims, SELDOM)  # no poll, because w1 cannot leave while a poll claims for w1
    desk.start()
    waiting = desk.enter(request("w1"))
    look(desk)
    assert desk.leave(waiting)
    assert not desk.leave(waiting)
    (job_id,) = enqueue(store)
    assert ids(desk.enter(request("w2"), waits=False)) == [job_id]
    assert store.jobs.get(job_id).worker_id == "w2"
    desk.stop()


def test_a_worker_cannot_leave_while_the_desk_claims_for_it(
    store: Store, desk: ClaimDesk, claims: Claims
) -> None:
    enqueue(store)
    claims.may_go_on.clear()
    waiting = desk.enter(request())
    assert claims.begun.wait(LONG_S)
    assert not desk.leave(waiting)
    claims.may_go_on.set()
    assert len(ids(waiting)) == 1


def test_a_worker_that_leaves_during_a_claim_gets_its_result(desk: ClaimDesk, claims: Claims) -> None:
    """If this worker got no result, it would see an error, although nothing failed."""
    claims.may_go_on.clear()
    waiting = desk.enter(request())
    assert claims.begun.wait(LONG_S)
    assert not desk.leave(waiting)
    claims.may_go_on.set()
    assert ids(waiting) == []


def test_a_released_claim_waits_no_more(store: Store, desk: ClaimDesk) -> None:
    waiting, other = desk.enter(request(claim_id="c1")), desk.enter(request(claim_id="c2"))
    look(desk)
    desk.end_claim("c1")
    assert ids(waiting) == []
    (job_id,) = enqueue(store)
    assert ids(other) == [job_id]


def test_a_release_finds_the_worker_for_which_the_desk_claims(desk: ClaimDesk, claims: Claims) -> None:
    claims.may_go_on.clear()
    waiting = desk.enter(request(claim_id="c1"))
    assert claims.begun.wait(LONG_S)
    assert desk.end_claim("c1") == [waiting]
    claims.may_go_on.set()
    assert ids(waiting) == []


# -- claims that are over


def test_a_late_copy_of_an_empty_claim_gets_no_job(store: Store, desk: ClaimDesk) -> None:
    """The worker already uses a new claim id, so no worker would run a job that the late copy gets."""
    assert ids(desk.enter(request(claim_id="c1"), waits=False)) == []
    (job_id,) = enqueue(store)
    assert ids(desk.enter(request(claim_id="c1"))) == []
    assert ids(desk.enter(request(claim_id="c2"))) == [job_id]
    assert store.jobs.get(job_id).attempt_count == 1


def test_a_claim_that_waits_twice_ends_for_both(store: Store, claims: Claims) -> None:
    desk = desk_of(store, claims, SELDOM)
    desk.start()
    first, copy = desk.enter(request(claim_id="c1")), desk.enter(request(claim_id="c1"))
    look(desk)
    assert desk.leave(first)
    assert ids(copy) == []
    (job_id,) = enqueue(store)
    assert ids(desk.enter(request(claim_id="c2"), waits=False)) == [job_id]
    desk.stop()


def test_a_worker_cannot_leave_while_the_desk_claims_for_a_copy_of_its_claim(
    store: Store, claims: Claims
) -> None:
    desk = desk_of(store, claims, most_at_once=1)
    copy, first = desk.enter(request(claim_id="c1")), desk.enter(request(claim_id="c1"))
    (job_id,) = enqueue(store)
    claims.may_go_on.clear()
    desk.start()
    assert claims.begun.wait(LONG_S)
    first.is_new = False
    assert not desk.leave(first)
    claims.may_go_on.set()
    assert [ids(copy), ids(first)] == [[job_id], [job_id]]
    desk.stop()


def test_a_late_copy_of_a_released_claim_gets_no_job(store: Store, desk: ClaimDesk) -> None:
    assert desk.end_claim("c1") == []
    (job_id,) = enqueue(store)
    assert ids(desk.enter(request(claim_id="c1"))) == []
    assert store.jobs.get(job_id).attempt_count == 0


def test_a_claim_that_was_given_up_may_be_repeated(store: Store, desk: ClaimDesk) -> None:
    """The worker repeats the claim, because it has received no answer yet."""
    waiting = desk.enter(request(claim_id="c1"))
    look(desk)
    desk.give_up(waiting)
    (job_id,) = enqueue(store)
    assert ids(desk.enter(request(claim_id="c1"))) == [job_id]


def test_a_release_waits_for_a_claim_that_was_given_up(store: Store, desk: ClaimDesk, claims: Claims) -> None:
    """A release that does not wait would find no jobs, because the claim takes its jobs later."""
    (job_id,) = enqueue(store)
    claims.may_go_on.clear()
    waiting = desk.enter(request(claim_id="c1"))
    assert claims.begun.wait(LONG_S)
    desk.give_up(waiting)
    assert desk.end_claim("c1") == [waiting]
    claims.may_go_on.set()
    assert ids(waiting) == [job_id]


def test_a_release_does_not_wait_for_ever_for_a_claim_that_is_given_up(
    store: Store, desk: ClaimDesk, claims: Claims
) -> None:
    (job_id,) = enqueue(store)
    claims.may_go_on.clear()
    waiting = desk.enter(request(claim_id="c1"))
    assert claims.begun.wait(LONG_S)
    assert desk.end_claim("c1") == [waiting]
    desk.give_up(waiting)
    claims.may_go_on.set()
    assert ids(waiting) == [job_id]


def test_a_claim_that_was_given_up_and_found_nothing_may_be_repeated(
    store: Store, desk: ClaimDesk, claims: Claims
) -> None:
    claims.may_go_on.clear()
    waiting = desk.enter(request(claim_id="c1"))
    assert claims.begun.wait(LONG_S)
    desk.give_up(waiting)
    claims.may_go_on.set()
    assert ids(waiting) == []
    (job_id,) = enqueue(store)
    assert ids(desk.enter(request(claim_id="c1"))) == [job_id]


def test_a_claim_that_was_given_up_ends_with_its_error(store: Store, claims: Claims) -> None:
    desk = desk_of(store, claims, OFTEN)
    desk.start()
    claims.errors = [Unavailable("away")]
    claims.may_go_on.clear()
    waiting = desk.enter(request(claim_id="c1"))
    assert claims.begun.wait(LONG_S)
    desk.give_up(waiting)
    claims.may_go_on.set()
    with pytest.raises(Unavailable):
        waiting.jobs.result(LONG_S)
    (job_id,) = enqueue(store)
    assert ids(desk.enter(request(claim_id="c1"))) == [job_id]
    desk.stop()


def test_a_claim_that_is_over_is_forgotten_after_a_while(store: Store, claims: Claims) -> None:
    now = [0.0]
    desk = desk_of(store, claims, clock=lambda: now[0])
    desk.start()
    desk.end_claim("c1")
    now[0] += 61.0
    desk.end_claim("c2")
    (job_id,) = enqueue(store)
    assert ids(desk.enter(request(claim_id="c2"))) == []
    assert ids(desk.enter(request(claim_id="c1"))) == [job_id]
    desk.stop()


def test_a_claim_has_a_bounded_number_of_queues(store: Store, claims: Claims) -> None:
    """A claim makes one query for each queue, all in one transaction.

    On SQLite, all other writes wait for this transaction, so it must be short.
    """
    desk = desk_of(store, claims, SELDOM, most_queues=64)
    waiting = [
        desk.enter(request(f"w{n}", queues=tuple(f"q{n}-{m}" for m in range(16))), waits=False)
        for n in range(20)
    ]
    many = desk.enter(request("many", queues=tuple(f"q{n}" for n in range(100))), waits=False)
    desk.start()
    assert [ids(one) for one in (*waiting, many)] == [[]] * 21
    assert max(claims.queues[:-1]) <= 64
    assert claims.queues[-1] == 100
    desk.stop()


def test_workers_that_do_not_wait_all_get_a_claim(store: Store, claims: Claims) -> None:
    """The first claim is for fewer than 20 workers.

    For the other workers, the same transaction only looks up earlier claims with the same claim ids. This
    lookup must not count as an answer to these workers.
    """
    job_ids = enqueue(store, 20)
    desk = desk_of(store, claims, SELDOM)
    waiting = [desk.enter(request(f"w{n}", claim_id=f"c{n}"), waits=False) for n in range(20)]
    desk.start()
    assert sorted(job_id for one in waiting for job_id in ids(one)) == sorted(job_ids)
    desk.stop()
