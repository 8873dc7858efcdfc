"""Tests of plans: ffmpeg arguments, picture sizes, HLS ladders, stills and sprites."""

import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest

from euterpe.domain.outputs import (
    HlsOutput,
    HlsVideo,
    ImageOutput,
    Mp4Output,
    OutputSpec,
    SpriteOutput,
    Video,
)
from euterpe.media.errors import MediaError
from euterpe.media.planning.picture import Size, filters, fitted_size, shown_size
from euterpe.media.planning.plan import plan
from euterpe.media.source.media_info import MediaInfo, StreamInfo
from tests.media.media_steps import FILM, SOUND, film

VIDEO = StreamInfo(0, "video", "h264", 10.0, width=1920, height=1080, fps=25.0, is_default=True)
AUDIO = StreamInfo(1, "audio", "aac", 10.0, channels=2, sample_rate=48_000)


def info(*streams: StreamInfo, container: str = "mov", seconds: float | None = 10.0) -> MediaInfo:
    return MediaInfo(container, 1000, seconds, streams or (VIDEO, AUDIO))


def values_of(argv: tuple[str, ...], option: str) -> list[str]:
    return [argv[position + 1] for position, argument in enumerate(argv) if argument == option]


def test_only_the_open_file_and_its_container_reach_ffmpeg() -> None:
    argv = plan([FILM], info(), threads=2).argv(Path("/opt/ffmpeg"))
    assert values_of(argv, "-i") == ["fd:"]
    assert values_of(argv, "-protocol_whitelist") == ["fd"]
    assert values_of(argv, "-format_whitelist") == ["mov"]
    assert argv[argv.index("-f") + 1] == "mov"
    assert argv.index("-codec_whitelist") < argv.index("-i")
    assert {"-nostdin", "-xerror", "-max_alloc", "-max_streams", "-max_pixels"} <= set(argv)


def test_one_input_serves_all_outputs() -> None:
    outputs: list[OutputSpec] = [
        FILM,
        FILM.model_copy(update={"name": "small", "video": Video(height=240)}),
        SOUND,
    ]
    planned = plan(outputs, info(), threads=2)
    assert [file.path for file in planned.files] == ["film.mp4", "small.mp4", "sound.m4a"]
    argv = planned.argv(Path("/opt/ffmpeg"))
    assert values_of(argv, "-i") == ["fd:"]
    assert values_of(argv, "-y") == ["file:film.mp4", "file:small.mp4", "file:sound.m4a"]


def test_the_default_stream_is_taken_else_the_first() -> None:
    first, second = (StreamInfo(n, "audio", "aac", 10.0, channels=2, sample_rate=48_000) for n in (1, 2))
    marked = StreamInfo(2, "audio", "aac", 10.0, channels=2, sample_rate=48_000, is_default=True)
    assert values_of(plan([SOUND], info(VIDEO, first, second), threads=1).outputs, "-map") == ["0:1"]
    assert values_of(plan([SOUND], info(VIDEO, first, marked), threads=1).outputs, "-map") == ["0:2"]


@pytest.mark.parametrize(
    ("source", "rotation", "height_limit", "size"),
    [
        ((1920, 1080, 1.0), 0, 720, (1280, 720)),
        ((1920, 1080, 1.0), 90, 720, (404, 720)),
        ((1280, 720, 1.0), 0, 480, (854, 480)),
        ((640, 360, 1.0), 0, 720, (640, 360)),
        ((720, 576, 64 / 45), 0, None, (1024, 576)),
        ((641, 361, 1.0), 0, None, (640, 360)),
        ((720, 480, 1.0), 270, None, (480, 720)),
    ],
)
def test_pictures_are_upright_square_even_and_never_enlarged(
    source: tuple[int, int, float], rotation: int, height_limit: int | None, size: tuple[int, int]
) -> None:
    width, height, pixel_aspect = source
    video = StreamInfo(
        0, "video", "h264", width=width, height=height, rotation=rotation, pixel_aspect=pixel_aspect
    )
    assert fitted_size(video, height_limit, "h264") == Size(*size)


def test_a_source_without_a_picture_size_is_refused() -> None:
    with pytest.raises(MediaError) as refused:
        shown_size(StreamInfo(0, "video", "h264"))
    assert refused.value.code == "source_unsupported"


def test_only_what_needs_it_is_deinterlaced_or_toned_down() -> None:
    plain = filters(VIDEO, Size(1280, 720))
    assert "bwdif" not in plain
    assert "tonemap" not in plain
    assert "bwdif" in filters(StreamInfo(0, "video", "h264", interlaced=True), Size(2, 2))
    for transfer, curve in ((16, "smpte2084"), (18, "arib-std-b67")):
        chain = filters(StreamInfo(0, "video", "hevc", transfer=transfer), Size(2, 2))
        assert f"tin={curve}" in chain
        assert "tonemap" in chain


def test_quality_is_as_requested_else_the_codecs_default() -> None:
    default = plan([film("h264")], info(), threads=1).outputs
    requested = plan([Mp4Output(name="film", type="mp4", video=Video(crf=18))], info(), threads=1).outputs
    assert (values_of(default, "-crf"), values_of(requested, "-crf")) == (["23"], ["18"])


def test_the_least_duration_of_an_output_needs_a_source_with_an_exact_duration() -> None:
    for container, least in (("mov", 9.75), ("mp3", None), ("mpegts", None)):
        assert plan([SOUND], info(container=container), threads=1).least_seconds == least
    unknown = StreamInfo(0, "audio", "aac")
    assert plan([SOUND], info(unknown, container="matroska"), threads=1).least_seconds is None


def test_a_ladder_has_no_step_above_its_source_and_none_twice() -> None:
    ladder = HlsOutput(name="hls", type="hls", video=HlsVideo(ladder=(2160, 1440, 720, 480)))
    planned = plan([ladder], info(), threads=1)
    assert [file.path for file in planned.files] == [
        "hls/1080p.m3u8",
        "hls/720p.m3u8",
        "hls/480p.m3u8",
        "hls/audio.m3u8",
        "hls/master.m3u8",
    ]


@pytest.mark.parametrize(
    ("moment", "start"), [("0%", 0.0), ("50%", 4.98), ("100%", 9.94), ("2.5s", 2.48), ("999s", 9.94)]
)
def test_a_moment_is_the_picture_that_is_shown_then(moment: str, start: float) -> None:
    (chain,) = values_of(
        plan([ImageOutput(name="a", type="image", at=(moment,))], info(), threads=1).outputs, "-vf"
    )
    assert chain.startswith(f"trim=start={start:.6f},")


def test_moments_need_a_source_with_a_duration() -> None:
    without_duration = info(replace(VIDEO, duration_seconds=None), seconds=None)
    for output in (ImageOutput(name="a", type="image", at=("50%",)), SpriteOutput(name="a", type="sprite")):
        with pytest.raises(MediaError) as refused:
            plan([output], without_duration, threads=1)
        assert refused.value.code == "source_unsupported"


def test_a_long_film_takes_several_sheets_and_every_picture_has_its_time() -> None:
    film_of_an_hour = info(replace(VIDEO, duration_seconds=3600.0), seconds=3600.0)
    planned = plan([SpriteOutput(name="s", type="sprite")], film_of_an_hour, threads=1)
    *sheets, index = planned.files
    assert [file.path for file in sheets] == ["s/1.jpg", "s/2.jpg", "s/3.jpg", "s/4.jpg"]
    assert (sheets[0].tracks[0].width, sheets[0].tracks[0].height) == (1600, 900)
    cues = (index.text or "").split("\n\n")
    assert len(cues) == 361
    assert cues[1] == "00:00:00.000 --> 00:00:10.000\n1.jpg#xywh=0,0,160,90"
    assert cues[102] == "00:16:50.000 --> 00:17:00.000\n2.jpg#xywh=160,0,160,90"


@pytest.mark.parametrize(("seconds", "columns"), [(1e9, 1), (10_002.0, 50), (5_002.0, 1)])
def test_too_many_sprite_pictures_are_refused_before_any_is_planned(seconds: float, columns: int) -> None:
    """A film of two pictures can claim to last 30 years. The limit holds for both sprites together."""
    very_long = info(replace(VIDEO, duration_seconds=seconds), seconds=seconds)
    sprite = SpriteOutput(name="s", type="sprite", interval_seconds=1, columns=columns)
    outputs: list[OutputSpec] = [sprite, sprite.model_copy(update={"name": "t"})]
    tracemalloc.start()
    try:
        with pytest.raises(MediaError, match=r"at most 10000 .* larger interval_seconds") as refused:
            plan(outputs, very_long, threads=1)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
    assert refused.value.code == "output_unsupported"


def test_as_many_sprite_pictures_as_the_limit_are_planned() -> None:
    day = info(replace(VIDEO, duration_seconds=10_000.0), seconds=10_000.0)
    outputs = [SpriteOutput(name="s", type="sprite", interval_seconds=1, columns=1)]
    assert len(plan(outputs, day, threads=1).files) == 1001


def test_sheets_that_no_jpeg_can_hold_are_refused() -> None:
    banner = replace(VIDEO, width=16_000, height=800)
    with pytest.raises(MediaError) as refused:
        plan([SpriteOutput(name="s", type="sprite", columns=50)], info(banner), threads=1)
    assert refused.value.code == "output_unsupported"


def test_a_file_and_a_folder_of_one_name_are_refused() -> None:
    outputs: list[OutputSpec] = [
        Mp4Output(name="a", type="mp4"),
        HlsOutput(name="a.mp4", type="hls", video=HlsVideo(ladder=(720,))),
    ]
    with pytest.raises(MediaError, match=r"a\.mp4") as refused:
        plan(outputs, info(), threads=1)
    assert refused.value.code == "output_unsupported"
