"""Tests that a still picture is refused as a source, with a message that names its format."""

from pathlib import Path

import pytest

from euterpe.domain.error_codes import ErrorCode
from euterpe.media.errors import MediaError
from euterpe.media.sandbox.sandbox import Sandbox
from tests.media.media_steps import probe
from tests.media.sources.cache import Sources, ffmpeg
from tests.media.sources.logos import FORMATS, flat, half_transparent, large_png, logo

NAMES = {"png": "PNG", "jpg": "JPEG", "webp": "WebP", "gif": "GIF", "avif": "AVIF"}


def refusal(sandbox: Sandbox, path: Path) -> MediaError:
    with pytest.raises(MediaError) as refused:
        probe(sandbox, path)
    return refused.value


@pytest.mark.parametrize("name", FORMATS)
def test_a_still_picture_is_no_source(sandbox: Sandbox, sources: Sources, name: str) -> None:
    error = refusal(sandbox, logo(sources, name))
    assert error.code is ErrorCode.SOURCE_UNSUPPORTED
    assert f"the source is a {NAMES[name.partition('.')[2]]} picture" in str(error)


def test_a_picture_whose_transparency_is_a_second_stream_is_no_film(
    sandbox: Sandbox, sources: Sources
) -> None:
    """An earlier version accepted such a picture as a film of one second, without its transparency."""
    assert "AVIF" in str(refusal(sandbox, half_transparent(sources, "alpha.avif")))


@pytest.mark.parametrize("name", ["bmp", "tiff"])
def test_pictures_that_are_not_accepted_as_watermarks_are_named_too(
    sandbox: Sandbox, sources: Sources, name: str
) -> None:
    made = "-f lavfi -i testsrc2=s=64x64 -frames:v 1"
    path = sources.get(f"still.{name}", lambda path: ffmpeg(f"{made} {path}"))
    assert f"a {name.upper()} picture" in str(refusal(sandbox, path))


@pytest.mark.parametrize(
    "content",
    [
        large_png(30_000, 3),
        b"\x89PNG\r\n\x1a\n",
        b"\x89PNG\r\n\x1a\n#EXTM3U\nfile:///etc/passwd\n",
        b"GIF8" + bytes(1 << 20),
        b"\xff\xd8\xff",
        b"\0\0\0\x10ftypavif" + b"\xff" * 100,
        b"RIFF\xff\xff\xff\xffWEBP" + bytes(100),
    ],
)
def test_hostile_pictures_are_refused_without_decoding(
    sandbox: Sandbox, tmp_path: Path, content: bytes
) -> None:
    (tmp_path / "picture").write_bytes(content)
    error = refusal(sandbox, tmp_path / "picture")
    assert error.code is ErrorCode.SOURCE_UNSUPPORTED
    assert "picture" in str(error)


@pytest.mark.parametrize(
    ("name", "codec"), [("mjpeg.mov", "mjpeg"), ("png.mov", "png"), ("av1.mp4", "libsvtav1")]
)
def test_a_film_of_pictures_is_a_source(sandbox: Sandbox, sources: Sources, name: str, codec: str) -> None:
    """Motion JPEG and PNG in a container, and AV1 in MP4, are films."""
    made = f"-i {flat(sources)} -c:v {codec}"
    path = sources.get(f"film-{name}", lambda path: ffmpeg(f"{made} {path}"))
    assert probe(sandbox, path).video is not None


def test_the_cover_of_a_song_does_not_make_it_a_picture(sandbox: Sandbox, sources: Sources) -> None:
    cover = logo(sources, "picture.jpg")
    song = sources.get(
        "covered.mp3",
        lambda path: ffmpeg(
            f"-f lavfi -i sine=d=1 -i {cover} -map 0 -map 1 -c:v copy -c:a libmp3lame {path}"
        ),
    )
    assert probe(sandbox, song).audio is not None
