"""Mark the text tracks of an MP4 or MOV file as not enabled. This module runs in sandboxed children only.

ffmpeg's muxer enables the first subtitle track, even if its disposition is not `default`. Players show
enabled tracks, so viewers would see subtitles that they did not choose.
"""

import os
import stat
from collections.abc import Iterator
from struct import Struct

from euterpe.media.packaging.boxes import Box, boxes_of_file, damaged

_TEXT_HANDLERS = (b"sbtl", b"text", b"subt")
_ENABLED = 1
_FLAGS = Struct(">I")
_HANDLER_AT = 8  # the handler type follows the version, the flags and a reserved field


def disable_text_tracks(path: str) -> None:
    """Change the flags of the text tracks. Write in place, because the film can have many gigabytes."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise damaged(f"{path} cannot be opened ({error.strerror})") from None
    try:
        status = os.fstat(fd)
        # A compromised ffmpeg could have made a hard link to the file of another job.
        if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1:
            raise damaged(f"{path} is not a regular file with a single name")
        moov = _first(boxes_of_file(fd, status.st_size), b"moov")
        for track in boxes_of_file(fd, moov.end, moov.body):
            if track.kind == b"trak" and _handler(fd, track) in _TEXT_HANDLERS:
                _disable(fd, _first(boxes_of_file(fd, track.end, track.body), b"tkhd"))
    finally:
        os.close(fd)


def _handler(fd: int, track: Box) -> bytes:
    mdia = _first(boxes_of_file(fd, track.end, track.body), b"mdia")
    hdlr = _first(boxes_of_file(fd, mdia.end, mdia.body), b"hdlr")
    return os.pread(fd, 4, hdlr.body + _HANDLER_AT)


def _disable(fd: int, tkhd: Box) -> None:
    data = os.pread(fd, _FLAGS.size, tkhd.body)
    if len(data) < _FLAGS.size:
        raise damaged("the header of a track is cut off")
    os.pwrite(fd, _FLAGS.pack(_FLAGS.unpack(data)[0] & ~_ENABLED), tkhd.body)


def _first(boxes: Iterator[Box], kind: bytes) -> Box:
    for box in boxes:
        if box.kind == kind:
            return box
    raise damaged(f"the box {kind.decode('latin-1')} is missing")
