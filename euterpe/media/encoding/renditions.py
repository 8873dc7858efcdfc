"""Check the segments of an adaptive output, fold its tails, and write its playlists over them."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from euterpe.domain.error_codes import ErrorCode
from euterpe.media.encoding.expected import ExpectedRendition, expected_renditions
from euterpe.media.encoding.output_folder import write_file
from euterpe.media.encoding.subtitles import Cues, subtitle_files, write_subtitles
from euterpe.media.errors import MediaError
from euterpe.media.packaging.bit_rates import bit_rate
from euterpe.media.packaging.dash import dash_manifest
from euterpe.media.packaging.finish import finish_rendition
from euterpe.media.packaging.hls import hls_files, target_seconds
from euterpe.media.packaging.rendition import (
    AUDIO_TYPE,
    SEGMENT_TYPE,
    TEXT_TYPE,
    VIDEO_TYPE,
    PackagedRendition,
    SubtitleRendition,
    TextFile,
    VideoRendition,
    codec_family,
    rendition_of,
)
from euterpe.media.packaging.segment_facts import RenditionFacts
from euterpe.media.planning.tree import Package, Plan
from euterpe.media.sandbox.sandbox import Sandbox


@dataclass(frozen=True)
class PackagedTrack:
    kind: str
    codec: str
    width: int | None
    height: int | None
    bitrate: int | None
    language: str | None


@dataclass(frozen=True)
class PackagedOutput:
    """The files of an adaptive output: (path below the folder, media type), the segments first."""

    output: str
    parts: tuple[tuple[str, str], ...]
    lists: tuple[tuple[str, str], ...]
    seconds: float
    tracks: tuple[PackagedTrack, ...]


def package_output(
    sandbox: Sandbox, plan: Plan, package: Package, folder: Path, cues: Cues, *, on_tick: Callable[[], None]
) -> PackagedOutput:
    """Return the files of an output, after every segment of it has been read back.

    `cues` are the subtitles of the source.
    """
    root = folder / package.output
    # Without Landlock, a compromised ffmpeg could put links in place of the folder and of the playlists.
    if root.is_symlink() or not root.is_dir():
        raise MediaError(ErrorCode.OUTPUT_UNDECODABLE, f"{package.output} is not a folder")
    renditions = [
        _rendition(sandbox, expected, root, on_tick)
        for expected in expected_renditions(plan)
        if expected.rendition.folder == package.output
    ]
    seconds = float(max(one.end_seconds for one in renditions))
    subtitles = write_subtitles(package, cues, root, seconds)
    everything: list[PackagedRendition] = [*renditions, *subtitles]
    texts = list[TextFile]()
    if package.dash:
        texts.append(dash_manifest(everything))
    if package.hls:
        texts += hls_files(everything, trick_play=package.trick_play)
    parts = [part for one in renditions for part in _parts(one)]
    parts += [(name, TEXT_TYPE) for one in subtitles for name in subtitle_files(package, one)]
    for text in texts:
        write_file(root, text.name, text.text)
    return PackagedOutput(
        package.output,
        tuple((f"{package.output}/{name}", kind) for name, kind in parts),
        tuple((f"{package.output}/{text.name}", text.media_type) for text in texts),
        round(seconds, 6),
        tuple(_track(one, target_seconds(everything)) for one in everything),
    )


def _rendition(
    sandbox: Sandbox, expected: ExpectedRendition, root: Path, on_tick: Callable[[], None]
) -> PackagedRendition:
    name, labels = expected.rendition.name, expected.rendition.track.labels
    facts = finish_rendition(
        sandbox,
        root,
        name,
        segment_seconds=expected.rendition.segment_seconds,
        on_tick=on_tick,
    )
    _check(expected, facts)
    return rendition_of(
        name, facts, language=labels.language, title=labels.title, is_default=labels.is_default
    )


def _check(expected: ExpectedRendition, facts: RenditionFacts) -> None:
    path = f"{expected.rendition.folder}/{expected.rendition.name}"
    track, planned = facts.track, expected.track
    found = (track.kind, codec_family(track.codec), track.width, track.height)
    if found != (planned.kind, planned.codec, planned.width, planned.height):
        raise MediaError(ErrorCode.OUTPUT_UNDECODABLE, f"{path}: its track is not as planned")
    if not all(segment.starts_with_sync for segment in facts.segments):
        raise MediaError(ErrorCode.OUTPUT_UNDECODABLE, f"{path}: a segment does not begin with a keyframe")
    end = facts.segments[-1].end / track.timescale
    if planned.least_end is not None and end < planned.least_end:
        raise MediaError(
            ErrorCode.OUTPUT_TRUNCATED,
            f"{path}: it ends after {end:.2f} s, but the source lasts at least {planned.least_end:.2f} s",
        )


def _parts(one: PackagedRendition) -> list[tuple[str, str]]:
    init = VIDEO_TYPE if isinstance(one, VideoRendition) else AUDIO_TYPE
    return [(one.init, init), *((one.segment(place), SEGMENT_TYPE) for place in range(len(one.segments)))]


def _track(one: PackagedRendition, target: int) -> PackagedTrack:
    rate = bit_rate(one, target).average
    if isinstance(one, VideoRendition):
        return PackagedTrack("video", one.codec, one.width, one.height, rate, one.language)
    kind = "subtitle" if isinstance(one, SubtitleRendition) else "audio"
    return PackagedTrack(kind, one.codec, None, None, rate, one.language)
