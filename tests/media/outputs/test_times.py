"""Tests that every picture and every sound keeps its time, for every container of the source."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.media.outputs.deliveries import BOTH, SYNC_TOLERANCE_S, deliveries, sync_offsets
from tests.media.outputs.product_path import Make
from tests.media.readers.media import Media, sound
from tests.media.readers.pictures import numbered_pictures, picture_times
from tests.media.readers.sounds import beeps
from tests.media.sources.cache import Sources
from tests.media.sources.flashes import (
    INSTANTS,
    cut_by_copy,
    flash_film,
    late_picture,
    late_sound,
    longer_sound,
)
from tests.media.sources.numbered import (
    NTSC,
    NTSC_DOUBLE,
    NTSC_FILM,
    constant,
    jittered,
    variable,
)
from tests.media.sources.transport_streams import OFFSETS_S, shifted_flashes, shifted_numbers

PICTURE_TOLERANCE_S = 0.001

SYNC_SOURCES: dict[str, Callable[[Sources], Path]] = {
    "mp4": flash_film,
    "mov": lambda sources: flash_film(sources, "mov"),
    "mkv": lambda sources: flash_film(sources, "mkv"),
    "opus": lambda sources: flash_film(sources, "mkv", sound="libopus"),
    "edit list": cut_by_copy,
    "late sound": late_sound,
    "sound 3.3 s late": lambda sources: late_sound(sources, "mkv", 3.3),
    "sound 3.3 s late in mp4": lambda sources: late_sound(sources, "mp4", 3.3),
    "sound 3.3 s late in ts": lambda sources: late_sound(sources, "ts", 3.3),
    "late picture": late_picture,
    "longer sound": longer_sound,
    **{f"ts at {offset:.0f} s": partial(shifted_flashes, offset_s=offset) for offset in OFFSETS_S},
}
NUMBERED_SOURCES: dict[str, Callable[[Sources], Path]] = {
    "23.976": lambda sources: constant(sources, rate=NTSC_FILM),
    "29.97": lambda sources: constant(sources, rate=NTSC),
    "29.97 mkv": lambda sources: constant(sources, rate=NTSC, container="mkv"),
    "59.94": lambda sources: constant(sources, rate=NTSC_DOUBLE),
    "variable": variable,
    "variable mkv": lambda sources: variable(sources, "mkv"),
    "jittered": jittered,
    "jittered mkv": lambda sources: jittered(sources, "mkv"),
    "29.97 ts": lambda sources: shifted_numbers(sources, 0.0, NTSC),
    **{f"ts at {offset:.0f} s": partial(shifted_numbers, offset_s=offset) for offset in OFFSETS_S},
}


@pytest.mark.parametrize("name", SYNC_SOURCES)
def test_picture_and_sound_stay_together(make: Make, sources: Sources, name: str) -> None:
    source = SYNC_SOURCES[name](sources)
    before = sync_offsets(source, source)
    assert len(before) >= 3
    after = {made.name: sync_offsets(made.pictures, made.heard) for made in deliveries(make(BOTH, source))}
    assert after == {name: pytest.approx(before, abs=SYNC_TOLERANCE_S) for name in after}


def relative_times(media: Media) -> dict[int, float]:
    """Return the time of each numbered picture, relative to the first picture."""
    found = numbered_pictures(media)
    times = {picture.number: picture.seconds - found[0].seconds for picture in found}
    assert len(times) == len(found), "a picture is shown twice"
    return times


@pytest.mark.parametrize("name", NUMBERED_SOURCES)
def test_every_picture_is_there_and_keeps_its_time(make: Make, sources: Sources, name: str) -> None:
    source = NUMBERED_SOURCES[name](sources)
    before = relative_times(source)
    for made in deliveries(make(BOTH, source)):
        after = relative_times(made.pictures)
        assert list(after) == list(before), made.name
        moved = {number: after[number] - before[number] for number in before}
        assert max(map(abs, moved.values())) <= PICTURE_TOLERANCE_S, made.name


@pytest.mark.parametrize("name", ["mp4", "mkv", "edit list", "late picture", "ts at 0 s", "ts at 500 s"])
def test_a_film_begins_at_zero(make: Make, sources: Sources, name: str) -> None:
    """In an earlier version, HLS began at 0.08 s, and hls.js reported a gap before the first picture."""
    source = SYNC_SOURCES[name](sources)
    # The sound of MPEG-TS begins 21 ms before the picture. It is correct to cut these 21 ms of sound, and it
    # is also correct to begin the picture 21 ms late.
    latest = picture_times(source)[0] - min(picture_times(source)[0], sound(source).first_seconds)
    firsts = {made.name: picture_times(made.pictures)[0] for made in deliveries(make(BOTH, source))}
    wrong = {
        name: first
        for name, first in firsts.items()
        if not -PICTURE_TOLERANCE_S <= first <= latest + PICTURE_TOLERANCE_S
    }
    assert wrong == {}


def test_a_beep_at_the_beginning_is_heard_at_the_beginning(make: Make, sources: Sources) -> None:
    """AAC encoders put 21 ms of silence before the sound. The container hides this silence."""
    for made in deliveries(make(BOTH, flash_film(sources))):
        assert beeps(made.heard) == pytest.approx(INSTANTS, abs=SYNC_TOLERANCE_S), made.name


@pytest.mark.parametrize("count", [1, 3, 10])
def test_a_film_of_few_pictures_keeps_them(make: Make, sources: Sources, count: int) -> None:
    """An earlier version wrote an empty master playlist for HLS of less than half a second."""
    for made in deliveries(make(BOTH, constant(sources, count))):
        assert [picture.number for picture in numbered_pictures(made.pictures)] == [*range(count)], made.name
