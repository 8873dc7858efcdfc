"""Synthetic outcomes agree with the table of error codes."""

import pytest

from euterpe.domain.error_codes import ErrorCode, RetryClass
from euterpe.synthesize.outcomes import ANY, FATES, PHASES, Fate, job_error

ERRORS = [fate for fate in FATES if fate.code != "released"]


@pytest.mark.parametrize("fate", ERRORS, ids=lambda fate: fate.code)
def test_each_code_has_a_phase_and_a_retry_class_that_it_may_have(fate: Fate) -> None:
    code = ErrorCode[fate.code.upper()]
    assert code.phases == ("any",) or (fate.phase != ANY and PHASES[fate.phase] in code.phases)
    retried = code.retry in (RetryClass.TRANSIENT, RetryClass.THROTTLED)
    assert job_error(fate.code, "processing").document()["retryable"] == retried


def test_most_attempts_are_left_to_succeed() -> None:
    assert sum(fate.share for fate in FATES) < 0.1
