"""Tests of parsing ffmpeg's progress reports."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from euterpe.media.encoding.progress import EncodeProgress, ProgressLine, ReportReader, progress_of
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


def test_progress_is_a_share_of_the_duration() -> None:
    assert progress_of(ProgressLine(2.5, 2.5), 10.0, 7) == EncodeProgress(25.0, 2.5, 3.0, 7)
    assert progress_of(ProgressLine(11.0, 2.0), 10.0, 7) == EncodeProgress(100.0, 2.0, 0.0, 7)
    assert progress_of(ProgressLine(-0.1, 0.0), 10.0, 7) == EncodeProgress(0.0, 0.0, None, 7)
    assert progress_of(ProgressLine(2.5, 2.5), None, 7) == EncodeProgress(None, 2.5, None, 7)
    assert progress_of(ProgressLine(None, None), 10.0, 7) == EncodeProgress(out_bytes=7)


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
    progress = progress_of(report, duration, 7)
    reported = {"progress": progress.percent, "speed": progress.speed, "eta_seconds": progress.eta_seconds}
    check_reported_fields({name: value for name, value in reported.items() if value is not None})


def test_numbers_that_no_ffmpeg_reports_are_dropped() -> None:
    invalid = (
        b"out_time_us=1e300\nspeed=-5x\nprogress=continue\nout_time_us=-1e300\nspeed=1e308x\nprogress=end\n"
    )
    assert list(ReportReader().feed(invalid)) == [ProgressLine(None, None)] * 2
    assert progress_of(ProgressLine(1.0, 1e-320), 10.0, 7) == EncodeProgress(10.0, 1e-320, None, 7)
