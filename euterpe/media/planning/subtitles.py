"""Choose the subtitle tracks of an output, and warn of tracks of the source that the output lacks."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal

from euterpe.media.packaging.languages import is_spoken, language_tag
from euterpe.media.planning.timeline import Timeline
from euterpe.media.planning.tree import PlanWarning, SubtitleTrack, TrackLabels
from euterpe.media.source.media_info import MediaInfo, StreamInfo
from euterpe.media.whitelist import TEXT_CODECS

# For these formats, captions are read without decoding the pictures.
_WITH_CAPTIONS = ("h264", "hevc", "mpeg2video")
Wanted = Sequence[str] | Literal["all"] | None


def chosen_subtitles(wanted: Wanted, info: MediaInfo) -> tuple[StreamInfo, ...]:
    """Return the text tracks to make: all tracks of the source, or the tracks in the requested languages.

    Closed captions come last. The language of captions is not known, and their track is the video stream that
    contains them.
    """
    texts = [one for one in info.streams if one.kind == "subtitle" and _is_text(one)]
    texts += [info.video] if info.video is not None and _has_captions(info.video) else []
    if wanted is None or wanted == "all":
        return tuple(texts) if wanted else ()
    spoken = [one for language in wanted for one in texts if is_spoken(_language(one), language)]
    return tuple(dict.fromkeys(spoken))


def subtitle_name(stream: StreamInfo) -> str:
    """Return the name of the track's files. Names may repeat."""
    if stream.kind == "video":
        return "captions"
    tag = language_tag(stream.language)
    return "subs" if tag is None else f"subs_{tag.lower()}"


def subtitle_track(stream: StreamInfo, name: str, timeline: Timeline) -> SubtitleTrack:
    """Return the track, which is not a default track: subtitles appear when the viewer chooses them."""
    return SubtitleTrack(
        stream=stream.index,
        name=name,
        labels=TrackLabels(_language(stream), _title(stream), is_default=False),
        is_forced=stream.is_forced,
        shift=round(timeline.zero, 6),
        seconds=timeline.seconds,
    )


def film_subtitles(
    output: str, wanted: Wanted, info: MediaInfo, timeline: Timeline, used: Sequence[StreamInfo]
) -> tuple[SubtitleTrack, ...]:
    """Return the tracks of a film file.

    The tracks end with the film, because a later cue would lengthen the film.
    """
    ends = [one.end_seconds - timeline.zero for one in used if one.end_seconds is not None]
    length = max(ends, default=info.duration_seconds)
    if timeline.seconds is not None:
        length = timeline.seconds if length is None else min(length, timeline.seconds)
    length = None if length is None else round(max(0.0, length), 6)
    return tuple(
        replace(subtitle_track(stream, f"{output}-{place}", timeline), seconds=length)
        for place, stream in enumerate(chosen_subtitles(wanted, info))
    )


def subtitle_warnings(wanted: Wanted, info: MediaInfo, output: str) -> Iterator[PlanWarning]:
    """Yield a warning for each language that the source lacks, and for each track that the output lacks."""
    chosen = chosen_subtitles(wanted, info)
    for language in () if wanted is None or wanted == "all" else wanted:
        if not any(is_spoken(_language(one), language) for one in chosen):
            text = f"the source has no text subtitles with the language {language}"
            yield PlanWarning("subtitle_language_missing", output, text)
    for one in info.streams:
        if one.kind == "subtitle" and one not in chosen:
            named = f" ({one.language})" if one.language else ""
            why = "" if _is_text(one) else ": it is not text"
            text = f"subtitle track {one.index}{named} is not included{why}"
            yield PlanWarning("subtitle_track_dropped", output, text)
    video = info.video
    if video is not None and video.has_captions and video not in chosen:
        why = "" if _has_captions(video) else f": they cannot be read from {video.codec}"
        text = f"the closed captions of the picture are not included{why}"
        yield PlanWarning("subtitle_track_dropped", output, text)


def _is_text(stream: StreamInfo) -> bool:
    return stream.codec in TEXT_CODECS


def _has_captions(video: StreamInfo) -> bool:
    return video.has_captions and video.codec in _WITH_CAPTIONS


def _language(stream: StreamInfo) -> str | None:
    """Return the language of a text track.

    Return None for captions, because the language tag of the video stream does not apply to them.
    """
    return None if stream.kind == "video" else stream.language


def _title(stream: StreamInfo) -> str | None:
    return "Closed captions" if stream.kind == "video" else stream.title
