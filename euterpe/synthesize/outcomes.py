"""The ways in which attempts end, with their probabilities, and outages.

Codes and phases are those of docs/errors.md. During an outage, every attempt with one profile fails with the
same code.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from euterpe.domain.error_codes import ErrorCode, RetryClass
from euterpe.domain.retry import JobError, canceled, lease_expired
from euterpe.domain.states import IN_PROGRESS
from euterpe.synthesize.history_plan import HistoryPlan, Ints
from euterpe.synthesize.jobs import JobColumns

CLAIMED, FETCHING, PROCESSING, UPLOADING, QUEUED = range(5)
# The names of the phases, indexed by the numbers above. Only a canceled job ends in the phase `queued`.
PHASES = (*map(str, IN_PROGRESS), "queued")
ANY = -1


class Fate(NamedTuple):
    code: str
    phase: int
    retry_class: RetryClass
    share: float  # of all attempts
    message: str
    pause_ms: int = 0  # minimum extra duration of the attempt


_AGAIN, _LATER, _NEVER = RetryClass.TRANSIENT, RetryClass.THROTTLED, RetryClass.PERMANENT
FATES = (
    Fate("released", ANY, _AGAIN, 0.003, ""),
    Fate("lease_expired", ANY, _AGAIN, 0.005, "", 52_000),
    Fate("canceled", ANY, _NEVER, 0.004, ""),
    Fate("encode_failed", PROCESSING, _NEVER, 0.005, "ffmpeg ended with exit code 69"),
    Fate("source_not_found", FETCHING, _NEVER, 0.010, "there is no such object"),
    Fate("source_not_media", FETCHING, _NEVER, 0.006, "this is no media file"),
    Fate("source_forbidden", FETCHING, _NEVER, 0.001, "storage answered 403", 6_000),
    Fate("output_forbidden", UPLOADING, _NEVER, 0.001, "storage answered 403", 6_000),
    Fate("source_unreachable", FETCHING, _AGAIN, 0.009, "storage broke off five times", 14_000),
    Fate("output_unreachable", UPLOADING, _AGAIN, 0.005, "storage broke off five times", 14_000),
    Fate("storage_throttled", FETCHING, _LATER, 0.004, "storage answered 429"),
    Fate("source_damaged", PROCESSING, _NEVER, 0.003, "the source cannot be decoded to its end"),
    Fate("encode_stalled", PROCESSING, _AGAIN, 0.002, "ffmpeg got nowhere for 120 seconds", 120_000),
    Fate("encode_killed", PROCESSING, _AGAIN, 0.002, "ffmpeg was killed by signal 9"),
    Fate("disk_full", PROCESSING, _AGAIN, 0.003, "the work directory has no room left"),
)
BY_CODE = {fate.code: number for number, fate in enumerate(FATES)}
CODES = tuple(fate.code for fate in FATES)
SUCCESS = len(FATES)
NEVER_AGAIN = np.array([fate.retry_class is _NEVER for fate in FATES] + [False])
RELEASED, LEASE_EXPIRED, CANCELED = BY_CODE["released"], BY_CODE["lease_expired"], BY_CODE["canceled"]
NOT_MEDIA, ENCODE_FAILED = BY_CODE["source_not_media"], BY_CODE["encode_failed"]
FORBIDDEN = (BY_CODE["source_forbidden"], BY_CODE["output_forbidden"])
JOBS_OF_AN_OUTAGE = 20


def job_error(code: str, phase: str) -> JobError:
    if code == "canceled":
        return canceled(phase)
    if code == "lease_expired":
        return lease_expired(phase)
    fate = FATES[BY_CODE[code]]
    return JobError(ErrorCode[code.upper()], fate.message, phase, fate.retry_class)


@dataclass(frozen=True)
class WorkerOutages:
    """Outages, each with a period and a profile. Attempts with this profile that begin in the period fail."""

    spans: tuple[tuple[int, int, int], ...]  # begins, ends, profile
    fate: int

    def strike(self, fates: tuple[Ints, Ints], claimed: Ints, profile: Ints) -> tuple[Ints, Ints]:
        """Return the fates and phases, as changed by the outages.

        An attempt that is claimed during an outage of its profile gets the fate of the outage.
        """
        fate, phase = fates
        for begins, ends, affected in self.spans:
            is_hit = (claimed >= begins) & (claimed < ends) & (profile == affected)
            fate = np.where(is_hit, self.fate, fate)
            phase = np.where(is_hit, FATES[self.fate].phase, phase)
        return fate, phase


def draw_outages(plan: HistoryPlan, jobs: JobColumns, rng: np.random.Generator) -> WorkerOutages:
    """Return outages at random times of the block.

    An outage begins when a random job becomes ready, and ends when 20 more jobs of the same profile have
    become ready.
    """
    fate = BY_CODE[plan.outage_code]
    if not plan.outages:
        return WorkerOutages(
            (), fate
        )  # without outages, draw nothing, so that the history is the same as in earlier versions
    firsts = rng.integers(0, len(jobs), plan.outages)
    return WorkerOutages(tuple(_span(jobs, int(first)) for first in firsts), fate)


def _span(jobs: JobColumns, first: int) -> tuple[int, int, int]:
    profile = int(jobs.profile[first])
    ready = np.maximum(jobs.created_ms, jobs.not_before_ms)
    same = np.sort(ready[(jobs.profile == profile) & (ready >= ready[first])])
    last = same[min(JOBS_OF_AN_OUTAGE, len(same) - 1)]
    return int(ready[first]), int(last) + 1, profile
