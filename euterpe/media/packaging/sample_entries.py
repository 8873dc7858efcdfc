"""Read a sample entry of an MP4 file: codec string, size, channels.

This module runs in sandboxed children only.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from euterpe.media.packaging.boxes import (
    Box,
    Fields,
    boxes_in,
    child,
    damaged,
    fields_of,
    optional_child,
)

_UNSPECIFIED = 2  # the number for an unspecified colour property in H.273
_VISUAL_BYTES, _AUDIO_BYTES = 78, 28  # the fields of a sample entry, before its boxes
# The tags of the descriptors in `esds` (ISO/IEC 14496-1).
_ES, _DECODER_CONFIG, _DECODER_INFO = 3, 4, 5
_MPEG4_AUDIO = 0x40
_MP3 = (0x69, 0x6B)
_SBR = (5, 29)  # audio object types with a second, higher sample rate
_RATES = (96000, 88200, 64000, 48000, 44100, 32000, 24000, 22050, 16000, 12000, 11025, 8000, 7350)
_CHANNELS = {1: 1, 2: 2, 3: 3, 4: 4, 5: 5, 6: 6, 7: 8, 11: 7, 12: 8, 14: 8}
_STREAM_INFO = 0  # the first metadata block of FLAC


class EntryColour(NamedTuple):
    primaries: int
    transfer: int
    matrix: int
    full_range: int


@dataclass(frozen=True)
class SampleEntry:
    kind: str
    codec: str
    width: int | None = None
    height: int | None = None
    pixel_width: int = 1
    pixel_height: int = 1
    transfer: int | None = None
    sample_rate: int | None = None
    channels: int | None = None


def read_sample_entry(data: bytes, box: Box) -> SampleEntry:
    """Return the facts of a sample entry. Raise `MediaError` for a codec that no output has."""
    kind = box.kind.decode("latin-1")
    if (codec := _VIDEO.get(kind)) is not None:
        return _video(data, box, codec)
    if (read := _AUDIO.get(kind)) is not None:
        return _audio(data, box, read)
    raise damaged(f"a track has an unknown codec ({kind!a})")


def _video(data: bytes, box: Box, codec: Callable[[bytes, Box, EntryColour | None], str]) -> SampleEntry:
    fields = fields_of(data, box)
    fields.skip(24)
    width, height = fields.number(2), fields.number(2)
    inner = _inner(box, _VISUAL_BYTES)
    colour = _colour(data, inner)
    pixel_width, pixel_height = 1, 1
    if (aspect := optional_child(data, inner, b"pasp")) is not None:
        shape = fields_of(data, aspect)
        pixel_width, pixel_height = shape.number(4), shape.number(4)
    return SampleEntry(
        "video",
        codec(data, inner, colour),
        width=width,
        height=height,
        pixel_width=pixel_width,
        pixel_height=pixel_height,
        transfer=colour.transfer if colour else None,
    )


def _inner(box: Box, fields: int) -> Box:
    """Return the part of a sample entry that contains boxes."""
    if box.body + fields > box.end:
        raise damaged("a sample entry is too short")
    return box._replace(body=box.body + fields)


def _colour(data: bytes, inner: Box) -> EntryColour | None:
    for box in boxes_in(data, inner.body, inner.end):
        if box.kind == b"colr":
            fields = fields_of(data, box)
            if fields.take(4) == b"nclx":
                primaries, transfer, matrix = (fields.number(2) for _ in range(3))
                return EntryColour(primaries, transfer, matrix, fields.number(1) >> 7)
    return None


def _avc(data: bytes, inner: Box, _: EntryColour | None) -> str:
    fields = fields_of(data, child(data, inner, b"avcC"))
    fields.skip(1)
    return f"{inner.kind.decode()}.{fields.take(3).hex()}"


def _hevc(data: bytes, inner: Box, _: EntryColour | None) -> str:
    fields = fields_of(data, child(data, inner, b"hvcC"))
    fields.skip(1)
    profile, compatibility = fields.number(1), fields.number(4)
    constraints, level = fields.take(6).rstrip(b"\0"), fields.number(1)
    space = ("", "A", "B", "C")[profile >> 6]
    reversed_flags = int(f"{compatibility:032b}"[::-1], 2)
    tier = "H" if profile & 0x20 else "L"
    parts = (f"{space}{profile & 0x1F}", f"{reversed_flags:X}", f"{tier}{level}")
    return ".".join((inner.kind.decode(), *parts, *(f"{byte:X}" for byte in constraints)))


def _av1(data: bytes, inner: Box, colour: EntryColour | None) -> str:
    fields = fields_of(data, child(data, inner, b"av1C"))
    fields.skip(1)
    profile_and_level, flags = fields.number(1), fields.number(1)
    tier, high, twelve = "H" if flags & 0x80 else "M", flags >> 6 & 1, flags >> 5 & 1
    depth = 12 if high and twelve else 10 if high else 8
    text = f"av01.{profile_and_level >> 5}.{profile_and_level & 0x1F:02d}{tier}.{depth:02d}"
    if colour is None or set(colour[:3]) == {_UNSPECIFIED}:
        return text
    monochrome, chroma = flags >> 4 & 1, f"{flags >> 3 & 1}{flags >> 2 & 1}{flags & 3}"
    return f"{text}.{monochrome}.{chroma}.{_numbers(colour[:3])}.{colour.full_range}"


def _vp9(data: bytes, inner: Box, _: EntryColour | None) -> str:
    fields = fields_of(data, child(data, inner, b"vpcC"))
    fields.skip(4)
    profile, level, depth = fields.number(1), fields.number(1), fields.number(1)
    colours = (fields.number(1), fields.number(1), fields.number(1))
    text = f"vp09.{_numbers((profile, level, depth >> 4))}"
    if set(colours) == {_UNSPECIFIED}:
        return text
    return f"{text}.{_numbers((depth >> 1 & 7, *colours, depth & 1))}"


def _numbers(values: tuple[int, ...]) -> str:
    return ".".join(f"{value:02d}" for value in values)


class _Sound(NamedTuple):
    codec: str
    sample_rate: int
    channels: int


def _audio(data: bytes, box: Box, read: Callable[[bytes, Box, _Sound], _Sound]) -> SampleEntry:
    fields = fields_of(data, box)
    fields.skip(8)
    if fields.number(2):
        raise damaged("a sample entry has the form of QuickTime")
    fields.skip(6)
    channels = fields.number(2)
    fields.skip(6)
    declared = _Sound(box.kind.decode(), fields.number(4) >> 16, channels)
    sound = read(data, _inner(box, _AUDIO_BYTES), declared)
    return SampleEntry("audio", sound.codec, sample_rate=sound.sample_rate, channels=sound.channels)


def _mp4a(data: bytes, inner: Box, declared: _Sound) -> _Sound:
    fields = fields_of(data, child(data, inner, b"esds"))
    fields.skip(4)
    stream = _descriptor(fields, _ES)
    stream.skip(2)
    if stream.number(1) & 0xE0:
        raise damaged("an audio track depends on another stream")
    config = _descriptor(stream, _DECODER_CONFIG)
    object_type = config.number(1)
    if object_type in _MP3:
        return declared._replace(codec=f"mp4a.{object_type:X}")
    if object_type != _MPEG4_AUDIO:
        raise damaged(f"an audio track has an unknown codec (mp4a.{object_type:X})")
    config.skip(12)
    return _aac(_Bits(_descriptor(config, _DECODER_INFO)), declared)


def _descriptor(fields: Fields, tag: int) -> Fields:
    """Return the fields of the descriptor that begins here."""
    if fields.number(1) != tag:
        raise damaged(f"the descriptor {tag} is missing")
    length = 0
    for _ in range(4):
        byte = fields.number(1)
        length = length << 7 | byte & 0x7F
        if not byte & 0x80:
            break
    data = fields.take(length)
    return Fields(data, 0, len(data))


class _Bits:
    """A cursor over the bits of a short descriptor."""

    def __init__(self, fields: Fields) -> None:
        self._left = fields.left * 8
        self._value = int.from_bytes(fields.take(fields.left), "big")

    def number(self, count: int) -> int:
        if count > self._left:
            raise damaged("the configuration of a decoder is too short")
        self._left -= count
        return self._value >> self._left & (1 << count) - 1


def _aac(bits: _Bits, declared: _Sound) -> _Sound:
    """Read an AudioSpecificConfig (ISO/IEC 14496-3)."""
    kind = _audio_object_type(bits)
    rate, layout = _sample_rate(bits), bits.number(4)
    if kind in _SBR:
        rate = _sample_rate(bits)
    return _Sound(f"mp4a.40.{kind}", rate, _CHANNELS.get(layout, declared.channels))


def _audio_object_type(bits: _Bits) -> int:
    kind = bits.number(5)
    return 32 + bits.number(6) if kind == 31 else kind


def _sample_rate(bits: _Bits) -> int:
    place = bits.number(4)
    if place == 15:
        return bits.number(24)
    if place >= len(_RATES):
        raise damaged("the configuration of a decoder has no sample rate")
    return _RATES[place]


def _opus(data: bytes, inner: Box, declared: _Sound) -> _Sound:
    fields = fields_of(data, child(data, inner, b"dOps"))
    fields.skip(1)
    return declared._replace(channels=fields.number(1), sample_rate=48_000)


def _flac(data: bytes, inner: Box, declared: _Sound) -> _Sound:
    fields = fields_of(data, child(data, inner, b"dfLa"))
    fields.skip(4)
    if fields.number(1) & 0x7F != _STREAM_INFO:
        raise damaged("the configuration of a decoder has no sample rate")
    fields.skip(13)
    rate_and_channels = fields.number(4)
    return declared._replace(sample_rate=rate_and_channels >> 12, channels=(rate_and_channels >> 9 & 7) + 1)


_VIDEO: Mapping[str, Callable[[bytes, Box, EntryColour | None], str]] = {
    "avc1": _avc,
    "hvc1": _hevc,
    "av01": _av1,
    "vp09": _vp9,
}
_AUDIO: Mapping[str, Callable[[bytes, Box, _Sound], _Sound]] = {"mp4a": _mp4a, "Opus": _opus, "fLaC": _flac}
