"""Tests that parts and stills begin at the requested time, in containers whose seeks find no keyframes."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.media.outputs.deliveries import BOTH, FILM, SYNC_TOLERANCE_S, deliveries, sync_offsets
from tests.media.outputs.product_path import Make
from tests.media.outputs.test_stills import number_in, poster
from tests.media.readers.media import frames
from tests.media.readers.pictures import flashes, numbers, picture_times
from tests.media.readers.sounds import beeps
from tests.media.sources.cache import Sources, ffmpeg
from tests.media.sources.flashes import flash_film
from tests.media.sources.number_blocks import read
from tests.media.sources.numbered import constant
from tests.media.sources.planes import X264
from tests.media.sources.transport_streams import OFFSETS_S, program_stream, shifted_flashes, shifted_numbers

SHORT: dict[str, Callable[[Sources], Path]] = {
    "mp4": lambda sources: constant(sources, 100),
    **{f"ts at {offset:.0f} s": partial(shifted_numbers, offset_s=offset) for offset in OFFSETS_S},
    "program stream": program_stream,
}
# With a keyframe every 10 s, ffmpeg starts to decode 40 s before the part. With a keyframe every 0.48 s,
# ffmpeg starts to decode 20 s before the part.
LONG: dict[str, Callable[[Sources], Path]] = {
    "rare keyframes": lambda sources: constant(
        sources, 1100, container="ts", arguments=X264.replace("-g 12", "-g 250")
    ),
    "usual keyframes": lambda sources: constant(sources, 1100, container="ts"),
    "program stream": lambda sources: program_stream(sources, 1100),
}
FLASHES: dict[str, Callable[[Sources], Path]] = {
    f"ts at {offset:.0f} s": partial(shifted_flashes, offset_s=offset) for offset in OFFSETS_S
}


@pytest.mark.parametrize("name", SHORT)
@pytest.mark.parametrize(("start", "end"), [(0.6, 2.0), (0.0, 1.0), (3.72, 4.0)])
def test_a_part_has_the_pictures_of_its_time(
    make: Make, sources: Sources, name: str, start: float, end: float
) -> None:
    """In an earlier version, a part of MPEG-TS from 0.6 s began with picture 24 instead of picture 15."""
    made = make([{**FILM, "start": start, "end": end}], SHORT[name](sources)) / "film.mp4"
    assert numbers(made) == [*range(round(start * 25), round(end * 25))]


@pytest.mark.parametrize("name", SHORT)
@pytest.mark.parametrize(
    ("moment", "number"), [("0s", 0), ("0.6s", 15), ("1.24s", 31), ("3.92s", 98), ("100%", 99)]
)
def test_a_still_shows_the_picture_of_its_moment(
    make: Make, sources: Sources, name: str, moment: str, number: int
) -> None:
    """In an earlier version, a still of MPEG-TS at 0.6 s showed picture 24 instead of picture 15.

    In that version, there was no still for the end of the film.
    """
    assert number_in(make([poster(moment)], SHORT[name](sources)) / "poster/1.jpg") == number


@pytest.mark.parametrize("name", LONG)
def test_a_late_part_and_a_late_still_are_found_by_a_seek(make: Make, sources: Sources, name: str) -> None:
    made = make([{**FILM, "start": 43.4, "end": 43.8}, poster("43.4s")], LONG[name](sources))
    assert numbers(made / "film.mp4") == [*range(1085, 1095)]
    assert number_in(made / "poster/1.jpg") == 1085


@pytest.mark.parametrize("name", FLASHES)
def test_picture_and_sound_of_a_part_begin_together(make: Make, sources: Sources, name: str) -> None:
    """The part begins at 1.2 s, and has flashes and beeps at 1.24 s and 2.2 s.

    An earlier version lost the first flash.
    """
    part = [{**one, "start": 1.2, "end": 3.2} for one in BOTH]
    film = make(part, flash_film(sources)) / "film.mp4"
    expected = sync_offsets(film, film)
    for made in deliveries(make(part, FLASHES[name](sources))):
        assert flashes(made.pictures) == pytest.approx([0.04, 1.0], abs=0.001), made.name
        assert sync_offsets(made.pictures, made.heard) == pytest.approx(expected, abs=SYNC_TOLERANCE_S)


@pytest.mark.parametrize("name", ["ts at 500 s", "program stream"])
def test_a_sprite_and_a_preview_of_a_part_begin_with_its_picture(
    make: Make, sources: Sources, name: str
) -> None:
    made = make(
        [
            {"name": "part", "type": "sprite", "interval_seconds": 1, "columns": 1, "start": 0.6, "end": 1.5},
            {"name": "short", "type": "preview", "start": 0.6, "seconds": 0.5, "format": "gif", "fps": 25},
        ],
        SHORT[name](sources),
    )
    assert number_in(made / "part/1.jpg") == 15
    _, first = next(frames(made / "short.gif"))
    assert read(first.to_ndarray(format="gray").astype(float)) == 15


def test_a_sound_that_ends_before_the_part_does_not_move_it(
    make: Make, sources: Sources, tmp_path: Path
) -> None:
    """ffmpeg counts times of MPEG-TS from the earliest stream that it reads.

    In an earlier version, this part began 2 s too late.
    """
    source, film = tmp_path / "early-sound.ts", constant(sources, 200)
    sound = "-f lavfi -i sine=440:r=48000:duration=1"
    ffmpeg(f"-itsoffset 2 -i {film} {sound} -map 0 -map 1 -c:v copy -c:a aac {source}")
    made = make([{**FILM, "start": 4.0, "end": 5.0}], source) / "film.mp4"
    assert numbers(made) == [*range(50, 75)]


def test_a_part_with_two_passes_and_a_loudness_is_the_same_part(make: Make, sources: Sources) -> None:
    """Both passes and the measurement are separate commands, and each of them must find the same part."""
    part = {**FILM, "start": 1.2, "end": 3.2, "video": {"bitrate_kbps": 300}}
    made = (
        make([{**part, "audio": {"loudness": {"target": -23}}}], shifted_flashes(sources, 500.0)) / "film.mp4"
    )
    assert flashes(made) == pytest.approx([0.04, 1.0], abs=0.001)
    assert beeps(made) == pytest.approx([0.04, 1.0], abs=SYNC_TOLERANCE_S)


def test_the_same_part_has_the_same_bytes_twice(make: Make, sources: Sources) -> None:
    part = [{**FILM, "start": 1.0, "end": 3.0}]
    first, second = (make(part, shifted_flashes(sources, 500.0)) / "film.mp4" for _ in range(2))
    assert first.read_bytes() == second.read_bytes()


@pytest.mark.parametrize("codec", ["h264", "av1"])
def test_a_fragmented_part_that_begins_in_a_gap_keeps_its_times(
    make: Make, sources: Sources, codec: str
) -> None:
    """In an earlier version, ffmpeg wrote the index of the file before it knew the start of the picture.

    The picture began at 0 then, and the output failed with `output_truncated`.
    """
    pictures = "-f lavfi -i testsrc2=size=160x90:rate=25:duration=6 -f lavfi -i sine=440:duration=6"
    kept = "lt(t,1)+gte(t,5)"
    source = sources.get(
        "gap-of-4-s.mkv",
        lambda path: ffmpeg(f"{pictures} -vf \"select='{kept}'\" -fps_mode vfr -c:v ffv1 -c:a flac {path}"),
    )
    films = [
        {"name": name, "type": "mp4", "start": 2.0, "fragmented": name == "parts", "video": {"codec": codec}}
        for name in ("parts", "whole")
    ]
    folder = make(films, source)
    wanted = [3 + number / 25 for number in range(25)]
    for name in ("parts", "whole"):
        assert picture_times(folder / f"{name}.mp4") == pytest.approx(wanted, abs=0.001)
