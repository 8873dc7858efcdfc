"""Hypothesis strategies for valid outputs of every type."""

import json
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from euterpe.domain.codecs import CODECS, CodecKind, OutputType, codecs_for
from euterpe.domain.outputs.quality import METRICS
from tests.domain.text_strategies import CANARY, Json, matching, names, printable

heights = st.integers(8, 2160).map(lambda half: half * 2)
widths = st.integers(8, 640).map(lambda half: half * 2)
video_rates = st.integers(32, 200_000)
moments = matching(r"best|(100|[0-9]{1,2}(\.[0-9]{1,3})?)%|[0-9]{1,6}(\.[0-9]{1,3})?s")
languages = matching(r"[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8}){0,3}")
edges = st.integers(0, 16_384)
copies = st.sampled_from(["never", "auto"])
ADAPTIVE: tuple[OutputType, ...] = ("hls", "dash", "adaptive")


def numbers_of(least: float, most: float) -> SearchStrategy[float]:
    """Generate JSON numbers: integers and fractions."""
    return st.integers(int(least) + 1, int(most)) | st.floats(least, most).map(lambda x: round(x, 6))


def _names_of(kind: CodecKind, *outputs: OutputType) -> list[str]:
    return [codec.name for codec in codecs_for(kind, *outputs)]


loudnesses = st.fixed_dictionaries(
    {}, optional={"target": numbers_of(-70, -5), "true_peak": numbers_of(-9, 0)}
)


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
                **({} if kind in ADAPTIVE else {"copy": copies}),
                "loudness": st.none() | loudnesses,
            },
        )
    )
    return audio if codec is None and draw(st.booleans()) else {**audio, "codec": codec}


def sounds(kind: OutputType) -> SearchStrategy[Any]:
    several = st.lists(audios(kind), min_size=1, max_size=3, unique_by=json.dumps)
    # Leave out lists with two equal tracks. A track may name its default codec or omit it.
    several = several.filter(lambda tracks: len({_settled(kind, track) for track in tracks}) == len(tracks))
    return st.none() | st.just("all") | audios(kind) | several


def _settled(kind: OutputType, track: Json) -> str:
    default = {
        **{"codec": None, "bitrate_kbps": None, "channels": "stereo", "language": None},
        **{"copy": "never", "loudness": None},
    }
    whole = {**default, **track}
    codec = whole["codec"] or _names_of("audio", kind)[0]
    settled = {**whole, "codec": codec, "language": (whole["language"] or "").lower()}
    if (loudness := whole.get("loudness")) is not None:
        settled["loudness"] = {
            name: float(loudness.get(name, default)) + 0.0
            for name, default in (("target", -16), ("true_peak", -1))
        }
    return json.dumps(settled, sort_keys=True)


_targets = st.none() | st.fixed_dictionaries({"vmaf": numbers_of(20, 99)})


@st.composite
def pictures(draw: st.DrawFn, kind: OutputType) -> Json:
    """Generate settings of the picture of a film file of this type."""
    codec = draw(st.none() | st.sampled_from(_names_of("video", kind)))
    chosen = CODECS[codec or _names_of("video", kind)[0]]
    assert chosen.quality is not None
    video: Json = draw(
        st.fixed_dictionaries(
            {},
            optional={
                "height": st.none() | heights,
                "crf": st.none() | st.integers(chosen.quality.least, chosen.quality.most),
                "bitrate_kbps": st.none() | video_rates,
                "fps": st.none() | numbers_of(1, 240),
                "hdr": st.sampled_from(["sdr", "keep"] if chosen.keeps_hdr else ["sdr"]),
                "copy": copies,
            },
        )
    )
    if video.get("crf") is None and draw(st.booleans()):
        video["target"] = draw(_targets)
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
    if not any(isinstance(rung, dict) and rung.get("crf") is not None for rung in rungs):
        video |= draw(st.fixed_dictionaries({}, optional={"target": _targets}))
    return {**video, "hdr": "keep"} if CODECS[codec].keeps_hdr and draw(st.booleans()) else video


tags = st.fixed_dictionaries({}, optional={"title": st.none() | printable, "artist": printable})
watermarks = st.fixed_dictionaries(
    {
        "source": st.fixed_dictionaries(
            {
                "url": st.sampled_from(["s3://in/logo.png", "file:///logo.png", "https://in.example/a.png"])
                | matching(r"https://in\.example/[a-z]{1,5}\.png\?sig=[a-z0-9&=]{0,9}").map(
                    lambda url: url + CANARY
                )
            }
        )
    },
    optional={
        "position": st.sampled_from(["top_left", "bottom_right", "center"]),
        "width_percent": numbers_of(1, 100),
        "margin_percent": numbers_of(0, 25),
        "opacity": st.floats(0.01, 1).map(lambda x: round(x, 6)),
    },
)
_OF_PICTURES: Json = {
    "watermark": st.none() | watermarks,
    "crop": st.none() | st.fixed_dictionaries({}, optional=dict.fromkeys(("left", "top", "right"), edges)),
    "rotate": st.sampled_from([0, 90, 180, 270]),
    "pad": st.none() | st.fixed_dictionaries({"aspect": st.sampled_from(["16:9", "9:16", "239:100"])}),
}
_MEASURED: Json = {
    "measure": st.lists(st.sampled_from(METRICS), unique=True),
    "vmaf_min": st.none() | numbers_of(0, 100),
}
_OF_FILES: Json = {"metadata": st.sampled_from(["strip", "keep"]) | tags}
_subtitles = st.none() | st.just("all") | st.lists(languages, min_size=1, max_size=3, unique_by=str.lower)
_OF_ADAPTIVE: Json = {
    **_OF_PICTURES,
    **_MEASURED,
    "segment_seconds": st.integers(1, 60),
    "subtitles": _subtitles,
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
    own: Json = {"audio": sounds(kind), "video": pictures(kind), "subtitles": _subtitles}
    output = draw(_output(kind, **_OF_FILES, **own, **_OF_PICTURES, **_MEASURED))
    if kind == "mp4" and draw(st.booleans()):
        output["fragmented"] = draw(st.booleans())
    has_sound = output.get("audio", {}) is not None
    unused = (output.get(name) is None for name in ("crop", "pad", "watermark", "vmaf_min"))
    is_plain = all(unused) and not output.get("rotate") and not output.get("measure")
    if has_sound and is_plain and draw(st.booleans()):
        output["video"] = None
    return output


FILMS: tuple[OutputType, ...] = ("mp4", "mov", "webm")
SOUNDS: tuple[OutputType, ...] = ("m4a", "mp3", "opus", "flac")
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
