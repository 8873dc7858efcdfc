"""Tests of the arguments of ffmpeg: only numbers, names of closed lists, and names of outputs in paths."""

import re
from dataclasses import replace
from typing import Any, get_args

import pytest
from hypothesis import given

from euterpe.domain.codecs import CODECS
from euterpe.domain.outputs import OutputSpecs
from euterpe.media.errors import MediaError
from euterpe.media.planning.argv import FIRST_FD, arguments
from euterpe.media.planning.planner import plan
from euterpe.media.planning.tree import Command, Rendition, TagName
from euterpe.media.source.media_info import MediaInfo
from euterpe.media.whitelist import CONTAINERS, DEMUXER_OPTIONS
from tests.media.planning.facts import (
    AUDIO,
    FFMPEG,
    VIDEO,
    argv_of,
    info,
    media_infos,
    planned,
    spec_lists,
    values_of,
)

FILM: dict[str, Any] = {"name": "film", "type": "mp4"}
POSTER: dict[str, Any] = {"name": "poster", "type": "image", "at": ["50%"]}
HLS: dict[str, Any] = {"name": "hls", "type": "hls", "video": {"ladder": [720]}}


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_OPTIONS = _words(
    "hide_banner nostdin nostats loglevel xerror max_alloc progress stats_period threads skip_frame ss t fd "
    "i f noaccurate_seek filter_complex map map_metadata map_chapters max_muxing_queue_size fflags flags "
    "metadata movflags y g force_key_frames:v forced-idr fps_mode enc_time_base seg_duration "
    "dash_segment_type use_template use_timeline format_options init_seg_name media_seg_name start_number "
    "update frames:v c:v"
) | frozenset(DEMUXER_OPTIONS)
_NUMBERED = re.compile(r"-(c:a|b:a|metadata:s:a|disposition:a):[0-9]+")
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?k?")
_LABEL = re.compile(r"\[[vat][0-9]+\]")
_LANGUAGE = re.compile(r"language=[a-z]{2,3}(-[a-z0-9]{1,8}){0,3}")
# The tags of a request are the only free text. ffmpeg reads what follows the first `=` as it is.
_TAG = re.compile(f"({'|'.join(get_args(TagName))})=.*", re.DOTALL)
_FORCED = re.compile(r"expr:isnan\(prev_forced_t\)\+gt\(floor\(t/[0-9]+\),floor\(prev_forced_t/[0-9]+\)\)")
# The parameter lists of encoders: names with numbers, and points of a master display.
_PARAMETERS = re.compile(r"[a-z-]+=([a-z]+|[0-9]+)(:[a-z-]+=(\.passes/)?[A-Za-z0-9(),._-]+)*")
# The filters of a graph, and the words that their options may have besides numbers.
_FILTERS = _words(
    "aformat aresample asetpts asplit bwdif crop format fps limiter pad palettegen paletteuse scale select "
    "setparams setpts setsar split thumbnail tile tonemap tpad trim zscale"
)
_FILTER_WORDS = _words(
    "PTS STARTPTS TB N t n w h if lt eq st ld gt gte isnan quad floor prev_selected_t mode send_frame "
    "send_field deint interlaced exact start stop stop_mode clone end_frame start_time round down eof_action "
    "pass async "
    "min_comp min_hard_comp first_pts channel_layouts mono stereo in_color_matrix out_color_matrix in_range "
    "out_range auto range color_primaries color_trc colorspace tv pc p m r agamma npl linear mobius param "
    "desat peak min max planes stats_mode diff dither bayer q g p "
    "bt709 bt470m bt470bg fcc film gbr smpte170m smpte240m bt2020 bt2020nc bt2020c iec61966 smpte2084 arib "
    "std b67 yuv420p yuvj420p yuv420p10le gbrpf32le"
)


def _fixed_words() -> frozenset[str]:
    """Return all words that the tables of the product have: of the codec table and of the whitelist."""
    words = {"pipe:1", "fd:", "level+warning", "+bitexact", "+faststart", "passthrough", "filter", "default"}
    words |= {
        "nokey",
        "dash",
        "mp4",
        "movflags=+cmaf",
        "movflags=+cmaf+skip_sidx",
        "mov",
        "null",
        "-",
        "webm",
        "ipod",
    }
    words |= {"+frag_keyframe+empty_moov+default_base_moof", "mp3", "opus", "flac", "image2", "webp", "avif"}
    words |= {"gif", *CONTAINERS, *DEMUXER_OPTIONS.values(), *(f"-{name}" for name in _OPTIONS)}
    for codec in CODECS.values():
        words |= {codec.encoder, *codec.options.split(), *codec.constant.split()}
        words |= {*codec.capped.split(), *codec.average.split()}
    return frozenset(words)


_WORDS = _fixed_words()


def assert_no_foreign_text(made: Command, argv: tuple[str, ...]) -> None:
    """Raise for a word that is not a number, a word of our tables, a language, a path, or a requested tag."""
    own = "|".join(re.escape(name) for name in made.outputs)
    renditions = "|".join(re.escape(one.name) for one in made.products if isinstance(one, Rendition)) or "-"
    path = re.compile(
        rf"file:({own})(\.[a-z0-9]+|/[0-9]+\.[a-z]+|/%d\.jpg|/({renditions})\.mpd)"
        rf"|({renditions})_(init\.mp4|\$Number%05d\$\.m4s)"
        rf"|\.passes/({own})-[0-9]+"
    )
    known = (_NUMBERED, _NUMBER, _LABEL, _LANGUAGE, _FORCED, _PARAMETERS, path)
    binary, *words = argv
    assert binary == str(FFMPEG)
    for before, word in zip(("", *words), words, strict=False):
        if before == "-filter_complex":
            assert_only_filters(word)
        elif before == "-metadata":
            assert _TAG.fullmatch(word)
        else:
            assert word in _WORDS or any(one.fullmatch(word) for one in known), word


def assert_only_filters(graph: str) -> None:
    quoted = re.sub(r"'([^']*)'", lambda found: found[1].replace(",", " ").replace(":", " "), graph)
    for chain in quoted.split(";"):
        unlabelled = re.sub(r"^(\[[a-z0-9:]+\])+|(\[[a-z0-9]+\])+$", "", chain)
        for step in filter(None, unlabelled.split(",")):
            name, _, options = re.sub(r"(\[[a-z0-9]+\])+$", "", step).partition("=")
            assert name in _FILTERS, step
            words = re.findall(r"[A-Za-z_][A-Za-z0-9_]*", re.sub(r"=?\b[0-9]+x[0-9]+$", "", options))
            assert set(words) <= _FILTER_WORDS, (step, set(words) - _FILTER_WORDS)


@given(spec_lists, media_infos())
def test_only_numbers_and_words_of_closed_lists_reach_ffmpeg(outputs: OutputSpecs, facts: MediaInfo) -> None:
    try:
        made = plan(outputs, facts, threads=2)
    except MediaError:
        return
    for command in made.commands:
        assert_no_foreign_text(command, arguments(made, command, FFMPEG))


def test_texts_of_the_request_and_of_the_source_are_not_arguments() -> None:
    canary = "c4n4ry"
    video = replace(VIDEO, codec=canary, profile=canary, title=canary, pixel_format=canary)
    audio = replace(AUDIO, codec=canary, profile=canary, title=canary, layout=canary, language="eng")
    made = planned(FILM, {**HLS, "subtitles": ["de"]}, POSTER, facts=info(video, audio))
    for place in range(len(made.commands)):
        assert canary not in " ".join(argv_of(made, place))


@pytest.mark.parametrize("output", [FILM, HLS, POSTER, {"name": "s", "type": "sprite"}])
@pytest.mark.parametrize("container", ["mov", "matroska"])
def test_only_the_open_file_and_its_container_reach_ffmpeg(output: dict[str, Any], container: str) -> None:
    argv = argv_of(planned(output, facts=info(container=container)))
    assert values_of(argv, "-i") == ["fd:"]
    assert values_of(argv, "-protocol_whitelist") == ["fd"]
    assert values_of(argv, "-format_whitelist") == [container]
    assert argv[argv.index("-f") + 1] == container
    assert argv.index("-codec_whitelist") < argv.index("-i")
    assert {"-nostdin", "-xerror", "-max_alloc", "-max_streams", "-max_pixels"} <= set(argv)


def test_every_input_has_its_own_descriptor_and_the_same_limits() -> None:
    argv = argv_of(planned(FILM, {**FILM, "name": "part", "start": 2}), 0)
    assert values_of(argv, "-i") == ["fd:", "fd:"]
    assert values_of(argv, "-fd") == [str(FIRST_FD), str(FIRST_FD + 1)]
    for option, value in {**DEMUXER_OPTIONS, "format_whitelist": "mov"}.items():
        assert values_of(argv, f"-{option}") == [value] * 2


def test_the_number_of_decoder_threads_comes_from_the_plan() -> None:
    argv = argv_of(planned(FILM, threads=7))
    assert argv[: argv.index("-i")].count("-threads") == 1
    assert values_of(argv, "-threads")[0] == "7"


def test_a_part_is_found_by_a_seek_before_the_input() -> None:
    argv = argv_of(planned({**FILM, "start": 2, "end": 5.5}))
    before = argv[: argv.index("-i")]
    assert values_of(before, "-ss") == ["2.000000"]
    assert values_of(before, "-t") == ["3.500000"]


@pytest.mark.parametrize("text", ["-y", "a=b", "'; [v0]movie=/etc/passwd", "file:/etc/passwd", "%d $Number$"])
def test_a_requested_tag_is_one_word_that_follows_its_option(text: str) -> None:
    argv = argv_of(planned({**FILM, "metadata": {"title": text, "artist": text}}, HLS))
    assert values_of(argv, "-metadata") == [f"title={text}", f"artist={text}"]
    words = [word for before, word in zip(("", *argv), argv, strict=False) if before != "-metadata"]
    assert tuple(word for word in words if word != "-metadata") == argv_of(planned(FILM, HLS))


def test_tags_and_chapters_of_the_source_are_kept_on_request() -> None:
    argv = argv_of(planned({**FILM, "metadata": "keep"}))
    assert values_of(argv, "-map_metadata") == values_of(argv, "-map_chapters") == ["0"]


def test_no_file_inherits_tags_or_chapters_and_the_bytes_have_no_date() -> None:
    argv = argv_of(planned(FILM, HLS))
    assert values_of(argv, "-map_metadata") == values_of(argv, "-map_chapters") == ["-1"] * 3
    assert values_of(argv, "-fflags") == values_of(argv, "-flags") == ["+bitexact"] * 3


def test_a_film_can_play_while_it_downloads_and_a_fragmented_one_piece_by_piece() -> None:
    assert values_of(argv_of(planned(FILM)), "-movflags") == ["+faststart"]
    (flags,) = values_of(argv_of(planned({**FILM, "fragmented": True})), "-movflags")
    assert "+frag_keyframe+empty_moov" in flags


def test_each_sound_track_has_its_language_and_one_is_the_default() -> None:
    facts = info(VIDEO, replace(AUDIO, language="eng"), replace(AUDIO, index=2, language="pt-br"))
    argv = argv_of(planned({**FILM, "audio": "all"}, facts=facts))
    assert values_of(argv, "-metadata:s:a:0") == ["language=eng"]
    assert values_of(argv, "-metadata:s:a:1") == ["language=pt-br"]
    assert values_of(argv, "-disposition:a:0") == ["default"]
    assert values_of(argv, "-disposition:a:1") == ["0"]


def test_segments_have_the_names_that_the_packager_reads() -> None:
    argv = argv_of(planned({**HLS, "segment_seconds": 3}))
    assert values_of(argv, "-init_seg_name") == ["720p_init.mp4", "audio_init.mp4"]
    assert values_of(argv, "-media_seg_name") == ["720p_$Number%05d$.m4s", "audio_$Number%05d$.m4s"]
    assert values_of(argv, "-seg_duration") == ["3", "3"]
    # With a timeline of its own, segments of 29.97 pictures a second had 7.975 s from second 40 on.
    assert values_of(argv, "-use_timeline") == ["0", "0"]
