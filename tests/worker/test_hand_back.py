"""How often a job may be handed back without a charge."""

from typing import Any

from euterpe.worker.hand_back import HandBackPolicy, limited_in_a_row


def attempt(outcome: str | None, code: str | None = None) -> dict[str, Any]:
    ended_at = None if outcome is None else 1
    return {"outcome": outcome, "ended_at": ended_at, "error": code and {"code": code}}


BROKEN, OPEN = attempt("released", "sandbox_failed"), attempt(None)


def test_the_latest_hand_backs_in_a_row_are_counted_whatever_broke() -> None:
    exhausted = attempt("released", "worker_exhausted")
    assert limited_in_a_row([OPEN]) == 0
    assert limited_in_a_row([BROKEN, exhausted, BROKEN, OPEN]) == 3


def test_an_attempt_that_was_charged_ends_the_row() -> None:
    assert limited_in_a_row([BROKEN, BROKEN, attempt("requeued", "sandbox_failed"), BROKEN, OPEN]) == 1


def test_drains_and_waits_for_disk_neither_count_nor_end_the_row() -> None:
    drained, waited = attempt("released"), attempt("released", "waits_for_disk")
    assert limited_in_a_row([BROKEN, drained, waited, BROKEN, OPEN]) == 2


def test_the_sixth_hand_back_in_a_row_is_charged() -> None:
    policy = HandBackPolicy()
    assert not policy.is_spent([BROKEN] * 4 + [OPEN])
    assert policy.is_spent([BROKEN] * 5 + [OPEN])
