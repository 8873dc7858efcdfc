from euterpe.domain.states import JobStatus
from euterpe.store.engine.ids import new_id
from euterpe.store.queue.attempt_answers import AttemptKey, ReportRefusal
from euterpe.store.queue.transition import Transition
from euterpe.store.store import Store
from tests.clock import SettableClock
from tests.store.attempts import claim_as, completion, key_of
from tests.store.jobs import enqueue


def test_an_attempt_finds_its_job_as_it_was_claimed(store: Store) -> None:
    enqueue(store)
    job = claim_as(store)
    assert store.held_jobs.get(key_of(job), lease_ms=job.lease_ms) == job
    store.inbox.advance([Transition.advance(job, JobStatus.CLAIMED, JobStatus.FETCHING)])
    assert store.held_jobs.get(key_of(job), lease_ms=job.lease_ms) == job


def test_an_attempt_holds_its_job_until_the_sweep(store: Store, clock: SettableClock) -> None:
    enqueue(store)
    job = claim_as(store, lease_ms=1_000)
    clock.advance(2_000)
    assert store.held_jobs.get(key_of(job), lease_ms=job.lease_ms) == job
    store.inbox.sweep()
    assert store.held_jobs.get(key_of(job), lease_ms=1) is ReportRefusal.LEASE_LOST


def test_an_attempt_that_has_ended_and_a_wrong_key_hold_nothing(store: Store) -> None:
    enqueue(store)
    job = claim_as(store)
    wrong = [
        key_of(job)._replace(attempt_id=new_id()),
        key_of(job)._replace(claim_version=job.claim_version + 1),
    ]
    assert [store.held_jobs.get(key, lease_ms=1) for key in wrong] == [ReportRefusal.LEASE_LOST] * 2
    store.attempt_ends.complete([completion(job)])
    assert store.held_jobs.get(key_of(job), lease_ms=1) is ReportRefusal.LEASE_LOST


def test_a_missing_job_is_told(store: Store) -> None:
    assert store.held_jobs.get(AttemptKey(new_id(), new_id(), 1), lease_ms=1) is ReportRefusal.UNKNOWN_JOB
