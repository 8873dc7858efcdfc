"""Retry decisions of contract §5: the failures that are retried, the time of the retry, and the budget."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from euterpe.domain.error_codes import ErrorCode, RetryClass
from euterpe.domain.retry import (
    Backoff,
    DeadLetter,
    Delivered,
    DeliverySchedule,
    Fail,
    JobDecision,
    JobError,
    Redeliver,
    Requeue,
    Undeliverable,
    canceled,
    classify_status,
    decide_delivery,
    decide_job,
    lease_expired,
    may_refresh,
)

CLASSES = {
    RetryClass.TRANSIENT: (423, 500, 502, 503, 504),
    RetryClass.THROTTLED: (429,),
    RetryClass.CREDENTIALS: (401, 403),
}
DAY_MS, HOUR_MS = 86_400_000, 3_600_000
RETRYABLE = (RetryClass.TRANSIENT, RetryClass.THROTTLED, RetryClass.CREDENTIALS)


def decide(
    error: JobError, *, attempts: int = 1, of: int = 3, canceled: bool = False, paced_elsewhere: bool = False
) -> JobDecision:
    return decide_job(
        error,
        attempt_count=attempts,
        max_attempts=of,
        cancel_requested=canceled,
        backoff=Backoff(),
        draw=0.5,
        paced_elsewhere=paced_elsewhere,
    )


def error(kind: RetryClass) -> JobError:
    return JobError(ErrorCode.ENCODE_FAILED, "message", "fetching", kind)


def test_the_status_codes_of_the_contract_and_no_others_are_retryable() -> None:
    named = {status: kind for kind, statuses in CLASSES.items() for status in statuses}
    for status in range(300, 600):
        assert classify_status(status) is named.get(status, RetryClass.PERMANENT), status


@given(st.integers(1, 10_000), st.floats(0, 1, exclude_max=True), st.sampled_from(RetryClass))
def test_a_delay_doubles_up_to_its_cap_and_half_of_it_is_drawn(
    failures: int, draw: float, kind: RetryClass
) -> None:
    backoff = Backoff(1_000, 900_000, 30_000)
    base = 30_000 if kind is RetryClass.THROTTLED else 1_000
    full = min(900_000, base * 2 ** min(failures - 1, 40))
    assert full // 2 <= backoff.delay_ms(failures, kind, draw) <= full


def test_throttling_waits_in_a_larger_bucket_from_the_first_time() -> None:
    backoff = Backoff()
    assert backoff.delay_ms(1, RetryClass.THROTTLED, 0.0) > backoff.delay_ms(1, RetryClass.TRANSIENT, 0.999)


def test_jitter_spreads_what_failed_together() -> None:
    backoff = Backoff()
    assert len({backoff.delay_ms(5, RetryClass.TRANSIENT, draw / 100) for draw in range(100)}) == 100


@pytest.mark.parametrize("kind", RETRYABLE)
def test_a_job_that_a_foreign_queue_paces_rests_until_it_is_delivered_again(kind: RetryClass) -> None:
    assert isinstance(decide(error(kind), attempts=2, paced_elsewhere=True), Fail)
    assert isinstance(decide(error(kind), attempts=3, paced_elsewhere=True), DeadLetter)
    expired = lease_expired("processing")
    assert isinstance(decide(expired, attempts=2, paced_elsewhere=True), Requeue)


@pytest.mark.parametrize("kind", RETRYABLE)
def test_a_retryable_error_is_requeued_while_there_is_budget(kind: RetryClass) -> None:
    assert isinstance(decide(error(kind), attempts=2), Requeue)
    assert isinstance(decide(error(kind), attempts=3), DeadLetter)
    assert isinstance(decide(error(kind), attempts=4), DeadLetter)


def test_a_permanent_error_rests_in_failed_while_there_is_budget() -> None:
    assert isinstance(decide(error(RetryClass.PERMANENT)), Fail)
    assert isinstance(decide(error(RetryClass.PERMANENT), attempts=3), DeadLetter)


def test_an_unrecoverable_error_is_a_dead_letter_whatever_budget_is_left() -> None:
    assert isinstance(decide(error(RetryClass.UNRECOVERABLE), attempts=1, of=100), DeadLetter)


@pytest.mark.parametrize("kind", RetryClass)
@pytest.mark.parametrize("attempts", [1, 3])
def test_a_canceled_job_fails_and_says_so_whatever_went_wrong(kind: RetryClass, attempts: int) -> None:
    decision = decide(error(kind), attempts=attempts, canceled=True)
    assert isinstance(decision, Fail)
    assert decision.error.code == "canceled"
    assert isinstance(decide(canceled("fetching")), Fail)


def test_a_job_whose_lease_expired_is_requeued() -> None:
    assert isinstance(decide(lease_expired("processing")), Requeue)
    assert lease_expired("processing").document() == {
        "code": "lease_expired",
        "message": "the worker stopped answering before it finished",
        "retryable": True,
        "phase": "processing",
    }


def test_refreshes_are_counted_by_themselves() -> None:
    assert [may_refresh(count, 3) for count in range(5)] == [True, True, True, False, False]


def deliver(status: int | None, *, attempts: int = 1, retry_after_ms: int | None = None) -> object:
    return decide_delivery(
        status,
        attempt_count=attempts,
        max_attempts=12,
        retry_after_ms=retry_after_ms,
        schedule=DeliverySchedule(),
        draw=0.5,
    )


def test_only_2xx_is_delivered_and_only_410_is_given_up_at_once() -> None:
    for status in range(100, 600):
        kind = Delivered if 200 <= status < 300 else Undeliverable if status == 410 else Redeliver
        assert isinstance(deliver(status), kind), status
    assert isinstance(deliver(None), Redeliver)


def test_a_delivery_budget_ends() -> None:
    assert isinstance(deliver(500, attempts=11), Redeliver)
    last = deliver(500, attempts=12)
    assert isinstance(last, Undeliverable)
    assert "all 12 attempts" in last.reason


def test_retry_after_is_honoured_within_bounds() -> None:
    assert deliver(503, retry_after_ms=60_000) == Redeliver(60_000, "answered 503")
    assert deliver(503, retry_after_ms=10**12) == Redeliver(HOUR_MS, "answered 503")
    early = deliver(503, retry_after_ms=1)
    assert isinstance(early, Redeliver)
    assert early.delay_ms >= 5_000, "the delay must not be shorter than the schedule's"


def test_an_errors_message_can_always_be_stored() -> None:
    odd = JobError(ErrorCode.ENCODE_FAILED, f"bad \0 byte \ud800 and {'x' * 10_000}", "processing").message
    assert "\0" not in odd
    assert odd.encode()
    assert len(odd) < 2_100
    assert odd.startswith("bad ")
    assert odd.endswith("xxx")


@given(st.lists(st.floats(0, 1, exclude_max=True), min_size=11, max_size=11))
def test_the_attempts_of_a_delivery_span_at_least_a_day_whatever_is_drawn(draws: list[float]) -> None:
    schedule = DeliverySchedule()
    pauses = [schedule.delay_ms(n + 1, RetryClass.TRANSIENT, draw) for n, draw in enumerate(draws)]
    assert DAY_MS <= sum(schedule.pauses_ms(12)) <= sum(pauses) <= 1.2 * DAY_MS


@given(
    st.lists(st.integers(1_000, DAY_MS), min_size=1, max_size=20), st.integers(1, 100), st.floats(0, 0.999)
)
def test_a_pause_is_never_shorter_than_the_schedule_and_the_last_one_repeats(
    delays: list[int], failures: int, draw: float
) -> None:
    schedule = DeliverySchedule(tuple(delays))
    pause = delays[min(failures, len(delays)) - 1]
    assert pause <= schedule.delay_ms(failures, RetryClass.TRANSIENT, draw) <= 1.1 * pause
    assert schedule.pauses_ms(failures + 1)[-1] == pause
    assert len(schedule.pauses_ms(failures + 1)) == failures


def test_a_throttled_delivery_waits_longer_from_the_first_time() -> None:
    schedule = DeliverySchedule()
    assert schedule.delay_ms(1, RetryClass.THROTTLED, 0.0) == 30_000
    assert schedule.delay_ms(9, RetryClass.THROTTLED, 0.0) == schedule.delay_ms(9, RetryClass.TRANSIENT, 0.0)
