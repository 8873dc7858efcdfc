"""Tests of writing subtitles: cues are shifted to the times of the output, and cut at its two ends."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from euterpe.domain.error_codes import ErrorCode
from euterpe.media.encoding.output_folder import DiskUse
from euterpe.media.encoding.subtitles import Subtitles, read_cues
from euterpe.media.errors import MediaError
from euterpe.media.planning.tree import Package, SubtitleTrack, TrackLabels
from euterpe.media.source.cues import SourceCue
from euterpe.runtime.disk_space import least_file_bytes
from tests.media.children import StubSandbox
from tests.media.readers.subtitles import Cue, cues


def package(*tracks: SubtitleTrack) -> Package:
    return Package("a", 4, (), hls=True, dash=True, trick_play=False, subtitles=tracks)


def track(shift: float = 0.0, seconds: float | None = None, stream: int = 1) -> SubtitleTrack:
    return SubtitleTrack(stream, f"subs_{stream}", TrackLabels("eng"), False, shift, seconds)


class Reads(StubSandbox):
    """A sandbox whose source has subtitles. `reads` has one entry for each call: the requested streams."""

    def __init__(self, found: dict[int, Sequence[SourceCue]], damaged: int | None = None) -> None:
        super().__init__(None)
        self._cues, self._damaged = found, damaged
        self.reads: list[list[int]] = []

    def call(self, task: str, arguments: Any, **_: Any) -> Any:
        assert task == "subtitles"
        self.reads.append(arguments["streams"])
        if self._damaged in arguments["streams"]:
            raise MediaError(ErrorCode.SOURCE_UNSUPPORTED, "a track has too many cues")
        return [
            {"stream": stream, "cues": [[cue.start, cue.end, cue.text] for cue in self._cues[stream]]}
            for stream in arguments["streams"]
        ]


@contextmanager
def source(folder: Path) -> Iterator[int]:
    (folder / "source").write_bytes(b"x")
    with (folder / "source").open("rb") as file:
        yield file.fileno()


def subtitles(
    sandbox: Reads, folder: Path, fd: int, packages: Sequence[Package], **options: Any
) -> Subtitles:
    on_disk: Callable[[int], None] = options.pop("on_disk", lambda _: None)
    return Subtitles(sandbox, packages, fd, DiskUse(folder, on_disk), **options)


def written(folder: Path, found: Sequence[SourceCue], one: SubtitleTrack, seconds: float = 10.0) -> list[Cue]:
    made = package(one)
    with source(folder) as fd:
        subtitles(Reads({1: found}), folder, fd, [made]).write(made, folder, seconds)
    return cues((folder / "subs_1.vtt").read_text())


@pytest.mark.parametrize(
    ("cue", "shown"),
    [
        ((3_000, 4_000), (1_000, 2_000)),
        ((1_000, 3_000), (0, 1_000)),  # the cue begins before the output
        ((-5_000, 2_500), (0, 500)),
        ((11_000, 10**12), (9_000, 10_000)),  # the cue ends after the output
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


def package_in(name: str, stream: int) -> Package:
    return Package(name, 4, (), hls=True, dash=True, trick_play=False, subtitles=(track(stream=stream),))


def test_all_outputs_together_have_a_limit(tmp_path: Path) -> None:
    """An earlier version applied the limit to each output, and a job may have 20 outputs."""
    packages = [package_in(name, 1) for name in "abc"]
    with source(tmp_path) as fd:
        made = subtitles(
            Reads({1: [SourceCue(0, 9_000, "x" * 50)]}), tmp_path, fd, packages, most_bytes=1_100
        )
        for one in packages[:2]:
            (tmp_path / one.output).mkdir()
            made.write(one, tmp_path / one.output, 10.0)
        (tmp_path / "c").mkdir()
        with pytest.raises(MediaError) as refused:
            made.write(packages[2], tmp_path / "c", 10.0)
    assert refused.value.code == "output_too_large"
    assert "output c" in str(refused.value)


def test_each_file_is_counted_on_the_disk_before_it_is_written(tmp_path: Path) -> None:
    """An earlier version did not count subtitle files. Even a small file takes a page on the disk."""

    class DiskFull(Exception):
        pass

    reported = list[int]()

    def hold(disk_bytes: int) -> None:
        reported.append(disk_bytes)
        if len(reported) == 3:
            raise DiskFull

    one = package(track())
    found = Reads({1: [SourceCue(0, 9_000, "x")]})
    with source(tmp_path) as fd:
        made = subtitles(found, tmp_path, fd, [one], on_disk=hold)
        with pytest.raises(DiskFull):
            made.write(one, tmp_path, 9.0)
    each = max(4096, least_file_bytes(tmp_path))
    assert [after - before for before, after in pairwise(reported)] == [each, each]
    assert len([*tmp_path.glob("*.vtt")]) == 2


def test_the_source_is_read_once_for_all_outputs(tmp_path: Path) -> None:
    """An earlier version read the source again for each optional output.

    A read takes as long as a stream copy of the source.
    """
    packages = [package_in("a", 1), package_in("b", 2), package_in("c", 1)]
    found = Reads({stream: [SourceCue(0, 1_000, "x")] for stream in (1, 2)})
    with source(tmp_path) as fd:
        made = subtitles(found, tmp_path, fd, packages)
        for one in packages:
            (tmp_path / one.output).mkdir()
            made.write(one, tmp_path / one.output, 4.0)
    assert found.reads == [[1, 2]]


def test_a_damaged_track_fails_only_the_output_that_has_it(tmp_path: Path) -> None:
    packages = [package_in("a", 1), package_in("b", 2)]
    found = Reads({1: [SourceCue(0, 1_000, "x")]}, damaged=2)
    with source(tmp_path) as fd:
        made = subtitles(found, tmp_path, fd, packages)
        (tmp_path / "a").mkdir()
        assert len(made.write(packages[0], tmp_path / "a", 4.0)) == 1
        with pytest.raises(MediaError):
            made.write(packages[1], tmp_path / "b", 4.0)
    assert found.reads == [[1, 2], [1], [2]]


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
