"""Simulate the attempts and events of a block of jobs, from acceptance to the end (vectorised).

All jobs are simulated together: one step simulates one claim of each unfinished job. `snapshot` then drops
everything after the end of the history, so that some jobs are unfinished.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from euterpe.domain.error_codes import RetryClass
from euterpe.domain.retry import Backoff
from euterpe.domain.states import IN_PROGRESS
from euterpe.synthesize.attempts import Course, draw_fates, run
from euterpe.synthesize.history_plan import HistoryPlan, Ints, pressure
from euterpe.synthesize.jobs import Bools, JobColumns
from euterpe.synthesize.outcomes import (
    CANCELED,
    FATES,
    FORBIDDEN,
    LEASE_EXPIRED,
    NEVER_AGAIN,
    QUEUED,
    RELEASED,
    SUCCESS,
    draw_outages,
)

Columns = dict[str, Any]  # columns by name, all of the same length
# The kinds of events, in the order in which they occur within a claim.
EVENTS = (
    "claimed",
    "fetching",
    "processing",
    "progress",
    "uploading",
    "succeeded",
    "failed",
    "dead_letter",
    "queued",
)
KIND = {name: number for number, name in enumerate(EVENTS)}
MAX_REFRESHES = 3
_BACKOFF = Backoff()
_CANCELED_WAITING = 0.004
_MEAN_WAIT_MS = 9_000
# A person retries some of the failed jobs some hours later.
_RETRIED, _RETRIED_AFTER_MS = 0.25, 3 * 3_600_000


class Lives:
    """The simulation of one block. Call `live` only once."""

    def __init__(self, plan: HistoryPlan, jobs: JobColumns, rng: np.random.Generator) -> None:
        self._plan, self._jobs, self._rng = plan, jobs, rng
        self._ready = np.maximum(jobs.created_ms, jobs.not_before_ms)
        self._count, self._version, self._claims, self._refreshes = np.zeros((4, len(jobs)), dtype=np.int64)
        self._last_fate = np.full(len(jobs), SUCCESS)
        self._retried = np.zeros(len(jobs), dtype=bool)
        self._outages = draw_outages(plan, jobs, rng)
        self._attempts: list[Columns] = []
        self._events: list[Columns] = []

    def live(self) -> tuple[Columns, Columns]:
        """Run the simulation. Return the attempts and the events, both ordered by job and time."""
        waiting = self._claim(self._cancel_some(np.arange(len(self._jobs))))
        while len(waiting):
            waiting = self._claim(waiting)
        return _in_order(self._attempts, ("claim",)), _in_order(self._events, ("claim", "kind"))

    def _cancel_some(self, of: Ints) -> Ints:
        """Cancel some waiting jobs and return the other jobs.

        The control plane claims a waiting job to cancel it, and the job fails at the same instant.
        """
        gone = self._rng.random(len(of)) < _CANCELED_WAITING
        at = self._ready[of] + self._wait(self._ready[of], self._jobs.priority[of])
        for kind, error in (("claimed", SUCCESS), ("failed", CANCELED)):
            self._add_events(kind, of[gone], at[gone], error=error, phase=QUEUED)
        return of[~gone]

    def _wait(self, ready: Ints, priority: Ints) -> Ints:
        busy = pressure(ready)
        queue = self._rng.random(len(ready)) < busy
        mean = _MEAN_WAIT_MS * busy / (1 - busy) * np.interp(priority, (0, 50, 100), (4.0, 1.0, 0.1))
        poll = self._rng.integers(20, 1_200, len(ready))
        return poll + np.where(queue, self._rng.exponential(1.0, len(ready)) * mean, 0).astype(np.int64)

    def _claim(self, of: Ints) -> Ints:
        """Simulate one attempt of each job. Return the jobs that wait for another attempt."""
        claimed = self._ready[of] + self._wait(self._ready[of], self._jobs.priority[of])
        upgraded = claimed >= self._plan.upgraded_ms
        changed = upgraded & self._plan.regresses
        fates = draw_fates(self._jobs, of, changed, self._last_fate[of], self._rng)
        fates = self._outages.strike(fates, claimed, self._jobs.profile[of])
        course = run(self._jobs, of, changed, fates, self._rng)
        ended = claimed + course.took_ms
        self._count[of] += 1
        self._version[of] += 1
        calls, renewed = self._refresh(of, course.fate)
        outcome = self._outcome(of, course.fate)
        self._attempts.append(
            {
                "job": of,
                "claim": self._claims[of],
                "no": self._count[of],
                "version": self._version[of],
                "started_ms": claimed,
                "ended_ms": ended,
                "upgraded": upgraded,
                "calls": calls,
                "renewed": renewed,
                "retried": self._retried[of],
                **course._asdict(),
                **outcome,
            }
        )
        self._add_course_events(of, claimed, ended, course)
        waiting = self._settle(of, ended, course, outcome)
        self._last_fate[of] = course.fate
        self._claims[of] += 1
        return waiting

    def _refresh(self, of: Ints, fate: Ints) -> tuple[Ints, Ints]:
        """Return two counts for each attempt: calls to the refresh URL, and calls that succeeded."""
        room = MAX_REFRESHES - self._refreshes[of]
        refused = np.isin(fate, FORBIDDEN)
        expired = self._rng.random(len(of)) < 0.12
        calls = np.where(self._jobs.refreshes[of], np.where(refused, room, np.minimum(expired, room)), 0)
        self._refreshes[of] += calls
        return calls, np.where(refused, 0, calls)

    def _outcome(self, of: Ints, fate: Ints) -> dict[str, Bools]:
        """Apply the rules of `domain.retry.decide_job` to many attempts at once.

        A test compares the results with those of `decide_job`.
        """
        never = NEVER_AGAIN[fate]
        failing = (fate != SUCCESS) & (fate != RELEASED)
        spent = failing & (fate != CANCELED) & (self._count[of] >= self._jobs.max_attempts[of])
        return {
            "dead": spent,
            "failed": spent | (failing & never),
            "again": (failing & ~never & ~spent) | (fate == RELEASED),
        }

    def _add_course_events(self, of: Ints, claimed: Ints, ended: Ints, course: Course) -> None:
        self._add_events("claimed", of, claimed)
        for phase, name in enumerate(IN_PROGRESS[1:], start=1):
            reached = course.phase >= phase
            self._add_events(name, of[reached], claimed[reached] + course.starts_ms[phase][reached])
        done = course.fate == SUCCESS
        # A succeeded attempt has one progress report, in the middle of the phase `processing`, if the
        # requester wants progress events.
        half = course.starts_ms[2] + (course.starts_ms[3] - course.starts_ms[2]) // 2
        reported = done & self._jobs.hears_progress[of]
        self._add_events("progress", of[reported], (claimed + half)[reported])
        self._add_events("succeeded", of[done], ended[done])

    def _settle(self, of: Ints, ended: Ints, course: Course, outcome: Mapping[str, Bools]) -> Ints:
        error: Columns = {"error": course.fate, "phase": course.phase}
        for kind, name in (("queued", "again"), ("failed", "failed"), ("dead_letter", "dead")):
            hit = outcome[name]
            self._add_events(kind, of[hit], ended[hit], **{key: value[hit] for key, value in error.items()})
        again, released = outcome["again"], course.fate == RELEASED
        self._count[of[released]] -= 1
        # The sweep of an expired lease raises the claim version, which fences off the former owner.
        self._version[of[course.fate == LEASE_EXPIRED]] += 1
        self._ready[of[again]] = (ended + self._pause(of, course.fate))[again]
        return np.sort(np.concatenate([of[again], self._retry(of, ended, outcome)]))

    def _pause(self, of: Ints, fate: Ints) -> Ints:
        later = np.array([one.retry_class is RetryClass.THROTTLED for one in FATES] + [False])[fate]
        base = np.where(later, _BACKOFF.throttled_base_ms, _BACKOFF.base_ms)
        full = np.minimum(base << np.maximum(self._count[of] - 1, 0), _BACKOFF.cap_ms)
        pause: Ints = full - (full * (1 - self._rng.random(len(of))) / 2).astype(np.int64)
        return np.where(fate == RELEASED, 0, pause)

    def _retry(self, of: Ints, ended: Ints, outcome: Mapping[str, Bools]) -> Ints:
        rests = outcome["failed"] & ~outcome["dead"] & (self._count[of] < self._jobs.max_attempts[of])
        wanted = rests & ~self._retried[of] & (self._rng.random(len(of)) < _RETRIED)
        chosen = of[wanted]
        at = ended + self._rng.lognormal(np.log(_RETRIED_AFTER_MS), 1.0, len(of)).astype(np.int64)
        self._add_events("queued", chosen, at[wanted])
        self._retried[chosen], self._refreshes[chosen] = True, 0
        self._ready[chosen] = at[wanted]
        return chosen

    def _add_events(
        self, kind: str, of: Ints, at: Ints, error: Ints | int = SUCCESS, phase: Ints | int = 0
    ) -> None:
        """Add one event for each job; `error` is SUCCESS for an event without an error."""
        self._events.append(
            {
                "job": of,
                "claim": self._claims[of],
                "kind": np.full(len(of), KIND[kind]),
                "at_ms": at,
                "error": np.broadcast_to(error, len(of)),
                "phase": np.broadcast_to(phase, len(of)),
            }
        )


def _in_order(parts: Sequence[Columns], by: Sequence[str]) -> Columns:
    whole = {name: np.concatenate([part[name] for part in parts], axis=-1) for name in parts[0]}
    order = np.lexsort([whole[name] for name in reversed(("job", *by))])
    return {name: column[..., order] for name, column in whole.items()}
