"""Tests of plans: which commands make the outputs, and which outputs cannot be made."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given

from euterpe.domain.outputs import OutputSpecs
from euterpe.media.errors import MediaError
from euterpe.media.planning.planner import plan
from euterpe.media.planning.text_inputs import text_inputs
from euterpe.media.planning.tree import Discard, File, Plan, Rendition
from euterpe.media.source.colour import Colour
from euterpe.media.source.media_info import MediaInfo, StreamInfo
from tests.media.planning.facts import (
    AUDIO,
    SUBTITLE,
    VIDEO,
    argv_of,
    info,
    media_infos,
    planned,
    spec_lists,
    specs,
    values_of,
    warning_codes,
    watermarks_of,
)

FILM: dict[str, Any] = {"name": "film", "type": "mp4"}
SOUND: dict[str, Any] = {"name": "sound", "type": "m4a"}
HLS: dict[str, Any] = {"name": "hls", "type": "hls", "video": {"ladder": [720, 480]}}
POSTER: dict[str, Any] = {"name": "poster", "type": "image", "at": ["50%"]}


def paths(made: Plan) -> list[str]:
    products = [product for command in made.commands for product in command.products]
    return [product.path for product in products if not isinstance(product, Rendition | Discard)]


@given(spec_lists, media_infos())
def test_every_request_and_source_give_a_plan_or_a_media_error(
    outputs: OutputSpecs, facts: MediaInfo
) -> None:
    try:
        made = plan(outputs, facts, threads=1, watermarks=watermarks_of(outputs))
    except MediaError:
        return
    skipped = {warning.output for warning in made.warnings if warning.code == "output_skipped"}
    assert set(made.outputs) == {output.name for output in outputs} - skipped
    assert {name for command in made.commands for name in command.outputs} == set(made.outputs)
    for command in made.commands:
        for node in command.pictures:
            assert node.input in range(len(command.inputs))
            assert node.stream in {one.index for one in facts.streams if one.kind == "video"}
        for sound in command.sounds:
            assert sound.stream in {one.index for one in facts.streams if one.kind == "audio"}
        for copied in command.copies:
            assert copied.input in range(len(command.inputs))
            assert copied.stream in {one.index for one in facts.streams if one.kind == copied.kind}
            source = command.inputs[copied.input]
            assert (source.start, source.seconds) == (None, None)
        for one in text_inputs(command):
            assert one.track.stream in {s.index for s in facts.streams if s.kind == "subtitle"}
        for picture in command.pictures:
            if picture.cut is not None:
                assert min(picture.cut.width, picture.cut.height) >= 2
        for place, scale in enumerate(command.scales):
            assert scale.parent is None or scale.parent < place
            assert scale.width % 2 == scale.height % 2 == 0
            assert min(scale.width, scale.height) > 0
            if (over := scale.overlay) is not None:
                assert command.inputs[over.input].watermark in range(len(made.watermarks))
                assert min(over.left, over.top) >= 0 < min(over.width, over.height)
                assert over.left + over.width <= scale.width
                assert over.top + over.height <= scale.height
                assert not any(side % 2 for side in (over.left, over.top, over.width, over.height))
        for opened in command.inputs:
            assert opened.start is None or opened.start >= 0
            assert opened.seconds is None or opened.seconds > 0


def test_one_command_decodes_the_source_once_for_all_films_and_sounds() -> None:
    made = planned(FILM, {**FILM, "name": "small", "video": {"height": 240}}, HLS, SOUND)
    (command,) = made.commands
    assert command.outputs == ("film", "small", "hls", "sound")
    assert len(command.inputs) == len(command.pictures) == len(command.sounds) == 1
    assert paths(made) == ["film.mp4", "small.mp4", "sound.m4a"]
    argv = argv_of(made)
    assert values_of(argv, "-i") == ["fd:"]
    assert [word for word in values_of(argv, "-y") if "hls" not in word] == [
        "file:film.mp4",
        "file:small.mp4",
        "file:sound.m4a",
    ]


def test_a_part_of_the_source_has_an_input_of_its_own() -> None:
    made = planned(FILM, {**FILM, "name": "part", "start": 2, "end": 5})
    assert [(one.start, one.seconds) for one in made.commands[0].inputs] == [(None, None), (2.0, 3.0)]


def test_the_default_stream_is_taken_else_the_first() -> None:
    second = replace(AUDIO, index=2)
    assert planned(SOUND, facts=info(VIDEO, AUDIO, second)).commands[0].sounds[0].stream == 1
    marked = replace(second, is_default=True)
    assert planned(SOUND, facts=info(VIDEO, AUDIO, marked)).commands[0].sounds[0].stream == 2


def test_a_poster_is_a_command_of_its_own_with_a_seek() -> None:
    film, poster = planned(POSTER, FILM).commands
    assert film.outputs == ("film",)
    assert poster.outputs == ("poster",)
    assert poster.inputs[0].start is not None


@pytest.mark.parametrize(
    "output", [HLS, POSTER, {"name": "s", "type": "sprite"}, {"name": "p", "type": "preview"}]
)
def test_outputs_of_pictures_need_pictures(output: dict[str, Any]) -> None:
    with pytest.raises(MediaError) as refused:
        planned(output, facts=info(AUDIO))
    assert refused.value.code == "no_video_stream"


def test_outputs_of_sound_need_sound() -> None:
    with pytest.raises(MediaError) as refused:
        planned(SOUND, facts=info(VIDEO))
    assert refused.value.code == "no_audio_stream"
    (command,) = planned(FILM, facts=info(VIDEO)).commands
    (film,) = command.products
    assert isinstance(film, File)
    assert [track.kind for track in film.tracks] == ["video"]


def test_an_optional_output_that_cannot_be_made_becomes_a_warning() -> None:
    made = planned(FILM, {**SOUND, "optional": True}, facts=info(VIDEO))
    assert made.outputs == ("film",)
    (warning,) = made.warnings
    assert (warning.code, warning.output) == ("output_skipped", "sound")


def test_an_optional_output_has_a_command_whose_failure_fails_no_other_output() -> None:
    made = planned(FILM, {**SOUND, "optional": True})
    assert [(command.outputs, command.is_optional) for command in made.commands] == [
        (("film",), False),
        (("sound",), True),
    ]


def test_the_times_of_an_optional_output_follow_from_its_own_streams() -> None:
    """In MPEG-TS, ffmpeg subtracts the earliest start of the streams that the command reads."""
    facts = info(
        replace(VIDEO, first_seconds=10.08),
        replace(AUDIO, first_seconds=10.0),
        container="mpegts",
        start_seconds=10.0,
        has_discontinuities=True,
    )
    silent = {**FILM, "name": "silent", "audio": None, "optional": True}
    shared, own = planned(FILM, silent, facts=facts).commands
    assert shared.pictures[0].shift == 0.08
    assert own.pictures[0].shift == 0.0


@pytest.mark.parametrize("output", [FILM, SOUND, HLS, POSTER, {**POSTER, "at": "best"}, {"type": "sprite"}])
def test_a_part_that_begins_after_the_end_of_the_source_is_refused(output: dict[str, Any]) -> None:
    with pytest.raises(MediaError, match=r"only 10\.00 s") as refused:
        planned({"name": "a", **output, "start": 10})
    assert refused.value.code == "output_unsupported"
    assert planned({"name": "a", **output, "start": 9.5}).outputs


@pytest.mark.parametrize("output", [FILM, HLS, {"type": "sprite"}, {"type": "preview"}])
def test_a_part_without_pictures_is_refused(output: dict[str, Any]) -> None:
    """The last picture of a slide show lasts long.

    In an earlier version, a part that began during this picture had no pictures, and the job failed.
    """
    slides = info(replace(VIDEO, latest_seconds=4.0), AUDIO)
    with pytest.raises(MediaError, match="no picture begins after that") as refused:
        planned({**output, "name": "a", "start": 5}, facts=slides)
    assert refused.value.code == "output_unsupported"
    assert planned({**output, "name": "a", "start": 4}, facts=slides).outputs
    assert planned({**SOUND, "start": 5}, {**POSTER, "start": 5}, facts=slides).outputs


def test_a_file_and_a_folder_of_one_name_are_refused() -> None:
    with pytest.raises(MediaError, match=r"a\.mp4") as refused:
        planned({**FILM, "name": "a"}, {**HLS, "name": "a.mp4"})
    assert refused.value.code == "output_unsupported"
    with pytest.raises(MediaError, match=r"a\.gif"):
        planned({"name": "a", "type": "preview", "format": "gif"}, {**POSTER, "name": "a.gif"})


def test_what_the_outputs_leave_out_is_a_warning() -> None:
    second = replace(AUDIO, index=3, language="deu")
    made = planned(FILM, facts=info(VIDEO, replace(AUDIO, channels=6), SUBTITLE, second))
    assert warning_codes(made) == ["audio_track_dropped", "audio_channels_reduced", "subtitle_track_dropped"]
    assert "deu" in made.warnings[0].message


def test_a_frame_rate_above_60_and_hdr_are_named_when_they_are_changed() -> None:
    hdr = replace(VIDEO.colour, primaries=9, transfer=16, matrix=9)
    facts = info(replace(VIDEO, fps=120.0, colour=hdr))
    assert warning_codes(planned(FILM, facts=facts)) == ["hdr_mapped_to_sdr", "frame_rate_capped"]
    asked = {**FILM, "video": {"codec": "hevc", "fps": 120, "hdr": "keep"}}
    assert warning_codes(planned(asked, facts=facts)) == []


def test_pictures_that_the_outputs_leave_out_are_a_warning() -> None:
    second, cover = replace(VIDEO, index=2, is_default=False), StreamInfo(3, "picture", "mjpeg")
    made = planned(FILM, HLS, facts=info(replace(VIDEO, has_alpha=True), AUDIO, second, cover))
    lost = ["video_track_dropped", "cover_art_dropped", "alpha_dropped"]
    assert [(one.output, one.code) for one in made.warnings] == [
        (output, code) for output in ("film", "hls") for code in lost
    ]
    assert warning_codes(planned(SOUND, POSTER, facts=info(VIDEO, AUDIO, second, cover))) == [
        "cover_art_dropped"
    ]


def test_dolby_vision_becomes_its_base_layer_with_a_warning() -> None:
    layer = replace(VIDEO, dolby_vision=True, colour=Colour(9, 16, 9))
    hevc = {**FILM, "video": {"codec": "hevc", "hdr": "keep"}}
    assert warning_codes(planned(hevc, facts=info(layer))) == ["dolby_vision_dropped"]
    assert warning_codes(planned(FILM, facts=info(layer))) == ["hdr_mapped_to_sdr", "dolby_vision_dropped"]


@pytest.mark.parametrize("colour", [Colour(), Colour(full_range=True), Colour(9, 16, 15)])
def test_dolby_vision_without_a_base_layer_is_refused(colour: Colour) -> None:
    """Without its metadata, a film in Dolby Vision profile 5 is shown in green and purple."""
    facts = info(replace(VIDEO, codec="hevc", dolby_vision=True, colour=colour), AUDIO)
    with pytest.raises(MediaError, match="Dolby Vision") as refused:
        planned(FILM, facts=facts)
    assert refused.value.code == "source_unsupported"
    assert planned(SOUND, {**POSTER, "optional": True}, facts=facts).outputs == ("sound",)


def test_a_plan_is_the_same_for_the_same_request_and_source() -> None:
    assert planned(FILM, HLS, POSTER) == planned(FILM, HLS, POSTER)
    assert plan(specs(FILM), info(), threads=3).decoder_threads == 3


def test_an_average_rate_is_held_by_two_passes() -> None:
    asked = {**FILM, "video": {"bitrate_kbps": 2000}}
    first, second = planned(asked, HLS).commands
    assert [one.kind for one in first.products] == ["discard"]
    assert [one.pass_number for one in first.videos] == [1]
    assert [one.pass_number for one in second.videos] == [2, None, None]
    assert first.videos[0].statistics == second.videos[0].statistics == ".passes/film-0"
    assert not first.sounds
    assert paths(planned(asked, HLS)) == ["film.mp4"]


def test_vp9_and_av1_hold_an_average_rate_in_one_pass() -> None:
    for codec in ("vp9", "av1"):
        film = {"name": "film", "type": "webm", "video": {"codec": codec, "bitrate_kbps": 500}}
        assert len(planned(film).commands) == 1


def test_both_passes_read_the_same_streams() -> None:
    first, second = planned({"name": "film", "type": "mp4", "video": {"bitrate_kbps": 500}}).commands
    assert first.also_read == ((0, AUDIO.index),)
    assert second.also_read == ()
    assert [second.sounds[0].input, second.sounds[0].stream] == [0, AUDIO.index]


def test_the_length_of_a_part_counts_for_the_progress() -> None:
    (command,) = planned({"name": "film", "type": "mp4", "start": 2, "end": 5}).commands
    assert command.seconds == 3.0


def test_sound_that_ends_before_a_part_is_left_out_with_a_warning() -> None:
    short = replace(AUDIO, end_seconds=1.0)
    made = planned({"name": "film", "type": "mp4", "start": 3, "end": 5}, facts=info(VIDEO, short))
    assert not made.commands[0].audios
    assert "audio_track_dropped" in warning_codes(made)


def test_a_gif_that_would_fill_the_memory_is_refused() -> None:
    large = {"name": "gif", "type": "preview", "format": "gif", "seconds": 10, "fps": 30, "width": 1920}
    with pytest.raises(MediaError, match="too large"):
        planned(large)
