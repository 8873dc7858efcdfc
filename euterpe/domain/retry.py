"""Retry policy and backoff: decide, without I/O, how a job or event continues after a failure.

`store/queue` writes the decision. There are three budgets, each with a separate counter (contract §5):
execution attempts, credential refreshes and outbox deliveries. Each function here uses the counter of one
budget only.
"""

from dataclasses import dataclass
from typing import Any

from euterpe.domain.error_codes import ErrorCode, RetryClass
from euterpe.domain.text import to_storable

_TRANSIENT_STATUS = frozenset({423, 500, 502, 503, 504})
_CREDENTIAL_STATUS = frozenset({401, 403})


def classify_status(status: int) -> RetryClass:
    """Return the retry class of an HTTP response that was not a success (contract §5)."""
    if status in _TRANSIENT_STATUS:
        return RetryClass.TRANSIENT
    if status == 429:
        return RetryClass.THROTTLED
    if status in _CREDENTIAL_STATUS:
        return RetryClass.CREDENTIALS
    return RetryClass.PERMANENT


@dataclass(frozen=True)
class JobError:
    """The error of a failed attempt, as shown to the requester.

    `retry_override` is the retry class, if it differs from the retry class of `code`.
    """

    code: ErrorCode
    message: str
    phase: str
    retry_override: RetryClass | None = None

    def __post_init__(self) -> None:
        for name in ("message", "phase"):
            object.__setattr__(self, name, to_storable(getattr(self, name)))

    @property
    def retry_class(self) -> RetryClass:
        return self.retry_override or self.code.retry

    def document(self) -> dict[str, Any]:
        retryable = self.retry_class not in (RetryClass.PERMANENT, RetryClass.UNRECOVERABLE)
        return {"code": self.code.value, "message": self.message, "retryable": retryable, "phase": self.phase}


def canceled(phase: str) -> JobError:
    return JobError(ErrorCode.CANCELED, "the job was canceled", phase)


def lease_expired(phase: str) -> JobError:
    return JobError(ErrorCode.LEASE_EXPIRED, "the worker stopped answering before it finished", phase)


@dataclass(frozen=True)
class Backoff:
    """Exponential backoff with jitter.

    Half of each delay is random, to prevent a thundering herd. The other half is fixed, to prevent an
    immediate retry.
    """

    base_ms: int = 1_000
    cap_ms: int = 900_000
    throttled_base_ms: int = 30_000

    def delay_ms(self, failures: int, retry_class: RetryClass, draw: float) -> int:
        """Return the wait before attempt `failures + 1`. `draw` is a random number, uniform in [0, 1)."""
        base = self.throttled_base_ms if retry_class is RetryClass.THROTTLED else self.base_ms
        # The exponent is at most 40: 2**40 ms is 34 years, and a larger integer would only take up memory.
        full = min(self.cap_ms, base << min(max(failures - 1, 0), 40))
        return full - int(full * (1.0 - draw) / 2)


@dataclass(frozen=True)
class DeliverySchedule:
    """The pauses between the attempts to deliver an event.

    The default pauses add up to 25 h 52 min, so a receiver can be down for a day. Jitter only lengthens a
    pause, so the total is never shorter than the sum of the pauses.
    """

    delays_ms: tuple[int, ...] = (
        5_000,
        30_000,
        120_000,
        300_000,
        900_000,
        1_800_000,
        3_600_000,
        7_200_000,
        14_400_000,
        28_800_000,
        36_000_000,
    )
    jitter: float = 0.1  # the longest random extension, as a share of the pause
    throttled_ms: int = 30_000  # the shortest pause after 429
    longest_retry_after_ms: int = 3_600_000

    def pauses_ms(self, max_attempts: int) -> tuple[int, ...]:
        """Return the pauses between `max_attempts` attempts.

        The last pause is repeated as often as needed.
        """
        longer = max_attempts - 1 - len(self.delays_ms)
        return (self.delays_ms + self.delays_ms[-1:] * longer)[: max_attempts - 1]

    def delay_ms(self, failures: int, retry_class: RetryClass, draw: float) -> int:
        """Return the pause after failure number `failures`. `draw` is a random number, uniform in [0, 1)."""
        pause = self.delays_ms[min(failures, len(self.delays_ms)) - 1]
        if retry_class is RetryClass.THROTTLED:
            pause = max(pause, self.throttled_ms)
        return pause + int(pause * self.jitter * draw)


@dataclass(frozen=True)
class Requeue:
    delay_ms: int
    error: JobError


@dataclass(frozen=True)
class Fail:
    error: JobError


@dataclass(frozen=True)
class DeadLetter:
    error: JobError


JobDecision = Requeue | Fail | DeadLetter


def decide_job(
    error: JobError,
    *,
    attempt_count: int,
    max_attempts: int,
    cancel_requested: bool,
    backoff: Backoff,
    draw: float,
    paced_elsewhere: bool = False,
) -> JobDecision:
    """Return the outcome of a failed attempt.

    If the budget is spent or the error is unrecoverable, the job becomes a dead letter. With
    `paced_elsewhere`, a foreign queue decides when to try again, and the job stays in `failed` until then.
    After an expired lease, the job is requeued even with `paced_elsewhere`, because the foreign queue has
    seen no failure.
    """
    # A canceled job ends in `failed`, not in `dead_letter`, even if its budget is spent.
    if cancel_requested or error.code is ErrorCode.CANCELED:
        return Fail(canceled(error.phase))
    if error.retry_class is RetryClass.UNRECOVERABLE or attempt_count >= max_attempts:
        return DeadLetter(error)
    if error.retry_class is RetryClass.PERMANENT:
        return Fail(error)
    if paced_elsewhere and error.code is not ErrorCode.LEASE_EXPIRED:
        return Fail(error)
    return Requeue(backoff.delay_ms(attempt_count, error.retry_class, draw), error)


def may_refresh(refresh_count: int, max_refreshes: int) -> bool:
    """Return whether the budget of credential refreshes allows one more refresh."""
    return refresh_count < max_refreshes


@dataclass(frozen=True)
class Delivered:
    pass


@dataclass(frozen=True)
class Redeliver:
    delay_ms: int
    reason: str


@dataclass(frozen=True)
class Undeliverable:
    reason: str


DeliveryDecision = Delivered | Redeliver | Undeliverable


def decide_delivery(
    status: int | None,
    *,
    attempt_count: int,
    max_attempts: int,
    retry_after_ms: int | None,
    schedule: DeliverySchedule,
    draw: float,
    failure: str = "no answer",
) -> DeliveryDecision:
    """Return the outcome of a delivery. After 2xx the event is delivered.

    After 410 the event is never sent again. `status` is None if there was no response, and `failure` is then
    the reason.
    """
    if status is not None and 200 <= status < 300:
        return Delivered()
    reason = failure if status is None else f"answered {status}"
    if status == 410:
        return Undeliverable(reason)
    if attempt_count >= max_attempts:
        return Undeliverable(f"{reason}; all {max_attempts} attempts are spent")
    retry_class = RetryClass.THROTTLED if status == 429 else RetryClass.TRANSIENT
    delay = schedule.delay_ms(attempt_count, retry_class, draw)
    requested_ms = min(retry_after_ms or 0, schedule.longest_retry_after_ms)
    return Redeliver(max(delay, requested_ms), reason)
