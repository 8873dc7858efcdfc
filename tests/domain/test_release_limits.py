"""Tests of the limit on how often a job is released without a charge."""

import pytest

from euterpe.domain.error_codes import ErrorCode, Release
from euterpe.domain.release_limits import EarlierReleases, ReleaseLimits
from euterpe.domain.retry import JobError

HOUR_MS, DAY_MS = 3_600_000, 86_400_000


def is_charged(code: ErrorCode | None, releases: int, waited_ms: int = 0, *, workers: int = 2) -> bool:
    return ReleaseLimits().is_charged(code, EarlierReleases(releases, workers, waited_ms))


def test_the_sixth_release_is_charged() -> None:
    assert not is_charged(ErrorCode.SANDBOX_FAILED, 4)
    assert is_charged(ErrorCode.SANDBOX_FAILED, 5)


@pytest.mark.parametrize("code", [ErrorCode.WAITS_FOR_DISK, ErrorCode.DISK_FULL, None])
def test_drains_and_waits_are_charged_after_a_week(code: ErrorCode | None) -> None:
    assert not is_charged(code, 19, 30 * DAY_MS)
    assert not is_charged(code, 5_000, 7 * DAY_MS - 1)
    assert is_charged(code, 20, 7 * DAY_MS)


@pytest.mark.parametrize("code", [code for code in ErrorCode if code.release is Release.NEVER])
def test_a_fault_of_the_job_is_charged_at_once(code: ErrorCode) -> None:
    assert is_charged(code, 0)


def test_only_the_first_releases_need_no_pause() -> None:
    limits = ReleaseLimits()
    assert [limits.least_pause_ms(given_back, 1.0) for given_back in range(5)] == [0, 0, 0, 5_000, 10_000]


def test_the_pause_doubles_up_to_five_minutes() -> None:
    limits = ReleaseLimits()
    longest = [limits.pause_ms(given_back, 1.0) for given_back in range(8)]
    assert longest == [5_000, 10_000, 20_000, 40_000, 80_000, 160_000, 300_000, 300_000]


ELSEWHERE = [code for code in ErrorCode if code.release is Release.ELSEWHERE]
ROLLOUT = [code for code in ErrorCode if code.release is Release.ROLLOUT]


@pytest.mark.parametrize("code", ELSEWHERE)
def test_a_job_that_no_worker_can_run_ends_after_an_hour_and_twenty_releases(code: ErrorCode) -> None:
    assert not is_charged(code, 19, 9 * HOUR_MS), "others may have found busy workers only"
    assert not is_charged(code, 500, HOUR_MS - 1), "many workers may lack the same"
    assert is_charged(code, 20, HOUR_MS)


@pytest.mark.parametrize("code", ELSEWHERE)
def test_a_job_that_only_one_worker_released_waits_a_day_for_another(code: ErrorCode) -> None:
    assert not is_charged(code, 500, DAY_MS - 1, workers=1)
    assert is_charged(code, 20, DAY_MS, workers=1)


@pytest.mark.parametrize("code", ROLLOUT)
def test_a_job_waits_three_days_for_an_update_of_the_workers(code: ErrorCode) -> None:
    assert not is_charged(code, 500, 3 * DAY_MS - 1)
    assert is_charged(code, 20, 3 * DAY_MS)


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
    error = ReleaseLimits().error_instead(released, EarlierReleases(20, 2, 3 * DAY_MS), "claimed")
    assert error is not None
    assert error.document() == {
        "code": final,
        "message": "this worker lacks it; no worker could run the job: 2 workers released it 20 times",
        "retryable": False,
        "phase": "claimed",
    }


def test_a_limited_code_ends_with_its_own_error() -> None:
    error = JobError(ErrorCode.SANDBOX_FAILED, "no sandbox", "processing")
    assert ReleaseLimits().error_instead(error, EarlierReleases(4), "processing") is None
    assert ReleaseLimits().error_instead(error, EarlierReleases(5), "processing") is error


def test_a_job_that_is_given_back_without_a_reason_is_charged_in_the_end() -> None:
    error = ReleaseLimits().error_instead(None, EarlierReleases(20, 1, 7 * DAY_MS), "fetching")
    assert error is not None
    assert error.document() == {
        "code": "internal_error",
        "message": "workers gave the job back 20 times without a reason",
        "retryable": True,
        "phase": "fetching",
    }
