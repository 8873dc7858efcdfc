"""The error codes that count when versions of ffmpeg are compared."""

from euterpe.analytics.marts.regressions import ENCODER_CODES, ENCODER_PHASE
from euterpe.domain.error_codes import ErrorCode, Fault
from euterpe.domain.states import JobStatus


def test_each_code_of_the_encoder_can_be_met_while_ffmpeg_runs() -> None:
    assert ENCODER_PHASE == JobStatus.PROCESSING
    assert len(ENCODER_CODES) > 10
    for name in ENCODER_CODES:
        code = ErrorCode[name.upper()]
        assert {"processing", "any"} & set(code.phases), code


def test_storage_and_credentials_say_nothing_about_an_encoder() -> None:
    for code in ErrorCode:
        assert not (code.of_ffmpeg and code.fault in (Fault.STORAGE, Fault.REQUESTER)), code
