"""How far an encode is: what ffmpeg writes with `-progress`, read as it comes."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import nan

# A block has some hundred bytes; a child that sends no line end at all is not ffmpeg any more.
_LONGEST_LINE = 4096
# Of seconds and of speed: more is not ffmpeg's, and the store takes less only.
_TOO_MUCH = 1e9


@dataclass(frozen=True)
class EncodeProgress:
    """None: not known, or not yet."""

    percent: float | None = None
    speed: float | None = None
    eta_seconds: float | None = None
    out_bytes: int = 0


@dataclass(frozen=True)
class ProgressLine:
    """One block: how many seconds of media are done, at what multiple of real time."""

    done_seconds: float | None
    speed: float | None


class ReportReader:
    def __init__(self) -> None:
        self._rest = b""
        self._fields: dict[str, str] = {}

    def feed(self, data: bytes) -> Iterator[ProgressLine]:
        *lines, rest = (self._rest + data).split(b"\n")
        self._rest = rest[-_LONGEST_LINE:]
        for line in lines:
            key, _, value = line.decode(errors="replace").partition("=")
            if key in ("out_time_us", "speed"):
                self._fields[key] = value.strip()
            elif key == "progress":
                yield self._report()
                self._fields = {}

    def _report(self) -> ProgressLine:
        done = _number(self._fields.get("out_time_us", ""))
        speed = _number(self._fields.get("speed", "").removesuffix("x"))
        return ProgressLine(
            # Below zero while only what lies before the first moment is done.
            done_seconds=done / 1_000_000 if abs(done) < _TOO_MUCH * 1_000_000 else None,
            speed=speed if 0 <= speed < _TOO_MUCH else None,
        )


def progress_of(report: ProgressLine, duration_seconds: float | None, out_bytes: int) -> EncodeProgress:
    if not duration_seconds or report.done_seconds is None:
        return EncodeProgress(speed=report.speed, out_bytes=out_bytes)
    done = min(max(report.done_seconds, 0.0), duration_seconds)
    eta = round((duration_seconds - done) / report.speed, 1) if report.speed else nan
    return EncodeProgress(
        percent=round(100 * done / duration_seconds, 2),
        speed=report.speed,
        eta_seconds=eta if eta < _TOO_MUCH else None,
        out_bytes=out_bytes,
    )


def _number(text: str) -> float:
    """Return NaN, which is within no bounds, for what is no number, like the N/A of ffmpeg."""
    try:
        return float(text)
    except ValueError:
        return nan
