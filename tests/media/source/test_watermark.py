"""Tests of pictures that are accepted as watermarks, and of files that only look like such pictures."""

import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from euterpe.domain.error_codes import ErrorCode, RetryClass
from euterpe.media.errors import MediaError
from euterpe.media.sandbox.sandbox import Sandbox
from euterpe.media.source.watermark_info import WatermarkInfo
from tests.media.media_steps import probe_watermark
from tests.media.sources.cache import Sources, ffmpeg
from tests.media.sources.logos import FORMATS, SIZE, half_transparent, large_png, logo

_HLS = b"#EXTM3U\n#EXT-X-TARGETDURATION:4\n#EXTINF:4,\nhttp://127.0.0.1/a.ts\n#EXT-X-ENDLIST\n"
_SVG = (
    b'<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><image href="file:///etc/passwd"/></svg>'
)
_PNG = b"\x89PNG\r\n\x1a\n"
_HEADER = struct.pack(">I", 13) + b"IHDR" + struct.pack(">IIBBBBB", 2**31 - 1, 2**31 - 1, 8, 6, 0, 0, 0)
FAKES: dict[str, Callable[[bytes], bytes]] = {
    "nothing": lambda _: b"",
    "a playlist": lambda _: _HLS,
    "a playlist after the first bytes of a PNG": lambda _: _PNG + _HLS,
    "SVG": lambda _: _SVG,
    "text": lambda _: b"hello world\n" * 100,
    "a list of other files": lambda _: b"ffconcat version 1.0\nfile /etc/passwd\n",
    "half of a picture": lambda whole: whole[: len(whole) // 2],
    "a wrong checksum": lambda whole: whole[:60] + bytes([whole[60] ^ 1]) + whole[61:],
    "a header of 4 GB": lambda whole: _PNG + struct.pack(">I", 2**32 - 1) + b"IHDR" + whole[16:],
    "a picture of 2 billion lines": lambda whole: _PNG + _HEADER + whole[29:],
    "900 million pixels": lambda _: large_png(30_000, 30_000),
    "one pixel too many": lambda _: large_png(4097, 4096),
}


def refusal(sandbox: Sandbox, path: Path) -> MediaError:
    with pytest.raises(MediaError) as refused:
        probe_watermark(sandbox, path)
    assert refused.value.code is ErrorCode.WATERMARK_UNUSABLE
    assert refused.value.retry_class is RetryClass.PERMANENT
    return refused.value


@pytest.mark.parametrize("name", FORMATS)
def test_a_picture_of_each_format_is_accepted(sandbox: Sandbox, sources: Sources, name: str) -> None:
    info = probe_watermark(sandbox, logo(sources, name))
    assert (info.width, info.height, info.alpha_stream) == (*SIZE, None)


def test_the_transparency_of_avif_is_a_stream_of_its_own(sandbox: Sandbox, sources: Sources) -> None:
    assert probe_watermark(sandbox, half_transparent(sources, "alpha.avif")).alpha_stream == 1


def test_a_photo_is_upright(sandbox: Sandbox, sources: Sources) -> None:
    """A camera stores its orientation as EXIF. Without EXIF, the watermark would have the wrong shape."""

    def turn(path: Path) -> None:
        photo = logo(sources, "picture.jpg").read_bytes()
        exif = b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0"
        path.write_bytes(photo[:2] + b"\xff\xe1" + struct.pack(">H", len(exif) + 2) + exif + photo[2:])

    info = probe_watermark(sandbox, sources.get("logo-turned.jpg", turn))
    assert (info.width, info.height) == SIZE[::-1]


def test_the_largest_picture_is_accepted(sandbox: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "logo").write_bytes(large_png(4096, 4096))
    assert probe_watermark(sandbox, tmp_path / "logo").width == 4096


@pytest.mark.parametrize("name", FAKES)
def test_a_file_that_is_no_picture_is_refused(
    sandbox: Sandbox, sources: Sources, tmp_path: Path, name: str
) -> None:
    (tmp_path / "logo").write_bytes(FAKES[name](half_transparent(sources).read_bytes()))
    refusal(sandbox, tmp_path / "logo")


@pytest.mark.parametrize(
    "name", ["picture.jpg", "lossy.webp", "lossless.webp", "picture.avif", "picture.gif"]
)
def test_a_picture_that_is_cut_off_is_refused(
    sandbox: Sandbox, sources: Sources, tmp_path: Path, name: str
) -> None:
    whole = logo(sources, name).read_bytes()
    (tmp_path / "logo").write_bytes(whole[: len(whole) * 3 // 4])
    refusal(sandbox, tmp_path / "logo")


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("film.mp4", "-c:v libx264 -pix_fmt yuv420p"),
        ("av1.mp4", "-c:v libaom-av1 -cpu-used 8"),
        ("film.webm", "-c:v libvpx-vp9"),
        ("film.ts", "-c:v mpeg2video"),
        ("animated.webp", "-c:v libwebp_anim"),
        ("animated.png", "-f apng"),
        ("picture.bmp", "-frames:v 1"),
        ("picture.tiff", "-frames:v 1"),
    ],
)
def test_films_and_other_formats_are_refused(
    sandbox: Sandbox, sources: Sources, name: str, arguments: str
) -> None:
    made = "-f lavfi -i testsrc2=s=64x64:r=25:d=0.2"
    refusal(sandbox, sources.get(f"no-logo-{name}", lambda path: ffmpeg(f"{made} {arguments} {path}")))


def test_the_first_picture_of_a_gif_is_taken_however_long_it_goes_on(
    sandbox: Sandbox, sources: Sources, tmp_path: Path
) -> None:
    """The GIF is cut off in the middle of its second picture, and declares that it repeats for ever."""
    whole = sources.get(
        "long.gif", lambda path: ffmpeg(f"-f lavfi -i testsrc2=s=64x64:r=25:d=2 -loop 0 {path}")
    ).read_bytes()
    (tmp_path / "logo").write_bytes(whole[: len(whole) // 3])
    assert probe_watermark(sandbox, tmp_path / "logo").container == "gif"


@pytest.mark.parametrize(
    "answer",
    [
        {"container": "hls", "stream": 0, "width": 9, "height": 9},
        {"container": "png_pipe", "stream": 0, "width": 0, "height": 9},
        {"container": "png_pipe", "stream": 0, "width": 9000, "height": 9000},
        {"container": "png_pipe", "stream": "0;movie=x", "width": 9, "height": 9},
        {"container": "png_pipe", "stream": 0, "width": 9, "height": 9, "more": 1},
        [],
    ],
)
def test_an_answer_that_lies_is_refused(answer: object) -> None:
    with pytest.raises(MediaError) as refused:
        WatermarkInfo.parse(answer)
    assert refused.value.code is ErrorCode.WATERMARK_UNUSABLE
