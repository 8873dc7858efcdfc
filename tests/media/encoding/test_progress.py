"""Tests of parsing ffmpeg's progress reports, and of the progress of a plan of several commands."""

from dataclasses import dataclass
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from euterpe.media.encoding.progress import EncodeProgress, PlanProgress, ProgressLine, ReportReader
from euterpe.media.planning.tree import Command, Input, LoudnessMeasurement, Plan, Sound
from euterpe.store.checks import check_reported_fields

BLOCK = (
    b"frame=10\nfps=25.0\nbitrate= 198.8kbits/s\ntotal_size=49703\nout_time_us=2500000\n"
    b"out_time=00:00:02.500000\nspeed=2.5x\nprogress=continue\n"
)


def test_a_block_is_one_report() -> None:
    assert list(ReportReader().feed(BLOCK)) == [ProgressLine(2.5, 2.5)]


@given(st.lists(st.integers(0, 3 * len(BLOCK)), max_size=10))
def test_it_does_not_matter_where_the_stream_is_cut(cuts: list[int]) -> None:
    reader, stream = ReportReader(), BLOCK * 3
    edges = [0, *sorted(cuts), len(stream)]
    pieces = [stream[a:b] for a, b in pairwise(edges)]
    assert [report for piece in pieces for report in reader.feed(piece)] == [ProgressLine(2.5, 2.5)] * 3


@given(st.binary(max_size=2000))
def test_arbitrary_bytes_do_not_break_the_reader(data: bytes) -> None:
    reader = ReportReader()
    list(reader.feed(data))
    assert list(reader.feed(b"\n" + BLOCK))[-1] == ProgressLine(2.5, 2.5)


def test_what_ffmpeg_does_not_know_is_none() -> None:
    unknown = b"out_time_us=N/A\nspeed=N/A\nprogress=continue\nout_time_us=nan\nspeed=infx\nprogress=end\n"
    assert list(ReportReader().feed(unknown)) == [ProgressLine(None, None)] * 2


@dataclass
class SettableClock:
    seconds: float = 1_000.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def clock() -> SettableClock:
    return SettableClock()


def command(weight: float, seconds: float | None = 10.0) -> Command:
    return Command(weight, seconds, ())


def line(done_seconds: float | None, speed: float | None = 2.0) -> ProgressLine:
    return ProgressLine(done_seconds, speed)


def test_progress_is_a_share_of_the_duration(clock: SettableClock) -> None:
    encode = command(1.0)
    progress = PlanProgress(Plan("mov", 1, (encode,)), clock)
    assert progress.at(encode, line(None), 7) == EncodeProgress(None, 2.0, None, 7)
    assert progress.at(encode, line(-0.1, 0.0), 7) == EncodeProgress(0.0, 0.0, None, 7)
    clock.seconds += 5
    assert progress.at(encode, line(2.5), 7) == EncodeProgress(25.0, 2.0, 15.0, 7)
    assert progress.at(encode, line(11.0), 7) == EncodeProgress(100.0, 2.0, 0.0, 7)


def test_progress_is_unknown_while_the_duration_is(clock: SettableClock) -> None:
    encode = command(1.0, None)
    progress = PlanProgress(Plan("mov", 1, (encode,)), clock)
    assert progress.at(encode, line(2.5), 7) == EncodeProgress(None, 2.0, None, 7)


def test_the_weights_of_the_commands_are_added_up(clock: SettableClock) -> None:
    encode, poster, sprite = command(7.0), command(1.0, None), command(2.0)
    progress = PlanProgress(Plan("mov", 1, (encode, poster, sprite)), clock)
    clock.seconds += 35
    assert progress.at(encode, line(5.0), 0) == EncodeProgress(35.0, 2.0, 65.0, 0)
    progress.finish(encode)
    assert progress.at(poster, line(None, None), 0).percent == 70.0
    progress.finish(poster)
    assert progress.at(sprite, line(0.0), 0).percent == 80.0
    assert progress.at(sprite, line(5.0), 0).percent == 90.0
    progress.finish(sprite)
    assert progress.at(sprite, line(0.0), 0).percent == 100.0


def test_measurements_are_a_part_of_the_sum(clock: SettableClock) -> None:
    sound = Sound(0, 1, 48_000, "stereo")
    measurement = LoudnessMeasurement("loudness", 1.0, 10.0, (Input(),), sound, ("a",))
    encode = command(9.0)
    progress = PlanProgress(Plan("mov", 1, (encode,), measurements=(measurement,)), clock)
    assert progress.at(measurement, line(5.0), 0).percent == 5.0
    progress.finish(measurement)
    assert progress.at(encode, line(0.0), 0).percent == 10.0
    assert progress.at(encode, line(5.0), 0).percent == 55.0
    progress.finish(encode)
    assert progress.at(encode, line(0.0), 0).percent == 100.0


def test_commands_without_any_weight_are_no_division_by_zero(clock: SettableClock) -> None:
    nothing = command(0.0)
    progress = PlanProgress(Plan("mov", 1, (nothing,)), clock)
    assert progress.at(nothing, line(5.0), 0).percent == 0.0
    progress.finish(nothing)


def test_the_remaining_time_follows_the_clock(clock: SettableClock) -> None:
    """ffmpeg reports the speed of the current command, which does not predict the speed of later commands."""
    encode = command(1.0)
    progress = PlanProgress(Plan("mov", 1, (encode, command(1.0))), clock)
    clock.seconds += 10
    assert progress.at(encode, line(5.0), 0).eta_seconds == 30.0
    clock.seconds += 10
    assert progress.at(encode, line(5.0), 0).eta_seconds == 60.0
    clock.seconds += 1e10
    assert progress.at(encode, line(5.0), 0).eta_seconds is None


REPORTS = st.one_of(st.none(), st.floats(-1e9, 1e9))


@given(
    st.lists(
        st.tuples(st.floats(0, 1e6), st.sampled_from([None, 5e-324, 1e-6, 10.0, 1e9]), st.lists(REPORTS)),
        min_size=1,
        max_size=5,
    )
)
def test_progress_never_falls_whatever_ffmpeg_reports(
    steps: list[tuple[float, float | None, list[float | None]]],
) -> None:
    commands = [command(weight, seconds) for weight, seconds, _ in steps]
    progress = PlanProgress(Plan("mov", 1, tuple(commands)), SettableClock())
    percents = list[float]()
    for running, (_, _, reports) in zip(commands, steps, strict=True):
        found = [progress.at(running, line(done), 0).percent for done in reports]
        percents += [percent for percent in found if percent is not None]
        progress.finish(running)
    assert percents == sorted(percents)
    assert all(0 <= percent <= 100 for percent in percents)


ODD = st.sampled_from(
    [
        "1e-320",
        "1e-9",
        "0",
        "-0",
        "2.5",
        "-5",
        "1e9",
        "1e15",
        "1e300",
        "1e308",
        "-1e308",
        "1e999",
        "nan",
        "9" * 400,
    ]
)


@given(ODD, ODD, st.sampled_from([None, 5e-324, 1e-6, 10.0, 1e9]))
def test_a_compromised_ffmpeg_reports_only_what_the_store_accepts(
    done: str, speed: str, duration: float | None
) -> None:
    block = f"out_time_us={done}\nspeed={speed}x\nprogress=continue\n".encode()
    (report,) = ReportReader().feed(block)
    encode, clock = command(1.0, duration), SettableClock()
    plan_progress = PlanProgress(Plan("mov", 1, (encode,)), clock)
    clock.seconds += 1
    progress = plan_progress.at(encode, report, 7)
    reported = {"progress": progress.percent, "speed": progress.speed, "eta_seconds": progress.eta_seconds}
    check_reported_fields({name: value for name, value in reported.items() if value is not None})


def test_numbers_that_no_ffmpeg_reports_are_dropped() -> None:
    invalid = (
        b"out_time_us=1e300\nspeed=-5x\nprogress=continue\nout_time_us=-1e300\nspeed=1e308x\nprogress=end\n"
    )
    assert list(ReportReader().feed(invalid)) == [ProgressLine(None, None)] * 2
