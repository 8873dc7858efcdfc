"""Tests of the facts in decoded pictures: field order, orientation, colour, HDR, captions."""

import re
from pathlib import Path

import pytest

from euterpe.media.sandbox.sandbox import Sandbox
from euterpe.media.source.colour import Colour
from euterpe.media.source.media_info import StreamInfo
from tests.media.clips import Clips
from tests.media.media_steps import probe

_X264 = "-c:v libx264 -preset ultrafast -pix_fmt yuv420p"
_FIELDS = "-vf interlace=scan=tff -flags +ilme+ildct"


def _pictures(seconds: float = 1, rate: int = 25) -> str:
    return f"-f lavfi -i testsrc2=size=160x96:rate={rate}:duration={seconds}"


def video_of(sandbox: Sandbox, path: Path) -> StreamInfo:
    video = probe(sandbox, path).video
    assert video is not None
    return video


@pytest.mark.parametrize("is_first", [True, False])
def test_one_interlaced_picture_makes_a_film_interlaced(
    clips: Clips, sandbox: Sandbox, tmp_path: Path, is_first: bool
) -> None:
    progressive = clips.encoded(
        f"progressive-{is_first}.h264", f"{_pictures(1 if is_first else 0.04)} {_X264}"
    )
    interlaced = clips.encoded(
        f"interlaced-{is_first}.h264", f"{_pictures(0.04 if is_first else 1, 50)} {_FIELDS} {_X264}"
    )
    raw = tmp_path / "mixed.h264"
    order = [interlaced, progressive] if is_first else [progressive, interlaced]
    raw.write_bytes(b"".join(path.read_bytes() for path in order))
    clips.encode(f"-r 25 -f h264 -i {raw} -c copy", tmp_path / "mixed.ts")
    assert video_of(sandbox, tmp_path / "mixed.ts").interlaced


@pytest.mark.parametrize("scan", ["tff", "bff"])
@pytest.mark.parametrize("coded", [f"{_X264} -f mp4", "-c:v mpeg2video -f mpegts"])
def test_the_field_that_is_shown_first_is_known(
    clips: Clips, sandbox: Sandbox, tmp_path: Path, scan: str, coded: str
) -> None:
    path = tmp_path / "film"
    clips.encode(f"{_pictures(1, 50)} -vf interlace=scan={scan} -flags +ilme+ildct {coded}", path)
    video = video_of(sandbox, path)
    assert (video.interlaced, video.top_field_first) == (True, scan == "tff")


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ("-display_rotation 90", (90, False)),
        ("-display_rotation 45", (45, False)),
        ("-display_hflip", (180, True)),  # ffmpeg reports this as a turn by 180 degrees and a vertical flip
        ("-display_vflip", (0, True)),
        ("-display_rotation 90 -display_hflip", (90, True)),
    ],
)
def test_the_orientation_is_read(
    clips: Clips, sandbox: Sandbox, tmp_path: Path, options: str, shown: tuple[int, bool]
) -> None:
    path = tmp_path / "turned.mp4"
    clips.encode(f"{options} -i {clips.make('silent.mp4')} -c copy", path)
    video = video_of(sandbox, path)
    assert (video.rotation, video.is_flipped) == shown


_BT2020 = "setparams=color_trc={curve}:color_primaries=bt2020:colorspace=bt2020nc"
_HEVC = "-c:v libx265 -preset ultrafast -x265-params log-level=error"
_DISPLAY = "G(13250,34500)B(7500,3000)R(34000,16000)WP(15635,16450)L(10000000,50)"
_NUMBERS = (13250, 34500, 7500, 3000, 34000, 16000, 15635, 16450, 10_000_000, 50)


def hdr_clip(clips: Clips) -> Path:
    chain = f"-vf format=yuv420p10le,{_BT2020.format(curve='smpte2084')}"
    return clips.encoded(
        "hdr10.mp4", f"{_pictures()} {chain} {_HEVC}:master-display={_DISPLAY}:max-cll=1000,400"
    )


@pytest.mark.parametrize(
    ("name", "coded"),
    [
        ("film.mp4", "-c copy"),
        ("film.mkv", "-c copy"),
        ("film.ts", "-c copy"),
        ("vp9.mkv", "-c:v libvpx-vp9 -deadline realtime -pix_fmt yuv420p10le"),
    ],
)
def test_hdr_metadata_is_read_from_every_container(
    clips: Clips, sandbox: Sandbox, tmp_path: Path, name: str, coded: str
) -> None:
    clips.encode(f"-i {hdr_clip(clips)} {coded}", tmp_path / name)
    video = video_of(sandbox, tmp_path / name)
    assert (video.hdr, video.bit_depth, video.colour) == ("pq", 10, Colour(9, 16, 9, full_range=False))
    assert (video.mastering_display, video.content_light) == (_NUMBERS, (1000, 400))
    assert video.dolby_vision is False


def test_dolby_vision_is_known_by_its_tag(clips: Clips, sandbox: Sandbox, tmp_path: Path) -> None:
    path = tmp_path / "dolby.mp4"
    clips.encode(f"-i {hdr_clip(clips)} -c copy -tag:v dvh1 -strict unofficial", path)
    assert video_of(sandbox, path).dolby_vision is True


@pytest.mark.parametrize(
    ("coded", "colour"),
    [
        (f"-vf setparams=color_trc=bt709:color_primaries=bt709:colorspace=bt709 {_X264}", Colour(1, 1, 1)),
        (
            f"-vf setparams=color_trc=smpte170m:color_primaries=bt470bg:colorspace=bt470bg {_X264}",
            Colour(5, 6, 5),
        ),
        (f"-vf format=yuv420p10le,{_BT2020.format(curve='arib-std-b67')} {_HEVC}", Colour(9, 18, 9, False)),
        (f"-vf scale=out_range=full {_X264} -color_range pc", Colour(full_range=True)),
        (_X264, Colour()),
        ("-pix_fmt rgb24 -c:v qtrle", Colour(matrix=0, full_range=True)),
        ("-pix_fmt pal8 -c:v png", Colour(matrix=0, full_range=True)),
        ("-pix_fmt yuvj420p -c:v mjpeg", Colour(matrix=5, full_range=True)),
    ],
    ids=["709", "601", "hlg", "full", "untagged", "rgb", "palette", "jpeg"],
)
def test_the_colour_is_read(
    clips: Clips, sandbox: Sandbox, tmp_path: Path, coded: str, colour: Colour
) -> None:
    path = tmp_path / "film.mov"
    clips.encode(f"{_pictures()} {coded}", path)
    found = video_of(sandbox, path).colour
    assert found.or_else(Colour(full_range=False)) == colour.or_else(Colour(full_range=False))


def turned(clips: Clips, raw: Path) -> Path:
    """Return the raw film in a container that declares a turn by 90 degrees."""
    upright, film = raw.with_suffix(".mov"), raw.with_name("turned.mov")
    clips.encode(f"-r 25 -f {raw.suffix[1:]} -i {raw} -c copy", upright)
    clips.encode(f"-display_rotation 90 -i {upright} -c copy", film)
    return film


def test_captions_inside_the_pictures_are_noticed(clips: Clips, sandbox: Sandbox, tmp_path: Path) -> None:
    film = clips.encoded("plain.h264", f"{_pictures()} {_X264} -x264-params slices=1:sliced-threads=0")
    captions = b"\xb5\x00\x31GA94\x03\x41\xff\xfc\x94\x20\xff"  # CEA-608, in a message of ITU-T T.35
    message = b"\0\0\x01\x06\x04" + bytes([len(captions)]) + captions + b"\x80"
    first_bytes = rb"\0\0\x01[\x65\x41\x61\x01\x21]"  # the beginning of the slice of each picture
    raw = tmp_path / "captions.h264"
    raw.write_bytes(re.sub(first_bytes, lambda begin: message + begin[0], film.read_bytes()))
    assert video_of(sandbox, turned(clips, raw)).has_captions is True
    assert video_of(sandbox, clips.make("silent.mp4")).has_captions is False


def test_side_data_of_an_unknown_type_does_no_harm(clips: Clips, sandbox: Sandbox, tmp_path: Path) -> None:
    """PyAV 18 fails to read any side data of a picture that has EXIF."""
    film = clips.encoded("plain.mjpeg", f"{_pictures()} -pix_fmt yuvj420p -c:v mjpeg -f mjpeg")
    width = b"\x01\x00\x00\x03\x00\x00\x00\x01\x00\xa0\x00\x00"  # the only EXIF field
    exif = b"Exif\0\0MM\0*\x00\x00\x00\x08\x00\x01" + width + bytes(4)
    raw = tmp_path / "exif.mjpeg"
    begin = b"\xff\xd8"
    segment = b"\xff\xe1" + (len(exif) + 2).to_bytes(2, "big") + exif
    raw.write_bytes(film.read_bytes().replace(begin, begin + segment))
    assert video_of(sandbox, turned(clips, raw)).rotation == 90
