"""Tests of still images and sprites."""

from pathlib import Path

import pytest

from euterpe.domain.outputs import ImageOutput, SpriteOutput
from euterpe.media.sandbox.sandbox import Sandbox
from tests.media.clips import Clips
from tests.media.media_steps import FILM, make, probe


@pytest.mark.parametrize("name", ["film.mp4", "still.mp4", "uneven.mkv", "hdr.mp4"])
def test_there_is_a_picture_for_each_moment(
    clips: Clips, sandbox: Sandbox, tmp_path: Path, name: str
) -> None:
    moments = ImageOutput(name="poster", type="image", at=("0%", "50%", "100%", "0.5s", "99s"))
    made = make(sandbox, clips.make(name), [moments], tmp_path)
    assert [file.name for file in made] == [f"poster/{number}.jpg" for number in range(1, 6)]
    for file in made:
        video = jpeg_size(file.path)
        assert video == (file.width, file.height)
        assert file.content_type == "image/jpeg"


def jpeg_size(path: Path) -> tuple[int, int]:
    """Return the width and height from the JPEG's frame header."""
    data = path.read_bytes()
    start = data.index(b"\xff\xc0")
    height, width = (int.from_bytes(data[start + at : start + at + 2], "big") for at in (5, 7))
    return width, height


def test_different_moments_give_different_pictures(clips: Clips, sandbox: Sandbox, tmp_path: Path) -> None:
    moments = ImageOutput(name="poster", type="image", at=("0s", "1s", "1.9s"))
    made = make(sandbox, clips.make("film.mp4"), [moments], tmp_path)
    assert len({file.path.read_bytes() for file in made}) == 3


def test_a_sprite_sheet_is_published_before_its_cues(clips: Clips, sandbox: Sandbox, tmp_path: Path) -> None:
    sheet = SpriteOutput(name="scrub", type="sprite", interval_seconds=2, columns=3)
    made = make(sandbox, clips.make("long.mp4"), [sheet, FILM], tmp_path)
    assert [file.name for file in made] == ["scrub/1.jpg", "scrub/sprite.vtt", "film.mp4"]
    assert jpeg_size(made[0].path) == (480, 180)
    cues = made[1].path.read_text().split("\n\n")
    assert len(cues) == 6
    assert cues[-1] == "00:00:08.000 --> 00:00:09.000\n1.jpg#xywh=160,90,160,90\n"
    assert probe(sandbox, made[2].path).container == "mov"


def test_a_sprite_can_be_made_without_cues(clips: Clips, sandbox: Sandbox, tmp_path: Path) -> None:
    sheet = SpriteOutput(name="scrub", type="sprite", interval_seconds=1, columns=1, vtt=False)
    made = make(sandbox, clips.make("long.mp4"), [sheet], tmp_path)
    assert [file.name for file in made] == ["scrub/1.jpg"]
    assert jpeg_size(made[0].path) == (160, 810)
