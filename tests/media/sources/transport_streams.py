"""Make MPEG-TS files that begin at any time, whose clock wraps, or whose picture size changes."""

from pathlib import Path

from tests.media.sources.cache import Sources, ffmpeg
from tests.media.sources.flashes import flash_film
from tests.media.sources.numbered import constant, pictures
from tests.media.sources.planes import X264, encode

# The clock of MPEG-TS has 33 bits and 90,000 ticks per second, so it wraps after 95,443.7 s. ffmpeg's muxer
# adds 1.4 s to each time, so with this offset the clock wraps 1.9 s after the start.
WRAP_OFFSET_S = 95_440.4
OFFSETS_S = (0.0, 500.0, WRAP_OFFSET_S)
SMALL, LARGE = (320, 180), (640, 360)
_PICTURES_EACH = 25


def shifted_flashes(sources: Sources, offset_s: float) -> Path:
    """Return the film with flashes and beeps as MPEG-TS that begins at `offset_s` + 1.4 s."""
    return sources.remuxed(
        f"flashes-{offset_s}.ts", flash_film(sources), f"-output_ts_offset {offset_s} -f mpegts"
    )


def shifted_numbers(sources: Sources, offset_s: float, rate: str = "25") -> Path:
    """Return a film of 100 numbered pictures as MPEG-TS that begins at `offset_s` + 1.4 s."""
    return sources.remuxed(
        f"numbers-{offset_s}-{rate.replace('/', '-')}.ts",
        constant(sources, 100, rate),
        f"-output_ts_offset {offset_s} -f mpegts",
    )


def _parts(path: Path) -> list[Path]:
    """Write 25 numbered pictures of 640x360 and the next 25 of 320x180, each to its own file."""
    parts = []
    for place, size in enumerate((LARGE, SMALL)):
        part = path.with_name(f"{path.name}.{place}.ts")
        shown = pictures(_PICTURES_EACH, size, first=place * _PICTURES_EACH)
        shift = f"{X264} -output_ts_offset {place * _PICTURES_EACH / 25}"
        encode(part, shown, "25", size=size, arguments=shift)
        parts.append(part)
    return parts


def changing_size(sources: Sources) -> Path:
    """Return one continuous stream of 50 numbered pictures, first in 640x360, then in 320x180."""

    def generate(path: Path) -> None:
        listed = path.with_name(f"{path.name}.txt")
        listed.write_text("".join(f"file {part}\n" for part in _parts(path)))
        ffmpeg(f"-f concat -safe 0 -i {listed} -c copy {path}")

    return sources.get("changing-size.ts", generate)


def joined_bytes(sources: Sources) -> Path:
    """Return the joined bytes of two files with 25 numbered pictures each.

    The packet counters jump where the second file begins.
    """
    return sources.get(
        "joined-bytes.ts",
        lambda path: path.write_bytes(b"".join(part.read_bytes() for part in _parts(path))),
    )


def program_stream(sources: Sources, count: int = 100) -> Path:
    """Return a film of numbered pictures as MPEG-PS, with a keyframe each 12 pictures."""
    encoder = "-c:v mpeg2video -q:v 2 -g 12 -bf 2 -sc_threshold 1000000000"
    return constant(sources, count, container="mpg", arguments=encoder)
