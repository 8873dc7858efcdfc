"""Tests of measurements: ffmpeg's log is parsed strictly, and a failure is handled like a failed command."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from euterpe.domain.outputs import OutputSpec
from euterpe.media.encoding.failure_reason import FailureReason
from euterpe.media.encoding.measure import result_of
from euterpe.media.encoding.progress import EncodeProgress
from euterpe.media.encoding.verify import verify
from euterpe.media.errors import MediaError
from euterpe.media.planning.loudness import MeasuredLoudness
from euterpe.media.planning.planner import plan
from euterpe.media.planning.tree import Input, LoudnessMeasurement, Plan, Sound
from euterpe.media.sandbox.child import Exit
from euterpe.media.sandbox.confine import ResourceLimits
from euterpe.media.sandbox.sandbox import Sandbox
from tests.media.clips import Clips
from tests.media.media_steps import FILM, probe, run
from tests.media.planning.facts import specs

MEASUREMENT = LoudnessMeasurement("loudness", 1.0, 1.0, (Input(),), Sound(0, 1, 48_000, "stereo"), ("a",))
LOG = """[in#0/wav] [info] Input #0, wav, from 'fd:':
[Parsed_ebur128_2] [info] Summary:

  Integrated loudness:
    I:         {lufs} LUFS
    Threshold: -39.1 LUFS

  Loudness range:
    LRA:         1.4 LU
    Threshold: -49.0 LUFS
    LRA low:   -29.9 LUFS
    LRA high:  -28.5 LUFS

  True peak:
    Peak:      {peak} dBFS
[out#0/null] [info] video:0KiB audio:750KiB
"""


def log(lufs: str = "-29.0", peak: str = "-12.4") -> str:
    return LOG.format(lufs=lufs, peak=peak)


# -- the log


def test_the_result_is_the_last_summary() -> None:
    """A title in the source can look like a summary in ffmpeg's log. The real summary is the last one."""
    assert result_of(MEASUREMENT, log("-10.0", "  0.3") + log()) == MeasuredLoudness(-29.0, -12.4)


def test_another_thread_may_log_inside_of_the_summary() -> None:
    torn = log().replace("\n  True peak", "[out#0/null] [info] Output\n\n  True peak")
    assert result_of(MEASUREMENT, torn) == MeasuredLoudness(-29.0, -12.4)


@pytest.mark.parametrize(("lufs", "peak"), [("-70.0", " -inf"), ("-70.0", "-81.2"), ("-69.9", " -inf")])
def test_silence_has_no_loudness(lufs: str, peak: str) -> None:
    assert result_of(MEASUREMENT, log(lufs, peak)) == MeasuredLoudness(None, None)


@pytest.mark.parametrize(
    ("lufs", "peak"),
    [
        ("nan", "-1.0"),
        ("inf", "-1.0"),
        ("-29.0", "nan"),
        ("-29.0", "inf"),
        ("20.1", "-1.0"),
        ("-70.1", "-1.0"),
        ("-29.0", "40.1"),
        ("-29.0", "-200.1"),
        ("-1e9", "-1.0"),
        ("9" * 5000 + ".0", "-1.0"),
        ("-29.0", "-1.0.0"),
        ("-٢٩.0", "-1.0"),
    ],
)
def test_a_result_that_is_no_loudness_is_refused(lufs: str, peak: str) -> None:
    with pytest.raises(MediaError) as refused:
        result_of(MEASUREMENT, log(lufs, peak))
    assert refused.value.code == "encode_failed"


@given(st.text())
def test_any_log_is_a_result_or_an_error(text: str) -> None:
    with pytest.raises(MediaError):
        result_of(MEASUREMENT, text)


def test_the_notices_of_a_measurement_are_no_reason_of_a_failure() -> None:
    """A title in the source can contain any text."""
    reason = FailureReason()
    reason.add(b"[info]     title           : Invalid data, end of file\n[out#0/null] [error] no room\n")
    error = reason.verdict(Exit(1, 0.0, 0), ResourceLimits(memory_bytes=1 << 30, cpu_seconds=60))
    assert (error.code, str(error)) == (
        "encode_failed",
        "ffmpeg failed with exit code 1: [out#0/null] [error] no room",
    )
    assert reason.damage() is None


# -- runs


def loud(name: str = "loud", **more: object) -> OutputSpec:
    (output,) = specs({"name": name, "type": "m4a", "audio": {"loudness": {}}, **more})
    return output


def test_progress_rises_through_measurement_and_encode(
    clips: Clips, sandbox: Sandbox, tmp_path: Path
) -> None:
    source, reports = clips.make("long.mp4"), list[EncodeProgress]()
    planned = plan([loud()], probe(sandbox, source), threads=1)
    run(sandbox, planned, source, tmp_path, on_progress=reports.append)
    percents = [report.percent for report in reports if report.percent is not None]
    assert percents == sorted(percents)


def test_a_measurement_has_the_timeout_of_the_job(clips: Clips, sandbox: Sandbox, tmp_path: Path) -> None:
    source = clips.make("long.mp4")
    planned = plan([loud()], probe(sandbox, source), threads=1)
    with pytest.raises(MediaError) as refused:
        run(sandbox, planned, source, tmp_path, timeout_seconds=0)
    assert refused.value.code == "encode_timeout"
    assert not list(tmp_path.iterdir())


def with_missing_stream(planned: Plan) -> Plan:
    """Return the plan with a measurement of a stream that the source does not have."""
    (measurement,) = planned.measurements
    assert isinstance(measurement, LoudnessMeasurement)
    broken = replace(measurement, sound=replace(measurement.sound, stream=9))
    return replace(planned, measurements=(broken,))


def test_a_failed_measurement_fails_the_job_before_anything_is_encoded(
    clips: Clips, sandbox: Sandbox, tmp_path: Path
) -> None:
    source = clips.make("film.mp4")
    planned = with_missing_stream(plan([loud()], probe(sandbox, source), threads=1))
    with pytest.raises(MediaError) as refused:
        run(sandbox, planned, source, tmp_path)
    assert refused.value.code == "encode_failed"
    assert not list(tmp_path.iterdir())


def test_an_optional_output_whose_measurement_fails_is_left_out(
    clips: Clips, sandbox: Sandbox, tmp_path: Path
) -> None:
    source = clips.make("film.mp4")
    silent = FILM.model_copy(update={"audio": None})
    planned = with_missing_stream(plan([silent, loud(optional=True)], probe(sandbox, source), threads=1))
    stats = run(sandbox, planned, source, tmp_path)
    verified = verify(sandbox, stats.plan, tmp_path, failed=stats.failed)
    assert [file.name for file in verified.files] == ["film.mp4"]
    assert [(one.code, one.output) for one in verified.failed] == [("output_failed", "loud")]
