"""Secrets that a remote worker requests. A refresh that is repeated calls the requester once."""

from collections.abc import Iterator

import pytest

from euterpe.control.leased_secrets import LeasedSecrets
from euterpe.control.refresher import Refresher
from euterpe.domain.spec import parse_spec
from euterpe.net.egress import Egress
from euterpe.net.policy import EgressPolicy
from euterpe.store.queue.attempt_answers import AttemptKey
from euterpe.store.queue.claims import ClaimedJob
from euterpe.store.store import Store
from tests.store.jobs import SPEC, claim_one


@pytest.fixture
def job(store: Store) -> ClaimedJob:
    """Return a job whose requester does not answer."""
    owner = store.requesters.create("studio").requester_id
    store.submit(parse_spec({**SPEC, "refresh_url": "https://127.0.0.1:1/r"}), owner).result(60)
    return claim_one(store)


@pytest.fixture
def secrets(store: Store) -> Iterator[LeasedSecrets]:
    with Egress(EgressPolicy(("127.0.0.1:1",))) as egress:
        yield LeasedSecrets(
            store, Refresher(store, egress, max_refreshes=3), lease_ms=60_000, max_refreshes=3
        )


def key_of(job: ClaimedJob) -> AttemptKey:
    return AttemptKey(job.job_id, job.attempt_id, job.claim_version)


def test_copies_of_a_refresh_call_the_requester_once(
    store: Store, secrets: LeasedSecrets, job: ClaimedJob
) -> None:
    answers = [secrets.refresh(key_of(job), 1, "forbidden", refresh_id="r-1") for _ in range(4)]
    assert store.jobs.get(job.job_id).refresh_count == 1
    assert answers == [answers[0]] * 4


def test_each_further_refresh_is_a_call_of_its_own(
    store: Store, secrets: LeasedSecrets, job: ClaimedJob
) -> None:
    for number in range(2):
        secrets.refresh(key_of(job), 1, "forbidden", refresh_id=f"r-{number}")
    assert store.jobs.get(job.job_id).refresh_count == 2
