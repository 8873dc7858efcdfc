"""Hostile Matroska files: wrong elements, times, codecs, links, attachments and subtitles."""

import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache, partial
from struct import pack
from typing import Any

from tests.media.hostile.matroska import UNKNOWN_SIZE, Block, Film, element, film, real, track, uint
from tests.media.hostile.originals import Originals

Build = Callable[[Originals], bytes]

_MOST = (1 << 64) - 1
_NAN, _INFINITE = float("nan"), float("inf")
_HOUR = 3_600_000


def _lying(**fields: Any) -> Build:
    return lambda originals: replace(film(originals), **fields).build()


def _changed(change: Callable[[Film], Film]) -> Build:
    return lambda originals: change(film(originals)).build()


def _numbers() -> Iterator[tuple[str, Build]]:
    for scale in (0, 1, 1 << 40, _MOST):
        yield f"timestamp-scale-is-{scale}", _lying(timestamp_scale=scale)
    for seconds in (_NAN, _INFINITE, -1.0, 0.0, 1e18):
        yield f"duration-is-{seconds}", _lying(duration=seconds)
    for rate in (0.0, 1.0, -1.0, _NAN, 1e9, 1e300):
        yield f"sample-rate-is-{rate}", _lying(sample_rate=rate)
    for channels in (0, 255, 1 << 31):
        yield f"channels-are-{channels}", _lying(channels=channels)
    for width, height in ((0, 0), (1, 1), (65_535, 65_535), (1 << 31, 1 << 31)):
        yield f"size-is-{width}x{height}", _lying(size=(width, height))
    for nanoseconds in (0, 1, _MOST):
        yield f"a-picture-lasts-{nanoseconds}-ns", _lying(frame_duration=nanoseconds)
    shown = element(0xE0, uint(0x54B0, 1) + uint(0x54BA, _MOST))
    yield "shown-as-a-line", _lying(in_video=shown)
    cropped = element(0xE0, uint(0x54AA, 1 << 20) + uint(0x54CC, 1 << 20))
    yield "cropped-to-less-than-nothing", _lying(in_video=cropped)
    turned = element(0xE0, element(0x7670, real(0x7673, _NAN) + real(0x7675, 1e300)))
    yield "turned-by-no-number", _lying(in_video=turned)
    yield "a-delay-of-584-years", _lying(in_audio=uint(0x56AA, _MOST) + uint(0x56BB, _MOST))
    yield "both-tracks-have-one-number", _lying(track_numbers=(1, 1))
    yield "tracks-have-no-number", _lying(track_numbers=(0, 0))


def _structure() -> Iterator[tuple[str, Build]]:
    yield "no-size-is-known", _lying(segment_size=UNKNOWN_SIZE, cluster_size=UNKNOWN_SIZE)
    yield "a-cluster-of-72-petabytes", _lying(cluster_size=b"\x01\xff\xff\xff\xff\xff\xff\xfe")
    yield "a-segment-of-nothing", _lying(segment_size=b"\x01" + bytes(7))
    yield "another-document-type", _lying(doc_type=b"x" * 4096)
    yield "a-document-type-of-nul", _lying(doc_type=b"\0")
    yield "h264-and-opus-in-webm", _lying(doc_type=b"webm")
    for kind, number in (("tags", 0x1254C367), ("chapters", 0x1043A770), ("clusters", 0x1F43B675)):
        yield f"2000-{kind}-in-each-other", _lying(before_clusters=_nested(number, 2000))
    names = element(0x80, element(0x85, b"\xff\xfe\0" * 50))
    chapter = element(0xB6, uint(0x73C4, 1) + uint(0x91, _MOST) + uint(0x92, 0) + names)
    many = element(0x1043A770, element(0x45B9, chapter * 3000))
    yield "3000-chapters-that-end-before-they-begin", _lying(before_clusters=many)
    seek = element(0x114D9B74, element(0x4DBB, element(0x53AB, b"\x11\x4d\x9b\x74") + uint(0x53AC, 0)))
    yield "a-list-of-contents-that-leads-to-itself", _lying(before_clusters=seek * 50)
    far = element(0x114D9B74, element(0x4DBB, element(0x53AB, b"\x1c\x53\xbb\x6b") + uint(0x53AC, _MOST)))
    yield "an-index-at-the-end-of-the-world", _lying(before_clusters=far)
    point = element(0xBB, uint(0xB3, 0) + element(0xB7, uint(0xF7, 1) + uint(0xF1, _MOST)))
    yield "20000-index-points-to-nowhere", _lying(after_clusters=element(0x1C53BB6B, point * 20_000))
    yield "200000-empty-elements", _lying(before_clusters=element(0xEC) * 200_000)
    yield "40-tracks", _changed(lambda one: replace(one, more_tracks=one._audio() * 40))


def _nested(number: int, depth: int) -> bytes:
    body = b""
    for _ in range(depth):
        body = element(number, body)
    return body


def _times() -> Iterator[tuple[str, Build]]:
    def timed(time: Callable[[Block], int], **fields: Any) -> Build:
        def change(one: Film) -> Film:
            return replace(one, blocks=[replace(block, time=time(block)) for block in one.blocks], **fields)

        return _changed(change)

    yield "all-at-one-time", timed(lambda _: 0)
    yield "time-runs-backwards", timed(lambda block: 1000 - block.time)
    yield "time-jumps-by-an-hour", timed(lambda block: block.time + _HOUR * (block.time // 500))
    yield "time-begins-after-a-year", timed(lambda block: block.time + 8760 * _HOUR)
    yield "time-at-the-largest-number", timed(lambda block: (1 << 62) + block.time)
    yield "sound-two-minutes-late", timed(lambda block: block.time + 120_000 * (block.track == 2))
    yield "pictures-two-minutes-late", timed(lambda block: block.time + 120_000 * (block.track == 1))
    yield "a-million-pictures-a-second", timed(lambda block: block.time, timestamp_scale=25_000)
    yield (
        "two-hours-between-two-pictures",
        _changed(lambda one: replace(one, blocks=[one.blocks[0], replace(one.blocks[0], time=2 * _HOUR)])),
    )


def _blocks() -> Iterator[tuple[str, Build]]:
    def headed(head: bytes) -> Build:
        return _changed(
            lambda one: replace(
                one,
                blocks=[
                    replace(block, head=head) if number % 5 == 2 else block
                    for number, block in enumerate(one.blocks)
                ],
            )
        )

    yield "blocks-of-no-track", headed(b"\x80\0\0\x80")
    yield "blocks-of-a-track-that-is-not-there", headed(b"\x9f\0\0\x80")
    yield "256-frames-in-a-block", headed(b"\x81\0\0\x86" + b"\xff" + b"\xff" * 3)
    yield "frames-larger-than-their-block", headed(b"\x81\0\0\x82" + b"\x03" + b"\xff" * 200)
    yield "frames-of-negative-size", headed(b"\x81\0\0\x86" + b"\x05" + b"\x40\0" * 5)
    yield (
        "empty-frames",
        _changed(lambda one: replace(one, blocks=[replace(block, data=b"") for block in one.blocks])),
    )
    yield (
        "frames-of-noise",
        _changed(
            lambda one: replace(one, blocks=[replace(block, data=block.data[::-1]) for block in one.blocks])
        ),
    )


def _codecs() -> Iterator[tuple[str, Build]]:
    for codec in (
        "V_MPEGH/ISO/HEVC",
        "V_AV1",
        "V_VP9",
        "V_UNCOMPRESSED",
        "V_PRORES",
        "V_MJPEG",
        "V_QUICKTIME",
    ):
        yield f"h264-that-is-called-{codec.rpartition('/')[2]}", _lying(video_codec=codec.encode())
    for codec in ("A_AAC", "A_VORBIS", "A_FLAC", "A_PCM/INT/LIT", "A_MS/ACM", "A_REAL/COOK", "A_TRUEHD"):
        yield (
            f"opus-that-is-called-{codec.partition('_')[2].replace('/', '-')}",
            _lying(audio_codec=codec.encode()),
        )
    bitmap = pack("<IiiHH4sIiiII", 40, 1 << 30, -(1 << 30), 1, 24, b"rle8", 0, 0, 0, _MOST >> 32, 0)
    yield "a-bitmap-of-1073741824-lines", _lying(video_codec=b"V_MS/VFW/FOURCC", video_private=bitmap)
    yield "a-decoder-configuration-of-8-megabytes", _lying(video_private=b"\1" * (8 << 20))
    yield "no-decoder-configuration", _lying(video_private=b"", audio_private=b"")
    opus = b"OpusHead\x01\xff\xff\xff" + b"\xff" * 4 + b"\0\0\xff" + bytes(range(255))
    yield "opus-of-255-channels", _lying(audio_private=opus, channels=255)
    for name, kind, packed in (
        ("zlib", 0, lambda _: _bomb()),
        ("a-common-header", 3, lambda data: data),
        ("a-way-that-is-not-known", 99, lambda data: data),
    ):
        settings = element(0x4255, b"x" * 100_000) if kind == 3 else b""
        coding = element(0x6D80, element(0x6240, element(0x5034, uint(0x4254, kind) + settings)))

        def change(one: Film, coding: bytes = coding, packed: Callable[[bytes], bytes] = packed) -> Film:
            blocks = [replace(block, data=packed(block.data)) for block in one.blocks[:20]]
            return replace(one, in_video=coding, in_audio=coding, blocks=blocks)

        yield f"packets-packed-by-{name}", _changed(change)


def _links() -> Iterator[tuple[str, Build]]:
    def linked(number: int) -> Build:
        def build(originals: Originals) -> bytes:
            names = element(number, originals.outside_path) + element(number, originals.outside_url)
            return replace(film(originals), info=names + element(0x3EB923, b"\1" * 16)).build()

        return build

    yield "the-next-file", linked(0x3E83BB)
    yield "the-file-before", linked(0x3C83AB)
    yield "a-chapter-in-another-file", _lying(before_clusters=_linked_chapter())


@cache
def _bomb() -> bytes:
    return zlib.compress(bytes(32 << 20), 9)


def _attachments() -> Iterator[tuple[str, Build]]:
    for name, kind in (("a-font", b"font/ttf"), ("a-cover", b"image/png"), ("a-page", b"text/html")):

        def attached(originals: Originals, kind: bytes = kind) -> bytes:
            named = element(0x466E, b"../../../" + originals.outside_path)
            file = named + element(0x4660, kind) + element(0x465C, b"\0\1\0\0" * 50_000) + uint(0x46AE, 1)
            return replace(
                film(originals), before_clusters=element(0x1941A469, element(0x61A7, file))
            ).build()

        yield f"attached-{name}", attached
    files = element(0x61A7, element(0x466E, b"a.ttf") + element(0x4660, b"font/ttf") + element(0x465C, b"x"))
    yield "40-attached-fonts", _lying(before_clusters=element(0x1941A469, files * 40))
    lie = element(0x61A7, element(0x465C, b"x", b"\x01\0\0\0\x7f\xff\xff\xff"))
    yield "an-attachment-of-2-gigabytes", _lying(before_clusters=element(0x1941A469, lie))


def _linked_chapter() -> bytes:
    atom = element(0xB6, uint(0x73C4, 1) + uint(0x91, 0) + element(0x6E67, b"\2" * 16))
    return element(0x1043A770, element(0x45B9, uint(0x45DD, 1) + atom))


_SUBTITLES: Mapping[str, tuple[bytes, bytes]] = {
    "10000-open-tags": (b"S_TEXT/UTF8", b"<b><i><u>" * 10_000 + b"text"),
    "tags-in-tags": (b"S_TEXT/UTF8", b"<" * 20_000 + b"text" + b">" * 20_000),
    "colours-without-an-end": (b"S_TEXT/UTF8", b"<font color='" + b"#" * 50_000),
    "control-characters": (b"S_TEXT/UTF8", bytes(range(1, 32)) + b"text\x7f\xc2\x85\xe2\x80\xae\xef\xbb\xbf"),
    "bytes-that-are-no-text": (b"S_TEXT/UTF8", b"\xff\xfe\xc0\x80\xf8\x88\x80\x80\x80text\xed\xa0\x80"),
    "nul": (b"S_TEXT/UTF8", b"\0" * 10_000),
    "100000-lines": (b"S_TEXT/UTF8", b"\r\n\n\r" * 100_000),
    "drawing": (b"S_TEXT/ASS", b"0,0,Default,,0,0,0,,{\\p1}m 0 0 l 100000 0 " + b"b 1 2 3 4 5 6 " * 5000),
    "moving": (
        b"S_TEXT/ASS",
        b"0,0,Default,,0,0,0,," + b"{\\t(0,1,\\fs99999999\\fscx1e99)\\move(1,2,3,4)}" * 3000,
    ),
    "fonts-by-path": (b"S_TEXT/ASS", b"0,0,Default,,0,0,0,,{\\fn/etc/passwd\\fn@../../font}text"),
    "an-event-without-fields": (b"S_TEXT/ASS", b"text"),
    "an-event-of-commas": (b"S_TEXT/ASS", b"," * 100_000),
    "a-webvtt-of-regions": (b"S_TEXT/WEBVTT", b"\n\n<c.a.b.c><v x><00:00:00.000>" * 3000 + b"text --> text"),
    "a-picture": (b"S_VOBSUB", b"\xff" * 2000),
    "a-blu-ray-picture": (b"S_HDMV/PGS", b"\x16\xff\xff" + b"\xff" * 2000),
    "a-broadcast-picture": (b"S_DVBSUB", b"\x20\0\x0f\x10" + b"\xff" * 2000),
}
_ASS_HEADER = (
    b"[Script Info]\nScriptType: v4.00+\nPlayResX: 999999999\n[Fonts]\nfontname: /etc/passwd\n" * 200
)


def _with_texts(one: Film, texts: bytes, cues: list[Block]) -> Film:
    blocks = sorted([*one.blocks, *cues], key=lambda block: block.time)
    return replace(one, more_tracks=texts, blocks=blocks)


def _subtitles() -> Iterator[tuple[str, Build]]:
    for name, (codec, text) in _SUBTITLES.items():
        private = element(0x63A2, _ASS_HEADER if codec == b"S_TEXT/ASS" else b"")
        texts = track(3, 17, element(0x86, codec) + private + element(0x22B59C, b"eng"))
        cues = [Block(3, time, text) for time in (100, 400, 700)]
        yield f"subtitles-of-{name}", _changed(partial(_with_texts, texts=texts, cues=cues))
    plain = track(3, 17, element(0x86, b"S_TEXT/UTF8"))
    yield (
        "60000-cues-at-one-time",
        _changed(
            lambda one: replace(
                one, more_tracks=plain, blocks=[*one.blocks, *(Block(3, 990, b"x") for _ in range(60_000))]
            )
        ),
    )
    yield "25-subtitle-tracks", _changed(lambda one: replace(one, more_tracks=plain * 25))


def cases() -> Mapping[str, Build]:
    parts = (_numbers, _structure, _times, _blocks, _codecs, _attachments, _subtitles)
    return {"valid": _lying()} | {name: build for part in parts for name, build in part()}


def references() -> Mapping[str, Build]:
    """Return the films that name a file or a host."""
    return dict(_links())
