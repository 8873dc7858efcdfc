import pytest

from euterpe.domain.errors import InvalidSpec
from euterpe.domain.job_limits import NO_LIMITS, JobLimits
from euterpe.domain.spec import JobSpec, parse_spec
from tests.store.jobs import SPEC


def spec(**fields: object) -> JobSpec:
    return parse_spec({**SPEC, **fields})


def test_a_job_within_its_limits_passes() -> None:
    NO_LIMITS.check(spec(timeout_seconds=604_800, max_attempts=100, priority=100))
    JobLimits(60, 2, 50).check(spec(timeout_seconds=60, max_attempts=2, priority=50))


def test_every_limit_that_is_passed_is_named() -> None:
    with pytest.raises(InvalidSpec) as refused:
        JobLimits(60, 2, 50).check(spec(timeout_seconds=61, max_attempts=3, priority=51))
    assert [error.loc for error in refused.value.errors] == [
        ("timeout_seconds",),
        ("max_attempts",),
        ("priority",),
    ]
    assert "at most 60" in refused.value.errors[0].msg


def test_the_tightest_of_two_limits_counts() -> None:
    assert JobLimits(60, None, 50).min_with(JobLimits(90, 5, None)) == JobLimits(60, 5, 50)


def test_a_job_without_max_attempts_gets_no_more_than_its_requester_may() -> None:
    assert NO_LIMITS.attempts(3) == 3
    assert JobLimits(max_attempts=2).attempts(3) == 2
    assert JobLimits(max_attempts=9).attempts(3) == 3


def test_a_job_without_timeout_and_priority_gets_at_most_the_limits() -> None:
    limits = JobLimits(max_timeout_seconds=60, max_priority=10)
    limits.check(spec())
    assert (limits.timeout_seconds(7200), limits.priority(50)) == (60, 10)
    assert (NO_LIMITS.timeout_seconds(7200), NO_LIMITS.priority(50)) == (7200, 50)
