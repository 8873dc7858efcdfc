"""Limits on releases without a charge: their number per job, and the pauses between them."""

from dataclasses import dataclass, replace

from euterpe.domain.error_codes import ErrorCode, Release, RetryClass
from euterpe.domain.retry import Backoff, JobError

# A job could cause errors with these codes itself, in every attempt, for example by crashing the fork server
# or by killing a child.
LIMITED_CODES = frozenset(code for code in ErrorCode if code.release is Release.LIMITED)
# A job that is released with these codes waits for another worker, because this worker lacks something that
# the job needs.
BOUNDED_CODES = frozenset(code for code in ErrorCode if code.release.is_bounded)


@dataclass(frozen=True)
class ReleaseLimits:
    # A job may be released this many times with `LIMITED_CODES`. The next such release is charged.
    most_free: int = 5
    # The first pause is short, because another worker may have the key (during a rollout) or the disk space
    # that this worker lacks.
    first_pause_ms: int = 5_000
    # A job that needs a lost key is released again and again. The pauses between its attempts grow up to this
    # value.
    longest_pause_ms: int = 300_000
    # A job with one of `BOUNDED_CODES` fails permanently after this many releases, if this time has passed
    # too. With the number alone, a job could fail while only most of the workers lack what it needs. With the
    # time alone, a job could fail that waited in a long queue after its first release.
    least_bounded: int = 20
    elsewhere_ms: int = 3_600_000
    # Updates of all workers may take a weekend.
    rollout_ms: int = 3 * 86_400_000

    def is_charged(self, code: ErrorCode, releases: int, waited_ms: int = 0) -> bool:
        """Return whether the attempt is charged.

        For a limited code, `releases` counts the job's releases with any of these codes. The releases of all
        attempts count. When only releases after the last charged attempt counted, a job with a budget of
        three attempts ran eighteen times. For a bounded code, `releases` counts the releases with this code
        after the last charged attempt, so that a person can retry the job. `waited_ms` is the time since the
        first of these releases.
        """
        if code in LIMITED_CODES:
            return releases >= self.most_free
        if code not in BOUNDED_CODES:
            return False
        longest_ms = self.rollout_ms if code.release is Release.ROLLOUT else self.elsewhere_ms
        return releases >= self.least_bounded and waited_ms >= longest_ms

    def error_instead(self, reason: JobError, releases: int, waited_ms: int) -> JobError | None:
        """Return the error to charge instead of a release, or None if the job is released again."""
        if not self.is_charged(reason.code, releases, waited_ms):
            return None
        if reason.code in LIMITED_CODES:
            return reason
        message = f"{reason.message}; no worker could run the job: it was released {releases} times"
        return replace(reason, code=reason.code.final, message=message, retry_override=RetryClass.PERMANENT)

    def pause_ms(self, given_back: int, draw: float) -> int:
        """Return a pause that grows with `given_back`, the number of claims and sweeps without a charge.

        This number is the job's `claim_version` minus its `attempt_count`.
        """
        backoff = Backoff(self.first_pause_ms, self.longest_pause_ms)
        return backoff.delay_ms(given_back + 1, RetryClass.TRANSIENT, draw)
