"""The lease of a job at a remote worker, which does not know the time of the database's clock."""

import math
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import structlog

from euterpe.client.worker_answers import BeatAnswer, Claimed
from euterpe.client.worker_calls import Beat, Lease
from euterpe.domain.leased_job import ProgressFigures

# The publication of a file must end before the lease expires. So it must not begin in the last part of the
# lease: a quarter of the lease, but at most ten seconds.
_LONGEST_MARGIN_S = 10.0
_log = structlog.get_logger(__name__)
Clock = Callable[[], float]


def boot_clock() -> float:
    """Return the seconds since the boot, including the time for which the machine was suspended.

    `time.monotonic` stops during a suspension, so a lease would seem to last too long.
    """
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class HeldLease:
    """A lease, from its claim until the job is lost or has ended. Thread-safe.

    The lease begins when the database writes it: after the request was sent, and before its answer arrived.
    So the lease is certainly valid until `holds_until`, which is counted from the time of the request. It has
    certainly expired at `runs_out_at`, which is counted from the time of the answer. The owner may revive an
    expired lease until the sweep, so only the server decides that a job is lost.
    """

    def __init__(self, claimed: Claimed, *, sent_at: float, received_at: float) -> None:
        self.lease: Lease = claimed.lease
        self._ttl_s, self._progress_interval_s = claimed.lease_ttl_s, claimed.progress_interval_s
        self._lock = threading.Lock()
        self._renewed_by = sent_at  # the time at which the last renewing request was sent
        self._holds_until, self._runs_out_at = sent_at + self._ttl_s, received_at + self._ttl_s
        self._is_lost = self._cancel_requested = self._was_reported = False
        self._progress: ProgressFigures | None = None
        self._progress_sent_at = received_at

    @property
    def ttl_s(self) -> float:
        return self._ttl_s

    @property
    def is_lost(self) -> bool:
        return self._is_lost

    @property
    def cancel_requested(self) -> bool:
        return self._cancel_requested

    @property
    def holds_until(self) -> float:
        """Return the time until which no other worker can own the job. It is in the past for a lost job."""
        with self._lock:
            return float("-inf") if self._is_lost else self._holds_until

    def may_publish(self, now: float) -> bool:
        """Return whether the lease is still valid for long enough to publish a file."""
        with self._lock:
            margin_s = min(_LONGEST_MARGIN_S, self._ttl_s / 4)
            return not self._is_lost and now + margin_s < self._holds_until

    def renew(self, *, sent_at: float, received_at: float, ttl_s: float | None = None) -> None:
        """Record the renewal of the lease by a request. Ignore the late answer to an older request."""
        with self._lock:
            if sent_at < self._renewed_by:
                return
            self._ttl_s = self._ttl_s if ttl_s is None else ttl_s
            self._renewed_by, self._was_reported = sent_at, False
            self._holds_until, self._runs_out_at = sent_at + self._ttl_s, received_at + self._ttl_s

    def take(self, answer: BeatAnswer, *, sent_at: float, received_at: float) -> None:
        """Apply the answer to a heartbeat. A lost job stays lost, even if a later answer says "held"."""
        if not answer.held:
            self.lose(answer.code)
            return
        self.renew(sent_at=sent_at, received_at=received_at, ttl_s=answer.lease_ttl_s)
        self._cancel_requested |= answer.cancel_requested

    def lose(self, code: str | None) -> None:
        with self._lock:
            was_lost, self._is_lost = self._is_lost, True
        if code == "invalid_lease_token" and not was_lost:
            # The API key differs from the key of the claim, or the server has lost its lease keys.
            _log.error("lease_token_refused", job_id=self.lease.job_id)

    def has_run_out(self, now: float) -> bool:
        """Return whether the lease has certainly expired. Return True only once between two renewals."""
        with self._lock:
            has_run_out = not self._was_reported and now >= self._runs_out_at
            self._was_reported |= has_run_out
            return has_run_out

    # -- progress, which is sent with the heartbeats

    def note_progress(self, progress: ProgressFigures) -> None:
        self._progress = progress

    def is_progress_due(self, now: float) -> bool:
        """Return whether there is new progress, and the server's progress interval is over."""
        interval_s = self._progress_interval_s
        if self._progress is None or interval_s is None or self._is_lost:
            return False
        return now >= self._progress_sent_at + interval_s

    def beat(self, timings: Mapping[str, Any] | None, now: float) -> Beat:
        """Return the entry of this lease in the next heartbeat, with progress that was not sent before."""
        with self._lock:
            progress, self._progress = self._progress, None
            self._progress_sent_at = now
        values: dict[str, Any] = {}
        if progress is not None:
            given = {
                "progress": progress.percent,
                "eta_seconds": progress.eta_seconds,
                "speed": progress.speed,
            }
            # Leave out infinite numbers. JSON has no infinite numbers, so a single infinite number would make
            # the heartbeat of all jobs fail.
            values = {name: v for name, v in given.items() if v is not None and math.isfinite(v)}
        return Beat(self.lease, values if timings is None else {**values, "timings": timings})
