"""Turn a command of a plan into the arguments of ffmpeg. Only numbers and names from closed lists get in."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from euterpe.domain.codecs import IMAGE_CODECS, PREVIEW_CODECS, Codec
from euterpe.media.planning.encoders import audio_arguments, video_arguments
from euterpe.media.planning.filters import graph
from euterpe.media.planning.tree import (
    Command,
    Discard,
    File,
    Input,
    MuxedTrack,
    Plan,
    Rendition,
    Still,
    StillFormat,
)
from euterpe.media.whitelist import DEMUXER_OPTIONS, MAX_BLOCK_BYTES

# The file descriptors of the inputs in a sandboxed child: one for each, because two readers of one descriptor
# would move each other's position.
FIRST_FD = 3

_QUIET = ("-hide_banner", "-nostdin", "-nostats", "-loglevel", "level+warning")
# Keep ffmpeg's version and the date out of the outputs, and compute the same result on every processor.
_BITEXACT = ("-fflags", "+bitexact", "-flags", "+bitexact")
# The tags of a source may hold private data, such as places and device names, so no output inherits them.
_NO_TAGS = ("-map_metadata", "-1", "-map_chapters", "-1")
# ffmpeg queues packets until every stream has begun; the default limit of that queue is too small.
_QUEUE = ("-max_muxing_queue_size", "4096")
_FAST_START, _FRAGMENTED = "+faststart", "+frag_keyframe+empty_moov+default_base_moof"
_STILL_CODECS: Mapping[StillFormat, Codec] = {
    "jpeg": IMAGE_CODECS["jpeg"],
    "webp": IMAGE_CODECS["webp"],
    "avif": IMAGE_CODECS["avif"],
    "animated_webp": PREVIEW_CODECS["webp"],
    "gif": PREVIEW_CODECS["gif"],
}
_STILL_MUXERS: Mapping[StillFormat, str] = {
    "jpeg": "image2",
    "webp": "webp",
    "avif": "avif",
    "animated_webp": "webp",
    "gif": "gif",
}


def arguments(plan: Plan, command: Command, ffmpeg: Path) -> tuple[str, ...]:
    """Return the command line.

    ffmpeg reads open files, accepts only the container of the source, and reports progress on stdout.
    """
    pinned = {**DEMUXER_OPTIONS, "format_whitelist": plan.container, "f": plan.container}
    options = tuple(word for name, value in pinned.items() for word in (f"-{name}", value))
    return (
        *(str(ffmpeg), *_QUIET, "-xerror", "-max_alloc", str(MAX_BLOCK_BYTES)),
        *("-progress", "pipe:1", "-stats_period", "0.5"),
        *(
            word
            for place, one in enumerate(command.inputs)
            for word in (
                *options,
                *_input(one, plan.decoder_threads),
                "-fd",
                str(FIRST_FD + place),
                "-i",
                "fd:",
            )
        ),
        *("-filter_complex", graph(command)),
        *(word for place in range(len(command.products)) for word in _product(command, place)),
        *(word for one in command.also_read for word in _read_only(*one)),
    )


def _read_only(place: int, stream: int) -> tuple[str, ...]:
    """Return the arguments that read a stream and make nothing of it."""
    return ("-map", f"{place}:{stream}", "-c", "copy", "-f", "null", "-")


def _input(one: Input, threads: int) -> Iterator[str]:
    yield from ("-threads", str(threads))
    if one.keyframes_only:
        yield from ("-skip_frame", "nokey")
    if one.keeps_lead:
        yield "-noaccurate_seek"
    if one.start is not None:
        yield from ("-ss", f"{one.start:.6f}")
    if one.seconds is not None:
        yield from ("-t", f"{one.seconds:.6f}")


def _product(command: Command, place: int) -> Iterator[str]:
    product = command.products[place]
    match product:
        case File():
            yield from _tracks(command, product.tracks)
            yield from (*_tags(product), *_labels(product.tracks), *_QUEUE, *_BITEXACT)
            yield from (*_muxer(product), "-y", f"file:{product.path}")
        case Rendition():
            yield from _tracks(command, (product.track,))
            yield from (*_NO_TAGS, *_labels((product.track,)), *_QUEUE, *_BITEXACT)
            yield from _segments(product)
        case Still():
            yield from ("-map", f"[t{place}]", *_still(product))
        case Discard():
            video = command.videos[product.video]
            yield from ("-map", f"[v{product.video}]", *video_arguments(video), "-f", "null", "-")


def _tracks(command: Command, tracks: Sequence[MuxedTrack]) -> Iterator[str]:
    sounds = 0
    for track in tracks:
        if track.kind == "video":
            yield from ("-map", f"[v{track.place}]", *video_arguments(command.videos[track.place]))
        else:
            audio = command.audios[track.place]
            yield from ("-map", f"[a{track.place}]")
            yield from audio_arguments(audio, sounds)
            sounds += 1


def _tags(file: File) -> Iterator[str]:
    source = str(file.input)
    yield from ("-map_metadata", source, "-map_chapters", source) if file.keeps_tags else _NO_TAGS
    for tag in file.tags:
        yield from ("-metadata", f"{tag.name}={tag.text}")


def _labels(tracks: Sequence[MuxedTrack]) -> Iterator[str]:
    sounds = [track for track in tracks if track.kind == "audio"]
    for place, track in enumerate(sounds):
        if track.labels.language is not None:
            yield from (f"-metadata:s:a:{place}", f"language={track.labels.language}")
        yield from (f"-disposition:a:{place}", "default" if track.labels.is_default else "0")


def _muxer(file: File) -> Iterator[str]:
    if file.is_fragmented:
        yield from ("-movflags", _FRAGMENTED)
    elif file.muxer in ("mp4", "mov", "ipod"):
        yield from ("-movflags", _FAST_START)
    yield from ("-f", file.muxer)


def _segments(one: Rendition) -> Iterator[str]:
    yield from ("-f", "dash", "-seg_duration", str(one.segment_seconds), "-dash_segment_type", "mp4")
    yield from ("-use_template", "1", "-use_timeline", "0", "-format_options", "movflags=+cmaf")
    yield from ("-init_seg_name", f"{one.name}_init.mp4", "-media_seg_name", f"{one.name}_$Number%05d$.m4s")
    yield from ("-y", f"file:{one.folder}/{one.name}.mpd")


def _still(still: Still) -> Iterator[str]:
    yield from _BITEXACT
    kind, *words = _STILL_CODECS[still.format].arguments()
    yield from (kind, *words, "-f", _STILL_MUXERS[still.format])
    if still.format == "jpeg":
        yield from ("-start_number", "1") if "%d" in still.path else ("-update", "1")
    if still.format in ("jpeg", "webp", "avif"):
        yield from ("-frames:v", str(still.sheets))
    yield from ("-fps_mode", "passthrough", "-y", f"file:{still.path}")
