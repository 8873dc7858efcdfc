"""Tests of the arguments of ffmpeg: only numbers, names from closed lists, and names of outputs in paths."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from euterpe.domain.codecs import CODECS, codecs_for
from euterpe.domain.outputs import OutputSpecs
from euterpe.media.errors import MediaError
from euterpe.media.planning.argv import FIRST_FD, arguments, measurement_arguments
from euterpe.media.planning.planner import plan
from euterpe.media.planning.tree import Rendition, TagName
from euterpe.media.source.media_info import MediaInfo
from euterpe.media.whitelist import CONTAINERS, DEMUXER_OPTIONS, PICTURE_DECODERS
from tests.media.planning.facts import (
    AUDIO,
    FFMPEG,
    VIDEO,
    argv_of,
    info,
    long_film,
    measured,
    media_infos,
    planned,
    spec_lists,
    values_of,
    watermarks_of,
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
    "apply_cropping update frames:v c:v c:s bsf:v tag:v c dec reinit_filter thread_queue_size "
    "stats_enc_pre:v stats_enc_pre_fmt:v"
) | frozenset(DEMUXER_OPTIONS)
_NUMBERED = re.compile(r"-(c:a|b:a|bsf:a|metadata:s:[as]|disposition:[as]):[0-9]+")
_STREAM = re.compile(r"[0-9]+:[0-9]+")
_MOVED = re.compile(r"setts=pts=PTS-\((-?[0-9]+\.[0-9]{6})\)/TB:dts=DTS-\(\1\)/TB")
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?k?")
_LABEL = re.compile(r"\[([vath][0-9]+|r[0-9]+end)\]")
# A filter that computes a metric, with its log file. The file name contains the number of the measurement.
_METRIC = re.compile(
    r"(psnr|ssim|xpsnr)=stats_file=\.quality/[0-9]+-\1\.log"
    r"|libvmaf=model=version=vmaf_(4k_)?v0\.6\.1:n_subsample=[0-9]+:log_fmt=csv:log_path=\.quality/[0-9]+-vmaf\.log"
)
_LANGUAGE = re.compile(r"language=[a-z]{2,3}(-[a-z0-9]{1,8}){0,3}")
# The tags of a request, and the titles of subtitles in the source, are the only free text. ffmpeg takes all
# text after the first `=` unchanged.
_TAG = re.compile(f"({'|'.join(get_args(TagName))})=.*", re.DOTALL)
_FORCED = re.compile(r"expr:isnan\(prev_forced_t\)\+gt\(floor\(t/[0-9]+\),floor\(prev_forced_t/[0-9]+\)\)")
# The parameter lists of encoders: names with numbers, and the coordinates of a mastering display.
_PARAMETERS = re.compile(r"[a-z-]+=([a-z]+|[0-9]+)(:[a-z-]+=(\.passes/)?[A-Za-z0-9(),._-]+)*")
# The filters of a graph, and the words that their options may contain besides numbers.
_FILTERS = _words(
    "aformat aresample asetpts asplit atrim bwdif crop format fps hflip limiter pad palettegen "
    "paletteuse scale select transpose vflip volume adelay ebur128 "
    "setparams setpts setsar split thumbnail tile tonemap tpad trim zscale alphamerge colorchannelmixer "
    "mergeplanes overlay premultiply settb unpremultiply null sidedata concat"
)
_FILTER_WORDS = _words(
    "PTS STARTPTS TB N t n w h strip_fps if lt eq st ld gt gte isnan quad floor prev_selected_t mode "
    "pts prev_selected_pts round mod "
    "send_frame send_field deint interlaced exact start stop stop_mode clone end_frame start_time round down "
    "eof_action pass async all S end duration "
    "clock cclock "
    "min_comp min_hard_comp first_pts sample_fmts fltp framelog quiet true dB channel_layouts "
    "mono stereo in_color_matrix out_color_matrix in_range "
    "out_range auto range color_primaries color_trc colorspace tv pc p m r agamma npl linear mobius param "
    "desat peak min max planes stats_mode diff dither bayer q g p "
    "bt709 bt470m bt470bg fcc film gbr smpte170m smpte240m smpte428 smpte431 smpte432 bt2020 bt2020nc "
    "bt2020c iec61966 log100 log316 ycgco ictcp chroma derived nc ebu3213 smpte2084 arib "
    "std b67 yuv420p yuvj420p yuv420p10le gbrpf32le "
    "x y eval init format alpha straight yuv420 yuv420p10 yuva420p yuva420p10le yuva444p yuva444p10le "
    "delete type MASTERING_DISPLAY_METADATA CONTENT_LIGHT_LEVEL "
    "gbrap16le gbrp gray inplace aa pin tin min rin full limited map0s map0p map1s map1p map2s map2p map3s "
    "map3p "
    "yuv420p12le yuv420p16le yuv422p yuv422p10le yuv422p12le yuv422p16le yuv444p yuv444p10le yuv444p12le "
    "yuv444p16le"
)


def _fixed_words() -> frozenset[str]:
    """Return all words that Euterpe's own tables contain: the codec table and the whitelist."""
    words = {
        "pipe:1",
        "fd:",
        "level+warning",
        "level+info",
        "+bitexact",
        "+faststart",
        "passthrough",
        "codec",
        "filter",
        "default",
    }
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
        "setts=pts=PTS:dts=DTS:duration='if(eq(NEXT_DTS,NOPTS),DURATION,NEXT_DTS-DTS)'",
    }
    words |= {"+frag_keyframe+empty_moov+delay_moov+default_base_moof"}
    words |= {"mp3", "opus", "flac", "image2", "webp", "avif"}
    words |= {"{n}", "copy", "hvc1", "file", "webvtt", "forced", "0", "-bsf:s", "noise=drop=not(size-2)"}
    words |= {"gif", *CONTAINERS, *DEMUXER_OPTIONS.values(), *(f"-{name}" for name in _OPTIONS)}
    words |= {*PICTURE_DECODERS, *PICTURE_DECODERS.values()}
    for codec in CODECS.values():
        words |= {codec.encoder, *codec.options.split(), *codec.constant.split()}
        words |= {*codec.capped.split(), *codec.average.split()}
    return frozenset(words)


_WORDS = _fixed_words()


def assert_no_foreign_text(
    outputs: Sequence[str], rendition_names: Sequence[str], argv: tuple[str, ...]
) -> None:
    """Raise unless each word is a number, a language, a path, a requested tag or a word of `_fixed_words`."""
    own = "|".join(re.escape(name) for name in outputs)
    renditions = "|".join(re.escape(name) for name in rendition_names) or "-"
    path = re.compile(
        rf"file:({own})(\.[a-z0-9]+|/[0-9]+\.[a-z]+|/%d\.jpg|/({renditions})\.mpd)"
        rf"|({renditions})_(init\.mp4|\$Number%05d\$\.m4s)"
        rf"|file:\.pictures/({own})(\.[a-z0-9]+|,({renditions}))"
        rf"|\.passes/({own})-[0-9]+|file:\.subtitles/({own})-[0-9]+\.(mp4|vtt)"
    )
    known = (_NUMBERED, _NUMBER, _LABEL, _LANGUAGE, _FORCED, _PARAMETERS, _STREAM, _MOVED, path)
    binary, *words = argv
    assert binary == str(FFMPEG)
    for before, word in zip(("", *words), words, strict=False):
        if before == "-filter_complex":
            assert_only_filters(word)
        elif before == "-metadata":
            assert _TAG.fullmatch(word)
        elif re.fullmatch("-metadata:s:s:[0-9]+", before):
            assert _LANGUAGE.fullmatch(word) or word.startswith("title=")
        else:
            assert word in _WORDS or any(one.fullmatch(word) for one in known), word


def assert_only_filters(graph: str) -> None:
    quoted = re.sub(r"'([^']*)'", lambda found: re.sub("[,:;]", " ", found[1]), graph)
    for chain in quoted.split(";"):
        unlabelled = re.sub(r"^(\[[a-z0-9:]+\])+|(\[[a-z0-9]+\])+$", "", chain)
        for step in filter(None, unlabelled.split(",")):
            if _METRIC.fullmatch(step):
                continue
            name, _, options = re.sub(r"(\[[a-z0-9]+\])+$", "", step).partition("=")
            assert name in _FILTERS, step
            words = re.findall(r"[A-Za-z_][A-Za-z0-9_]*", re.sub(r"=?\b[0-9]+x[0-9]+$", "", options))
            assert set(words) <= _FILTER_WORDS, (step, set(words) - _FILTER_WORDS)


@given(st.sampled_from([codec.name for codec in codecs_for("video", "mp4")]), media_infos())
def test_only_numbers_and_words_of_closed_lists_are_in_a_search(codec: str, facts: MediaInfo) -> None:
    video = {"codec": codec, "height": 480, "target": {"vmaf": 93}}
    try:
        made = planned({"name": "film", "type": "mp4", "audio": None, "video": video}, facts=facts)
    except MediaError:
        return
    (search,) = made.measurements
    assert_no_foreign_text(search.outputs, [], measurement_arguments(made, search, FFMPEG))


@pytest.mark.parametrize("seconds", [5.0, 20.0, 60.0, 600.0])
def test_the_filters_of_vmaf_use_only_words_of_closed_lists(seconds: float) -> None:
    """The filters depend on the length of the film."""
    made = planned({**FILM, "audio": None, "measure": ["vmaf"]}, facts=long_film(seconds))
    for command in made.commands:
        assert_no_foreign_text(command.outputs, [], arguments(made, command, FFMPEG))


def test_the_filters_of_a_late_picture_use_only_words_of_closed_lists() -> None:
    """Black pictures are shown until the first picture."""
    picture = replace(VIDEO, first_seconds=1.0, end_seconds=11.0, latest_seconds=10.96)
    late = info(picture, replace(AUDIO, first_seconds=0.0, end_seconds=10.0))
    made = planned({**FILM, "video": {"fps": 25}}, facts=late)
    (command,) = made.commands
    assert command.pictures[0].lead == 1.0
    assert_no_foreign_text(command.outputs, [], arguments(made, command, FFMPEG))


@given(spec_lists, media_infos())
def test_only_numbers_and_words_of_closed_lists_reach_ffmpeg(outputs: OutputSpecs, facts: MediaInfo) -> None:
    try:
        made = plan(outputs, facts, threads=2, watermarks=watermarks_of(outputs))
    except MediaError:
        return
    for one in made.measurements:
        assert_no_foreign_text(one.outputs, [], measurement_arguments(made, one, FFMPEG))
    made = measured(made)
    for command in made.commands:
        renditions = [one.name for one in command.products if isinstance(one, Rendition)]
        assert_no_foreign_text(command.outputs, renditions, arguments(made, command, FFMPEG))


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
    assert values_of(argv, "-metadata:s:a:1") == [
        "language=por"
    ]  # MP4 stores language codes of three letters
    assert values_of(argv, "-disposition:a:0") == ["default"]
    assert values_of(argv, "-disposition:a:1") == ["0"]


def test_segments_have_the_names_that_the_packager_reads() -> None:
    argv = argv_of(planned({**HLS, "segment_seconds": 3}))
    assert values_of(argv, "-init_seg_name") == ["720p_init.mp4", "audio_init.mp4"]
    assert values_of(argv, "-media_seg_name") == ["720p_$Number%05d$.m4s", "audio_$Number%05d$.m4s"]
    assert values_of(argv, "-seg_duration") == ["3", "3"]
    # With ffmpeg's own timeline, segments at 29.97 pictures per second last 7.975 s from second 40 on.
    assert values_of(argv, "-use_timeline") == ["0", "0"]
