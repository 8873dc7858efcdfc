"""Findings of a review of issue 13 in the store. Each test states the wanted behaviour."""

import pytest

from euterpe.store.queue.claims import ClaimRequest
from euterpe.store.store import Store
from tests import engines
from tests.store.jobs import SPEC, enqueue


@pytest.fixture(params=engines.ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


LARGE = {**SPEC, "metadata": {"text": "x" * 200_000}}


def test_lost_answers_of_many_claims_of_large_jobs_are_found_again(store: Store) -> None:
    """After a restart of the API, 64 workers repeat their claims at once."""
    enqueue(store, 60, spec=LARGE)
    requests = [ClaimRequest(f"w{n}", 1, ("default",), 60_000, f"c{n}") for n in range(60)]
    for n in range(0, 60, 10):
        assert all(store.inbox.claim_for(requests[n : n + 10]))
    assert len(store.inbox.repeated([f"c{n}" for n in range(60)])) == 60


def test_lost_answers_of_many_claims_of_large_jobs_are_given_again(store: Store) -> None:
    enqueue(store, 60, spec=LARGE)
    requests = [ClaimRequest(f"w{n}", 1, ("default",), 60_000, f"c{n}") for n in range(60)]
    for n in range(0, 60, 10):
        assert all(store.inbox.claim_for(requests[n : n + 10]))
    assert all(store.inbox.claim_for(requests))
