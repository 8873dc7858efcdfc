"""Tests of pictures: stills at moments, sprite sheets with cues, animated previews, and their limits."""

import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from euterpe.media.encoding.verify import MadeFile
from euterpe.media.errors import MediaError
from euterpe.media.planning.tree import Best, Every, Moment, Plan, Still
from euterpe.media.sandbox.sandbox import Sandbox
from tests.media.clips import Clips
from tests.media.media_steps import make, probe
from tests.media.planning.facts import VIDEO, info, long_film, planned, specs

FILM: dict[str, Any] = {"name": "film", "type": "mp4"}


def image(*at: str, **options: Any) -> dict[str, Any]:
    return {"name": "poster", "type": "image", "at": list(at), **options}


def sprite(name: str = "s", **options: Any) -> dict[str, Any]:
    return {"name": name, "type": "sprite", **options}


def still_of(made: Plan) -> Still:
    (still,) = made.commands[0].products
    assert isinstance(still, Still)
    return still


@pytest.mark.parametrize(
    ("moment", "start"), [("0%", 0.0), ("50%", 5.0), ("100%", 9.96), ("2.5s", 2.5), ("999s", 9.96)]
)
def test_a_moment_is_found_by_a_seek(moment: str, start: float) -> None:
    (command,) = planned(image(moment)).commands
    (source,) = command.inputs
    assert (source.start, source.keeps_lead) == (start, True)
    assert command.pictures[0].pick == Moment("moment", 0.02)  # half the duration of a picture


def test_moments_are_counted_in_the_part_that_is_asked() -> None:
    made = planned(image("0%", "50%", "1s", start=2, end=6))
    assert [command.inputs[0].start for command in made.commands] == [2.0, 4.0, 3.0]


def test_the_best_picture_is_sought_among_keyframes_if_there_are_enough() -> None:
    for interval, only in ((None, False), (2.0, True), (4.0, False)):
        (command,) = planned(image("best"), facts=info(replace(VIDEO, keyframe_interval=interval))).commands
        assert command.inputs[0].keyframes_only is only
        assert command.pictures[0].pick == Best("best", 100)


def test_moments_need_a_source_with_a_duration() -> None:
    without_duration = info(replace(VIDEO, duration_seconds=None), seconds=None)
    for output in (image("50%"), sprite()):
        with pytest.raises(MediaError) as refused:
            planned(output, facts=without_duration)
        assert refused.value.code == "source_unsupported"


def test_a_width_is_never_larger_than_the_source() -> None:
    for width, size in ((None, (1920, 1080)), (640, (640, 360)), (3840, (1920, 1080))):
        scale = planned(image("0%", width=width)).commands[0].scales[0]
        assert (scale.width, scale.height) == size


def test_each_format_has_its_suffix() -> None:
    for word, suffix in (("jpeg", "jpg"), ("webp", "webp"), ("avif", "avif")):
        assert still_of(planned(image("0%", format=word))).path == f"poster/1.{suffix}"
    for word in ("webp", "gif"):
        assert still_of(planned({"name": "p", "type": "preview", "format": word})).path == f"p.{word}"


def test_a_preview_begins_a_little_after_the_beginning_and_ends_before_the_end() -> None:
    for options, start, seconds in (({}, 1.0, 3.0), ({"start": 9.0}, 9.0, 1.0), ({"seconds": 30}, 1.0, 9.0)):
        (command,) = planned({"name": "p", "type": "preview", **options}).commands
        assert (command.inputs[0].start, command.inputs[0].seconds) == (start, seconds)
        assert command.pictures[0].fps == 10.0


def test_a_long_film_takes_several_sheets_and_every_picture_has_its_time() -> None:
    made = planned(sprite(), facts=long_film(3600.0))
    sheet, scale = still_of(made), made.commands[0].scales[0]
    assert (sheet.path, sheet.sheets, sheet.columns, sheet.rows) == ("s/%d.jpg", 4, 10, 10)
    assert (scale.width, scale.height) == (160, 90)
    assert made.commands[0].pictures[0].pick == Every("every", 10, 360)
    (index,) = made.texts
    cues = index.text.split("\n\n")
    assert len(cues) == 361
    assert cues[1] == "00:00:00.000 --> 00:00:10.000\n1.jpg#xywh=0,0,160,90"
    assert cues[102] == "00:16:50.000 --> 00:17:00.000\n2.jpg#xywh=160,0,160,90"


def test_a_sprite_decodes_only_keyframes_if_they_are_frequent_enough() -> None:
    for interval, only in ((None, False), (2.5, True), (2.6, False)):
        made = planned(sprite(), facts=info(replace(VIDEO, keyframe_interval=interval)))
        assert made.commands[0].inputs[0].keyframes_only is only


@pytest.mark.parametrize(("seconds", "columns"), [(1e9, 1), (10_002.0, 50), (5_002.0, 1)])
def test_too_many_sprite_pictures_are_refused_before_any_is_planned(seconds: float, columns: int) -> None:
    """A film of two pictures can declare a duration of 30 years.

    The limit applies to the total number of thumbnails of both sprites.
    """
    very_long = long_film(seconds)
    outputs = [sprite(name, interval_seconds=1, columns=columns) for name in ("s", "t")]
    specs(*outputs)
    tracemalloc.start()
    try:
        with pytest.raises(MediaError, match=r"at most 10000 .* larger interval_seconds") as refused:
            planned(*outputs, facts=very_long)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
    assert refused.value.code == "output_unsupported"


def test_as_many_sprite_pictures_as_the_limit_are_planned() -> None:
    made = planned(sprite(interval_seconds=1, columns=1), facts=long_film(10_000.0))
    assert still_of(made).sheets == 1000


def test_sheets_that_no_jpeg_can_hold_are_refused() -> None:
    banner = info(replace(VIDEO, width=16_000, height=800))
    with pytest.raises(MediaError) as refused:
        planned(sprite(columns=50), facts=banner)
    assert refused.value.code == "output_unsupported"


def made_of(sandbox: Sandbox, source: Path, folder: Path, *outputs: dict[str, Any]) -> tuple[MadeFile, ...]:
    return make(sandbox, source, specs(*outputs), folder)


@pytest.mark.parametrize("name", ["film.mp4", "still.mp4", "uneven.mkv", "hdr.mp4"])
def test_there_is_a_picture_for_each_moment(
    clips: Clips, sandbox: Sandbox, tmp_path: Path, name: str
) -> None:
    moments = image("0%", "50%", "100%", "0.5s", "99s")
    made = made_of(sandbox, clips.make(name), tmp_path, moments)
    assert [file.name for file in made] == [f"poster/{number}.jpg" for number in range(1, 6)]
    for file in made:
        assert jpeg_size(file.path) == (file.width, file.height)
        assert file.content_type == "image/jpeg"


def jpeg_size(path: Path) -> tuple[int, int]:
    """Return the width and height from the JPEG's frame header."""
    data = path.read_bytes()
    start = data.index(b"\xff\xc0")
    height, width = (int.from_bytes(data[start + at : start + at + 2], "big") for at in (5, 7))
    return width, height


def test_different_moments_give_different_pictures(clips: Clips, sandbox: Sandbox, tmp_path: Path) -> None:
    made = made_of(sandbox, clips.make("film.mp4"), tmp_path, image("0s", "1s", "1.9s"))
    assert len({file.path.read_bytes() for file in made}) == 3


def test_a_sprite_sheet_is_published_before_its_cues(clips: Clips, sandbox: Sandbox, tmp_path: Path) -> None:
    sheet = sprite("scrub", interval_seconds=2, columns=3)
    made = made_of(sandbox, clips.make("long.mp4"), tmp_path, sheet, FILM)
    assert [file.name for file in made] == ["scrub/1.jpg", "scrub/sprite.vtt", "film.mp4"]
    assert jpeg_size(made[0].path) == (480, 180)
    cues = made[1].path.read_text().split("\n\n")
    assert len(cues) == 6
    assert cues[-1] == "00:00:08.000 --> 00:00:09.000\n1.jpg#xywh=160,90,160,90\n"
    assert probe(sandbox, made[2].path).container == "mov"


def test_a_sprite_can_be_made_without_cues(clips: Clips, sandbox: Sandbox, tmp_path: Path) -> None:
    sheet = sprite("scrub", interval_seconds=1, columns=1, vtt=False)
    made = made_of(sandbox, clips.make("long.mp4"), tmp_path, sheet)
    assert [file.name for file in made] == ["scrub/1.jpg"]
    assert jpeg_size(made[0].path) == (160, 810)
