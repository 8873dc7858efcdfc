"""Tests of the limit on how often a job is released without a charge."""

from euterpe.domain.rows import AttemptRow
from euterpe.worker.blame import ReleasePolicy, count_limited_releases
from tests.rows import row_of


def attempt(outcome: str | None, code: str | None = None) -> AttemptRow:
    ended_at = None if outcome is None else 1
    return row_of(AttemptRow, outcome=outcome, ended_at=ended_at, error=code and {"code": code})


BROKEN, OPEN = attempt("released", "sandbox_failed"), attempt(None)


def test_releases_are_counted_whatever_the_fault_was() -> None:
    exhausted = attempt("released", "worker_exhausted")
    assert count_limited_releases([OPEN]) == 0
    assert count_limited_releases([BROKEN, exhausted, BROKEN, OPEN]) == 3


def test_a_charge_does_not_reset_the_count_of_releases() -> None:
    """If only releases since the last charge counted, a job with three attempts could run eighteen times."""
    assert count_limited_releases([BROKEN, BROKEN, attempt("requeued", "sandbox_failed"), BROKEN, OPEN]) == 3


def test_drains_and_waits_for_disk_do_not_count() -> None:
    drained, waited = attempt("released"), attempt("released", "waits_for_disk")
    assert count_limited_releases([BROKEN, drained, waited, BROKEN, OPEN]) == 2


def test_the_sixth_release_is_charged() -> None:
    policy = ReleasePolicy()
    assert not policy.is_spent([BROKEN] * 4 + [OPEN])
    assert policy.is_spent([BROKEN] * 5 + [OPEN])
