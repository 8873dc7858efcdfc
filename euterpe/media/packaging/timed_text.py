"""Write a subtitle track as an MP4 file of 3GPP timed text (`tx3g`, TS 26.245). Pure.

ffmpeg copies the packets of this file into film files, so no decoder or encoder of ffmpeg parses the text.
"""

import struct
from collections.abc import Iterator, Sequence
from itertools import groupby, islice, pairwise

from euterpe.domain.error_codes import ErrorCode
from euterpe.media.errors import MediaError
from euterpe.media.packaging.webvtt import Cue

_TICKS = 1000  # in a second
# The maximum number of texts shown at once. An MP4 track shows one sample at a time, so texts that overlap in
# time become lines of one sample. A viewer cannot read more lines than this. A file in ASS can show thousands
# of texts at the same time, to animate single letters.
_MOST_AT_ONCE = 8
_MOST_BYTES = 8_000  # the length field of a text has 16 bits
# The limit of a track. 8,000 overlapping cues of 1 KB became samples of 128 MB, and the worker used 372 MB. A
# film of 3 hours has 200 KB of subtitles.
_MOST_TRACK_BYTES = 16 << 20
_LONGEST_SAMPLE = 2**31 - 1
_ALL_FORCED = 0xC0000000  # the flags for "some samples are forced" and "all samples are forced"
_IDENTITY = struct.pack(">9i", 1 << 16, 0, 0, 0, 1 << 16, 0, 0, 0, 1 << 30)
_FONT = b"Sans-Serif"
_UNDETERMINED = 0x55C4  # the language "und" as ISO/IEC 14496-12 packs it
_Sample = tuple[int, bytes]  # (length in ticks, data)


def timed_text(cues: Sequence[Cue], *, is_forced: bool = False) -> bytes:
    """Return the file.

    The samples follow each other without gaps, with an empty sample for a time without a cue. If there are no
    cues, the only sample is a space, because muxers leave out a track without text. Raise `MediaError` if the
    samples take more than 16 MiB. Only overlapping cues can take this much.
    """
    samples = [*_samples(cues)] or [(1, _text([" "]))]
    head = _box(b"ftyp", b"isom", bytes(4), b"isommp42")
    offset = len(head) + len(_movie(samples, 0, is_forced=is_forced)) + 8
    movie = _movie(samples, offset, is_forced=is_forced)
    return head + movie + _box(b"mdat", *(data for _, data in samples))


def _samples(cues: Sequence[Cue]) -> Iterator[_Sample]:
    times = {0}
    begins, ends = dict[int, list[int]](), dict[int, list[int]]()
    for place, cue in enumerate(cues):
        start, end = (min(max(0, round(time * _TICKS)), _LONGEST_SAMPLE) for time in (cue.start, cue.end))
        if end > start:
            times |= {start, end}
            begins.setdefault(start, []).append(place)
            ends.setdefault(end, []).append(place)
    shown, size = dict[int, None](), 0
    for start, end in pairwise(sorted(times)):
        for place in ends.get(start, ()):
            del shown[place]
        shown |= dict.fromkeys(begins.get(start, ()))
        data = _text([cues[place].text for place in islice(shown, _MOST_AT_ONCE)])
        size += len(data)
        if size > _MOST_TRACK_BYTES:
            raise MediaError(
                ErrorCode.OUTPUT_TOO_LARGE, f"the subtitles take more than {_MOST_TRACK_BYTES} bytes"
            )
        yield end - start, data


def _text(texts: Sequence[str]) -> bytes:
    data = "\n".join(texts).encode()[:_MOST_BYTES].decode(errors="ignore").encode()
    return struct.pack(">H", len(data)) + data


def _movie(samples: Sequence[_Sample], offset: int, *, is_forced: bool) -> bytes:
    length = sum(ticks for ticks, _ in samples)
    header = struct.pack(">4xIIIIIH10x", 0, 0, _TICKS, length, 1 << 16, 1 << 8)
    track = struct.pack(">IIIIII8xhhhH", 3, 0, 0, 1, 0, length, 0, 0, 0, 0)
    return _box(
        b"moov",
        _box(b"mvhd", header, _IDENTITY, bytes(24), struct.pack(">I", 2)),
        _box(
            b"trak",
            _box(b"tkhd", track, _IDENTITY, bytes(8)),
            _media(samples, offset, length, is_forced=is_forced),
        ),
    )


def _media(samples: Sequence[_Sample], offset: int, length: int, *, is_forced: bool) -> bytes:
    return _box(
        b"mdia",
        _box(b"mdhd", struct.pack(">IIIIIHH", 0, 0, 0, _TICKS, length, _UNDETERMINED, 0)),
        _box(b"hdlr", struct.pack(">II4s12xx", 0, 0, b"sbtl")),
        _box(
            b"minf",
            _box(b"nmhd", bytes(4)),
            _box(b"dinf", _box(b"dref", struct.pack(">II", 0, 1), _box(b"url ", struct.pack(">I", 1)))),
            _box(b"stbl", *_sample_tables(samples, offset, is_forced=is_forced)),
        ),
    )


def _sample_tables(samples: Sequence[_Sample], offset: int, *, is_forced: bool) -> Iterator[bytes]:
    yield _box(b"stsd", struct.pack(">II", 0, 1), _sample_entry(is_forced=is_forced))
    runs = [(len([*run]), ticks) for ticks, run in groupby(ticks for ticks, _ in samples)]
    yield _table(b"stts", [struct.pack(">II", *run) for run in runs])
    yield _table(b"stsc", [struct.pack(">III", 1, len(samples), 1)])
    sizes = [struct.pack(">I", len(data)) for _, data in samples]
    yield _box(b"stsz", struct.pack(">III", 0, 0, len(samples)), *sizes)
    yield _table(b"stco", [struct.pack(">I", offset)])


def _sample_entry(*, is_forced: bool) -> bytes:
    """Return the sample entry: white text without a background, centred at the bottom."""
    box = struct.pack(">4h", 0, 0, 0, 0)
    style = struct.pack(">HHHBBI", 0, 0, 1, 0, 18, 0xFFFFFFFF)
    font = _box(b"ftab", struct.pack(">HHB", 1, 1, len(_FONT)), _FONT)
    flags = _ALL_FORCED if is_forced else 0
    return _box(b"tx3g", struct.pack(">6xHIbbI", 1, flags, 1, -1, 0), box, style, font)


def _table(kind: bytes, rows: Sequence[bytes]) -> bytes:
    return _box(kind, struct.pack(">II", 0, len(rows)), *rows)


def _box(kind: bytes, *parts: bytes) -> bytes:
    body = b"".join(parts)
    return struct.pack(">I4s", len(body) + 8, kind) + body
