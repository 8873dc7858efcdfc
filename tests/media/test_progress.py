from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from euterpe.media.progress import Progress, Report, ReportReader, progress_of

BLOCK = (
    b"frame=10\nfps=25.0\nbitrate= 198.8kbits/s\ntotal_size=49703\nout_time_us=2500000\n"
    b"out_time=00:00:02.500000\nspeed=2.5x\nprogress=continue\n"
)


def test_a_block_is_one_report() -> None:
    assert list(ReportReader().feed(BLOCK)) == [Report(2.5, 2.5)]


@given(st.lists(st.integers(0, 3 * len(BLOCK)), max_size=10))
def test_it_does_not_matter_where_the_stream_is_cut(cuts: list[int]) -> None:
    reader, stream = ReportReader(), BLOCK * 3
    edges = [0, *sorted(cuts), len(stream)]
    pieces = [stream[a:b] for a, b in pairwise(edges)]
    assert [report for piece in pieces for report in reader.feed(piece)] == [Report(2.5, 2.5)] * 3


@given(st.binary(max_size=2000))
def test_no_nonsense_breaks_it(nonsense: bytes) -> None:
    reader = ReportReader()
    list(reader.feed(nonsense))
    assert list(reader.feed(b"\n" + BLOCK))[-1] == Report(2.5, 2.5)


def test_what_ffmpeg_does_not_know_is_none() -> None:
    unknown = b"out_time_us=N/A\nspeed=N/A\nprogress=continue\nout_time_us=nan\nspeed=infx\nprogress=end\n"
    assert list(ReportReader().feed(unknown)) == [Report(None, None)] * 2


def test_progress_is_a_share_of_the_duration() -> None:
    assert progress_of(Report(2.5, 2.5), 10.0, 7) == Progress(25.0, 2.5, 3.0, 7)
    assert progress_of(Report(11.0, 2.0), 10.0, 7) == Progress(100.0, 2.0, 0.0, 7)
    assert progress_of(Report(-0.1, 0.0), 10.0, 7) == Progress(0.0, 0.0, None, 7)
    assert progress_of(Report(2.5, 2.5), None, 7) == Progress(None, 2.5, None, 7)
    assert progress_of(Report(None, None), 10.0, 7) == Progress(out_bytes=7)
