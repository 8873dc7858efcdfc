"""Check the segments of an adaptive output, join a short last segment, encrypt, and write the playlists."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

from euterpe.domain.error_codes import ErrorCode
from euterpe.media.encoding.encrypt_segments import encrypt_segments
from euterpe.media.encoding.expected import ExpectedRendition, expected_renditions
from euterpe.media.encoding.output_folder import DiskUse, write_file
from euterpe.media.encoding.picture_counts import given_pictures, refuse_lost_pictures
from euterpe.media.encoding.subtitles import Subtitles, subtitle_files
from euterpe.media.errors import MediaError
from euterpe.media.packaging.bit_rates import bit_rate
from euterpe.media.packaging.dash import dash_manifest
from euterpe.media.packaging.finish import finish_rendition, keyframe_file
from euterpe.media.packaging.hls import HlsKey, hls_files, target_seconds
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
from euterpe.media.packaging.segment_checks import check_aligned, check_first_pictures, check_sounds
from euterpe.media.packaging.segment_facts import RenditionFacts
from euterpe.media.planning.tree import Package, Plan, SegmentEncryption
from euterpe.media.sandbox.sandbox import Sandbox

NO_KEYS: Mapping[str, bytes] = MappingProxyType({})


@dataclass(frozen=True)
class MadeTrack:
    """A track of an output, as the status document shows it."""

    kind: str
    codec: str
    width: int | None
    height: int | None
    bitrate: int | None
    language: str | None
    copied: bool = False
    measured_lufs: float | None = None
    gain_db: float | None = None
    quality: Mapping[str, float] | None = None


@dataclass(frozen=True)
class PackagedOutput:
    """The files of an adaptive output as (relative path, media type), the segments first."""

    output: str
    parts: tuple[tuple[str, str], ...]
    lists: tuple[tuple[str, str], ...]
    seconds: float
    tracks: tuple[MadeTrack, ...]


class Packager:
    """Package the adaptive outputs of one plan. `hls_keys` maps the name of an output to its key."""

    def __init__(
        self,
        sandbox: Sandbox,
        plan: Plan,
        folder: Path,
        subtitles: Subtitles,
        disk: DiskUse,
        *,
        hls_keys: Mapping[str, bytes] = NO_KEYS,
        on_tick: Callable[[], None] = lambda: None,
    ) -> None:
        self._sandbox, self._plan, self._folder = sandbox, plan, folder
        self._subtitles, self._disk = subtitles, disk
        self._hls_keys, self._on_tick = hls_keys, on_tick

    def package(self, package: Package) -> PackagedOutput:
        """Read back every segment of an output, write its playlists, and return its files."""
        root = self._folder / package.output
        # Without Landlock, a compromised ffmpeg could put links in place of the folder and of the playlists.
        if root.is_symlink() or not root.is_dir():
            raise MediaError(ErrorCode.OUTPUT_UNDECODABLE, f"{package.output} is not a folder")
        planned = [one for one in expected_renditions(self._plan) if one.rendition.folder == package.output]
        facts = [self._facts(one, root) for one in planned]
        check_aligned([one for one in facts if one.track.kind == "video"])
        self._check_pictures(planned, facts)
        renditions = [_rendition(*pair) for pair in zip(planned, facts, strict=True)]
        seconds = float(max(one.end_seconds for one in renditions))
        pictures = next((len(one.segments) for one in renditions if isinstance(one, VideoRendition)), None)
        subtitles = self._subtitles.write(package, root, seconds, pictures)
        everything: list[PackagedRendition] = [*renditions, *subtitles]
        texts = list[TextFile]()
        if package.dash:
            if package.trick_play:
                self._add_keyframes(everything, root)
            texts.append(dash_manifest(everything))
        if package.hls:
            key = self._encrypt(package, package.encryption, renditions, root) if package.encryption else None
            texts += hls_files(everything, trick_play=package.trick_play, key=key)
        parts = [part for one in everything for part in _parts(one)]
        parts += [(name, TEXT_TYPE) for one in subtitles for name in subtitle_files(package, one)]
        for text in texts:
            self._disk.add(len(text.text.encode()))
            write_file(root, text.name, text.text)
        return PackagedOutput(
            package.output,
            tuple((f"{package.output}/{name}", kind) for name, kind in parts),
            tuple((f"{package.output}/{text.name}", text.media_type) for text in texts),
            round(seconds, 6),
            tuple(_tracks(everything, planned)),
        )

    def _facts(self, expected: ExpectedRendition, root: Path) -> RenditionFacts:
        """Finish and check the segments of a rendition. Return their facts."""
        name = expected.rendition.name
        facts = finish_rendition(
            self._sandbox,
            root,
            name,
            segment_seconds=expected.rendition.segment_seconds,
            on_tick=self._on_tick,
        )
        _check(expected, facts)
        if facts.track.kind == "video":
            check_first_pictures(self._sandbox, root, facts, on_tick=self._on_tick)
        else:
            check_sounds(self._sandbox, root, facts, on_tick=self._on_tick)
        return facts

    def _check_pictures(self, planned: Sequence[ExpectedRendition], facts: Sequence[RenditionFacts]) -> None:
        """Raise if the number of pictures in a rendition is not the number that its encoder was given."""
        found = {
            f"{one.rendition.folder}/{one.rendition.name}": sum(segment.samples for segment in fact.segments)
            for one, fact in zip(planned, facts, strict=True)
            if one.track.is_counted
        }
        given = given_pictures(self._sandbox, [*found], self._folder, on_tick=self._on_tick)
        for path, count in given.items():
            refuse_lost_pictures(path, found[path], count)

    def _add_keyframes(self, renditions: list[PackagedRendition], root: Path) -> None:
        """Write a file with the keyframes of the smallest rendition. Fast playback shows only keyframes."""
        videos = [one for one in renditions if isinstance(one, VideoRendition) and one.keyframes]
        if not videos:
            return
        least = min(videos, key=lambda video: video.width * video.height)
        self._disk.add(sum(keyframe.bytes.length for keyframe in least.keyframes))
        file = keyframe_file(self._sandbox, root, least, on_tick=self._on_tick)
        renditions[renditions.index(least)] = replace(least, keyframe_file=file)

    def _encrypt(
        self,
        package: Package,
        encryption: SegmentEncryption,
        renditions: Sequence[PackagedRendition],
        root: Path,
    ) -> HlsKey:
        """Encrypt the segments of picture and sound. Return the attributes of the key for the playlists."""
        key = self._hls_keys.get(package.output)
        if key is None:
            raise MediaError(
                ErrorCode.CANNOT_DECRYPT, f"{package.output}: there is no key to encrypt it with"
            )
        iv = bytes.fromhex(encryption.iv) if encryption.iv is not None else None
        for one in renditions:
            segments = [one.segment(place) for place in range(len(one.segments))]
            encrypt_segments(root, segments, key, iv=iv, disk=self._disk, on_tick=self._on_tick)
        return HlsKey(encryption.key_url, iv)


def _rendition(expected: ExpectedRendition, facts: RenditionFacts) -> PackagedRendition:
    name, labels = expected.rendition.name, expected.rendition.track.labels
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
    if isinstance(one, SubtitleRendition):
        return []
    init = VIDEO_TYPE if isinstance(one, VideoRendition) else AUDIO_TYPE
    keyframes = one.keyframe_file if isinstance(one, VideoRendition) else None
    return [
        (one.init, init),
        *((one.segment(place), SEGMENT_TYPE) for place in range(len(one.segments))),
        *([(keyframes.name, VIDEO_TYPE)] if keyframes else []),
    ]


def _tracks(
    everything: Sequence[PackagedRendition], planned: Sequence[ExpectedRendition]
) -> Iterator[MadeTrack]:
    gains = {one.rendition.name: one.track.gain for one in planned}
    target = target_seconds(everything)
    for one in everything:
        track, gain = _track(one, target), gains.get(one.name)
        yield replace(track, measured_lufs=gain.measured_lufs, gain_db=gain.decibels) if gain else track


def _track(one: PackagedRendition, target: int) -> MadeTrack:
    rate = bit_rate(one, target).average
    if isinstance(one, VideoRendition):
        return MadeTrack("video", one.codec, one.width, one.height, rate, one.language)
    kind = "subtitle" if isinstance(one, SubtitleRendition) else "audio"
    return MadeTrack(kind, one.codec, None, None, rate, one.language)
