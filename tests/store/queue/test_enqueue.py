"""Enqueue with idempotency keys and source refs: `same-key-same-job` (contract §9)."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from euterpe.domain.spec import parse_spec
from euterpe.domain.states import JobStatus
from euterpe.domain.status import status_document
from euterpe.store.errors import DuplicateSource, IdempotencyConflict
from euterpe.store.queue.enqueue import Accepted, Key
from euterpe.store.store import Store
from tests.clock import SettableClock
from tests.store.jobs import SPEC, advance, claim_one, enqueue, new_job


def keyed(text: str = "k", request_hash: str = "h", **fields: Any) -> Any:
    return new_job(key=Key(text, request_hash), **fields)


def accept(store: Store, *jobs: Any) -> list[Accepted]:
    answers = store.enqueue.many(jobs)
    assert all(isinstance(answer, Accepted) for answer in answers)
    return [answer for answer in answers if isinstance(answer, Accepted)]


def test_the_same_request_gets_the_stored_answer(store: Store, clock: SettableClock) -> None:
    (first,) = accept(store, keyed())
    advance(store, claim_one(store), until=JobStatus.PROCESSING)
    clock.advance(60_000)
    (again,) = accept(store, keyed())
    assert (again.job_id, again.replayed) == (first.job_id, True)
    assert again.response == first.response, "the answer must be the stored answer"
    assert len(store.jobs.page()) == 1


def test_another_request_under_the_same_key_is_a_conflict(store: Store) -> None:
    accept(store, keyed())
    (answer,) = store.enqueue.many([keyed(request_hash="other")])
    assert isinstance(answer, IdempotencyConflict)
    assert len(store.jobs.page()) == 1


def test_a_stored_answer_can_be_read(store: Store, clock: SettableClock) -> None:
    (first,) = accept(store, keyed())
    read = store.enqueue.stored_answer
    assert read("r1", "k", "h") == Accepted(first.job_id, first.response, replayed=True)
    assert isinstance(read("r1", "k", "other"), IdempotencyConflict)
    assert read("r1", "k2", "h") is None
    assert read("r2", "k", "h") is None
    clock.advance(7 * 24 * 3600 * 1000)
    assert read("r1", "k", "h") is None
    assert len(store.jobs.page()) == 1


def test_a_key_is_the_requesters_own(store: Store) -> None:
    accept(store, keyed(requester_id="r1"), keyed(requester_id="r2"))
    assert len(store.jobs.page()) == 2


def test_a_batch_may_hold_the_same_key_many_times(store: Store) -> None:
    answers = store.enqueue.many([keyed(), keyed(), keyed(request_hash="other"), keyed("k2"), new_job()])
    first, again, conflict, other, free = answers
    assert isinstance(first, Accepted)
    assert again == Accepted(first.job_id, first.response, replayed=True)
    assert isinstance(conflict, IdempotencyConflict)
    assert isinstance(other, Accepted)
    assert isinstance(free, Accepted)
    assert len(store.jobs.page()) == 3


def test_the_same_key_a_hundred_times_at_once_makes_one_job(store: Store) -> None:
    spec = parse_spec({key: value for key, value in SPEC.items() if value is not None})
    with ThreadPoolExecutor(32) as pool:
        futures = list(pool.map(lambda _: store.submit(spec, "r1", idempotency_key="k"), range(100)))
    answers = [future.result(timeout=60) for future in futures]
    assert len({answer.job_id for answer in answers}) == 1
    assert sum(not answer.replayed for answer in answers) == 1
    assert len(store.jobs.page()) == 1


def test_the_same_key_from_many_transactions_at_once_makes_one_job(store: Store) -> None:
    """These calls bypass the group commit, so the database must enforce the uniqueness of keys."""
    with ThreadPoolExecutor(8) as pool:
        batches = [[keyed(f"k{n}") for n in range(20)][:: 1 if b % 2 else -1] for b in range(16)]
        answers = [answer for batch in pool.map(store.enqueue.many, batches) for answer in batch]
    assert len({answer.job_id for answer in answers if isinstance(answer, Accepted)}) == 20
    assert len(store.jobs.page(limit=100)) == 20


def test_an_expired_key_is_free_again(store: Store, clock: SettableClock) -> None:
    (first,) = accept(store, keyed())
    clock.advance(7 * 24 * 3600 * 1000 - 1)
    assert accept(store, keyed())[0].replayed
    clock.advance(1)
    (fresh,) = accept(store, keyed(request_hash="other"))
    assert fresh.job_id != first.job_id
    assert accept(store, keyed(request_hash="other"))[0].job_id == fresh.job_id


def test_expired_keys_can_be_forgotten_and_live_ones_stay(store: Store, clock: SettableClock) -> None:
    accept(store, *[keyed(f"old{n}") for n in range(5)])
    clock.advance(7 * 24 * 3600 * 1000)
    accept(store, keyed("new"))
    assert store.enqueue.forget_expired(limit=3) == 3
    assert store.enqueue.forget_expired(limit=3) == 2
    assert store.enqueue.forget_expired() == 0
    assert accept(store, keyed("new"))[0].replayed


def test_the_answer_is_the_status_document_as_it_can_be_read_back(store: Store) -> None:
    (accepted,) = accept(store, new_job(external_id="asset-42"))
    assert accepted.response == status_document(store.jobs.get(accepted.job_id))
    assert accepted.response["status"] == "queued"


def test_a_source_ref_belongs_to_one_job_for_ever(store: Store) -> None:
    enqueue(store, source_ref="bull:1")
    with pytest.raises(DuplicateSource):
        store.enqueue.many([new_job(source_ref="bull:2"), new_job(source_ref="bull:1")])
    assert len(store.jobs.page()) == 1, "no part of the batch must be stored"


def test_one_bad_job_does_not_fail_its_neighbours_in_a_shared_commit(store: Store) -> None:
    spec = parse_spec(SPEC)
    jobs = [store.new_job(spec, "r1", source_ref=ref) for ref in ("a", "b", "a", "c")]
    outcomes = [store.commits.submit(job) for job in jobs]
    errors = [future.exception(timeout=60) for future in outcomes]
    assert [type(error) for error in errors].count(DuplicateSource) == 1
    assert len(store.jobs.page()) == 3


@pytest.mark.parametrize("engine", ["postgres"], indirect=True)
def test_batches_with_the_same_refs_in_other_orders_do_not_deadlock(store: Store) -> None:
    refs = [f"bull:{number}" for number in range(40)]

    def enqueue_all(number: int) -> str:
        batch = [new_job(source_ref=ref) for ref in (refs if number % 2 else refs[::-1])]
        try:
            store.enqueue.many(batch)
        except DuplicateSource:
            return "refused"
        return "accepted"

    with ThreadPoolExecutor(8) as pool:
        outcomes = list(pool.map(enqueue_all, range(16)))
    assert sorted(outcomes) == ["accepted"] + ["refused"] * 15
