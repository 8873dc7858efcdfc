"""The films of `ci/bench media`. Each film is generated on its first use and kept in .venv/media_bench."""

from __future__ import annotations

from pathlib import Path

from ci.media_parts.measuring import FFMPEG, QUIET, run

_FOLDER = Path(__file__).parents[2] / ".venv" / "media_bench"
# The pictures of testsrc2 are mostly flat. With grain, the film is as hard to encode as a film from a camera.
_GRAIN = "noise=alls=6:allf=t"
_X264 = "-c:v libx264 -preset ultrafast -crf 26 -g 50 -pix_fmt yuv420p"
_HDR = "format=yuv420p10le,setparams=color_primaries=bt2020:color_trc=smpte2084:colorspace=bt2020nc:range=tv"


def film(height: int, seconds: int) -> Path:
    """Return a film of 16:9 with 25 pictures per second, grain and stereo sound."""
    return _made(
        f"film-{height}-{seconds}.mp4",
        f"-f lavfi -i testsrc2=size={height * 16 // 9}x{height}:rate=25:duration={seconds},{_GRAIN} "
        f"-f lavfi -i aevalsrc=0.2*sin(440*2*PI*t)|0.2*sin(330*2*PI*t):d={seconds} {_X264} -c:a aac -ac 2",
    )


def hdr_film(height: int, seconds: int) -> Path:
    """Return a film in PQ with 10 bits, without sound."""
    return _made(
        f"hdr-{height}-{seconds}.mp4",
        f"-f lavfi -i testsrc2=size={height * 16 // 9}x{height}:rate=25:duration={seconds},{_GRAIN},{_HDR} "
        "-c:v libx265 -preset ultrafast -crf 14 -x265-params log-level=error -tag:v hvc1",
    )


def hour() -> Path:
    """Return a film of one hour in 640x360: a repeated minute without grain, a keyframe every two seconds."""
    minute = _made(
        "minute.mp4",
        "-f lavfi -i testsrc2=size=640x360:rate=25:duration=60 "
        f"-f lavfi -i aevalsrc=0.2*sin(440*2*PI*t):d=60 {_X264} -c:a aac",
    )
    return _made("hour.mp4", "-c copy", before=f"-stream_loop 59 -i {minute}")


def _made(name: str, arguments: str, before: str = "") -> Path:
    path = _FOLDER / name
    if not path.exists():
        _FOLDER.mkdir(exist_ok=True)
        unfinished = path.with_name(f"unfinished-{name}")
        run([FFMPEG, *QUIET, *before.split(), *arguments.split(), unfinished], _FOLDER)
        unfinished.rename(path)
    return path
