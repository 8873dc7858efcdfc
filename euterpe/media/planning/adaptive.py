"""Plan HLS and DASH: one rendition for each rung and each sound track. HLS and DASH share the segments."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from euterpe.domain.outputs import AdaptiveOutput, DashOutput, HlsOutput
from euterpe.media.planning.builder import CommandBuilder
from euterpe.media.planning.ladder import Step, steps
from euterpe.media.planning.picture import shown_fps, shown_size
from euterpe.media.planning.quality import wanted_quality
from euterpe.media.planning.rates import most_kbps
from euterpe.media.planning.sound import Chosen
from euterpe.media.planning.subtitles import subtitle_name, subtitle_track
from euterpe.media.planning.tracks import Material, VideoSettings, add_picture, add_sounds, add_video
from euterpe.media.planning.tree import MuxedTrack, Package, PlanWarning, Rendition, SegmentEncryption
from euterpe.media.planning.watermark import ChosenWatermark
from euterpe.media.source.media_info import StreamInfo

Segmented = HlsOutput | DashOutput | AdaptiveOutput
Track = TypeVar("Track")


@dataclass(frozen=True)
class AdaptivePlan:
    package: Package
    warnings: tuple[PlanWarning, ...]


def add_adaptive(
    builder: CommandBuilder,
    output: Segmented,
    video: StreamInfo,
    material: Material,
    subtitles: Sequence[StreamInfo] = (),
) -> AdaptivePlan:
    """Add the renditions of an output, and return the plan of their packaging."""
    settings = _settings(output, material.watermark)
    shown = shown_size(video, output.crop, output.rotate)
    rungs, warnings = steps(output.video.ladder, shown, output.video.codec, output.name)
    picture = add_picture(builder, video, material, settings)
    end = material.timeline.least_end_of(video)
    pictures = [
        (
            f"{step.size.short}p",
            add_video(builder, video, picture, step.size, _of_rung(settings, step, video)),
        )
        for step in rungs
    ]
    sounds = zip(material.sounds, add_sounds(builder, material), strict=True)
    renditions = _names(
        [(name, MuxedTrack("video", place, least_end=end)) for name, place in pictures]
        + [(_sound_name(one), track) for one, track in sounds]
    )
    for name, track in renditions:
        builder.products.append(Rendition("rendition", output.name, name, track, output.segment_seconds))
    package = Package(
        output=output.name,
        segment_seconds=output.segment_seconds,
        renditions=tuple(name for name, _ in renditions),
        hls=not isinstance(output, DashOutput),
        dash=not isinstance(output, HlsOutput),
        trick_play=output.trick_play,
        subtitles=tuple(
            subtitle_track(stream, name, material.timeline)
            for name, stream in _names([(subtitle_name(one), one) for one in subtitles])
        ),
        encryption=_encryption(output),
    )
    return AdaptivePlan(package, warnings)


def _encryption(output: Segmented) -> SegmentEncryption | None:
    """Return the settings of the encryption, without the key: a plan never contains a key."""
    given = output.encryption
    return None if given is None else SegmentEncryption(given.key_url, given.iv)


def _settings(output: Segmented, watermark: ChosenWatermark | None) -> VideoSettings:
    video = output.video
    return VideoSettings(
        codec=video.codec,
        fps=video.fps,
        hdr=video.hdr,
        crop=output.crop,
        turn=output.rotate,
        pad=output.pad,
        grid_seconds=output.segment_seconds,
        output=output.name,
        watermark=watermark,
        quality=wanted_quality(output, video),
    )


def _of_rung(base: VideoSettings, step: Step, video: StreamInfo) -> VideoSettings:
    rung = step.rung
    cap = most_kbps(step.size, shown_fps(video, base.fps), base.codec)
    has_quality = rung.crf is not None or base.quality.target is not None
    is_capped_quality = has_quality or rung.bitrate_kbps is None
    return replace(
        base,
        crf=rung.crf,
        kbps=None if is_capped_quality else rung.bitrate_kbps,
        most_kbps=rung.bitrate_kbps or cap if is_capped_quality else round(1.5 * (rung.bitrate_kbps or cap)),
    )


def _sound_name(one: Chosen) -> str:
    return "audio" if one.labels.language is None else f"audio_{one.labels.language}"


def _names(tracks: Sequence[tuple[str, Track]]) -> list[tuple[str, Track]]:
    """Return the tracks with unique names: the second `audio_eng` is called `audio_eng_2`."""
    seen: dict[str, int] = {}
    named = []
    for name, track in tracks:
        seen[name] = seen.get(name, 0) + 1
        named.append((name if seen[name] == 1 else f"{name}_{seen[name]}", track))
    return named
