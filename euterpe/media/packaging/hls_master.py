"""Write the master playlist of HLS: variants, groups of audio and subtitles, bit rates, codecs. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from typing import TypeAlias

from euterpe.media.packaging.bit_rates import BitRate, bit_rate
from euterpe.media.packaging.labels import is_forced, labels_of
from euterpe.media.packaging.rendition import (
    AudioRendition,
    PackagedRendition,
    SubtitleRendition,
    VideoRendition,
    codec_family,
)

_SUBTITLES = "subs"
_Attributes: TypeAlias = dict[str, str | None]


@dataclass(frozen=True)
class _AudioGroup:
    """The audio renditions of one codec. A player chooses a rendition by its language."""

    id: str
    members: tuple[AudioRendition, ...]

    @property
    def default(self) -> AudioRendition:
        return next((one for one in self.members if one.is_default), self.members[0])


def master_lines(
    renditions: Sequence[PackagedRendition], target: int, *, iframes: bool, is_encrypted: bool
) -> Iterator[str]:
    """Yield the lines after the version: one variant for each pair of video rendition and audio codec.

    Without video, yield one variant for each audio codec.
    """
    videos = [one for one in renditions if isinstance(one, VideoRendition)]
    groups = _audio_groups([one for one in renditions if isinstance(one, AudioRendition)])
    subtitles = [one for one in renditions if isinstance(one, SubtitleRendition)]
    if all(segment.starts_with_sync for one in renditions for segment in one.segments):
        yield "#EXT-X-INDEPENDENT-SEGMENTS"
    for group in groups:
        yield from _media("AUDIO", group.id, group.members)
    yield from _media("SUBTITLES", _SUBTITLES, subtitles)
    text: _Attributes = {"SUBTITLES": _quoted(_SUBTITLES) if subtitles else None}
    rates = {video.name: bit_rate(video, target, is_encrypted=is_encrypted) for video in videos}
    for audio in groups or (None,):
        sounds = audio.members if audio else ()
        # A player can choose any audio rendition of the group, so the rate of a variant includes the highest
        # rate of the group.
        loudest = BitRate.highest(bit_rate(one, target, is_encrypted=is_encrypted) for one in sounds)
        codecs = list(dict.fromkeys(one.codec for one in sounds))
        shared: _Attributes = {"AUDIO": _quoted(audio.id) if audio else None} | text
        for video in videos:
            rate = _variant(rates[video.name] + loudest, [video.codec, *codecs])
            yield _tag("#EXT-X-STREAM-INF", rate | _picture(video) | shared)
            yield video.playlist
        if audio and not videos:
            yield _tag("#EXT-X-STREAM-INF", _variant(loudest, codecs) | shared)
            yield audio.default.playlist
    yield from (_iframes_variant(video) for video in videos if iframes and video.keyframes)


def _audio_groups(sounds: Sequence[AudioRendition]) -> list[_AudioGroup]:
    families = dict.fromkeys(codec_family(one.codec) for one in sounds)
    return [
        _AudioGroup(f"audio-{family}", tuple(one for one in sounds if codec_family(one.codec) == family))
        for family in families
    ]


def _media(
    kind: str, group: str, members: Sequence[AudioRendition] | Sequence[SubtitleRendition]
) -> Iterator[str]:
    for one, label in zip(members, labels_of(members), strict=True):
        attributes: _Attributes = {
            "TYPE": kind,
            "GROUP-ID": _quoted(group),
            "NAME": _quoted(label.name),
            "LANGUAGE": _quoted(label.language) if label.language else None,
            "DEFAULT": "YES" if label.is_default else "NO",
            "AUTOSELECT": "YES" if label.is_autoselect else "NO",
            "FORCED": "YES" if is_forced(one) else None,
            "CHANNELS": _quoted(str(one.channels)) if isinstance(one, AudioRendition) else None,
            "URI": _quoted(one.playlist),
        }
        yield _tag("#EXT-X-MEDIA", attributes)


def _iframes_variant(video: VideoRendition) -> str:
    keyframes = video.keyframes
    sizes, durations = zip(*((one.bytes.length, one.duration) for one in keyframes), strict=True)
    peak = max(ceil(size * 8_000_000 / duration) for size, duration in zip(sizes, durations, strict=True))
    average = ceil(sum(sizes) * 8_000_000 / sum(durations))
    attributes = _variant(BitRate(peak, average), [video.codec]) | _picture(video)
    del attributes["FRAME-RATE"]
    return _tag("#EXT-X-I-FRAME-STREAM-INF", attributes | {"URI": _quoted(video.iframes_playlist)})


def _variant(rate: BitRate, codecs: Sequence[str]) -> _Attributes:
    return {
        "BANDWIDTH": str(rate.peak),
        "AVERAGE-BANDWIDTH": str(rate.average),
        "CODECS": _quoted(",".join(codecs)),
    }


def _picture(video: VideoRendition) -> _Attributes:
    return {
        "RESOLUTION": f"{video.shown_width}x{video.height}",
        "FRAME-RATE": f"{float(video.max_frame_rate):.3f}",
        "VIDEO-RANGE": video.video_range,
    }


def _tag(name: str, attributes: _Attributes) -> str:
    return f"{name}:" + ",".join(f"{key}={value}" for key, value in attributes.items() if value is not None)


def _quoted(text: str) -> str:
    """Return the text in quotation marks. `safe_line` or `language_tag` has already cleaned the text."""
    return f'"{text}"'
