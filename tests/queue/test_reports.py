"""The fence: a lease that is reaped between the read and the write of a report is lost.

On SQLite and libSQL, no other write can run between the read and the write, so only Postgres is tested.
"""

from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa

from euterpe.queue import NotActive, Queue, ReservedJob, TokenMismatch
from tests.clock import SettableClock
from tests.queue.conftest import NAME, lease

TIMEOUT_MS = 30_000
REPORTS = ("heartbeat", "ack_success", "ack_fail")


def before_its_write(queue: Queue, action: Callable[[], object]) -> None:
    """Call `action` once, before the next UPDATE of this queue."""
    actions = [action]

    def act(_: Any, __: Any, text: str, *___: Any) -> None:
        if text.startswith("UPDATE") and actions:
            actions.pop()()

    sa.event.listen(queue._database.engines.write, "before_cursor_execute", act)


def check_reaped(url: str, clock: SettableClock, report: str) -> None:
    with Queue(url, clock=clock) as slow, Queue(url, clock=clock) as other:
        other.publish(queue=NAME, payload={})
        job = slow.reserve(queue=NAME)
        assert isinstance(job, ReservedJob)
        clock.advance(TIMEOUT_MS + 1)
        before_its_write(slow, lambda: other.reap_expired(queue=NAME))
        with pytest.raises(NotActive):
            getattr(slow, report)(**lease(job))


def check_taken_over(url: str, clock: SettableClock, report: str) -> None:
    with Queue(url, clock=clock) as slow, Queue(url, clock=clock) as other:
        other.publish(queue=NAME, payload={}, backoff_ms=0)
        job = slow.reserve(queue=NAME)
        assert isinstance(job, ReservedJob)
        clock.advance(TIMEOUT_MS + 1)
        taken: list[ReservedJob] = []

        def take_over() -> None:
            other.reap_expired(queue=NAME)
            found = other.reserve(queue=NAME)
            assert isinstance(found, ReservedJob)
            taken.append(found)

        before_its_write(slow, take_over)
        with pytest.raises(TokenMismatch):
            getattr(slow, report)(**lease(job))
        other.ack_success(**lease(taken[0]))


@pytest.mark.parametrize("engine", ["postgres"], indirect=True)
@pytest.mark.parametrize("report", REPORTS)
def test_a_report_is_refused_if_its_lease_is_reaped_meanwhile(
    url: str, clock: SettableClock, report: str
) -> None:
    check_reaped(url, clock, report)


@pytest.mark.parametrize("engine", ["postgres"], indirect=True)
@pytest.mark.parametrize("report", REPORTS)
def test_a_report_is_refused_if_another_claim_comes_meanwhile(
    url: str, clock: SettableClock, report: str
) -> None:
    check_taken_over(url, clock, report)
