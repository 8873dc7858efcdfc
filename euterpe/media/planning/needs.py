"""Find the encoders, muxers and filters of ffmpeg that a job needs, from its request or from its plan."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import get_args

from euterpe.domain.codecs import CODECS, IMAGE_CODECS, PREVIEW_CODECS
from euterpe.domain.outputs import (
    FlacOutput,
    ImageOutput,
    M4aOutput,
    MovOutput,
    Mp3Output,
    Mp4Output,
    OpusOutput,
    OutputSpec,
    PreviewOutput,
    SegmentedOutput,
    SpriteOutput,
    WebmOutput,
)
from euterpe.media.ffmpeg_features import FfmpegFeatures
from euterpe.media.planning.argv import STILL_CODECS, STILL_MUXERS
from euterpe.media.planning.filters import graph, metadata_graphs
from euterpe.media.planning.quality import comparison_arguments
from euterpe.media.planning.tree import (
    Command,
    Discard,
    File,
    LoudnessMeasurement,
    Muxer,
    Plan,
    Rendition,
    SearchMeasurement,
    Still,
)

# All features that any job can need. `filters` has only the filters that a build of ffmpeg can lack, because
# these filters need a library (libzimg, libvmaf) or the GPL.
ALL_FEATURES = FfmpegFeatures(
    encoders=frozenset(codec.encoder for codec in CODECS.values()),
    muxers=frozenset({*get_args(Muxer), *STILL_MUXERS.values(), "dash", "null"}),
    filters=frozenset({"zscale", "libvmaf", "xpsnr", "tonemap", "bwdif", "ebur128"}),
)
_LABELS_AND_QUOTES = re.compile(r"\[[^\]]*\]|'[^']*'")


def needs_of_outputs(outputs: Sequence[OutputSpec]) -> FfmpegFeatures:
    """Return the encoders that the outputs need for every source.

    The encoder of a film's sound is left out, because the source may have no sound. The encoder of a stream
    that can be copied is left out too.
    """
    return FfmpegFeatures(encoders=frozenset(name for output in outputs for name in _encoders_of(output)))


def _encoders_of(output: OutputSpec) -> Iterator[str]:
    match output:
        case ImageOutput():
            yield IMAGE_CODECS[output.format].encoder
        case SpriteOutput():
            yield IMAGE_CODECS["jpeg"].encoder
        case PreviewOutput():
            yield PREVIEW_CODECS[output.format].encoder
        case Mp4Output() | MovOutput() | WebmOutput():
            if output.video is not None and output.video.copies == "never":
                yield CODECS[output.video.codec].encoder
        case SegmentedOutput():
            yield CODECS[output.video.codec].encoder
        case M4aOutput() | Mp3Output() | OpusOutput() | FlacOutput():
            if output.audio.codec is not None and output.audio.copies == "never":
                yield CODECS[output.audio.codec].encoder


def needs_of_plan(plan: Plan) -> FfmpegFeatures:
    """Return the features that the commands and the measurements of the plan need."""
    found = FfmpegFeatures()
    for command in plan.commands:
        found |= _needs_of(command)
    for measurement in plan.measurements:
        match measurement:
            case SearchMeasurement():
                found |= _needs_of(measurement.command)
            case LoudnessMeasurement():
                found |= FfmpegFeatures(muxers=frozenset({"null"}), filters=frozenset({"ebur128"}))
    return found


def _needs_of(command: Command) -> FfmpegFeatures:
    names = [*(video.codec for video in command.videos), *(audio.codec for audio in command.audios)]
    encoders = {CODECS[name].encoder for name in names}
    muxers: set[str] = set()
    for product in command.products:
        match product:
            case File():
                muxers.add(product.muxer)
            case Rendition():
                muxers |= {"dash", "mp4"}
            case Still():
                encoders.add(STILL_CODECS[product.format].encoder)
                muxers.add(STILL_MUXERS[product.format])
            case Discard():
                muxers.add("null")
    return FfmpegFeatures(frozenset(encoders), frozenset(muxers), frozenset(_filters_of(command)))


def _filters_of(command: Command) -> Iterator[str]:
    # A sound with a loudness goal gets a `volume` filter only after the measurement, so add this filter here.
    sounds = tuple(replace(sound, gain=None) for sound in command.sounds)
    if sounds != command.sounds:
        yield "volume"
    words = tuple(comparison_arguments(command))
    compared = [words[place + 1] for place, word in enumerate(words) if word == "-filter_complex"]
    yield from _names_in((graph(replace(command, sounds=sounds)), *metadata_graphs(command), *compared))


def _names_in(graphs: Iterable[str]) -> Iterator[str]:
    for text in graphs:
        for part in re.split("[,;]", _LABELS_AND_QUOTES.sub("", text)):
            if name := part.partition("=")[0].strip():
                yield name
