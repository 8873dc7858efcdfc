"""Which sound tracks an output gets, and with which rate, channels and labels."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from euterpe.domain.codecs import CODECS, Codec
from euterpe.domain.outputs import Audio
from euterpe.domain.outputs.sound import Channels
from euterpe.media.packaging.languages import is_spoken
from euterpe.media.planning.tree import PlanWarning, TrackLabels
from euterpe.media.source.media_info import MediaInfo, StreamInfo

Wanted = Audio | Sequence[Audio] | Literal["all"] | None


@dataclass(frozen=True)
class Chosen:
    """A sound stream of the source, and how to encode it."""

    stream: StreamInfo
    codec: str
    kbps: int | None
    channels: Channels
    labels: TrackLabels

    @property
    def rate(self) -> int:
        return CODECS[self.codec].sample_rate_for(self.stream.sample_rate)


def chosen_sounds(wanted: Wanted, info: MediaInfo, default_codec: str) -> tuple[Chosen, ...]:
    """Return the tracks to make, the default track first. A source without sound has none."""
    found = list(dict.fromkeys(_pairs(wanted, info)))
    return tuple(
        Chosen(
            stream,
            audio.codec or default_codec,
            audio.bitrate_kbps or _default_kbps(audio, stream, default_codec),
            audio.channels,
            TrackLabels(stream.language, stream.title, is_default=place == 0),
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


def channels_of(one: Chosen) -> int:
    """Return the number of channels of the track that is made."""
    return _channels(CODECS[one.codec], one.channels, one.stream)


def _channels(codec: Codec, wanted: Channels, stream: StreamInfo) -> int:
    source = stream.channels or 2
    return {"mono": 1, "stereo": min(source, 2), "keep": min(source, codec.most_channels)}[wanted]
