"""Mutation tests: the queue is broken on purpose, and existing tests must fail."""

import hmac
from collections.abc import Callable
from typing import Any

import pytest

from euterpe.domain.errors import InvalidTransition
from euterpe.queue import NotActive, Queue, TokenMismatch
from euterpe.store.errors import StoreError
from euterpe.store.queue.fairness.groups import Groups
from tests.clock import SettableClock
from tests.engines import Engine
from tests.queue import test_groups, test_queue, test_reports
from tests.queue.conftest import Caller
from tests.service.store.test_breakages import without_condition

# A test that notices the breakage ends with one of these errors: an expected error is not raised, an
# assertion fails, or the library or the database refuses a call.
NOTICED = (pytest.fail.Exception, AssertionError, NotActive, TokenMismatch, InvalidTransition, StoreError)


@pytest.mark.parametrize("report", ["ack_success", "ack_fail"])
def test_the_suite_notices_a_missing_fence(
    servers: Callable[[str], Engine], clock: SettableClock, report: str
) -> None:
    with servers("postgres").fresh() as url, without_condition("claim_version"), pytest.raises(NOTICED):
        test_reports.check_taken_over(url, clock, report)


@pytest.mark.parametrize("report", test_queue.REPORTS)
def test_the_suite_notices_a_missing_check_of_the_token(
    caller: Caller, monkeypatch: pytest.MonkeyPatch, report: str
) -> None:
    monkeypatch.setattr(hmac, "compare_digest", lambda *_: True)
    with pytest.raises(NOTICED):
        test_queue.test_a_forged_token_is_a_mismatch(caller, report)


@pytest.mark.parametrize("report", test_queue.REPORTS)
def test_the_suite_notices_that_a_stale_token_is_taken(
    caller: Caller, clock: SettableClock, monkeypatch: pytest.MonkeyPatch, report: str
) -> None:
    monkeypatch.setattr(hmac, "compare_digest", lambda *_: True)
    with pytest.raises(NOTICED):
        test_queue.test_the_token_of_an_earlier_claim_is_a_mismatch(caller, clock, report)


def test_the_suite_notices_a_group_whose_next_job_is_forgotten(
    url: str, clock: SettableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Groups, "next_in_line", lambda *_, **__: ())
    with Queue(url, clock=clock) as queue, pytest.raises(NOTICED):
        test_groups.test_every_end_of_an_attempt_makes_room(Caller(queue, url), clock)


def test_the_suite_notices_a_group_that_is_counted_without_its_lock(
    servers: Callable[[str], Engine], clock: SettableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = Groups.next_in_line

    def without_lock(self: Groups, *arguments: Any, **_: Any) -> Any:
        return count(self, *arguments, locked=True)

    monkeypatch.setattr(Groups, "next_in_line", without_lock)
    with servers("postgres").fresh() as url, pytest.raises(AssertionError):
        test_groups.check_admission_waits(url, clock)
