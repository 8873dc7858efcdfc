"""The row of a foreign job belongs to the requester of the bridge, whatever ids the producer chooses."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from euterpe.bridges.adapter import ForeignJob
from euterpe.bridges.attach import Attached, Attacher, JobRules, Rejected
from euterpe.bridges.requester_account import QueueLimits, RequesterAccount, StoreCalls
from euterpe.domain.profiles import built_in_profiles
from euterpe.domain.states import JobStatus
from euterpe.storage.policy import StoragePolicy
from euterpe.store.store import Store
from tests.bridges.running_bridge import DATA, MAPPING
from tests.bridges.scripted_worker import FLAKY, claim, fail

SOURCE_REF = "bullmq:bull:video-jobs:7:1795185018542"


def attach(store: Store, requester: str, data: Mapping[str, Any] | None = DATA) -> Attached | Rejected:
    """Attach the same foreign job as the bridge of a requester."""

    async def run() -> Attached | Rejected:
        calls = StoreCalls()
        account = RequesterAccount(store, calls, requester, QueueLimits())
        await account.find()
        policy = StoragePolicy(roots=(Path("/media"),), endpoints=())
        rules = JobRules({"transcode": MAPPING}, built_in_profiles(), {}, policy)
        job = ForeignJob(job_id="7", source_ref=SOURCE_REF, name="transcode", data=data)
        try:
            return await Attacher(store, calls, rules, account).attach(job)
        finally:
            calls.stop()

    return asyncio.run(run())


def test_the_row_of_another_requester_is_neither_attached_nor_retried(store: Store) -> None:
    """Otherwise, a producer that guesses an id would read another requester's outputs, and retry its job."""
    store.requesters.create("sports")  # `newsroom` is there already
    ours = attach(store, "newsroom")
    assert isinstance(ours, Attached)
    fail(store, claim(store), FLAKY)
    for data in (None, DATA):
        refused = attach(store, "sports", data)
        assert isinstance(refused, Rejected)
        assert refused.failure.code == "wrong_requester"
    assert store.jobs.get(ours.job_id).status == JobStatus.FAILED
    again = attach(store, "newsroom")
    assert isinstance(again, Attached)
    assert again.is_retried
