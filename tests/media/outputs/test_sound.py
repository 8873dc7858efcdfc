"""Tests of sound at any sample rate, and of the channels of 5.1 in stereo."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from av.audio.layout import AudioLayout

from tests.media.outputs.deliveries import FILM
from tests.media.outputs.product_path import Make
from tests.media.readers.media import Media, opened
from tests.media.readers.sounds import beeps, decibels, peak, sine_levels
from tests.media.sources.cache import Sources, ffmpeg
from tests.media.sources.flashes import INSTANTS, beep_sound, flash_film
from tests.media.sources.sounds import SURROUND, surround

KINDS = ("m4a", "mp3", "opus", "flac")
SOUND: dict[str, Any] = {"name": "sound", "type": "m4a"}


@pytest.mark.parametrize("sample_rate", [6000, 11_025, 37_800, 44_100, 96_000, 192_000])
def test_sound_of_any_sample_rate_keeps_its_times(make: Make, sources: Sources, sample_rate: int) -> None:
    """An earlier version failed at 6 and 37.8 kHz, because AAC does not have these sample rates."""
    found = beeps(make([SOUND], beep_sound(sources, sample_rate)) / "sound.m4a")
    assert found == pytest.approx(INSTANTS, abs=0.002)


def test_a_film_with_sound_of_an_unusual_sample_rate_is_made(make: Make, sources: Sources) -> None:
    source = flash_film(sources, "mkv", sample_rate=37_800, sound="pcm_s16le")
    assert beeps(make([FILM], source) / "film.mp4") == pytest.approx(INSTANTS, abs=0.002)


def test_every_channel_of_surround_sound_is_in_the_right_place_of_stereo(
    make: Make, sources: Sources
) -> None:
    """In the matrix of ITU-R BS.775, the centre and the back channels are 3 dB below the front channels."""
    film = make([FILM], surround(sources)) / "film.mp4"
    levels = {name: sine_levels(film, hertz) for name, hertz in SURROUND.items()}
    front = decibels(levels["FL"][0])
    assert decibels(levels["FR"][1]) == pytest.approx(front, abs=0.5)
    for name, side in (("FL", 1), ("FR", 0), ("BL", 1), ("BR", 0)):
        assert decibels(levels[name][side]) < front - 40, name
    for name, sides in (("FC", (0, 1)), ("BL", (0,)), ("BR", (1,))):
        assert [decibels(levels[name][side]) - front for side in sides] == pytest.approx(
            [-3.0] * len(sides), abs=0.5
        ), name
    assert peak(film) < 1.0


def test_more_channels_than_a_codec_has_are_mixed_down(make: Make, sources: Sources) -> None:
    """The encoder of FLAC refuses 12 channels. In an earlier version, the job failed with encode_failed."""
    twelve = f"-f lavfi -i aevalsrc={'|'.join(['0.1*sin(440*t)'] * 12)}:c=12c:d=0.5:s=48000"
    source = sources.get("twelve.mov", lambda path: ffmpeg(f"{twelve} -c:a pcm_s16le {path}"))
    made = make([{"name": kind, "type": kind, "audio": {"channels": "keep"}} for kind in KINDS], source)
    assert [channels(made / f"{kind}.{kind}") for kind in KINDS] == [8, 2, 8, 8]


@pytest.mark.parametrize(("layout", "made"), [("2.1", "5.1"), ("3.1", "5.1"), ("4.1", "5.1"), ("6.1", "7.1")])
def test_the_lfe_of_a_rare_layout_is_kept(make: Make, sources: Sources, layout: str, made: str) -> None:
    """In an earlier version, AAC and Opus encoded 2.1 as 3.0, with a silent centre and without the LFE."""
    hertz = {"FL": 400, "FR": 600, "LFE": 60}
    source = sources.get(f"sines-{layout}.wav", lambda path: sines(path, layout, hertz))
    outputs = [{"name": kind, "type": kind, "audio": {"channels": "keep"}} for kind in ("m4a", "opus")]
    folder = make(outputs, source)
    names = {"5.1": ["FL", "FR", "FC", "LFE", "BL", "BR"], "6.1": ["FL", "FR", "FC", "LFE", "BC", "SL", "SR"]}
    names["7.1"] = [*names["5.1"], "SL", "SR"]
    for kind, expected in (("m4a", made), ("opus", "6.1" if layout.startswith("6") else made)):
        places = names[expected]
        assert channels(folder / f"{kind}.{kind}") == len(places)
        for name, tone in hertz.items():
            levels = sine_levels(folder / f"{kind}.{kind}", tone)
            assert decibels(levels[places.index(name)]) == pytest.approx(-12.0, abs=1.0), (kind, name)
            assert max(decibels(level) for place, level in enumerate(levels) if places[place] != name) < -45


def sines(path: Path, layout: str, hertz: Mapping[str, int]) -> None:
    """Write a sound with a sine of amplitude 0.25 in these channels, and silence in all others."""
    names = ffmpeg_layout(layout)
    tones = "|".join(f"0.25*sin({hertz[name]}*2*PI*t)" if name in hertz else "0" for name in names)
    ffmpeg(f"-f lavfi -i aevalsrc='{tones}':c={layout}:d=1:s=48000 -c:a pcm_s16le {path}")


def ffmpeg_layout(layout: str) -> list[str]:
    """Return the channels of a layout in the order of ffmpeg."""
    return [channel.name for channel in AudioLayout(layout).channels]


def channels(media: Media) -> int:
    with opened(media) as container:
        return container.streams.audio[0].codec_context.layout.nb_channels
