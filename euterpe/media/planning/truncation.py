"""Refuse a source that is cut off: its packets end before the end that its headers declare."""

from euterpe.domain.error_codes import ErrorCode
from euterpe.media.errors import MediaError
from euterpe.media.source.media_info import MediaInfo, StreamInfo

# Headers round durations, and count priming and padding of sound. A larger difference means missing media.
# It is as small as the tolerance of outputs: the hole of a damaged AVI looks like an end that is too early.
_LEAST_TOLERANCE_S, _MOST_TOLERANCE_S, _TOLERANCE = 0.25, 2.0, 0.02


def refuse_truncated(info: MediaInfo) -> None:
    """Raise `source_truncated` for a source that is cut off."""
    found = next((one for one in info.streams if _is_cut_off(one, info)), None)
    if found is not None:
        raise MediaError(
            ErrorCode.SOURCE_TRUNCATED,
            f"the source is cut off: its {found.kind} ends after {found.duration_seconds:.2f} s "
            f"of {found.declared_seconds:.2f} s",
        )


def _is_cut_off(stream: StreamInfo, info: MediaInfo) -> bool:
    if stream.kind not in ("video", "audio"):
        return False
    if stream.declared_seconds is None or stream.duration_seconds is None or stream.end_seconds is None:
        return False
    declared = stream.declared_seconds
    pictures = 2 / stream.fps if stream.fps else 0.0  # the last picture may have no duration
    tolerance = max(_LEAST_TOLERANCE_S, pictures, min(_TOLERANCE * declared, _MOST_TOLERANCE_S))
    # Matroska declares the end of a stream, also if it begins late, and other containers its length.
    start = 0.0 if info.container == "matroska" else info.start_seconds
    measured = max(stream.duration_seconds, stream.end_seconds - start)
    return measured < declared - tolerance
