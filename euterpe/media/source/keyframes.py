"""Find the keyframes of a video stream by reading all of its packets.

This module runs in sandboxed children only.
"""

from contextlib import suppress
from time import monotonic
from typing import Any

import av
from av.stream import Discard
from av.video.stream import VideoStream

from euterpe.domain.error_codes import ErrorCode
from euterpe.media.errors import MediaError
from euterpe.media.sandbox.child_results import LONGEST_SECONDS
from euterpe.media.source.media_info import MOST_KEYFRAMES
from euterpe.media.source.packets import demuxed
from euterpe.media.source.probe import open_source

# The scan ends before the timeout of the caller, which is 60 s.
_LONGEST_SCAN_S = 40.0


def keyframes(fd: int, stream_index: int, longest_scan_s: float = _LONGEST_SCAN_S) -> dict[str, Any]:
    """Return the times of a stream's keyframes in ascending order, and whether the scan reached the end.

    Keyframes that an edit list removes are left out. Raise `MediaError` if the stream has no pictures.
    """
    with open_source(fd) as container:
        stream = next((one for one in container.streams if one.index == stream_index), None)
        if not isinstance(stream, VideoStream) or not stream.time_base:
            raise MediaError(
                ErrorCode.SOURCE_UNSUPPORTED, f"stream {stream_index} of the source has no pictures"
            )
        for other in container.streams:
            if other.index != stream_index:
                other.discard = Discard.all  # some demuxers then skip the packets of this unneeded stream
        found, is_complete = [], False
        deadline = monotonic() + longest_scan_s
        with suppress(av.FFmpegError):  # the file is damaged here
            for packet in demuxed(container, stream):
                at = packet.pts if packet.pts is not None else packet.dts
                seconds = LONGEST_SECONDS if at is None else float(at * stream.time_base)
                if packet.is_keyframe and not packet.is_discard and abs(seconds) < LONGEST_SECONDS:
                    found.append(round(seconds, 6))
                if len(found) > MOST_KEYFRAMES or monotonic() > deadline:
                    break
            else:
                is_complete = True
    return {"seconds": sorted(set(found))[:MOST_KEYFRAMES], "is_complete": is_complete}
