"""Mutation tests: the API breaks the remote worker contract on purpose, and existing tests must fail.

For each breakage, an existing test is called unchanged and must fail.
"""

from collections.abc import Callable
from typing import Any

import pytest

from euterpe.control.waiting_claims import WaitingClaims
from euterpe.domain.leased_job import Unavailable
from euterpe.store.errors import StoreError
from euterpe.store.queue import attempt_ends
from euterpe.store.queue.attempt_ends import AttemptEnds
from euterpe.store.store import Store
from tests.clock import SettableClock
from tests.control import test_claim_desk
from tests.service.broken_api import answer_without_attempt_check, owned_without_fence
from tests.store.attempts import completion, failure
from tests.store.queue import test_attempt_ends, test_claim_for

pytestmark = pytest.mark.parametrize("engine", ["sqlite"], indirect=True)


@pytest.fixture
def without_fence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AttemptEnds, "_owned", owned_without_fence)


@pytest.fixture
def without_attempt_check(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempt_ends, "answer_to", answer_without_attempt_check)


@pytest.fixture
def with_unique_claim_id(store: Store) -> None:
    with store.database.transaction() as connection:
        connection.exec_driver_sql("CREATE UNIQUE INDEX broken ON job_attempts (claim_id)")


@pytest.fixture
def without_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WaitingClaims, "_remember", lambda *_: None)


@pytest.mark.usefixtures("without_fence")
@pytest.mark.parametrize("report", [completion, failure])
def test_the_suite_notices_ends_without_a_fence(store: Store, clock: SettableClock, report: Any) -> None:
    with pytest.raises(AssertionError, match="fenced-writes"):
        test_attempt_ends.test_a_swept_attempt_is_refused_and_changes_nothing(store, clock, report)


@pytest.mark.usefixtures("without_fence")
def test_the_suite_notices_a_forged_attempt(store: Store) -> None:
    with pytest.raises(AssertionError):
        test_attempt_ends.test_an_attempt_that_never_was_is_refused(store)


@pytest.mark.usefixtures("without_attempt_check")
def test_the_suite_notices_a_replay_without_the_attempt_check(store: Store, clock: SettableClock) -> None:
    with pytest.raises(AssertionError):
        test_attempt_ends.test_an_attempt_that_ended_in_another_way_is_refused_with_its_outcome(store)
    with pytest.raises(AssertionError):
        test_attempt_ends.test_a_swept_attempt_is_refused_and_changes_nothing(store, clock, completion)


@pytest.mark.usefixtures("with_unique_claim_id")
@pytest.mark.parametrize(
    "test",
    [
        test_claim_for.test_a_duplicated_request_does_not_fail_the_batch_of_the_others,
        test_claim_for.test_the_open_attempts_of_a_claim_can_be_released_by_its_id,
    ],
)
def test_the_suite_notices_a_unique_claim_id(store: Store, test: Callable[[Store], None]) -> None:
    with pytest.raises((AssertionError, StoreError)) as raised:
        test(store)
    assert not isinstance(raised.value, Unavailable)


@pytest.mark.usefixtures("without_memory")
def test_the_suite_notices_a_desk_that_forgets_its_answers(store: Store) -> None:
    claims = test_claim_desk.Claims(store)
    desk = test_claim_desk.desk_of(store, claims)
    desk.start()
    try:
        with pytest.raises(AssertionError):
            test_claim_desk.test_a_late_copy_of_an_empty_claim_gets_no_job(store, desk)
    finally:
        desk.stop()
