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


# A job that is released by one of these rules usually waits for disk space or for the key provider. ALWAYS
# also applies to releases without a reason, for example when a worker is stopped.
_WAITING = (Release.BY_CAUSE, Release.ALWAYS)


@dataclass(frozen=True)
class EarlierReleases:
    """The earlier releases of a job that count toward a limit.

    `releases` is the number of these releases. `workers` is the number of workers that made them. `waited_ms`
    is the time since the first of them.
    """

    releases: int = 0
    workers: int = 0
    waited_ms: int = 0


NONE_YET = EarlierReleases()


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
    # A job may be released this many times without a pause, because each worker that is stopped releases its
    # jobs.
    most_without_pause: int = 3
    # A job with one of `BOUNDED_CODES` fails permanently after `least_bounded` releases, if the first of them
    # was at least `elsewhere_ms` ago. In two cases, a longer time below replaces `elsewhere_ms`. If only the
    # number counted, a job could fail although a few workers have what the job needs. If only the time
    # counted, a job could fail because it waited in a long queue after its first release.
    least_bounded: int = 20
    elsewhere_ms: int = 3_600_000
    # This longer time applies if only one worker has released the job, because the other workers may be busy
    # with long jobs.
    one_worker_ms: int = 86_400_000
    # This longer time applies to the codes of a rollout: an update of all workers may take a weekend.
    rollout_ms: int = 3 * 86_400_000
    # A job that is released by a rule of `_WAITING` is charged after `least_bounded` releases over at least
    # this time. Otherwise workers could claim and release the job for ever.
    waiting_ms: int = 7 * 86_400_000

    def is_charged(self, code: ErrorCode | None, earlier: EarlierReleases = NONE_YET) -> bool:
        """Return whether the attempt is charged. `code` is None for a release without a reason.

        The contents of `earlier` depend on the code. For a code of `LIMITED_CODES`, `earlier` has all
        releases of the job with any of these codes. When only the releases after the last charged attempt
        counted, a job with a budget of three attempts ran eighteen times. For a code of `BOUNDED_CODES`,
        `earlier` has the releases with this code since the last charged attempt. For any other code,
        `earlier` has all releases since the last charged attempt. In these two cases, older releases do not
        count, so that the limits begin again when a person retries the failed job.
        """
        if code in LIMITED_CODES:
            return earlier.releases >= self.most_free
        release = Release.ALWAYS if code is None else code.release
        if release is Release.NEVER:
            return True
        longest_ms = self._longest_ms(release, earlier.workers)
        return earlier.releases >= self.least_bounded and earlier.waited_ms >= longest_ms

    def _longest_ms(self, release: Release, workers: int) -> int:
        if release in _WAITING:
            return self.waiting_ms
        if release is Release.ROLLOUT:
            return self.rollout_ms
        return self.elsewhere_ms if workers > 1 else self.one_worker_ms

    def error_instead(self, reason: JobError | None, earlier: EarlierReleases, phase: str) -> JobError | None:
        """Return the error to charge instead of a release, or None if the job is released again."""
        if not self.is_charged(None if reason is None else reason.code, earlier):
            return None
        if reason is None:
            message = f"workers gave the job back {earlier.releases} times without a reason"
            return JobError(ErrorCode.INTERNAL_ERROR, message, phase)
        if reason.code not in BOUNDED_CODES:
            return reason
        workers = "1 worker" if earlier.workers == 1 else f"{earlier.workers} workers"
        message = (
            f"{reason.message}; no worker could run the job: {workers} released it {earlier.releases} times"
        )
        return replace(reason, code=reason.code.final, message=message, retry_override=RetryClass.PERMANENT)

    def pause_ms(self, given_back: int, draw: float) -> int:
        """Return a pause that grows with `given_back`, the number of claims and sweeps without a charge.

        This number is the job's `claim_version` minus its `attempt_count`.
        """
        backoff = Backoff(self.first_pause_ms, self.longest_pause_ms)
        return backoff.delay_ms(given_back + 1, RetryClass.TRANSIENT, draw)

    def least_pause_ms(self, given_back: int, draw: float) -> int:
        """Return the least pause after a release that gives no reason, or that asks for a certain pause."""
        later = given_back - self.most_without_pause
        return 0 if later < 0 else self.pause_ms(later, draw)
