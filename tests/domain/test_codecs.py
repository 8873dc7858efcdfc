from itertools import product
from typing import get_args

import pytest

from euterpe.domain.codecs import (
    CODECS,
    CONTAINERS,
    IMAGE_CODECS,
    PREVIEW_CODECS,
    Codec,
    CodecKind,
    ImageFormat,
    OutputType,
    PreviewFormat,
    Range,
    codecs_for,
)
from euterpe.domain.outputs.common import quoted
from euterpe.domain.spec import parse_spec
from tests.domain.documents import MINIMAL, Document, refusals

KINDS: tuple[CodecKind, ...] = ("video", "audio")
ADAPTIVE, SOUNDS = ("hls", "dash", "adaptive"), ("m4a", "mp3", "opus", "flac")
OF_PICTURES = ("image", "sprite", "preview")
PLACES = [
    (output, kind)
    for output, kind in product(get_args(OutputType), KINDS)
    if output not in OF_PICTURES and not (output in SOUNDS and kind == "video")
]
SOUND_AND_FILM = [codec for codec in CODECS.values() if codec.kind != "image"]


def with_codec(output: OutputType, kind: CodecKind, codec: str, **numbers: int) -> Document:
    ladder = {"ladder": [360]} if output in ADAPTIVE and kind == "video" else {}
    video = {"video": {"ladder": [360]}} if output in ADAPTIVE else {}
    settings = {"codec": codec, **ladder, **numbers}
    one = {"name": "a", "type": output, **video, kind: settings}
    return {**MINIMAL, "profile": None, "outputs": [one]}


@pytest.mark.parametrize("codec", SOUND_AND_FILM, ids=lambda codec: codec.name)
@pytest.mark.parametrize(("output", "kind"), PLACES)
def test_an_output_takes_the_codecs_that_the_table_gives_it(
    codec: Codec, output: OutputType, kind: CodecKind
) -> None:
    fits = codec in codecs_for(kind, output)
    assert fits == (codec.kind == kind and output in codec.outputs)
    spec = with_codec(output, kind, codec.name)
    if fits:
        parse_spec(spec)
    else:
        allowed = quoted(known.name for known in codecs_for(kind, output))
        assert refusals(spec) == {("outputs", 0, kind, "codec"): f"must be {allowed}"}


@pytest.mark.parametrize(("output", "kind"), PLACES)
def test_the_default_codec_is_the_first_of_the_table(output: OutputType, kind: CodecKind) -> None:
    needed = {"video": {"ladder": "auto"}} if output in ADAPTIVE else {}
    one = {"name": "a", "type": output, **needed}
    (made,) = parse_spec({**MINIMAL, "profile": None, "outputs": [one]}).outputs or ()
    assert getattr(made, kind).codec == codecs_for(kind, output)[0].name


@pytest.mark.parametrize("codec", SOUND_AND_FILM, ids=lambda codec: codec.name)
def test_a_number_has_the_bounds_of_its_codec(codec: Codec) -> None:
    output: OutputType = "mp4"
    ranges = {"crf": codec.quality, "bitrate_kbps": codec.bit_rate}
    for name, allowed in ranges.items():
        place = ("outputs", 0, codec.kind, name)
        if allowed is None:
            continue
        assert allowed.least <= allowed.default <= allowed.most
        for value in (allowed.least, allowed.most):
            parse_spec(with_codec(output, codec.kind, codec.name, **{name: value}))
        for value in (allowed.least - 1, allowed.most + 1):
            assert list(refusals(with_codec(output, codec.kind, codec.name, **{name: value}))) == [place]


def test_sound_without_loss_has_no_bit_rate() -> None:
    assert refusals(with_codec("flac", "audio", "flac", bitrate_kbps=900)) == {
        ("outputs", 0, "audio", "bitrate_kbps"): "must be null: flac is lossless"
    }
    assert CODECS["flac"].arguments() == ("-c:a", "flac")
    assert CODECS["flac"].default_bit_rate(6) is None


def test_the_default_quality_and_the_threads_are_in_the_arguments() -> None:
    for codec in CODECS.values():
        assert codec.arguments()[1] == codec.encoder
        assert not any("{" in word for word in codec.arguments())
    assert "37" in CODECS["av1"].arguments(37)
    assert "lp=6" in CODECS["av1"].arguments(threads=6)


@pytest.mark.parametrize("codec", codecs_for("video"), ids=lambda codec: codec.name)
def test_a_video_has_a_quality_a_quality_with_a_limit_or_an_average_rate(codec: Codec) -> None:
    constant, capped = codec.arguments(30), codec.arguments(30, bit_rate=2000)
    average = codec.arguments(bit_rate=2000)
    assert "-crf" in constant
    assert "-crf" in capped
    assert "2000k" in capped
    assert "2000k" not in constant
    assert "-crf" not in average
    assert average[average.index("-b:v") + 1] == "2000k"


@pytest.mark.parametrize("name", ["h264", "hevc"])
def test_a_codec_with_two_passes_names_their_statistics(name: str) -> None:
    passes = [CODECS[name].arguments(bit_rate=2000, pass_number=n, statistics="log") for n in (1, 2)]
    assert passes[0] != passes[1] != CODECS[name].arguments(bit_rate=2000)
    assert all("log" in " ".join(words) for words in passes)


@pytest.mark.parametrize(
    ("codec", "source", "rate"),
    [
        ("aac", 6_000, 8_000),
        ("aac", 11_025, 11_025),
        ("aac", 37_800, 44_100),
        ("aac", 192_000, 48_000),
        ("aac", None, 48_000),
        ("opus", 44_100, 48_000),
        ("mp3", 96_000, 48_000),
        ("flac", 96_000, 96_000),
        ("flac", 768_000, 192_000),
    ],
)
def test_the_sample_rate_is_one_of_the_codec(codec: str, source: int | None, rate: int) -> None:
    assert CODECS[codec].sample_rate_for(source) == rate


def test_the_default_bit_rate_grows_with_the_channels() -> None:
    assert [CODECS["aac"].default_bit_rate(channels) for channels in (1, 2, 6, 8)] == [128, 128, 384, 512]
    assert CODECS["mp3"].default_bit_rate(8) == 320


def test_every_type_of_output_has_a_codec() -> None:
    assert {output for codec in CODECS.values() for output in codec.outputs} == set(get_args(OutputType))
    for kind in ("video", "audio"):
        assert all(codec.bit_rate is not None or codec.name == "flac" for codec in codecs_for(kind))


def test_a_codec_fits_into_the_containers_of_its_outputs() -> None:
    for codec in SOUND_AND_FILM:
        assert {CONTAINERS[output] for output in codec.outputs} <= set(codec.containers)
        assert list(codec.sample_rates) == sorted(codec.sample_rates)
        assert (codec.most_channels > 0) == bool(codec.sample_rates) == (codec.kind == "audio")


def test_every_format_of_pictures_has_a_codec() -> None:
    assert set(IMAGE_CODECS) == set(get_args(ImageFormat))
    assert set(PREVIEW_CODECS) == set(get_args(PreviewFormat))
    assert all("image" in codec.outputs for codec in IMAGE_CODECS.values())
    assert all("preview" in codec.outputs for codec in PREVIEW_CODECS.values())
    assert CODECS["mjpeg"].quality == Range(3, 3, 3)
    assert [codec.decoded_name for codec in IMAGE_CODECS.values()] == ["mjpeg", "webp", "av1"]
