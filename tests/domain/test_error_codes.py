import json

import pytest

from euterpe.domain.error_codes import ErrorCode, Release, RetryClass
from euterpe.domain.retry import JobError
from euterpe.domain.states import IN_PROGRESS


@pytest.mark.parametrize("code", ErrorCode)
def test_a_code_is_the_text_that_requesters_read(code: ErrorCode) -> None:
    assert code.name == code.value.upper()
    assert ErrorCode[code.value.upper()] is code
    assert json.loads(json.dumps({"code": code})) == {"code": code.value}


@pytest.mark.parametrize("code", ErrorCode)
def test_a_code_says_when_it_occurs_and_what_to_do(code: ErrorCode) -> None:
    assert set(code.phases) <= {"any", *IN_PROGRESS}
    for text in (code.summary, code.advice):
        assert text == text.strip()
        assert "|" not in text
        assert "\n" not in text
        assert not text.endswith(".")


def test_what_is_released_without_a_charge_is_tried_again() -> None:
    """If an error of a released job were permanent, the job would stay in `failed`."""
    released = [code for code in ErrorCode if code.release is not Release.NEVER]
    assert len(released) >= 8
    assert {code.retry for code in released} == {RetryClass.TRANSIENT}


def test_an_error_has_the_retry_class_of_its_code_unless_overridden() -> None:
    usual = JobError(ErrorCode.SOURCE_TRUNCATED, "it is cut off", "processing")
    broken_off = JobError(ErrorCode.SOURCE_TRUNCATED, "it broke off", "fetching", RetryClass.TRANSIENT)
    assert [error.retry_class for error in (usual, broken_off)] == [
        RetryClass.PERMANENT,
        RetryClass.TRANSIENT,
    ]
    assert [error.document()["retryable"] for error in (usual, broken_off)] == [False, True]
