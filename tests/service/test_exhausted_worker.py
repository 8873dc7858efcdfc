"""A worker that may open no more files: its jobs wait, and none pays for it."""

import resource
from pathlib import Path

import pytest

from euterpe.domain.spec import parse_spec
from euterpe.store.store import Store
from tests.service.installation import Installation, Program
from tests.service.test_attempt_accounts import await_attempt
from tests.service.worker_harness import LONG_S


def lower_the_limit(worker: Program, spare: int) -> tuple[int, int]:
    """Leave so many descriptors; returns the limits of before."""
    before = resource.prlimit(worker.pid, resource.RLIMIT_NOFILE)
    numbers = [int(entry.name) for entry in Path(f"/proc/{worker.pid}/fd").iterdir()]
    resource.prlimit(worker.pid, resource.RLIMIT_NOFILE, (max(numbers) + 1 + spare, before[1]))
    return before


def submit(installation: Installation, store: Store) -> str:
    spec = parse_spec({**installation.request("clip.mp4", profile="audio-aac"), "max_attempts": 1})
    return store.submit(spec, installation.requester_id).result(LONG_S).job_id


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_a_worker_without_descriptors_charges_no_job(installation: Installation, media: Path) -> None:
    assert media.exists()
    worker = installation.start("worker")
    worker.await_log("worker_started")
    with installation.store() as store:
        warm = submit(installation, store)  # its connections are open from here on
        await_attempt(store, warm, lambda row: row["outcome"] == "succeeded")
        for spare in (0, 3, 6):
            before = lower_the_limit(worker, spare)
            job_id = submit(installation, store)
            told = len(worker.log)
            worker.await_new_log(
                ("attempt_not_charged", "database_unavailable", "claim_failed", "claims_paused"), told
            )
            resource.prlimit(worker.pid, resource.RLIMIT_NOFILE, before)
            await_attempt(store, job_id, lambda row: row["outcome"] in ("succeeded", "failed", "dead_letter"))
            job = store.jobs.get(job_id)
            assert (job["status"], job["attempt_count"]) == ("succeeded", 1), worker.log[told:]
    assert worker.stop() == 0
    assert installation.leftovers() == []
