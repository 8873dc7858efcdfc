from euterpe.domain.states import JobStatus
from euterpe.store.clock import SettableClock
from euterpe.store.store import Store
from tests.store.jobs import claim_one, enqueue


def test_a_claim_sets_everything_that_the_contract_says(store: Store, clock: SettableClock) -> None:
    (job_id,) = enqueue(store)
    job = claim_one(store, "worker-7", lease_ms=5_000)
    row = store.jobs.get(job_id)
    assert row["status"] == JobStatus.CLAIMED
    assert row["worker_id"] == "worker-7"
    assert row["lease_expires_at"] == clock.now_ms + 5_000
    assert row["heartbeat_at"] == clock.now_ms
    assert row["claim_version"] == job.claim_version == 1
    assert row["attempt_count"] == job.attempt_count == 1
    assert row["started_at"] == clock.now_ms
    (attempt,) = store.jobs.attempts(job_id)
    assert (attempt["attempt_no"], attempt["claim_version"], attempt["worker_id"]) == (1, 1, "worker-7")
    assert attempt["ended_at"] is None
