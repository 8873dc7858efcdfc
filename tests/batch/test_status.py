import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import pytest

from euterpe.batch.jobs_file import Batch, Submitted
from euterpe.batch.status import BatchStatus, follow, summarise
from euterpe.client import Job, StillRunning
from tests.client.scripted_server import job


def jobs(*statuses: str) -> dict[str, Job]:
    made = {}
    for number, status in enumerate(statuses):
        error = {"code": f"e{number % 2}"} if status in ("failed", "dead_letter") else None
        made[f"j{number}"] = Job.read(job(status, job_id=f"j{number}", error=error))
    return made


def batch(submitted: int, rows: int | None = None) -> Batch:
    each = [Submitted(f"j{number}", f"june.csv:{number + 2}") for number in range(submitted)]
    return Batch(submitted if rows is None else rows, each)


def test_jobs_are_counted_by_status_and_failures_by_code() -> None:
    now = summarise(batch(6), jobs("succeeded", "failed", "queued", "dead_letter", "failed"))
    assert now.document() == {
        "rows": 6,
        "submitted": 6,
        "finished": 5,
        "by_status": {"queued": 1, "succeeded": 1, "failed": 2, "dead_letter": 1, "gone": 1},
        "failures": {
            "e1": {"count": 2, "rows": ["june.csv:3", "june.csv:5"]},
            "e0": {"count": 1, "rows": ["june.csv:6"]},
        },
    }


def test_of_many_failures_the_first_rows_are_named() -> None:
    failure = summarise(batch(40), jobs(*["failed"] * 40)).failures["e0"]
    assert (failure.count, len(failure.rows), failure.rows[0]) == (20, 5, "june.csv:2")


@pytest.mark.parametrize(
    ("statuses", "rows", "expected"),
    [
        (("succeeded", "succeeded"), 2, None),
        (("succeeded", "queued"), 2, "1 of 2 jobs have not finished"),
        (("succeeded", "failed"), 2, "1 of 2 jobs have not succeeded"),
        (("succeeded",), 1, None),
        (("succeeded", "queued"), 3, "1 of 3 rows have no job yet: submit the manifest again"),
        ((), 0, None),
    ],
)
def test_only_success_has_no_shortfall(statuses: tuple[str, ...], rows: int, expected: str | None) -> None:
    assert summarise(batch(len(statuses), rows), jobs(*statuses)).shortfall == expected


class FakeService:
    """A service that answers each request with the next state, which maps job ids to the known jobs."""

    def __init__(self, *states: dict[str, Job]) -> None:
        self._states = iter(states)
        self.requests: list[list[str]] = []

    def statuses(self, job_ids: Sequence[str]) -> dict[str, Job]:
        self.requests.append(list(job_ids))
        return {job_id: job for job_id, job in next(self._states).items() if job_id in job_ids}

    def wait(self, job_id: str, timeout: float | None = None) -> Job:
        raise StillRunning(f"{job_id} after {timeout}")


def test_a_batch_is_followed_to_its_end_and_no_job_longer_than_to_its_own() -> None:
    states: list[Any] = [jobs("succeeded", "queued", "claimed"), jobs("succeeded", "succeeded", "claimed")]
    service = FakeService(*states, jobs("succeeded", "succeeded", "failed"))
    shown: list[BatchStatus] = []
    end = follow(service, batch(4), shown.append)
    assert service.requests == [["j0", "j1", "j2", "j3"], ["j1", "j2"], ["j2"]]
    assert [now.finished for now in shown] == [2, 3, 4]
    assert end.by_status == {"succeeded": 2, "failed": 1, "gone": 1}


def test_the_status_of_a_batch_needs_no_spark() -> None:
    loaded = "import sys, euterpe.batch.status, euterpe.batch.jobs_file; print('pyspark' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
