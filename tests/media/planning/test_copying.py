"""Tests of stream copies: a stream is copied only if it already meets the request."""

from dataclasses import replace
from typing import Any

import pytest

from euterpe.domain.outputs import FlacOutput, M4aOutput, Mp4Output, Video
from euterpe.domain.outputs.sound import Audio
from euterpe.media.planning import copying
from euterpe.media.planning.tree import CopiedTrack, File, Plan
from euterpe.media.source.colour import Colour
from tests.media.planning.facts import AUDIO, VIDEO, argv_of, info, planned, values_of

AUTO: dict[str, Any] = {"copy": "auto"}
FILM: dict[str, Any] = {"name": "film", "type": "mp4", "video": AUTO, "audio": AUTO}
PQ = Colour(9, 16, 9, full_range=False)
HEVC = replace(VIDEO, codec="hevc", profile="Main 10", pixel_format="yuv420p10le", colour=PQ)


def copied(made: Plan) -> list[str]:
    """Return the kind of each track that the last command copies into its first file."""
    product = made.commands[-1].products[0]
    assert isinstance(product, File)
    return [track.kind for track in product.tracks if track.is_copied]


def test_a_source_that_fits_is_copied_and_nothing_is_decoded() -> None:
    made = planned(FILM)
    assert copied(made) == ["video", "audio"]
    (command,) = made.commands
    assert command.copies == (
        CopiedTrack(0, 0, "video", "h264", 0.0, 1920, 1080),
        CopiedTrack(0, 1, "audio", "aac", 0.0),
    )
    assert (command.pictures, command.sounds, command.videos, command.audios) == ((), (), (), ())
    argv = argv_of(made)
    assert "-filter_complex" not in argv
    assert values_of(argv, "-map") == ["0:0", "0:1"]
    assert values_of(argv, "-c:v") == values_of(argv, "-c:a:0") == ["copy"]


def test_nothing_is_copied_by_default() -> None:
    assert copied(planned({**FILM, "video": {}, "audio": {}})) == []


def test_only_the_muxer_of_a_copy_has_a_long_queue() -> None:
    assert values_of(argv_of(planned(FILM)), "-thread_queue_size") == ["128"]
    assert values_of(argv_of(planned({**FILM, "video": {}, "audio": {}})), "-thread_queue_size") == []


def test_picture_and_sound_are_decided_each_on_their_own() -> None:
    assert copied(planned({**FILM, "audio": {}})) == ["video"]
    assert copied(planned({**FILM, "video": {}})) == ["audio"]


@pytest.mark.parametrize(
    "video",
    [
        {"codec": "hevc"},
        {"height": 720},
        {"crf": 23},
        {"bitrate_kbps": 4700},
        {"fps": 24},
    ],
)
def test_a_picture_that_lacks_what_was_asked_for_is_encoded(video: dict[str, Any]) -> None:
    assert copied(planned({**FILM, "video": {**AUTO, **video}})) == ["audio"]


@pytest.mark.parametrize("tags", [Colour(1, 12, 1), Colour(1, 1, 0), Colour(6, 12, 6)])
def test_a_picture_with_a_wrong_tag_is_not_copied_with_this_tag(tags: Colour) -> None:
    """An encode replaces these tags, and a copy would keep them."""
    assert copied(planned(FILM, facts=info(replace(VIDEO, colour=tags), AUDIO))) == ["audio"]
    right = replace(tags, transfer=tags.primaries, matrix=tags.primaries)
    assert copied(planned(FILM, facts=info(replace(VIDEO, colour=right), AUDIO))) == ["video", "audio"]


@pytest.mark.parametrize("video", [{"height": 1080}, {"height": 2160}, {"bitrate_kbps": 4800}, {"fps": 25}])
def test_a_picture_within_what_was_asked_for_is_copied(video: dict[str, Any]) -> None:
    assert copied(planned({**FILM, "video": {**AUTO, **video}})) == ["video", "audio"]


@pytest.mark.parametrize(
    "fields",
    [{"crop": {"left": 2}}, {"crop": {}}, {"pad": {"aspect": "1:1"}}, {"rotate": 180}],
)
def test_a_picture_that_is_changed_is_encoded_beside_copied_sound(fields: dict[str, Any]) -> None:
    assert copied(planned({**FILM, **fields})) == ["audio"]


@pytest.mark.parametrize("fields", [{"start": 1}, {"end": 5}])
def test_a_part_of_a_source_is_encoded(fields: dict[str, Any]) -> None:
    assert copied(planned({**FILM, **fields})) == []


@pytest.mark.parametrize(
    "change",
    [
        {"codec": "mpeg4"},
        {"profile": "High 4:2:2"},
        {"profile": "Baseline"},
        {"profile": None},
        {"pixel_format": "yuv420p10le"},
        {"pixel_format": "yuvj420p"},
        {"colour": Colour(1, 1, 1, full_range=True)},
        {"colour": PQ},
        {"interlaced": True},
        {"rotation": 90},
        {"is_flipped": True},
        {"pixel_aspect": 4 / 3},
        {"width": 1919},
        {"fps": 120.0},
        {"starts_with_keyframe": False},
        {"has_crop": True},
        {"has_edits": True},
        {"end_seconds": None},
        {"dolby_vision": True, "colour": Colour(1, 1, 1)},
    ],
    ids=str,
)
def test_a_picture_that_players_or_the_file_cannot_take_is_encoded(change: dict[str, Any]) -> None:
    assert copied(planned(FILM, facts=info(replace(VIDEO, **change), AUDIO))) == ["audio"]


@pytest.mark.parametrize(
    "change",
    [
        {"codec": "ac3"},
        {"profile": "Main"},
        {"channels": 6},
        {"sample_rate": 96_000},
        {"has_edits": True},
        {"first_seconds": 2.0},
        {"end_seconds": None},
    ],
    ids=str,
)
def test_sound_that_would_be_changed_or_moved_is_encoded(change: dict[str, Any]) -> None:
    assert copied(planned(FILM, facts=info(VIDEO, replace(AUDIO, **change)))) == ["video"]


def test_sound_is_copied_within_its_rate_and_with_its_channels() -> None:
    assert copied(planned({**FILM, "audio": {**AUTO, "bitrate_kbps": 128}})) == ["video", "audio"]
    assert copied(planned({**FILM, "audio": {**AUTO, "bitrate_kbps": 96}})) == ["video"]
    assert copied(planned({**FILM, "audio": {**AUTO, "channels": "mono"}})) == ["video"]
    surround = info(VIDEO, replace(AUDIO, channels=6))
    assert copied(planned({**FILM, "audio": {**AUTO, "channels": "keep"}}, facts=surround)) == [
        "video",
        "audio",
    ]


def test_an_unknown_rate_is_at_most_that_of_the_file() -> None:
    asked = {**FILM, "video": {**AUTO, "bitrate_kbps": 1000}}
    unknown = info(replace(VIDEO, bit_rate=None), AUDIO)
    assert copied(planned(asked, facts=replace(unknown, size_bytes=1_000_000))) == ["video", "audio"]
    assert copied(planned(asked, facts=replace(unknown, size_bytes=2_000_000))) == ["audio"]


@pytest.mark.parametrize("container", ["avi", "asf", "mxf"])
def test_containers_without_exact_times_are_not_copied(container: str) -> None:
    assert copied(planned(FILM, facts=info(container=container))) == []


def test_a_source_that_may_be_damaged_is_decoded() -> None:
    assert copied(planned(FILM, allow_truncated=True)) == []


def test_hdr_is_copied_if_it_is_kept() -> None:
    asked = {**FILM, "video": {**AUTO, "codec": "hevc"}}
    facts = info(HEVC, AUDIO)
    assert copied(planned(asked, facts=facts)) == ["audio"]
    made = planned({**asked, "video": {**asked["video"], "hdr": "keep"}}, facts=facts)
    assert copied(made) == ["video", "audio"]
    assert values_of(argv_of(made), "-tag:v") == ["hvc1"]


def test_a_late_picture_is_encoded_because_black_pictures_come_before_it() -> None:
    facts = info(replace(VIDEO, first_seconds=1.0, end_seconds=11.0), AUDIO)
    assert copied(planned(FILM, facts=facts)) == ["audio"]


def test_a_copy_moves_with_the_other_tracks() -> None:
    late = info(replace(VIDEO, first_seconds=1.5), replace(AUDIO, first_seconds=1.48), start_seconds=1.48)
    made = planned(FILM, facts=late)
    assert [one.shift for one in made.commands[0].copies] == [0.02, 0.02]
    moved = "setts=pts=PTS-(0.020000)/TB:dts=DTS-(0.020000)/TB"
    assert values_of(argv_of(made), "-bsf:v") == values_of(argv_of(made), "-bsf:a:0") == [moved]


def test_aac_of_a_transport_stream_cannot_be_copied_into_fragments() -> None:
    facts = info(container="mpegts", has_discontinuities=True)
    assert copied(planned(FILM, facts=facts)) == ["video", "audio"]
    assert copied(planned({**FILM, "fragmented": True}, facts=facts)) == ["video"]


def test_the_first_of_two_passes_reads_the_copied_sound_too() -> None:
    """In MPEG-TS, ffmpeg subtracts the earliest start of the streams that a command reads.

    So both passes must read the same streams.
    """
    first, _ = planned({**FILM, "video": {"bitrate_kbps": 500}}).commands
    assert first.also_read == ((0, AUDIO.index),)


def test_a_new_field_prevents_a_copy_until_it_is_considered_here() -> None:
    """Without this rule, requests with a new field would be accepted, but a copy would ignore the field."""
    of_output = {*Mp4Output.model_fields, *M4aOutput.model_fields, *FlacOutput.model_fields}
    changing = {"start", "end", *copying._OF_PICTURES}
    assert copying._OF_OUTPUT & changing == set()
    assert of_output >= copying._OF_OUTPUT | copying._OF_PICTURES
    assert "crf" not in copying._OF_VIDEO
    assert {field.alias or name for name, field in Video.model_fields.items()} >= copying._OF_VIDEO
    assert {field.alias or name for name, field in Audio.model_fields.items()} >= copying._OF_AUDIO
