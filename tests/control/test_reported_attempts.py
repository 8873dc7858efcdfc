"""Reports of remote workers in group commits, over a real store."""

from collections.abc import Sequence

import pytest

from euterpe.control.lease_tokens import LeaseClaim, LeaseKey, LeaseTokens, UnknownLeaseKey
from euterpe.control.reported_attempts import LeaseProof, ReportedAttempts
from euterpe.crypto.errors import KeyProviderUnavailable
from euterpe.store.store import Store
from tests.store.jobs import claim_one, enqueue

KEY = LeaseKey("k1", b"k" * 32)


@pytest.fixture
def engine() -> str:
    return "sqlite"


def test_an_absent_key_provider_is_asked_once_for_a_batch(store: Store) -> None:
    """In an earlier version, the batch failed as a whole, and was repeated report by report."""
    reads = [0]

    def keys() -> Sequence[LeaseKey]:
        reads[0] += 1
        raise KeyProviderUnavailable("no answer")

    enqueue(store)
    job = claim_one(store)
    claim = LeaseClaim(job.job_id, job.attempt_id, job.claim_version)
    proof = LeaseProof("p", job.job_id, LeaseTokens(lambda: [KEY]).mint(claim, "p"))
    reports = ReportedAttempts(store, LeaseTokens(keys), lease_ms=60_000)
    beats = [reports.heartbeat(proof, progress=None, timings=None) for _ in range(100)]
    reports.start()
    try:
        for beat in beats:
            with pytest.raises(KeyProviderUnavailable):
                beat.result(20)
    finally:
        reports.stop()
    assert reads[0] <= 2, f"{reads[0]} reads of the keys for 100 heartbeats"


def test_a_report_that_cannot_be_verified_yet_does_not_fail_its_batch(store: Store) -> None:
    enqueue(store)
    job = claim_one(store)
    claim = LeaseClaim(job.job_id, job.attempt_id, job.claim_version)
    tokens = LeaseTokens(lambda: [KEY])
    known = tokens.mint(claim, "p")
    unknown = LeaseTokens(lambda: [LeaseKey("k2", b"n" * 32)]).mint(claim, "p")
    reports = ReportedAttempts(store, tokens, lease_ms=60_000)
    good, early = (
        reports.heartbeat(LeaseProof("p", job.job_id, token), progress=None, timings=None)
        for token in (known, unknown)
    )
    reports.start()
    try:
        assert good.result(20).cancel_requested is False
        with pytest.raises(UnknownLeaseKey):
            early.result(20)
    finally:
        reports.stop()
