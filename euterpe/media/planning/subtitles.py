"""Which subtitle tracks an output gets, and what it lacks of those of the source."""

from collections.abc import Iterator, Sequence
from typing import Literal

from euterpe.media.packaging.languages import is_spoken, language_tag
from euterpe.media.planning.timeline import Timeline
from euterpe.media.planning.tree import PlanWarning, SubtitleTrack, TrackLabels
from euterpe.media.source.media_info import MediaInfo, StreamInfo
from euterpe.media.whitelist import TEXT_CODECS

Wanted = Sequence[str] | Literal["all"] | None


def chosen_subtitles(wanted: Wanted, info: MediaInfo) -> tuple[StreamInfo, ...]:
    """Return the text tracks to make: all in the order of the source, or those of each language in turn."""
    texts = [one for one in info.streams if one.kind == "subtitle" and _is_text(one)]
    if wanted is None or wanted == "all":
        return tuple(texts) if wanted else ()
    spoken = [one for language in wanted for one in texts if is_spoken(one.language, language)]
    return tuple(dict.fromkeys(spoken))


def subtitle_name(stream: StreamInfo) -> str:
    """Return the name of the track's files. Names may repeat."""
    tag = language_tag(stream.language)
    return "subs" if tag is None else f"subs_{tag.lower()}"


def subtitle_track(stream: StreamInfo, name: str, timeline: Timeline) -> SubtitleTrack:
    """Return the track. It is not the default: subtitles appear when the viewer chooses them."""
    return SubtitleTrack(
        stream=stream.index,
        name=name,
        labels=TrackLabels(stream.language, stream.title, is_default=False),
        is_forced=stream.is_forced,
        shift=timeline.zero,
        seconds=timeline.seconds,
    )


def subtitle_warnings(wanted: Wanted, info: MediaInfo, output: str) -> Iterator[PlanWarning]:
    """Yield a warning for each language that the source lacks, and for each track that the output lacks."""
    chosen = chosen_subtitles(wanted, info)
    for language in () if wanted is None or wanted == "all" else wanted:
        if not any(is_spoken(one.language, language) for one in chosen):
            text = f"the source has no text subtitles with the language {language}"
            yield PlanWarning("subtitle_language_missing", output, text)
    for one in info.streams:
        if one.kind == "subtitle" and one not in chosen:
            named = f" ({one.language})" if one.language else ""
            why = "" if _is_text(one) else ": it is not text"
            text = f"subtitle track {one.index}{named} is not included{why}"
            yield PlanWarning("subtitle_track_dropped", output, text)


def _is_text(stream: StreamInfo) -> bool:
    return stream.codec in TEXT_CODECS
