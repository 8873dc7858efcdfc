"""Hypothesis strategies for valid outputs of every type."""

import json
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from euterpe.domain.codecs import CODECS, CodecKind, OutputType, codecs_for
from tests.domain.text_strategies import Json, matching, names, printable

heights = st.integers(8, 2160).map(lambda half: half * 2)
widths = st.integers(8, 640).map(lambda half: half * 2)
video_rates = st.integers(32, 200_000)
moments = matching(r"best|(100|[0-9]{1,2}(\.[0-9]{1,3})?)%|[0-9]{1,6}(\.[0-9]{1,3})?s")
languages = matching(r"[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8}){0,3}")
edges = st.integers(0, 16_384)


def numbers_of(least: float, most: float) -> SearchStrategy[float]:
    """Generate numbers as JSON writes them, which are integers or fractions."""
    return st.integers(int(least) + 1, int(most)) | st.floats(least, most).map(lambda x: round(x, 6))


def _names_of(kind: CodecKind, *outputs: OutputType) -> list[str]:
    return [codec.name for codec in codecs_for(kind, *outputs)]


@st.composite
def audios(draw: st.DrawFn, kind: OutputType) -> Json:
    """Generate settings of one track of sound for this type of output."""
    codec = draw(st.none() | st.sampled_from(_names_of("audio", kind)))
    chosen = CODECS[codec or _names_of("audio", kind)[0]]
    rates: SearchStrategy[int | None] = st.none()
    if chosen.bit_rate is not None:
        rates |= st.integers(chosen.bit_rate.least, chosen.bit_rate.most)
    audio = draw(
        st.fixed_dictionaries(
            {},
            optional={
                "bitrate_kbps": rates,
                "channels": st.sampled_from(["stereo", "mono", "keep"]),
                "language": st.none() | languages,
            },
        )
    )
    return audio if codec is None and draw(st.booleans()) else {**audio, "codec": codec}


def sounds(kind: OutputType) -> SearchStrategy[Any]:
    several = st.lists(audios(kind), min_size=1, max_size=3, unique_by=json.dumps)
    # Two ways to write the default codec make the same track.
    several = several.filter(lambda tracks: len({_settled(kind, track) for track in tracks}) == len(tracks))
    return st.none() | st.just("all") | audios(kind) | several


def _settled(kind: OutputType, track: Json) -> str:
    default = {"codec": None, "bitrate_kbps": None, "channels": "stereo", "language": None}
    whole = {**default, **track}
    codec = whole["codec"] or _names_of("audio", kind)[0]
    return json.dumps({**whole, "codec": codec, "language": (whole["language"] or "").lower()})


@st.composite
def pictures(draw: st.DrawFn, kind: OutputType) -> Json:
    """Generate settings of the picture of a film file of this type."""
    codec = draw(st.none() | st.sampled_from(_names_of("video", kind)))
    chosen = CODECS[codec or _names_of("video", kind)[0]]
    assert chosen.quality is not None
    video = draw(
        st.fixed_dictionaries(
            {},
            optional={
                "height": st.none() | heights,
                "crf": st.none() | st.integers(chosen.quality.least, chosen.quality.most),
                "bitrate_kbps": st.none() | video_rates,
                "fps": st.none() | numbers_of(1, 240),
                "hdr": st.sampled_from(["sdr", "keep"] if chosen.keeps_hdr else ["sdr"]),
            },
        )
    )
    return video if codec is None else {**video, "codec": codec}


@st.composite
def ladder_videos(draw: st.DrawFn) -> Json:
    """Generate settings of the picture for adaptive players."""
    codec = draw(st.sampled_from(_names_of("video", "adaptive")))
    quality = CODECS[codec].quality
    assert quality is not None
    rates = {"bitrate_kbps": st.none() | video_rates, "crf": st.none() | st.integers(0, quality.most)}
    rungs = []
    for height in sorted(draw(st.sets(heights, min_size=1, max_size=10)), reverse=True):
        rung = draw(st.fixed_dictionaries({"height": st.just(height)}, optional=rates))
        rungs.append(draw(st.sampled_from([height, rung])))
    video: Json = {"codec": codec, "ladder": draw(st.sampled_from([rungs, "auto"]))}
    if draw(st.booleans()):
        video["fps"] = draw(numbers_of(1, 240))
    return {**video, "hdr": "keep"} if CODECS[codec].keeps_hdr and draw(st.booleans()) else video


tags = st.fixed_dictionaries({}, optional={"title": st.none() | printable, "artist": printable})
_OF_PICTURES: Json = {
    "crop": st.none() | st.fixed_dictionaries({}, optional=dict.fromkeys(("left", "top", "right"), edges)),
    "pad": st.none() | st.fixed_dictionaries({"aspect": st.sampled_from(["16:9", "9:16", "239:100"])}),
}
_OF_FILES: Json = {"metadata": st.sampled_from(["strip", "keep"]) | tags}
_OF_ADAPTIVE: Json = {
    **_OF_PICTURES,
    "segment_seconds": st.integers(1, 60),
    "subtitles": st.none()
    | st.just("all")
    | st.lists(languages, min_size=1, max_size=3, unique_by=str.lower),
    "trick_play": st.booleans(),
}


@st.composite
def _output(draw: st.DrawFn, /, kind: str, required: Json | None = None, **optional: Any) -> Json:
    output = draw(
        st.fixed_dictionaries(
            {"name": names, "type": st.just(kind), **(required or {})},
            optional={"optional": st.booleans(), **optional},
        )
    )
    if draw(st.booleans()):
        output["start"] = draw(st.none() | numbers_of(0, 900_000))
    if draw(st.booleans()):
        output["end"] = (output.get("start") or 0) + draw(numbers_of(0.001, 10_000))
    return output


@st.composite
def _films(draw: st.DrawFn, kind: OutputType) -> Json:
    output = draw(_output(kind, **_OF_FILES, audio=sounds(kind), video=pictures(kind), **_OF_PICTURES))
    if kind == "mp4" and draw(st.booleans()):
        output["fragmented"] = draw(st.booleans())
    has_sound = output.get("audio", {}) is not None
    is_plain = output.get("crop") is None and output.get("pad") is None
    if has_sound and is_plain and draw(st.booleans()):
        output["video"] = None
    return output


FILMS: tuple[OutputType, ...] = ("mp4", "mov", "webm")
SOUNDS: tuple[OutputType, ...] = ("m4a", "mp3", "opus", "flac")
ADAPTIVE: tuple[OutputType, ...] = ("hls", "dash", "adaptive")
outputs = st.one_of(
    *(_output(kind, {"video": ladder_videos()}, **_OF_ADAPTIVE, audio=sounds(kind)) for kind in ADAPTIVE),
    *map(_films, FILMS),
    *(_output(kind, **_OF_FILES, audio=audios(kind)) for kind in SOUNDS),
    _output(
        "image",
        {"at": st.just("best") | st.lists(moments, min_size=1, max_size=5, unique=True)},
        **_OF_PICTURES,
        format=st.sampled_from(["jpeg", "webp", "avif"]),
        width=st.none() | widths,
    ),
    _output(
        "sprite",
        **_OF_PICTURES,
        interval_seconds=st.integers(1, 3600),
        columns=st.integers(1, 50),
        vtt=st.booleans(),
        width=st.none() | widths,
    ),
    _output(
        "preview",
        **_OF_PICTURES,
        format=st.sampled_from(["webp", "gif"]),
        seconds=numbers_of(0.1, 30),
        width=widths,
        fps=numbers_of(1, 30),
    ),
)
