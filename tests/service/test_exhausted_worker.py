"""Test that a worker without free file descriptors charges no job: its jobs wait."""

import resource
from pathlib import Path

import pytest

from euterpe.domain.spec import parse_spec
from euterpe.store.store import Store
from tests.service.installation import Installation, Program
from tests.service.test_attempt_accounts import await_attempt
from tests.service.worker_harness import TIMEOUT_S


def lower_the_limit(worker: Program, spare: int) -> tuple[int, int]:
    """Limit the worker to `spare` free file descriptors. Return the previous limits."""
    before = resource.prlimit(worker.pid, resource.RLIMIT_NOFILE)
    numbers = [int(entry.name) for entry in Path(f"/proc/{worker.pid}/fd").iterdir()]
    resource.prlimit(worker.pid, resource.RLIMIT_NOFILE, (max(numbers) + 1 + spare, before[1]))
    return before


def submit(installation: Installation, store: Store) -> str:
    spec = parse_spec({**installation.request("clip.mp4", profile="audio-aac"), "max_attempts": 1})
    return store.submit(spec, installation.requester_id).result(TIMEOUT_S).job_id


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_a_worker_without_descriptors_charges_no_job(installation: Installation, media: Path) -> None:
    assert media.exists()
    worker = installation.start("worker")
    worker.await_log("worker_started")
    with installation.store() as store:
        # During its first job, the worker opens the connections that it keeps open.
        first = submit(installation, store)
        await_attempt(store, first, lambda row: row.outcome == "succeeded")
        for spare in (0, 3, 6):
            before = lower_the_limit(worker, spare)
            job_id = submit(installation, store)
            seen = len(worker.log)
            worker.await_new_log(
                ("attempt_not_charged", "database_unavailable", "claim_failed", "claims_paused"), seen
            )
            resource.prlimit(worker.pid, resource.RLIMIT_NOFILE, before)
            await_attempt(store, job_id, lambda row: row.outcome in ("succeeded", "failed", "dead_letter"))
            job = store.jobs.get(job_id)
            assert (job.status, job.attempt_count) == ("succeeded", 1), worker.log[seen:]
    assert worker.stop() == 0
    assert installation.leftovers() == []
