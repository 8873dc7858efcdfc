"""Tests that codec strings, sizes and channels come from the configuration record of the codec."""

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from struct import pack

import pytest
from lxml import etree

from euterpe.media.errors import MediaError
from euterpe.media.packaging.boxes import boxes_in
from euterpe.media.packaging.finish import finish_rendition
from euterpe.media.packaging.rendition import VideoRendition, rendition_of
from euterpe.media.packaging.sample_entries import SampleEntry, read_sample_entry
from euterpe.media.sandbox.sandbox import Sandbox
from tests.media.packaging.hostile import AVC, audio_entry, full, visual_entry
from tests.media.packaging.presentations import Recipe, Sound, encode
from tests.media.packaging.test_boxes import box


def entry(data: bytes) -> SampleEntry:
    return read_sample_entry(data, next(boxes_in(data, 0, len(data))))


def colour(*numbers: int, full_range: bool = False, kind: bytes = b"nclx") -> bytes:
    return box(b"colr", kind + pack(">HHHB", *numbers, full_range << 7))


def esds(object_type: int, information: bytes = b"", *, flags: int = 0) -> bytes:
    config = bytes([object_type]) + bytes(12) + (descriptor(5, information) if information else b"")
    return full(b"esds", descriptor(3, bytes(2) + bytes([flags]) + descriptor(4, config)))


def descriptor(tag: int, body: bytes) -> bytes:
    return bytes([tag, 0x80, 0x80, 0x80, len(body)]) + body


HEVC = bytes([1, 0x01]) + pack(">I", 0x60000000) + bytes([0x90, 0, 0, 0, 0, 0]) + bytes([93])
HEVC_HIGH = (
    bytes([1, 0x80 | 0x20 | 0x02]) + pack(">I", 0x20000000) + bytes([0xB0, 0, 0x01, 0, 0, 0]) + bytes([150])
)
BT2020_PQ = colour(9, 16, 9)


@pytest.mark.parametrize(
    ("kind", "inner", "codec"),
    [
        (b"avc1", box(b"avcC", AVC), "avc1.42c00b"),
        (b"hvc1", box(b"hvcC", HEVC), "hvc1.1.6.L93.90"),
        (b"hvc1", box(b"hvcC", HEVC_HIGH), "hvc1.B2.4.H150.B0.0.1"),
        (b"av01", box(b"av1C", bytes([0x81, 0x05, 0x0C, 0])), "av01.0.05M.08"),
        (b"av01", box(b"av1C", bytes([0x81, 0x05, 0x0C, 0])) + colour(2, 2, 2), "av01.0.05M.08"),
        (b"av01", box(b"av1C", bytes([0x81, 0x09, 0xCE, 0])) + BT2020_PQ, "av01.0.09H.10.0.112.09.16.09.0"),
        (b"av01", box(b"av1C", bytes([0x81, 0x49, 0x70, 0])) + colour(1, 1, 1, full_range=True),
         "av01.2.09M.12.1.000.01.01.01.1"),
        (b"vp09", full(b"vpcC", bytes([0, 31, 0x82, 2, 2, 2, 0, 0]), 1), "vp09.00.31.08"),
        (b"vp09", full(b"vpcC", bytes([2, 41, 0xA3, 9, 16, 9, 0, 0]), 1), "vp09.02.41.10.01.09.16.09.01"),
    ],
)  # fmt: skip
def test_the_codec_string_of_a_picture(kind: bytes, inner: bytes, codec: str) -> None:
    found = entry(visual_entry(kind, inner))
    assert (found.kind, found.codec, found.width, found.height) == ("video", codec, 320, 180)


@pytest.mark.parametrize(
    ("kind", "inner", "codec", "rate", "channels"),
    [
        (b"mp4a", esds(0x40, bytes.fromhex("1190")), "mp4a.40.2", 48_000, 2),
        (b"mp4a", esds(0x40, bytes.fromhex("11b0")), "mp4a.40.2", 48_000, 6),
        (b"mp4a", esds(0x40, bytes.fromhex("13900000")), "mp4a.40.2", 22_050, 2),
        (b"mp4a", esds(0x40, bytes.fromhex("2b920800")), "mp4a.40.5", 44_100, 2),  # SBR doubles 22,050 Hz
        (b"mp4a", esds(0x40, bytes.fromhex("1780177011")), "mp4a.40.2", 12_000, 2),  # an explicit rate
        (b"mp4a", esds(0x40, bytes.fromhex("f94640")), "mp4a.40.42", 48_000, 2),  # an escaped object type
        (b"mp4a", esds(0x40, bytes.fromhex("1180")), "mp4a.40.2", 48_000, 2),  # channel configuration 0
        (b"mp4a", esds(0x6B), "mp4a.6B", 48_000, 2),
        (b"Opus", box(b"dOps", bytes([0, 6]) + bytes(9)), "Opus", 48_000, 6),
        (b"fLaC", full(b"dfLa", bytes([0x80, 0, 0, 34]) + bytes(10) + pack(">I", 96_000 << 12 | 5 << 9)),
         "fLaC", 96_000, 6),
    ],
)  # fmt: skip
def test_the_codec_string_of_sound(kind: bytes, inner: bytes, codec: str, rate: int, channels: int) -> None:
    found = entry(audio_entry(kind, inner))
    assert (found.kind, found.codec, found.sample_rate, found.channels) == ("audio", codec, rate, channels)


def test_the_shape_of_pixels_and_the_transfer_curve_are_read() -> None:
    found = entry(visual_entry(inner=box(b"avcC", AVC) + box(b"pasp", pack(">II", 4, 3)) + BT2020_PQ))
    assert (found.pixel_width, found.pixel_height, found.transfer) == (4, 3, 16)
    assert entry(visual_entry(inner=box(b"avcC", AVC) + colour(9, 16, 9, kind=b"prof"))).transfer is None


@pytest.mark.parametrize(
    "data",
    [
        visual_entry(b"encv"),
        visual_entry(b"mp4v"),
        visual_entry(inner=b""),
        visual_entry(inner=box(b"avcC", b"\1\2")),
        visual_entry(inner=box(b"avcC", AVC) * 2),
        visual_entry(b"hvc1", box(b"hvcC", HEVC[:-1])),
        box(b"avc1", bytes(77)),
        audio_entry(b"mp4a", esds(0x40, bytes.fromhex("1190")), version=1),
        audio_entry(b"mp4a", esds(0x40)),
        audio_entry(b"mp4a", esds(0x40, b"\x11")),
        audio_entry(b"mp4a", esds(0x40, bytes.fromhex("1690"))),  # a reserved rate
        audio_entry(b"mp4a", esds(0xA5)),
        audio_entry(b"mp4a", esds(0x40, bytes.fromhex("1190"), flags=0x80)),
        audio_entry(b"mp4a", full(b"esds", descriptor(3, b"")[:-1] + b"\x7f")),
        audio_entry(b"mp4a", full(b"esds", b"\3" + b"\xff" * 4)),
        audio_entry(b"Opus", box(b"dOps")),
        audio_entry(b"fLaC", full(b"dfLa", bytes([1]) + bytes(40))),
        audio_entry(b"enca", b""),
    ],
)
def test_a_strange_sample_entry_is_a_typed_error(data: bytes) -> None:
    with pytest.raises(MediaError):
        entry(data)


PQ = "format=yuv420p10le,setparams=color_primaries=bt2020:color_trc=smpte2084:colorspace=bt2020nc"


@pytest.mark.parametrize(
    "recipe",
    [
        Recipe("hevc", (Sound("a", "flac"),), picture=PQ),
        Recipe("av1", (Sound("a", channels=6),), picture=PQ),
        Recipe("vp9", (Sound("a", "mp3", channels=1),), picture=PQ),
        Recipe("h264", (Sound("a", "opus", channels=6),)),
    ],
    ids=lambda recipe: recipe.video,
)
def test_ffmpeg_gives_the_same_codec_strings(sandbox: Sandbox, tmp_path: Path, recipe: Recipe) -> None:
    for name in encode(replace(recipe, widths=(320,), seconds=0.5), tmp_path):
        facts = finish_rendition(sandbox, tmp_path, name, segment_seconds=4)
        theirs = etree.parse(str(tmp_path / f"{name}.mpd")).find(".//{*}Representation").get("codecs")
        same = {"mp4a.40.34": "mp4a.6B"}  # both are MP3
        # ffmpeg leaves out the colours of VP9.
        assert f"{facts.track.codec}.".lower().startswith(f"{same.get(theirs, theirs)}.".lower())
        rendition = rendition_of(name, facts)
        if isinstance(rendition, VideoRendition):
            assert rendition.video_range == ("SDR" if recipe.video == "h264" else "PQ")
            assert rendition.max_frame_rate == rendition.frame_rate == Fraction(30000, 1001)
        else:
            assert rendition.channels == recipe.sounds[0].channels
