"""Tests of the choice of sound tracks, their rates, channels and labels, and the warnings about them."""

from dataclasses import replace

import pytest

from euterpe.domain.outputs import Audio
from euterpe.media.planning.sound import Wanted, channels_of, chosen_sounds, sound_warnings
from euterpe.media.planning.tree import TrackLabels
from euterpe.media.source.media_info import MediaInfo
from tests.media.planning.facts import AUDIO, VIDEO, info, planned

ENGLISH = replace(AUDIO, index=1, language="eng", title="Director's cut")
GERMAN = replace(AUDIO, index=2, language="deu", is_default=True)
FRENCH = replace(AUDIO, index=3, language="fra", channels=6)
FACTS = info(VIDEO, ENGLISH, GERMAN, FRENCH)


def indexes(wanted: Wanted, facts: MediaInfo = FACTS) -> list[int]:
    return [one.stream.index for one in chosen_sounds(wanted, facts, "aac")]


def warnings(wanted: Wanted, facts: MediaInfo = FACTS) -> list[str]:
    chosen = chosen_sounds(wanted, facts, "aac")
    return [warning.code for warning in sound_warnings(wanted, chosen, facts, "film")]


def test_the_best_track_is_taken_unless_a_language_or_all_are_asked() -> None:
    assert indexes(Audio()) == [2]
    assert indexes(Audio(language="eng")) == [1]
    assert indexes("all") == [2, 1, 3]
    assert indexes((Audio(language="fra"), Audio(language="eng"))) == [3, 1]
    assert indexes(None) == indexes(Audio(), info(VIDEO)) == []


def test_one_track_that_is_asked_twice_is_made_once() -> None:
    assert indexes((Audio(language="deu"), Audio(language="deu"))) == [2]
    assert indexes((Audio(language="deu"), Audio(language="deu", channels="mono"))) == [2, 2]


def test_a_track_has_the_labels_of_the_source_and_the_first_is_the_default() -> None:
    labels = [one.labels for one in chosen_sounds("all", FACTS, "aac")]
    assert labels[:2] == [
        TrackLabels("deu", None, is_default=True),
        TrackLabels("eng", "Director's cut", is_default=False),
    ]


@pytest.mark.parametrize(
    ("source", "codec", "rate"),
    [
        (6_000, "aac", 8_000),
        (11_025, "aac", 11_025),
        (37_800, "aac", 44_100),
        (44_100, "aac", 44_100),
        (96_000, "aac", 48_000),
        (192_000, "flac", 192_000),
        (44_100, "opus", 48_000),
        (None, "aac", 48_000),
        (0, "aac", 48_000),
    ],
)
def test_the_rate_is_one_that_the_codec_has(source: int | None, codec: str, rate: int) -> None:
    (one,) = chosen_sounds(Audio(), info(replace(AUDIO, sample_rate=source)), codec)
    assert (one.codec, one.rate) == (codec, rate)


@pytest.mark.parametrize(
    ("source", "wanted", "codec", "channels", "kbps"),
    [
        (6, Audio(), "aac", 2, 128),
        (1, Audio(), "aac", 1, 128),
        (2, Audio(channels="mono"), "aac", 1, 128),
        (6, Audio(channels="keep"), "aac", 6, 384),
        (6, Audio(channels="keep"), "mp3", 2, 192),
        (16, Audio(channels="keep"), "opus", 8, 384),
        (None, Audio(channels="keep"), "aac", 2, 128),
        (2, Audio(bitrate_kbps=64), "aac", 2, 64),
        (2, Audio(), "flac", 2, None),
    ],
)
def test_channels_are_never_added_and_the_default_rate_grows_with_them(
    source: int | None, wanted: Audio, codec: str, channels: int, kbps: int | None
) -> None:
    (one,) = chosen_sounds(wanted, info(replace(AUDIO, channels=source)), codec)
    assert (channels_of(one), one.kbps) == (channels, kbps)


@pytest.mark.parametrize(
    ("source", "codec", "layout"),
    [
        ("2.1", "aac", "5.1"),
        ("2.1", "opus", "5.1"),
        ("2.1", "flac", "5.1"),
        ("3.1", "opus", "5.1"),
        ("4.1", "aac", "5.1"),
        ("5.1(side)", "opus", "5.1"),
        ("6.1", "aac", "7.1"),
        ("6.1(back)", "aac", "7.1"),
        ("6.1(back)", "opus", "6.1"),
        ("7.0", "aac", "7.1"),
        ("3.0", "aac", "3.0"),
        ("quad", "opus", "quad"),
        ("6.1", "flac", "keep"),
        (None, "aac", "5.1"),
    ],
)
def test_the_layout_that_keeps_the_channels_has_an_lfe_if_the_source_has_one(
    source: str | None, codec: str, layout: str
) -> None:
    """In an earlier version, AAC encoded 2.1 as 3.0, with a silent centre and without the LFE."""
    count = {"2.1": 3, "3.0": 3, None: 3, "3.1": 4, "quad": 4, "4.1": 5, "5.1(side)": 6}.get(source, 7)
    sound = replace(AUDIO, channels=count, layout=source)
    film = {"name": "sound", "type": "mov", "video": None, "audio": {"codec": codec, "channels": "keep"}}
    if codec != "aac":
        film = {"name": "sound", "type": codec, "audio": {"channels": "keep"}}
    made = planned(film, facts=info(sound))
    assert made.commands[0].sounds[0].layout == layout
    assert made.warnings == ()


def test_height_channels_that_are_mixed_into_others_are_a_warning() -> None:
    facts = info(replace(AUDIO, channels=8, layout="5.1.2"))
    chosen = chosen_sounds(Audio(channels="keep"), facts, "aac")
    found = list(sound_warnings(Audio(channels="keep"), chosen, facts, "sound"))
    assert [(one.code, one.message) for one in found] == [
        ("audio_channels_reduced", "the height channels of 5.1.2 are mixed into 7.1")
    ]


def test_what_is_lost_is_a_warning() -> None:
    assert warnings("all") == ["audio_channels_reduced"]
    assert warnings(Audio()) == ["audio_track_dropped"] * 2
    assert warnings(Audio(language="spa")) == ["audio_language_missing"] + ["audio_track_dropped"] * 3
    assert warnings(Audio(channels="keep", language="fra")) == ["audio_track_dropped"] * 2
    assert warnings(None) == []


def test_renditions_of_sound_have_unique_names() -> None:
    unnamed = replace(AUDIO, index=2), replace(AUDIO, index=3)
    facts = info(VIDEO, ENGLISH, replace(ENGLISH, index=4), *unnamed)
    hls = {"name": "hls", "type": "hls", "video": {"ladder": [720]}, "audio": "all"}
    (package,) = planned(hls, facts=facts).packages
    assert package.renditions == ("720p", "audio_eng", "audio_eng_2", "audio", "audio_2")
