"""Turn a command or a measurement of a plan into the arguments of ffmpeg.

The arguments contain only numbers and names from closed lists.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from euterpe.domain.codecs import IMAGE_CODECS, PREVIEW_CODECS, Codec
from euterpe.media.packaging.languages import code_in_mp4, code_in_quicktime
from euterpe.media.planning.encoders import audio_arguments, video_arguments
from euterpe.media.planning.filters import graph, metadata_graphs, video_label
from euterpe.media.planning.picture_counts import count_arguments
from euterpe.media.planning.quality import comparison_arguments
from euterpe.media.planning.sound_filters import loudness_graph
from euterpe.media.planning.text_inputs import TextInput, text_inputs
from euterpe.media.planning.tree import (
    Command,
    CopiedTrack,
    Discard,
    File,
    Input,
    LoudnessMeasurement,
    Measurement,
    MuxedTrack,
    Muxer,
    Plan,
    Rendition,
    SearchMeasurement,
    Still,
    StillFormat,
)
from euterpe.media.whitelist import DEMUXER_OPTIONS, MAX_BLOCK_BYTES, PICTURE_DECODERS, PICTURE_OPTIONS

# The first file descriptor of the inputs in a sandboxed child. Each input has its own descriptor, because two
# readers of one descriptor would move each other's position.
FIRST_FD = 3

_QUIET = ("-hide_banner", "-nostdin", "-nostats", "-loglevel")
# Keep ffmpeg's version and the date out of the outputs, and compute the same result on every processor.
_BITEXACT = ("-fflags", "+bitexact", "-flags", "+bitexact")
# The tags of a source can contain private data, such as places and device names, so no output inherits them.
_NO_TAGS = ("-map_metadata", "-1", "-map_chapters", "-1")
# ffmpeg queues packets until every stream has begun, and fails if this queue is full. The default limit of
# this queue is too small.
_QUEUE = ("-max_muxing_queue_size", "4096")
# By default, the queue of a muxer's thread holds 8 packets, and a copy spends most of its time on switches
# between threads. With 128 packets, a copy of an hour takes 0.8 to 1.1 s of processor time instead of 1.5 s.
# A packet of H.264 at 200 Mbit/s has 1 MB, so the queue holds at most 128 MB of such a source.
_COPY_QUEUE = ("-thread_queue_size", "128")
# Without `delay_moov`, ffmpeg writes the edit lists before it knows the start of each track.
_FAST_START, _FRAGMENTED = "+faststart", "+frag_keyframe+empty_moov+delay_moov+default_base_moof"
# Drop the empty samples of two bytes, which our subtitle files have for the times without text. ffmpeg's
# muxer adds its own empty samples for these times. With both kinds of empty samples in a fragmented film, the
# muxer failed ("Assertion next_dts >= 0").
_WITHOUT_GAPS = "noise=drop=not(size-2)"
# ffmpeg's muxer begins each segment where the last packet of the previous segment ends, and an encoder gives
# each packet the usual duration of a picture. After a gap without pictures, segments began too early by the
# length of the gap. So let each packet last until the next one.
_TIMES_TO_THE_NEXT = "setts=pts=PTS:dts=DTS:duration='if(eq(NEXT_DTS,NOPTS),DURATION,NEXT_DTS-DTS)'"
STILL_CODECS: Mapping[StillFormat, Codec] = {
    "jpeg": IMAGE_CODECS["jpeg"],
    "webp": IMAGE_CODECS["webp"],
    "avif": IMAGE_CODECS["avif"],
    "animated_webp": PREVIEW_CODECS["webp"],
    "gif": PREVIEW_CODECS["gif"],
}
STILL_MUXERS: Mapping[StillFormat, str] = {
    "jpeg": "image2",
    "webp": "webp",
    "avif": "avif",
    "animated_webp": "webp",
    "gif": "gif",
}


def arguments(plan: Plan, command: Command, ffmpeg: Path) -> tuple[str, ...]:
    """Return the command line. Raise ValueError if a value, such as a gain, was not measured yet.

    ffmpeg reads open files, accepts only the container that the plan names for each file, and reports
    progress on stdout.
    """
    return (
        *_opened(plan, command.inputs, ffmpeg, "level+warning"),
        *(word for one in text_inputs(command) for word in _text_input(one)),
        *(("-filter_complex", filters) if (filters := graph(command)) else ()),
        *(word for one in metadata_graphs(command) for word in ("-filter_complex", one)),
        *(word for place in range(len(command.products)) for word in _product(command, place)),
        *comparison_arguments(command),
        *(
            word
            for place, stream in command.also_read
            for word in _read_only(place, stream, command.inputs[place])
        ),
    )


def _on_errors(plan: Plan) -> tuple[str, ...]:
    """Return the arguments that make ffmpeg stop at the first error of the source, or ignore all errors."""
    return ("-max_error_rate", "1") if plan.tolerates_damage else ("-xerror",)


def measurement_arguments(plan: Plan, measurement: Measurement, ffmpeg: Path) -> tuple[str, ...]:
    """Return the command line of a measurement, which writes its result to stderr or to files."""
    match measurement:
        case LoudnessMeasurement():
            return (
                *_opened(plan, measurement.inputs, ffmpeg, "level+info"),
                *("-filter_complex", loudness_graph(measurement.sound, measurement.inputs[0])),
                *("-map", "[a0]", "-f", "null", "-"),
                *(
                    word
                    for place, stream in measurement.also_read
                    for word in _read_only(place, stream, measurement.inputs[place])
                ),
            )
        case SearchMeasurement():
            return arguments(plan, measurement.command, ffmpeg)


def _opened(plan: Plan, inputs: Sequence[Input], ffmpeg: Path, log_level: str) -> Iterator[str]:
    """Yield the program, the global options, and the inputs."""
    yield from (str(ffmpeg), *_QUIET, log_level, *_on_errors(plan), "-max_alloc", str(MAX_BLOCK_BYTES))
    yield from ("-progress", "pipe:1", "-stats_period", "0.5")
    for place, one in enumerate(inputs):
        yield from (*_container(plan, one), *_input(one, plan.decoder_threads))
        yield from ("-fd", str(FIRST_FD + place), "-i", "fd:")


def _text_input(one: TextInput) -> tuple[str, ...]:
    """Return the arguments that open a subtitle file, which this service has written."""
    pinned = ("-protocol_whitelist", "file", "-format_whitelist", one.demuxer, "-f", one.demuxer)
    return (*pinned, "-i", f"file:{one.path}")


def _read_only(place: int, stream: int, source: Input) -> Iterator[str]:
    """Yield the arguments that read a stream and write no file."""
    yield from ("-map", f"{place}:{stream}", "-c", "copy")
    if source.lead_in is not None and source.seconds is not None:
        # A copied stream has no filter that stops it, so without `-t` ffmpeg would read to the end of the
        # source.
        yield from ("-t", f"{source.lead_in + source.seconds:.6f}")
    yield from ("-f", "null", "-")


def _container(plan: Plan, one: Input) -> Iterator[str]:
    """Yield the options that allow one container, the decoders for it, and no protocol except open files."""
    if one.watermark is None:
        pinned = {**DEMUXER_OPTIONS, "format_whitelist": plan.container, "f": plan.container}
    else:
        name = plan.watermarks[one.watermark].container
        only = {"format_whitelist": name, "codec_whitelist": PICTURE_DECODERS[name], "f": name}
        pinned = {**PICTURE_OPTIONS, **only}
    yield from (word for name, value in pinned.items() for word in (f"-{name}", value))


def _input(one: Input, threads: int) -> Iterator[str]:
    yield from ("-threads", str(threads if one.watermark is None else 1))
    if one.watermark is None:
        # The plan uses the size of the coded pictures, so ffmpeg must not apply a crop that the container
        # declares.
        yield from ("-apply_cropping", "codec")
    if one.is_sample:
        # Without this option, ffmpeg rebuilds the filters of all samples when the size of the pictures
        # changes. The rebuild made ffmpeg hang.
        yield from ("-reinit_filter", "0")
    if one.keyframes_only:
        yield from ("-skip_frame", "nokey")
    if one.keeps_lead or one.lead_in is not None:
        yield "-noaccurate_seek"
    if one.seek is not None:
        yield from ("-ss", f"{one.seek:.6f}")
    # With `lead_in`, set no `-t`, because ffmpeg would count it from the first packet after the seek.
    if one.seconds is not None and one.lead_in is None:
        yield from ("-t", f"{one.seconds:.6f}")


def _product(command: Command, place: int) -> Iterator[str]:
    product = command.products[place]
    match product:
        case File():
            yield from (*_tracks(command, product.tracks, product.path), *_text_tracks(command, place))
            yield from _tags(product, command.inputs[product.input])
            yield from (*_labels(product.tracks, product.muxer), *_text_labels(product))
            yield from (*_QUEUE, *_BITEXACT)
            if any(track.is_copied for track in product.tracks):
                yield from _COPY_QUEUE
            yield from (*_muxer(product), "-y", f"file:{product.path}")
        case Rendition():
            yield from _tracks(command, (product.track,), f"{product.folder}/{product.name}")
            yield from (*_NO_TAGS, *_labels((product.track,)), *_QUEUE, *_BITEXACT)
            if product.track.kind == "video":
                yield from ("-bsf:v", _TIMES_TO_THE_NEXT)
            yield from _segments(command, product)
        case Still():
            yield from ("-map", f"[t{place}]", *_still(product))
        case Discard():
            video = command.videos[product.video]
            label = video_label(video, product.video)
            yield from ("-map", label, *video_arguments(video), "-f", "null", "-")


def _tracks(command: Command, tracks: Sequence[MuxedTrack], path: str) -> Iterator[str]:
    sounds = 0
    for track in tracks:
        if track.is_copied:
            yield from _copied(command.copies[track.place], sounds)
            sounds += track.kind == "audio"
        elif track.kind == "video":
            video = command.videos[track.place]
            yield from ("-map", video_label(video, track.place), *video_arguments(video))
            yield from count_arguments(path)
        else:
            audio = command.audios[track.place]
            yield from ("-map", f"[a{track.place}]")
            yield from audio_arguments(audio, sounds)
            sounds += 1


def _copied(track: CopiedTrack, place: int) -> Iterator[str]:
    """Yield the arguments that copy a stream.

    `place` is the index of a sound among the sounds of its file.
    """
    stream = "v" if track.kind == "video" else f"a:{place}"
    yield from ("-map", f"{track.input}:{track.stream}", f"-c:{stream}", "copy")
    if track.codec == "hevc":
        yield from ("-tag:v", "hvc1")  # Apple's players accept no other tag
    if track.shift:
        # Set `pts` and `dts` separately, because the option `ts` of `setts` would set the presentation time
        # of each picture to its decode time.
        moved = f"({track.shift:.6f})/TB"
        yield from (f"-bsf:{stream}", f"setts=pts=PTS-{moved}:dts=DTS-{moved}")


def _text_tracks(command: Command, product: int) -> Iterator[str]:
    for place, one in enumerate(text_inputs(command), len(command.inputs)):
        if one.product == product:
            yield from ("-map", f"{place}:0", "-c:s", "copy")
            if one.demuxer == "mov":
                yield from ("-bsf:s", _WITHOUT_GAPS)


def _text_labels(file: File) -> Iterator[str]:
    for place, track in enumerate(file.subtitles):
        if track.labels.language is not None:
            yield from (f"-metadata:s:s:{place}", f"language={_code(track.labels.language, file.muxer)}")
        if track.labels.title is not None:
            yield from (f"-metadata:s:s:{place}", f"title={track.labels.title}")
        yield from (f"-disposition:s:{place}", "forced" if track.is_forced else "0")


def _tags(file: File, part: Input) -> Iterator[str]:
    source = str(file.input)
    yield from ("-map_metadata", source, "-map_chapters", source) if file.keeps_tags else _NO_TAGS
    if file.keeps_tags and part.seconds is not None and part.lead_in is None:
        # The `-t` of the input ends the streams, but does not cut the chapters. So set `-t` for the output
        # too.
        yield from ("-t", f"{part.seconds:.6f}")
    for tag in file.tags:
        yield from ("-metadata", f"{tag.name}={tag.text}")


def _code(language: str, muxer: Muxer | None) -> str:
    if muxer == "mov":
        return code_in_quicktime(language)
    return code_in_mp4(language) if muxer in ("mp4", "ipod") else language


def _labels(tracks: Sequence[MuxedTrack], muxer: Muxer | None = None) -> Iterator[str]:
    sounds = [track for track in tracks if track.kind == "audio"]
    for place, track in enumerate(sounds):
        if track.labels.language is not None:
            yield from (f"-metadata:s:a:{place}", f"language={_code(track.labels.language, muxer)}")
        yield from (f"-disposition:a:{place}", "default" if track.labels.is_default else "0")


def _muxer(file: File) -> Iterator[str]:
    if file.is_fragmented:
        yield from ("-movflags", _FRAGMENTED)
    elif file.muxer in ("mp4", "mov", "ipod"):
        yield from ("-movflags", _FAST_START)
    yield from ("-f", file.muxer)


def _segments(command: Command, one: Rendition) -> Iterator[str]:
    # If pictures are reordered and ffmpeg writes an index (`sidx`), it moves the first picture of a segment
    # to the end of the previous segment. AV1 and VP9 do not reorder pictures, so they keep the index.
    is_reordered = one.track.kind == "video" and command.videos[one.track.place].codec in ("h264", "hevc")
    flags = "+cmaf+skip_sidx" if is_reordered else "+cmaf"
    yield from ("-f", "dash", "-seg_duration", str(one.segment_seconds), "-dash_segment_type", "mp4")
    yield from ("-use_template", "1", "-use_timeline", "0", "-format_options", f"movflags={flags}")
    yield from ("-init_seg_name", f"{one.name}_init.mp4", "-media_seg_name", f"{one.name}_$Number%05d$.m4s")
    yield from ("-y", f"file:{one.folder}/{one.name}.mpd")


def _still(still: Still) -> Iterator[str]:
    yield from _BITEXACT
    kind, *words = STILL_CODECS[still.format].arguments()
    yield from (kind, *words, "-f", STILL_MUXERS[still.format])
    if still.format == "jpeg":
        yield from ("-start_number", "1") if "%d" in still.path else ("-update", "1")
    if still.format in ("jpeg", "webp", "avif"):
        yield from ("-frames:v", str(still.sheets))
    yield from ("-fps_mode", "passthrough", "-y", f"file:{still.path}")
