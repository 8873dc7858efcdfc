"""Tests of writing subtitles: cues move to the timeline of the output, and are cut at its ends."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from euterpe.media.encoding.subtitles import read_cues, write_subtitles
from euterpe.media.errors import MediaError
from euterpe.media.planning.tree import Package, SubtitleTrack, TrackLabels
from euterpe.media.source.cues import SourceCue
from tests.media.children import StubSandbox
from tests.media.readers.subtitles import Cue, cues


def package(*tracks: SubtitleTrack) -> Package:
    return Package("a", 4, (), hls=True, dash=True, trick_play=False, subtitles=tracks)


def track(shift: float = 0.0, seconds: float | None = None, stream: int = 1) -> SubtitleTrack:
    return SubtitleTrack(stream, f"subs_{stream}", TrackLabels("eng"), False, shift, seconds)


def written(folder: Path, found: Sequence[SourceCue], one: SubtitleTrack, seconds: float = 10.0) -> list[Cue]:
    write_subtitles(package(one), {1: found}, folder, seconds)
    return cues((folder / "subs_1.vtt").read_text())


@pytest.mark.parametrize(
    ("cue", "shown"),
    [
        ((3_000, 4_000), (1_000, 2_000)),
        ((1_000, 3_000), (0, 1_000)),  # it begins before the output
        ((-5_000, 2_500), (0, 500)),
        ((11_000, 10**12), (9_000, 10_000)),  # it ends after the output
        ((-(10**12), 10**12), (0, 10_000)),
        ((0, 2_000), None),
        ((-2_000, -1_000), None),
        ((12_000, 13_000), None),
        ((5_000, 5_000), None),
        ((5_000, 4_000), None),
    ],
)
def test_a_cue_is_shown_within_the_output(
    tmp_path: Path, cue: tuple[int, int], shown: tuple[int, int] | None
) -> None:
    found = written(tmp_path, [SourceCue(*cue, "text")], track(shift=2.0))
    assert found == ([] if shown is None else [Cue(*shown, "text")])


def test_a_part_ends_where_it_was_asked_to(tmp_path: Path) -> None:
    found = written(tmp_path, [SourceCue(1_000, 9_000, "text")], track(shift=2.0, seconds=3.0))
    assert found == [Cue(0, 3_000, "text")]


def test_a_source_at_hours_keeps_its_milliseconds(tmp_path: Path) -> None:
    found = written(tmp_path, [SourceCue(95_443_717_001, 95_443_718_999, "x")], track(shift=95_443_717.0))
    assert found == [Cue(1, 1_999, "x")]


def test_files_that_would_be_too_large_are_refused(tmp_path: Path) -> None:
    tracks = [track(stream=stream) for stream in range(1, 33)]
    endless = [SourceCue(0, 10**12, "x" * 2_000)] * 10
    with pytest.raises(MediaError) as refused:
        write_subtitles(package(*tracks), dict.fromkeys(range(1, 33), endless), tmp_path, 4.0 * 2_000)
    assert refused.value.code == "output_too_large"


def test_an_answer_about_another_track_is_refused(tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(b"x")
    with (tmp_path / "source").open("rb") as source, pytest.raises(MediaError):
        read_cues(
            StubSandbox([{"stream": 2, "cues": []}]),
            [package(track())],
            source.fileno(),
            on_tick=lambda: None,
        )


def test_subtitles_need_the_source() -> None:
    assert read_cues(StubSandbox(None), [package()], None, on_tick=lambda: None) == {}
    with pytest.raises(ValueError, match="source"):
        read_cues(StubSandbox(None), [package(track())], None, on_tick=lambda: None)
