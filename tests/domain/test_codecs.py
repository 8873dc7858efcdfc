from itertools import product
from typing import get_args

import pytest

from euterpe.domain.codecs import CODECS, Codec, CodecKind, OutputType, codecs_for
from euterpe.domain.spec import parse_spec
from tests.domain.documents import EXAMPLE, Document, altered, refusals

MP4, HLS, M4A = ("outputs", 1, "video"), ("outputs", 0, "video"), ("outputs", 2, "audio")
FIELDS = {("video", "mp4"): MP4, ("video", "hls"): HLS, ("audio", "m4a"): M4A}


def with_codec(place: tuple[str | int, ...], codec: str, **quality: int) -> Document:
    height = {"ladder": [360]} if place == HLS else {}
    return altered(EXAMPLE, *place, to={"codec": codec, **height, **quality})


@pytest.mark.parametrize(("codec", "field"), list(product(CODECS.values(), FIELDS)))
def test_an_output_takes_the_codecs_that_the_table_gives_it(
    codec: Codec, field: tuple[CodecKind, OutputType]
) -> None:
    fits = codec in codecs_for(*field)
    assert fits == (codec.kind == field[0] and field[1] in codec.outputs)
    spec = with_codec(FIELDS[field], codec.name)
    if fits:
        parse_spec(spec)
    else:
        assert list(refusals(spec)) == [(*FIELDS[field], "codec")]


@pytest.mark.parametrize("codec", [codec for codec in CODECS.values() if codec.kind != "image"])
def test_the_quality_has_the_bounds_and_the_default_of_its_codec(codec: Codec) -> None:
    place, name = (MP4, "crf") if codec.kind == "video" else (M4A, "bitrate_kbps")
    quality = codec.quality
    assert quality.least <= quality.default <= quality.most
    for value in (quality.least, quality.most):
        parse_spec(with_codec(place, codec.name, **{name: value}))
    for value in (quality.least - 1, quality.most + 1):
        assert list(refusals(with_codec(place, codec.name, **{name: value}))) == [(*place, name)]


def test_the_default_quality_and_the_threads_are_in_the_arguments() -> None:
    for codec in CODECS.values():
        assert codec.arguments()[1] == codec.encoder
        assert not any("{" in word for word in codec.arguments())
    assert "37" in CODECS["av1"].arguments(37)
    assert "lp=6" in CODECS["av1"].arguments(threads=6)


def test_every_type_of_output_has_a_codec() -> None:
    assert {output for codec in CODECS.values() for output in codec.outputs} == set(get_args(OutputType))
