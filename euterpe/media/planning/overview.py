"""Describe a plan for requesters: how each track of an output is made, and the expected size."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from euterpe.domain.codecs import CODECS
from euterpe.domain.documents import PlanDocument, PlannedOutputDocument, PlannedTrackDocument, members
from euterpe.domain.outputs import OutputSpec, PreviewOutput
from euterpe.media.planning.documents import plan_hash
from euterpe.media.planning.picture import USUAL_FPS, Size
from euterpe.media.planning.rates import most_kbps
from euterpe.media.planning.tree import (
    AudioTrack,
    Command,
    File,
    MuxedTrack,
    Muxer,
    Plan,
    Rendition,
    Still,
    StillFormat,
    SubtitleTrack,
    VideoTrack,
    output_of,
)
from euterpe.media.source.media_info import MediaInfo, StreamInfo

# The planned bit rate of a rendition is the limit of its peaks. The average bit rate of a usual film is the
# planned bit rate divided by this number.
_PEAK = 1.75
# A CRF that is lower by six doubles the bit rate of H.264 and HEVC. The highest CRF of H.264 and HEVC is 51.
# The highest CRF of VP9 and AV1 is 63.
_DOUBLING_STEPS, _RANGE = 6, 51
# FLAC compresses a sample of 16 bits to 0.6 of its size.
_LOSSLESS_BITS = 9.6
_MOST_FPS = 60.0
_CHANNELS = {"mono": 1, "stereo": 2, "3.0": 3, "4.0": 4, "quad": 4, "5.0": 5, "5.1": 6, "6.1": 7, "7.1": 8}
_STILL_BITS: Mapping[StillFormat, float] = {
    **{"jpeg": 1.2, "webp": 0.8, "avif": 0.5},
    **{"animated_webp": 0.3, "gif": 3.0},
}


def plan_overview(
    plan: Plan, outputs: Sequence[OutputSpec], info: MediaInfo, *, is_exact: bool = True
) -> dict[str, Any]:
    """Return the `PlanDocument` of a plan for `outputs`.

    `is_exact` is False if `info` comes from a part of the source.
    """
    by_name = {output.name: output for output in outputs}
    document = PlanDocument(
        plan_hash=plan_hash(plan),
        is_exact=is_exact,
        source_info=info.document(),
        outputs=[members(_output(plan, by_name[name], info)) for name in plan.outputs],
        warnings=[asdict(warning) for warning in plan.warnings],
    )
    return members(document)


def _output(plan: Plan, output: OutputSpec, info: MediaInfo) -> PlannedOutputDocument:
    seconds = _seconds(output, info)
    fps = min(_MOST_FPS, (info.video.fps if info.video else None) or USUAL_FPS)
    tracks, stills = [], 0
    for command in plan.commands:
        for product in command.products:
            match product:
                case File() if output_of(product.path) == output.name:
                    tracks += [
                        _copied(command, one, info) if one.is_copied else _track(command, one, fps)
                        for one in product.tracks
                    ]
                    tracks += [_text(product.muxer, one) for one in product.subtitles]
                case Rendition() if product.folder == output.name:
                    tracks.append(_track(command, product.track, fps))
                case Still() if output_of(product.path) == output.name:
                    tracks.append(_still(command, product))
                    stills += _still_bytes(command, product, output)
    tracks += _texts(plan, output)
    video = getattr(output, "video", None)
    return PlannedOutputDocument(
        name=output.name,
        duration_seconds=None if stills and not isinstance(output, PreviewOutput) else seconds,
        expected_bytes=stills or _expected_bytes(tracks, seconds),
        watermark=mark.position if (mark := getattr(output, "watermark", None)) else None,
        target_vmaf=target.vmaf if (target := getattr(video, "target", None)) else None,
        encryption=lock.method if (lock := getattr(output, "encryption", None)) else None,
        tracks=[members(track) for track in tracks],
    )


def _seconds(output: OutputSpec, info: MediaInfo) -> float | None:
    if (length := info.duration_seconds) is None:
        return None
    seconds = max(0.0, min(output.end or length, length) - (output.start or 0.0))
    return round(min(seconds, output.seconds) if isinstance(output, PreviewOutput) else seconds, 3)


def _track(command: Command, track: MuxedTrack, fps: float) -> PlannedTrackDocument:
    if track.kind == "audio":
        audio = command.audios[track.place]
        return _document(
            "audio", audio.codec, kbps=_sound_kbps(command, audio), language=track.labels.language
        )
    video = command.videos[track.place]
    scale = command.scales[video.scale]
    size = Size(scale.shown_width, scale.shown_height)
    return _document("video", video.codec, size=size, kbps=_picture_kbps(video, size, fps))


def _copied(command: Command, track: MuxedTrack, info: MediaInfo) -> PlannedTrackDocument:
    node = command.copies[track.place]
    stream = next(one for one in info.streams if one.index == node.stream)
    return _document(
        node.kind,
        node.codec,
        size=Size(node.width, node.height) if node.width and node.height else None,
        kbps=_copied_kbps(stream, info),
        language=track.labels.language,
        action="copy",
    )


def _copied_kbps(stream: StreamInfo, info: MediaInfo) -> float | None:
    """Return the rate of a copied stream.

    For video without a declared rate, use the rate of the whole file.
    """
    if stream.bit_rate is not None:
        return stream.bit_rate / 1000
    if stream.kind != "video" or not info.duration_seconds:
        return None
    return info.size_bytes * 8 / info.duration_seconds / 1000


def _text(muxer: Muxer, track: SubtitleTrack) -> PlannedTrackDocument:
    codec = "webvtt" if muxer == "webm" else "mov_text"
    return _document("subtitle", codec, action="convert", language=track.labels.language)


def _still(command: Command, still: Still) -> PlannedTrackDocument:
    return _document("image", still.format.removeprefix("animated_"), size=_sheet(command, still))


def _sheet(command: Command, still: Still) -> Size:
    scale = command.scales[still.scale]
    return Size(scale.shown_width * still.columns, scale.shown_height * still.rows)


def _still_bytes(command: Command, still: Still, output: OutputSpec) -> int:
    pictures = still.sheets
    if isinstance(output, PreviewOutput):
        pictures = max(1, round(output.seconds * output.fps))
    return round(pictures * _sheet(command, still).pixels * _STILL_BITS[still.format] / 8)


def _texts(plan: Plan, output: OutputSpec) -> Iterator[PlannedTrackDocument]:
    for package in plan.packages:
        if package.output == output.name:
            for text in package.subtitles:
                yield _document("subtitle", "webvtt", action="convert", language=text.labels.language)


def _document(
    kind: str,
    codec: str,
    *,
    size: Size | None = None,
    kbps: float | None = None,
    language: str | None = None,
    action: str = "encode",
) -> PlannedTrackDocument:
    return PlannedTrackDocument(
        kind=kind,
        codec=codec,
        action=action,
        width=size.width if size else None,
        height=size.height if size else None,
        bitrate=None if kbps is None else round(kbps * 1000),
        language=language,
    )


def _picture_kbps(video: VideoTrack, size: Size, fps: float) -> float | None:
    if video.goal is not None:  # the search for the target chooses the quality
        return None
    if video.kbps is not None:
        return video.kbps
    usual = most_kbps(size, fps, video.codec) / _PEAK
    if video.crf is not None and (quality := CODECS[video.codec].quality) is not None:
        steps = _DOUBLING_STEPS * quality.most / _RANGE
        usual *= 2.0 ** ((quality.default - video.crf) / steps)
    return usual if video.most_kbps is None else min(usual, video.most_kbps)


def _sound_kbps(command: Command, audio: AudioTrack) -> float:
    if audio.kbps is not None:
        return audio.kbps
    sound = command.sounds[audio.sound]
    return sound.rate * _CHANNELS.get(sound.layout, 2) * _LOSSLESS_BITS / 1000


def _is_searched(track: PlannedTrackDocument) -> bool:
    """Return whether a search for `target` will choose the quality of the track."""
    return track.kind == "video" and track.action == "encode" and track.bitrate is None


def _expected_bytes(tracks: Sequence[PlannedTrackDocument], seconds: float | None) -> int | None:
    """Return an estimate, or None if the duration or the rate of an encoded picture is not known."""
    if seconds is None or any(_is_searched(track) for track in tracks):
        return None
    return round(sum(track.bitrate or 0 for track in tracks) * seconds / 8)
