"""Write the manifest of DASH (ISO/IEC 23009-1) over the segments of renditions. Pure."""

from collections.abc import Sequence
from fractions import Fraction
from itertools import groupby
from typing import TypeVar
from xml.etree import ElementTree as ET

from euterpe.media.packaging.bit_rates import bit_rate
from euterpe.media.packaging.hls import target_seconds
from euterpe.media.packaging.labels import Label, is_forced, labels_of
from euterpe.media.packaging.rendition import (
    AUDIO_TYPE,
    DASH_TYPE,
    TEXT_TYPE,
    VIDEO_TYPE,
    AudioRendition,
    KeyframeFile,
    PackagedRendition,
    SubtitleRendition,
    TextFile,
    VideoRendition,
    codec_family,
)

Track = TypeVar("Track", bound=PackagedRendition)

MANIFEST = "manifest.mpd"
_NAMESPACE = "urn:mpeg:dash:schema:mpd:2011"
_PROFILE = "urn:mpeg:dash:profile:isoff-live:2011"
_ROLE = "urn:mpeg:dash:role:2011"
_CHANNELS = "urn:mpeg:dash:23003:3:audio_channel_configuration:2011"
_TRANSFER = "urn:mpeg:mpegB:cicp:TransferCharacteristics"
_TRICK_MODE = "http://dashif.org/guidelines/trickmode"
_TRANSFERS = {"PQ": "16", "HLG": "18"}


def dash_manifest(renditions: Sequence[PackagedRendition]) -> TextFile:
    """Return the manifest.

    The manifest has no `presentationTimeOffset`, because the init segments have edit lists. With an offset
    and edit lists, dash.js 5.2.1 lost the first segment.
    """
    target = target_seconds(renditions)
    videos = [one for one in renditions if isinstance(one, VideoRendition)]
    sounds = [one for one in renditions if isinstance(one, AudioRendition)]
    texts = [one for one in renditions if isinstance(one, SubtitleRendition)]
    period = ET.Element("Period", id="0", start="PT0S")
    for number, group in enumerate(_switchable(videos), start=1):
        period.append(main := _video_set(group, target))
        tricks = [(one, one.keyframe_file) for one in group if one.keyframe_file is not None]
        if tricks:
            main.set("id", str(number))
            period.extend(_trick_set(one, file, number) for one, file in tricks)
    period.extend(_audio_set(one, label, target) for one, label in _labelled(sounds))
    period.extend(_text_set(one, label, target) for one, label in _labelled(texts))
    timed = [*videos, *sounds] or [*texts]
    longest = max(one.seconds(segment.duration) for one in timed for segment in one.segments)
    manifest = ET.Element(
        "MPD",
        {
            "xmlns": _NAMESPACE,
            "profiles": _PROFILE,
            "type": "static",
            "mediaPresentationDuration": _duration(max(one.end_seconds for one in timed)),
            "maxSegmentDuration": _duration(longest),
            "minBufferTime": _duration(longest),
        },
    )
    manifest.append(period)
    ET.indent(manifest)
    text = ET.tostring(manifest, encoding="unicode")
    return TextFile(MANIFEST, f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n', DASH_TYPE)


def _switchable(videos: Sequence[VideoRendition]) -> list[list[VideoRendition]]:
    """Return groups of video renditions with the same codec and dynamic range.

    A player can switch between the renditions of a group.
    """
    groups: dict[tuple[str, str], list[VideoRendition]] = {}
    for video in videos:
        groups.setdefault((codec_family(video.codec), video.video_range), []).append(video)
    return [*groups.values()]


def _labelled(group: Sequence[Track]) -> list[tuple[Track, Label]]:
    """Return the renditions with their labels. Each codec has one default rendition."""
    families = dict.fromkeys(codec_family(one.codec) for one in group)
    members = [[one for one in group if codec_family(one.codec) == family] for family in families]
    return [pair for some in members for pair in zip(some, labels_of(some), strict=True)]


def _video_set(videos: Sequence[VideoRendition], target: int) -> ET.Element:
    first = videos[0]
    attributes = {"par": _ratio(Fraction(first.shown_width, first.height)), **_segments_are_aligned(videos)}
    found = _adaptation_set("video", VIDEO_TYPE, attributes)
    if first.video_range in _TRANSFERS:
        _property(found, "SupplementalProperty", _TRANSFER, _TRANSFERS[first.video_range])
    _property(found, "Role", _ROLE, "main")
    shared = len({_clock(video) for video in videos}) == 1
    if shared:
        found.append(_template(first))
    for video in videos:
        representation = _representation(found, video, target)
        representation.set("width", str(video.width))
        representation.set("height", str(video.height))
        representation.set("frameRate", str(video.frame_rate))
        representation.set("sar", _ratio(video.pixel_aspect))
        if not shared:
            representation.append(_template(video))
    return found


def _trick_set(video: VideoRendition, file: KeyframeFile, of_set: int) -> ET.Element:
    """Return the adaptation set of the keyframe file, which players show during fast playback and seeks.

    The set has an `EssentialProperty`, so a player that does not know this property ignores the whole set.
    """
    found = _adaptation_set(
        "video", VIDEO_TYPE, {"subsegmentAlignment": "true", "subsegmentStartsWithSAP": "1"}
    )
    _property(found, "EssentialProperty", _TRICK_MODE, str(of_set))
    representation = ET.SubElement(
        found,
        "Representation",
        id=f"{video.name}_keyframes",
        codecs=video.codec,
        bandwidth=str(file.bandwidth),
        width=str(video.width),
        height=str(video.height),
        sar=_ratio(video.pixel_aspect),
        # At this speed, the number of keyframes per second equals the frame rate of normal playback.
        maxPlayoutRate=str(max(1, round(video.frame_rate * video.end_seconds / len(video.segments)))),
        codingDependency="false",
    )
    ET.SubElement(representation, "BaseURL").text = file.name
    index_end = file.init_bytes + file.index_bytes - 1
    base = ET.SubElement(representation, "SegmentBase", indexRange=f"{file.init_bytes}-{index_end}")
    base.set("timescale", str(video.timescale))
    ET.SubElement(base, "Initialization", range=f"0-{file.init_bytes - 1}")
    return found


def _audio_set(audio: AudioRendition, label: Label, target: int) -> ET.Element:
    found = _adaptation_set("audio", AUDIO_TYPE, _segments_are_aligned([audio]), label)
    _property(found, "Role", _ROLE, "main" if label.is_default else "alternate")
    found.append(_template(audio))
    representation = _representation(found, audio, target)
    representation.set("audioSamplingRate", str(audio.sample_rate))
    _property(representation, "AudioChannelConfiguration", _CHANNELS, str(audio.channels))
    return found


def _text_set(subtitles: SubtitleRendition, label: Label, target: int) -> ET.Element:
    """Return the adaptation set of a whole WebVTT file, because DASH players do not read WebVTT segments."""
    found = _adaptation_set("text", TEXT_TYPE, {}, label)
    _property(found, "Role", _ROLE, "forced-subtitle" if is_forced(subtitles) else "subtitle")
    bandwidth = str(bit_rate(subtitles, target).average)
    representation = ET.SubElement(found, "Representation", id=subtitles.name, bandwidth=bandwidth)
    ET.SubElement(representation, "BaseURL").text = subtitles.whole
    return found


def _adaptation_set(
    content: str, media_type: str, attributes: dict[str, str], label: Label | None = None
) -> ET.Element:
    found = ET.Element("AdaptationSet", contentType=content, mimeType=media_type)
    if label is not None and label.language:
        found.set("lang", label.language)
    for name, value in attributes.items():
        found.set(name, value)
    if label is not None:
        ET.SubElement(found, "Label").text = label.name
    return found


def _segments_are_aligned(renditions: Sequence[PackagedRendition]) -> dict[str, str]:
    starts_with_sync = all(segment.starts_with_sync for one in renditions for segment in one.segments)
    return {"segmentAlignment": "true", **({"startWithSAP": "1"} if starts_with_sync else {})}


def _representation(parent: ET.Element, rendition: PackagedRendition, target: int) -> ET.Element:
    bandwidth = str(bit_rate(rendition, target).peak)
    return ET.SubElement(
        parent, "Representation", id=rendition.name, codecs=rendition.codec, bandwidth=bandwidth
    )


def _property(parent: ET.Element, tag: str, scheme: str, value: str) -> None:
    ET.SubElement(parent, tag, schemeIdUri=scheme, value=value)


def _clock(rendition: PackagedRendition) -> tuple[int, tuple[tuple[int, int], ...]]:
    return rendition.timescale, tuple((segment.start, segment.duration) for segment in rendition.segments)


def _template(rendition: PackagedRendition) -> ET.Element:
    found = ET.Element(
        "SegmentTemplate",
        timescale=str(rendition.timescale),
        initialization="$RepresentationID$_init.mp4",
        media="$RepresentationID$_$Number%05d$.m4s",
        startNumber="1",
    )
    timeline = ET.SubElement(found, "SegmentTimeline")
    for duration, run in groupby(rendition.segments, key=lambda segment: segment.duration):
        first, *others = run
        # Each segment begins where the previous segment ends.
        start = {"t": str(first.start)} if first is rendition.segments[0] else {}
        repeat = {"r": str(len(others))} if others else {}
        ET.SubElement(timeline, "S", {**start, "d": str(duration), **repeat})
    return found


def _duration(seconds: Fraction) -> str:
    """Return an xs:duration, in seconds with six decimals at most."""
    return f"PT{float(seconds):.6f}".rstrip("0").rstrip(".") + "S"


def _ratio(ratio: Fraction) -> str:
    return f"{ratio.numerator}:{ratio.denominator}"
