"""Tests of the limit on how often a job is released without a charge."""

import pytest

from euterpe.domain.error_codes import ErrorCode, Release
from euterpe.domain.release_limits import ReleaseLimits
from euterpe.domain.retry import JobError


def test_the_sixth_release_is_charged() -> None:
    limits = ReleaseLimits()
    assert not limits.is_charged(ErrorCode.SANDBOX_FAILED, 4)
    assert limits.is_charged(ErrorCode.SANDBOX_FAILED, 5)


def test_drains_and_waits_for_disk_are_never_charged() -> None:
    assert not ReleaseLimits().is_charged(ErrorCode.WAITS_FOR_DISK, 50)


def test_the_pause_doubles_up_to_five_minutes() -> None:
    limits = ReleaseLimits()
    longest = [limits.pause_ms(given_back, 1.0) for given_back in range(8)]
    assert longest == [5_000, 10_000, 20_000, 40_000, 80_000, 160_000, 300_000, 300_000]


ELSEWHERE = [code for code in ErrorCode if code.release is Release.ELSEWHERE]
ROLLOUT = [code for code in ErrorCode if code.release is Release.ROLLOUT]
HOUR_MS, DAY_MS = 3_600_000, 86_400_000


@pytest.mark.parametrize("code", ELSEWHERE)
def test_a_job_that_no_worker_can_run_ends_after_an_hour_and_twenty_releases(code: ErrorCode) -> None:
    limits = ReleaseLimits()
    assert not limits.is_charged(code, 19, 9 * HOUR_MS), "others may have found busy workers only"
    assert not limits.is_charged(code, 500, HOUR_MS - 1), "many workers may lack the same"
    assert limits.is_charged(code, 20, HOUR_MS)


@pytest.mark.parametrize("code", ROLLOUT)
def test_a_job_waits_three_days_for_an_update_of_the_workers(code: ErrorCode) -> None:
    assert not ReleaseLimits().is_charged(code, 500, 3 * DAY_MS - 1)
    assert ReleaseLimits().is_charged(code, 20, 3 * DAY_MS)


def test_the_codes_of_each_rule() -> None:
    assert ELSEWHERE == ["storage_root_missing", "storage_endpoint_missing", "ffmpeg_incomplete"]
    assert ROLLOUT == ["spec_not_understood", "unknown_kek", "unknown_encryption_version"]


@pytest.mark.parametrize(
    ("code", "final"),
    [
        ("storage_root_missing", "file_outside_roots"),
        ("storage_endpoint_missing", "endpoint_not_allowed"),
        ("ffmpeg_incomplete", "ffmpeg_incomplete"),
        ("spec_not_understood", "spec_not_understood"),
        ("unknown_kek", "unknown_kek"),
    ],
)
def test_the_error_at_the_end_is_permanent_and_tells_the_number_of_releases(code: str, final: str) -> None:
    released = JobError(ErrorCode[code.upper()], "this worker lacks it", "claimed")
    assert released.document()["retryable"]
    error = ReleaseLimits().error_instead(released, 20, 3 * DAY_MS)
    assert error is not None
    assert error.document() == {
        "code": final,
        "message": "this worker lacks it; no worker could run the job: it was released 20 times",
        "retryable": False,
        "phase": "claimed",
    }


def test_a_limited_code_ends_with_its_own_error() -> None:
    error = JobError(ErrorCode.SANDBOX_FAILED, "no sandbox", "processing")
    assert ReleaseLimits().error_instead(error, 4, 0) is None
    assert ReleaseLimits().error_instead(error, 5, 0) is error
