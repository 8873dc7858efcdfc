"""Make pictures for watermarks: one colour in each format, transparent parts, and very large pictures."""

import struct
import zlib
from pathlib import Path

from tests.media.sources.cache import Sources, ffmpeg
from tests.media.sources.colour_math import Triple

URL = "s3://in/logo.png"
COLOUR: Triple = (224, 96, 32)
SIZE = (120, 60)
_FILL = "color=0x{:02x}{:02x}{:02x}:s={}x{}:r=25:d=0.04".format(*(int(one) for one in COLOUR), *SIZE)
_PALETTE = "-vf split[a][b];[b]palettegen[c];[a][c]paletteuse"
_AVIF = "-c:v libaom-av1 -still-picture 1 -crf 4 -cpu-used 8"
# The formats of an opaque picture, each with the arguments of ffmpeg.
FORMATS = {
    "rgb.png": "-pix_fmt rgb24",
    "deep.png": "-pix_fmt rgba64be",
    "palette.png": f"{_PALETTE} -pix_fmt pal8",
    "picture.jpg": "-pix_fmt yuvj444p -q:v 1",
    "lossy.webp": "-c:v libwebp -quality 95",
    "lossless.webp": "-c:v libwebp -lossless 1 -pix_fmt bgra",
    "picture.gif": _PALETTE,
    "picture.avif": "-vf scale=out_color_matrix=bt709:out_range=pc,format=yuv444p,setparams=colorspace=bt709:"
    f"color_primaries=bt709:color_trc=iec61966-2-1:range=pc {_AVIF}",
}


def logo(sources: Sources, name: str = "rgb.png") -> Path:
    """Return an opaque picture of `COLOUR`."""
    return sources.get(
        f"logo-{name}", lambda path: ffmpeg(f"-f lavfi -i {_FILL} {FORMATS[name]} -frames:v 1 {path}")
    )


def half_transparent(sources: Sources, name: str = "alpha.png") -> Path:
    """Return a picture of `COLOUR` whose left half is opaque and whose right half has an alpha of 0.5.

    The extension of the name selects the format.
    """
    alpha = (
        f"{_FILL},format=rgba,geq=r=r(X\\,Y):g=g(X\\,Y):b=b(X\\,Y):a=if(lt(X\\,{SIZE[0] // 2})\\,255\\,128)"
    )
    avif = f"-filter_complex [0:v]format=yuva444p,split[a][b];[b]alphaextract[c] -map [a] -map [c] {_AVIF}"
    more = {"avif": avif, "webp": "-c:v libwebp -quality 95"}.get(name.partition(".")[2], "")
    return sources.get(
        f"logo-{name}", lambda path: ffmpeg(f"-f lavfi -i '{alpha}' {more} -frames:v 1 {path}")
    )


def disc(sources: Sources) -> Path:
    """Return an opaque disc of `COLOUR` in a transparent square. The transparent pixels are bright green."""
    red, green, blue = (int(one) for one in COLOUR)
    inside = "lte(hypot(X-60\\,Y-60)\\,50)"
    planes = ":".join(
        f"{name}=if({inside}\\,{value}\\,{other})"
        for name, value, other in (("r", red, 0), ("g", green, 255), ("b", blue, 0), ("a", 255, 0))
    )
    return sources.get(
        "logo-disc.png",
        lambda path: ffmpeg(
            f"-f lavfi -i 'color=black:s=120x120,format=rgba,geq={planes}' -frames:v 1 {path}"
        ),
    )


def flat(
    sources: Sources, width: int = 320, height: int = 180, *, grey: int = 128, options: str = ""
) -> Path:
    """Return a film of this size that shows one grey for half a second."""
    even = width % 2 == height % 2 == 0
    name = f"flat-{width}x{height}-{grey}-{zlib.crc32(options.encode())}.mp4"
    pixels = "yuv420p" if even else "yuv444p"
    fill = f"color=0x{grey:02x}{grey:02x}{grey:02x}:s={width}x{height}:r=24000/1001:d=0.5"
    tags = "setparams=colorspace=bt709:color_primaries=bt709:color_trc=bt709:range=tv"
    return sources.get(
        name,
        lambda path: ffmpeg(
            f"-f lavfi -i {fill} -vf scale=out_color_matrix=bt709,format={pixels},{tags} "
            f"-c:v libx264 -preset veryfast -qp 0 -threads 1 {options} {path}"
        ),
    )


def large_png(width: int, height: int) -> bytes:
    """Return a black PNG of this size. 900 million pixels take 3 MB."""
    packed, line = zlib.compressobj(9), bytes(1 + 3 * width)
    rows = b"".join(packed.compress(line) for _ in range(height)) + packed.flush()
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header) + _chunk(b"IDAT", rows) + _chunk(b"IEND", b"")


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
