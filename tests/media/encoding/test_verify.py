"""Tests of verifying outputs: the check finds damaged, missing and unplanned files and streams."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from euterpe.domain.error_codes import RetryClass
from euterpe.domain.outputs import ImageOutput, Mp4Output, OutputSpec, WebmOutput
from euterpe.media.encoding.verify import verify
from euterpe.media.errors import MediaError
from euterpe.media.planning.planner import plan
from euterpe.media.planning.tree import File, MuxedTrack, Plan, PlanWarning
from euterpe.media.sandbox.sandbox import Sandbox
from euterpe.media.source.media_info import MediaInfo, StreamInfo
from tests.media.children import StubSandbox
from tests.media.clips import Clips
from tests.media.media_steps import FILM, SOUND, probe, run
from tests.media.processes import processes_in
from tests.media.sources.cache import ffmpeg

Made = tuple[Plan, Path]


@pytest.fixture
def made(clips: Clips, sandbox: Sandbox, tmp_path: Path) -> Made:
    source = clips.make("long.mp4")
    planned = plan([FILM, SOUND], probe(sandbox, source), threads=1)
    run(sandbox, planned, source, tmp_path)
    return planned, tmp_path


def with_command(planned: Plan, **changes: Any) -> Plan:
    """Return the plan with other nodes in its first command."""
    command, *rest = planned.commands
    return replace(planned, commands=(replace(command, **changes), *rest))


def with_video(planned: Plan, **changes: Any) -> Plan:
    (video,) = planned.commands[0].videos
    return with_command(planned, videos=(replace(video, **changes),))


def with_scale(planned: Plan, **changes: Any) -> Plan:
    (scale,) = planned.commands[0].scales
    return with_command(planned, scales=(replace(scale, **changes),))


def with_tracks(planned: Plan, *tracks: MuxedTrack) -> Plan:
    film, *rest = planned.commands[0].products
    assert isinstance(film, File)
    return with_command(planned, products=(replace(film, tracks=tracks), *rest))


def tracks_of(planned: Plan) -> tuple[MuxedTrack, ...]:
    film = planned.commands[0].products[0]
    assert isinstance(film, File)
    return film.tracks


def refusal_code(sandbox: Sandbox, planned: Plan, folder: Path) -> str:
    with pytest.raises(MediaError) as error:
        verify(sandbox, planned, folder)
    return error.value.code


def test_outputs_as_planned_pass(sandbox: Sandbox, made: Made) -> None:
    assert [file.name for file in verify(sandbox, *made).files] == ["film.mp4", "sound.m4a"]


@pytest.mark.parametrize(
    ("damage", "code"),
    [
        (lambda data: data[: len(data) // 2], "output_undecodable"),
        (lambda data: data[:-200], "output_undecodable"),
        (lambda _: b"", "output_undecodable"),
        (lambda data: bytes(len(data)), "output_undecodable"),
    ],
)
def test_a_file_that_was_cut_off_or_lost_is_found(
    sandbox: Sandbox, made: Made, damage: Callable[[bytes], bytes], code: str
) -> None:
    planned, folder = made
    path = folder / "film.mp4"
    path.write_bytes(damage(path.read_bytes()))
    assert refusal_code(sandbox, planned, folder) == code


def test_a_file_that_is_missing_is_found(sandbox: Sandbox, made: Made) -> None:
    planned, folder = made
    (folder / "sound.m4a").unlink()
    assert refusal_code(sandbox, planned, folder) == "output_undecodable"


def test_a_long_verification_can_be_interrupted(sandbox: Sandbox, made: Made) -> None:
    class LeaseLost(Exception):
        pass

    def lose_lease() -> None:
        assert len(processes_in(folder)) == 1
        raise LeaseLost

    planned, folder = made
    (folder / "film.mp4").unlink()
    os.mkfifo(folder / "film.mp4")
    with pytest.raises(LeaseLost):
        verify(sandbox, planned, folder, on_tick=lose_lease)
    assert processes_in(folder) == []


def test_a_film_that_is_shorter_than_its_source_is_found(sandbox: Sandbox, made: Made) -> None:
    planned, folder = made
    video, audio = tracks_of(planned)
    longer = with_tracks(planned, replace(video, least_end=9.5), audio)
    assert refusal_code(sandbox, longer, folder) == "output_truncated"


def drop_pictures(path: Path, which: str) -> None:
    """Write the file again without some of its pictures. The other pictures keep their times."""
    whole = path.rename(path.with_name(f"whole-{path.name}"))
    fragments = "-movflags +frag_keyframe+empty_moov" if b"moof" in whole.read_bytes() else ""
    ffmpeg(f"-i {whole} -map 0 -c copy -bsf:v noise=drop='{which}' {fragments} {path}")


@pytest.mark.parametrize(
    "output",
    [
        FILM,
        Mp4Output(name="film", type="mp4", fragmented=True),
        WebmOutput.model_validate({"name": "film", "type": "webm", "video": {"codec": "vp9"}}),
    ],
    ids=["mp4", "fragments", "webm"],
)
@pytest.mark.parametrize("which", ["not(n-60)", "not(n-224)"], ids=["middle", "end"])
def test_a_lost_picture_is_found(
    clips: Clips, sandbox: Sandbox, tmp_path: Path, output: OutputSpec, which: str
) -> None:
    """An earlier version compared only durations, so a film could lose its last pictures."""
    planned = plan([output], probe(sandbox, clips.make("long.mp4")), threads=1)
    run(sandbox, planned, clips.make("long.mp4"), tmp_path)
    (made,) = verify(sandbox, planned, tmp_path).files
    drop_pictures(made.path, which)
    with pytest.raises(MediaError, match="224 pictures, but its encoder was given 225") as refused:
        verify(sandbox, planned, tmp_path)
    assert (refused.value.code, refused.value.retry_class) == ("output_truncated", RetryClass.PERMANENT)


def test_pictures_that_were_not_counted_are_not_accepted(sandbox: Sandbox, made: Made) -> None:
    planned, folder = made
    (folder / ".pictures/film.mp4").unlink()
    assert refusal_code(sandbox, planned, folder) == "output_undecodable"
    (folder / ".pictures/film.mp4").symlink_to("/dev/zero")
    assert refusal_code(sandbox, planned, folder) == "output_undecodable"


@pytest.mark.parametrize(
    "change",
    [
        lambda planned: with_video(planned, codec="hevc"),
        lambda planned: with_scale(planned, width=162),
        lambda planned: with_scale(planned, height=92),
        lambda planned: with_tracks(planned, *tracks_of(planned)[::-1]),
    ],
)
def test_another_stream_than_was_planned_is_found(
    sandbox: Sandbox, made: Made, change: Callable[[Plan], Plan]
) -> None:
    planned, folder = made
    assert refusal_code(sandbox, change(planned), folder) == "output_undecodable"


def test_a_missing_stream_is_found(sandbox: Sandbox, made: Made) -> None:
    planned, folder = made
    more = with_tracks(planned, *tracks_of(planned), MuxedTrack("audio", 0))
    assert refusal_code(sandbox, more, folder) == "output_truncated"


def damage(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-200])


def test_an_optional_output_that_is_damaged_is_left_out(
    clips: Clips, sandbox: Sandbox, tmp_path: Path
) -> None:
    source = clips.make("one.mp4")
    optional = SOUND.model_copy(update={"optional": True})
    planned = plan([FILM, optional], probe(sandbox, source), threads=1)
    run(sandbox, planned, source, tmp_path)
    damage(tmp_path / "sound.m4a")
    found = verify(sandbox, planned, tmp_path)
    assert [file.name for file in found.files] == ["film.mp4"]
    assert [(warning.code, warning.output) for warning in found.failed] == [("output_failed", "sound")]
    # An earlier version left the damaged file on the disk until the end of the job.
    assert sorted(path.name for path in tmp_path.iterdir()) == [".pictures", "film.mp4"]
    damage(tmp_path / "film.mp4")
    assert refusal_code(sandbox, planned, tmp_path) == "output_undecodable"


def test_an_output_that_failed_before_is_not_verified(sandbox: Sandbox, made: Made) -> None:
    planned, folder = made
    optional = with_command(planned, is_optional=True)
    (folder / "film.mp4").unlink()
    failed = PlanWarning("output_failed", "film", "the output is left out")
    found = verify(sandbox, optional, folder, failed=[failed])
    assert ([file.name for file in found.files], found.failed) == (["sound.m4a"], (failed,))


def test_a_link_out_of_the_folder_is_not_followed(sandbox: Sandbox, made: Made, tmp_path: Path) -> None:
    """Links to files within the folder are not followed either.

    On some kernels, only this check detects a link.
    """
    planned, folder = made
    for outside in (tmp_path.parent / f"{tmp_path.name}-outside.mp4", folder / "inside.mp4"):
        (folder / "film.mp4").rename(outside)
        (folder / "film.mp4").symlink_to(outside)
        assert refusal_code(sandbox, planned, folder) == "output_undecodable"


def test_a_folder_that_became_a_link_is_not_followed(clips: Clips, sandbox: Sandbox, tmp_path: Path) -> None:
    source = clips.make("one.mp4")
    planned = plan([ImageOutput(name="poster", type="image", at=("0%",))], probe(sandbox, source), threads=1)
    run(sandbox, planned, source, tmp_path)
    (tmp_path / "poster").rename(tmp_path / "other")
    (tmp_path / "poster").symlink_to("other")
    assert refusal_code(sandbox, planned, tmp_path) == "output_undecodable"


SOURCE = MediaInfo("mov", 1000, 9.0, (StreamInfo(0, "video", "h264", 9.0, width=640, height=360),))
STREAM: dict[str, Any] = {
    "kind": "video",
    "codec": "h264",
    "width": 640,
    "height": 360,
    "frames": 5,
    "end_seconds": 9.0,
    "pictures": 5,
}


INVALID_STREAMS: list[Any] = [1, None, {}, "x", [{}], [[]], [0] * 1_000_000]
INVALID_SECONDS: list[Any] = [
    *(True, "9", "9" * 3_000_000, [9], {}, -1, 1e10, 10**400, float("nan"), float("inf"), float("-inf"))
]


def report(**changes: Any) -> list[Any]:
    return [{"duration_seconds": 9.0, "streams": [STREAM | changes]}]


class ReportingSandbox(StubSandbox):
    def __init__(self, found: Any, counts: Any) -> None:
        super().__init__(found)
        self._counts = counts

    def call(self, task: str, *args: Any, **options: Any) -> Any:
        return self._counts if task == "count_pictures" else super().call(task, *args, **options)


def verify_with_report(found: Any, folder: Path, counts: Any = (5,)) -> None:
    (folder / "film.mp4").write_bytes(b"film")
    verify(ReportingSandbox(found, counts), plan([FILM], SOURCE, threads=1), folder)


def test_a_report_that_matches_the_plan_passes(tmp_path: Path) -> None:
    verify_with_report(report(), tmp_path)


@pytest.mark.parametrize(
    "found",
    [
        *(None, 7, "x", {}, [], [{}, {}], report() * 2, [[]], ["x"], [None], [0] * 1_000_000),
        *([{"streams": streams}] for streams in INVALID_STREAMS),
        *(
            [{"problem": problem}]
            for problem in (7, {"a": 1}, ["a"], "A\0\x1b[2J" * 300_000, "\u202e", "\ud800")
        ),
        *([{"duration_seconds": seconds, "streams": [STREAM]}] for seconds in INVALID_SECONDS),
        *(report(end_seconds=end) for end in INVALID_SECONDS),
        *(report(frames=frames) for frames in (True, "x", None, [1], 1.0, -1, 10**15)),
        *(report(pictures=pictures) for pictures in (None, True, "x", [5], 5.0, -1, 10**15)),
        *(report(width=width) for width in (True, "640", 640.0, [640], -1)),
        *(report(codec=codec) for codec in (7, None, {"a": 1}, "\x1b[2J", "c" * 300_000)),
        report(evil=1),
        [report()[0] | {"evil": 1}],
    ],
    ids=lambda found: ascii(found)[:60].replace("\\", ""),
)
def test_an_invalid_report_on_an_output_is_refused_for_good(tmp_path: Path, found: Any) -> None:
    with pytest.raises(MediaError) as refused:
        verify_with_report(found, tmp_path)
    assert (refused.value.code, refused.value.retry_class) == ("output_undecodable", RetryClass.PERMANENT)
    assert len(str(refused.value)) < 1000
    assert str(refused.value).isprintable()


@pytest.mark.parametrize(
    "counts", [None, 5, "5", [], [5, 5], ["5"], [None], [True], [5.0], [-1], [4], [10**30], [[5]], {"a": 5}]
)
def test_an_invalid_count_of_pictures_is_refused_for_good(tmp_path: Path, counts: Any) -> None:
    with pytest.raises(MediaError) as refused:
        verify_with_report(report(), tmp_path, counts)
    assert refused.value.retry_class is RetryClass.PERMANENT
    assert len(str(refused.value)) < 1000


def test_a_still_without_a_picture_blames_the_source(clips: Clips, sandbox: Sandbox, tmp_path: Path) -> None:
    """ffmpeg can succeed without writing a file.

    An earlier version then told requesters to contact the operator.
    """
    poster = ImageOutput(name="poster", type="image", at=("0s",))
    planned = plan([poster], probe(sandbox, clips.make("long.mp4")), threads=1)
    run(sandbox, planned, clips.make("long.mp4"), tmp_path)
    (tmp_path / "poster/1.jpg").unlink()
    assert refusal_code(sandbox, planned, tmp_path) == "output_truncated"
