"""Recognize a source that is cut off: its packets end before the end that its headers declare."""

from euterpe.domain.error_codes import ErrorCode
from euterpe.media.errors import MediaError
from euterpe.media.source.media_info import MediaInfo, StreamInfo

# Declared durations are rounded, and include the priming and padding of sound. A difference above this
# tolerance means missing media. The bounds are as small as those of the tolerance for outputs, so that a gap
# in a damaged AVI file is detected too: such a gap looks like an early end.
_LEAST_TOLERANCE_S, _MOST_TOLERANCE_S, _TOLERANCE = 0.25, 2.0, 0.02


def refuse_truncated(info: MediaInfo) -> None:
    """Raise `source_truncated` for a source that is cut off."""
    if (problem := truncation_of(info)) is not None:
        raise MediaError(ErrorCode.SOURCE_TRUNCATED, problem)


def truncation_of(info: MediaInfo) -> str | None:
    """Return why the source counts as cut off, or None if it seems complete."""
    found = next((one for one in info.streams if _is_cut_off(one, info)), None)
    if found is not None:
        return (
            f"the source is cut off: its {found.kind} ends after {found.duration_seconds:.2f} s "
            f"of {found.declared_seconds:.2f} s"
        )
    return "the source is cut off: it ends within one of its boxes" if info.is_cut_off else None


def _is_cut_off(stream: StreamInfo, info: MediaInfo) -> bool:
    if stream.kind not in ("video", "audio"):
        return False
    if stream.declared_seconds is None or stream.duration_seconds is None or stream.end_seconds is None:
        return False
    declared = stream.declared_seconds
    # Tolerate the length of two pictures, because the packet of the last picture can lack a duration.
    pictures = 2 / stream.fps if stream.fps else 0.0
    tolerance = max(_LEAST_TOLERANCE_S, pictures, min(_TOLERANCE * declared, _MOST_TOLERANCE_S))
    # In Matroska, the declared duration is the time at which the stream ends, even if the stream begins late.
    # In other containers, the declared duration does not include the time before the stream begins.
    start = 0.0 if info.container == "matroska" else info.start_seconds
    measured = max(stream.duration_seconds, stream.end_seconds - start)
    return measured < declared - tolerance
