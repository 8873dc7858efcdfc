"""The status of a batch: its jobs counted by status, and failed jobs by error code."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

from euterpe.analytics.errors import AnalyticsError
from euterpe.batch.jobs_file import Batch, Submitted
from euterpe.client import Gone, Job, NotFound, StillRunning
from euterpe.domain.states import FINISHED, JobStatus

_FIRST = 5  # number of rows listed for each error
_PAUSE_S = 2.0
GONE = "gone"  # the job was pruned, or belongs to another requester


class BatchIncomplete(AnalyticsError):
    """Raised when a part of the batch was not accepted or has not succeeded. The message names this part."""

    code = "batch_incomplete"


@dataclass
class Failure:
    count: int = 0
    rows: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class BatchStatus:
    rows: int
    submitted: int
    by_status: Mapping[str, int]
    failures: Mapping[str, Failure]

    @property
    def finished(self) -> int:
        return sum(count for status, count in self.by_status.items() if status in FINISHED or status == GONE)

    @property
    def shortfall(self) -> str | None:
        """Return why the batch has not succeeded, or None if all its jobs have succeeded."""
        if (missing := self.rows - self.submitted) > 0:
            return f"{missing} of {self.rows} rows have no job yet: submit the manifest again"
        if (running := self.submitted - self.finished) > 0:
            return f"{running} of {self.rows} jobs have not finished"
        if (others := self.rows - self.by_status.get(JobStatus.SUCCEEDED, 0)) > 0:
            return f"{others} of {self.rows} jobs have not succeeded"
        return None

    def document(self) -> dict[str, Any]:
        failures = {code: {"count": each.count, "rows": each.rows} for code, each in self.failures.items()}
        totals = {"rows": self.rows, "submitted": self.submitted, "finished": self.finished}
        return {**totals, "by_status": dict(self.by_status), "failures": failures}


class StatusClient(Protocol):
    """The methods of `euterpe.client.Client` that this module uses."""

    def statuses(self, job_ids: Sequence[str]) -> dict[str, Job]: ...

    def wait(self, job_id: str, timeout: float | None = None) -> Job: ...


def fetch_status(client: StatusClient, batch: Batch) -> BatchStatus:
    """Return the batch's current status."""
    return summarise(batch, client.statuses(_ids(batch)))


def follow(
    client: StatusClient, batch: Batch, show: Callable[[BatchStatus], None], *, pause_s: float = _PAUSE_S
) -> BatchStatus:
    """Poll the unfinished jobs until all have finished. Call `show` with the status after each poll."""
    known: dict[str, Job] = {}
    open_ids = _ids(batch)
    while True:
        known |= client.statuses(open_ids)
        show(now := summarise(batch, known))
        open_ids = [job_id for job_id in open_ids if job_id in known and not known[job_id].is_finished]
        if not open_ids:
            return now
        with suppress(StillRunning, NotFound, Gone):
            client.wait(open_ids[0], timeout=pause_s)


def _ids(batch: Batch) -> list[str]:
    return [each.job_id for each in batch.submitted]


def summarise(batch: Batch, jobs: Mapping[str, Job]) -> BatchStatus:
    """Count the batch's jobs by status and error code; a job that is not in `jobs` counts as gone."""
    counts = Counter(_status(each, jobs) for each in batch.submitted)
    order = [*JobStatus, GONE]
    failures: dict[str, Failure] = {}
    for each in batch.submitted:
        job = jobs.get(each.job_id)
        if job is not None and job.status in (JobStatus.FAILED, JobStatus.DEAD_LETTER):
            failure = failures.setdefault(str((job.error or {}).get("code")), Failure())
            failure.count += 1
            if len(failure.rows) < _FIRST:
                failure.rows.append(each.place)
    by_status = {str(status): counts[status] for status in sorted(counts, key=order.index)}
    by_count = dict(sorted(failures.items(), key=lambda item: -item[1].count))
    return BatchStatus(batch.rows, len(batch.submitted), by_status, by_count)


def _status(each: Submitted, jobs: Mapping[str, Job]) -> str:
    job = jobs.get(each.job_id)
    return GONE if job is None else job.status
