"""Choose the sound tracks of an output, and their rates, channels and labels."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from euterpe.domain.codecs import CODECS, Codec
from euterpe.domain.outputs import Audio
from euterpe.domain.outputs.sound import Channels
from euterpe.media.packaging.languages import is_spoken
from euterpe.media.planning.tree import PlanWarning, TrackLabels
from euterpe.media.source.media_info import MediaInfo, StreamInfo

# ffmpeg's name of a layout, such as `5.1.2`, has the numbers of main channels, LFE and height channels.
_LFE, _HEIGHTS = re.compile(r"[0-9]+\.1(?![0-9])"), re.compile(r"[0-9]+\.[0-9]+\.[0-9]+")
_OF_2_1, _OF_5_1, _OF_6_1, _OF_7_1 = 3, 6, 7, 8

Wanted = Audio | Sequence[Audio] | Literal["all"] | None


@dataclass(frozen=True)
class Chosen:
    """A sound stream of the source, and how to encode it."""

    stream: StreamInfo
    codec: str
    kbps: int | None
    channels: Channels
    labels: TrackLabels
    asked: Audio
    is_copied: bool = False

    @property
    def rate(self) -> int:
        return CODECS[self.codec].sample_rate_for(self.stream.sample_rate)


def chosen_sounds(wanted: Wanted, info: MediaInfo, default_codec: str) -> tuple[Chosen, ...]:
    """Return the sound tracks to make, the default track first.

    Return an empty tuple for a source without sound.
    """
    found = list(dict.fromkeys(_pairs(wanted, info)))
    return tuple(
        Chosen(
            stream,
            audio.codec or default_codec,
            audio.bitrate_kbps or _default_kbps(audio, stream, default_codec),
            audio.channels,
            TrackLabels(stream.language, stream.title, is_default=place == 0),
            audio,
        )
        for place, (stream, audio) in enumerate(found)
    )


def _default_kbps(audio: Audio, stream: StreamInfo, default_codec: str) -> int | None:
    codec = CODECS[audio.codec or default_codec]
    return codec.default_bit_rate(_channels(codec, audio.channels, stream))


def _pairs(wanted: Wanted, info: MediaInfo) -> Iterator[tuple[StreamInfo, Audio]]:
    best = info.audio
    if wanted is None or best is None:
        return
    if wanted == "all":
        others = [one for one in info.streams if one.kind == "audio" and one is not best]
        yield from ((stream, Audio()) for stream in (best, *others))
        return
    for audio in [wanted] if isinstance(wanted, Audio) else wanted:
        if stream := _spoken(audio.language, info):
            yield stream, audio


def _spoken(language: str | None, info: MediaInfo) -> StreamInfo | None:
    if language is None:
        return info.audio
    matches = (one for one in info.streams if one.kind == "audio" and is_spoken(one.language, language))
    return next(matches, None)


def sound_warnings(
    wanted: Wanted, chosen: Sequence[Chosen], info: MediaInfo, output: str
) -> Iterator[PlanWarning]:
    """Yield a warning for each sound of the source that the output lacks or has with fewer channels."""
    if wanted is None:
        return
    asked = () if wanted == "all" else [wanted] if isinstance(wanted, Audio) else wanted
    for audio in asked:
        if audio.language is not None and _spoken(audio.language, info) is None:
            yield PlanWarning(
                "audio_language_missing",
                output,
                f"the source has no sound with the language {audio.language}",
            )
    kept = {one.stream.index for one in chosen}
    for stream in info.streams:
        if stream.kind == "audio" and stream.index not in kept:
            named = f" ({stream.language})" if stream.language else ""
            yield PlanWarning(
                "audio_track_dropped", output, f"sound track {stream.index}{named} is not included"
            )
    for one in chosen:
        before, after = one.stream.channels or 2, channels_of(one)
        if after < before:
            yield PlanWarning(
                "audio_channels_reduced", output, f"sound with {before} channels is mixed down to {after}"
            )
        elif not one.is_copied and (layout := _lost_heights(one)) is not None:
            yield PlanWarning(
                "audio_channels_reduced", output, f"the height channels of {layout} are mixed into 7.1"
            )


def channels_of(one: Chosen) -> int:
    """Return the number of channels of the encoded track."""
    return _channels(CODECS[one.codec], one.channels, one.stream)


def has_all_channels(one: Chosen) -> bool:
    """Return whether the encoded track has a place for each channel of its source."""
    return one.stream.channels is not None and channels_of(one) >= one.stream.channels


def _channels(codec: Codec, wanted: Channels, stream: StreamInfo) -> int:
    source = stream.channels or 2
    kept = _channels_with_lfe(codec, stream, source)
    return {"mono": 1, "stereo": min(source, 2), "keep": min(kept, codec.most_channels)}[wanted]


def _channels_with_lfe(codec: Codec, stream: StreamInfo, source: int) -> int:
    """Return the number of channels of the smallest usual layout that keeps the LFE of the source.

    For example, 2.1 becomes 5.1. With three channels, ffmpeg would mix 2.1 into 3.0 and drop the LFE.
    """
    if codec.name == "aac" and source == _OF_6_1:
        return _OF_7_1  # browsers do not read the table that AAC needs for 6.1 and 7.0
    # If three channels have no layout, ffmpeg assumes 2.1.
    layout = stream.layout or ("2.1" if source == _OF_2_1 else "")
    return _OF_5_1 if _OF_2_1 <= source < _OF_5_1 and _LFE.match(layout) else source


def _lost_heights(one: Chosen) -> str | None:
    """Return the layout of a source whose height channels the codec mixes into other channels, or None."""
    layout = one.stream.layout
    is_mixed = one.codec in ("aac", "opus") and channels_of(one) == one.stream.channels
    return layout if is_mixed and layout and _HEIGHTS.match(layout) else None
