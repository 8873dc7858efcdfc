"""Tests of finding all keyframes of a source by reading its packets."""

from pathlib import Path

import pytest

from euterpe.media.errors import MediaError
from euterpe.media.sandbox.sandbox import Sandbox
from euterpe.media.source.keyframes import keyframes
from euterpe.media.source.media_info import Keyframes
from tests.media.clips import Clips

_CODED = "-c:v libx264 -preset veryfast -pix_fmt yuv420p -g 25 -bf 2 -c:a aac"


def film(clips: Clips, name: str) -> Path:
    return clips.encoded(
        f"keyframes-{name}",
        "-f lavfi -i testsrc2=size=160x90:rate=25:duration=4 -f lavfi -i sine=440:duration=4 "
        f"-map 1 -map 0 {_CODED}",
    )


def found(sandbox: Sandbox, path: Path, index: int = 1) -> Keyframes:
    with path.open("rb") as file:
        return sandbox.keyframes(file.fileno(), index)


@pytest.mark.parametrize("container", ["mp4", "mkv", "avi", "flv", "ts"])
def test_every_keyframe_is_found(clips: Clips, sandbox: Sandbox, container: str) -> None:
    keyframes = found(sandbox, film(clips, f"film.{container}"))
    first = keyframes.seconds[0]
    assert keyframes.is_complete
    assert [round(second - first, 3) for second in keyframes.seconds] == [0.0, 1.0, 2.0, 3.0]


def test_keyframes_that_an_edit_list_removes_are_left_out(
    clips: Clips, sandbox: Sandbox, tmp_path: Path
) -> None:
    path = tmp_path / "cut.mp4"
    clips.encode(f"-ss 1.5 -i {film(clips, 'film.mp4')} -map 0 -c copy", path)
    seconds = found(sandbox, path).seconds
    assert len(seconds) == 2
    assert all(second > 0 for second in seconds)


@pytest.mark.parametrize("index", [0, 7])
def test_a_stream_without_pictures_has_no_keyframes(clips: Clips, sandbox: Sandbox, index: int) -> None:
    with pytest.raises(MediaError) as refused:
        found(sandbox, film(clips, "film.mp4"), index)
    assert refused.value.code == "source_unsupported"


def test_a_scan_that_takes_too_long_says_so(clips: Clips) -> None:
    with film(clips, "film.mp4").open("rb") as file:
        answer = keyframes(file.fileno(), 1, longest_scan_s=0.0)
    assert Keyframes.parse(answer).is_complete is False


def test_a_file_that_is_no_source_is_refused(clips: Clips, sandbox: Sandbox) -> None:
    with pytest.raises(MediaError) as refused:
        found(sandbox, clips.make("noise"))
    assert refused.value.code == "source_not_media"
