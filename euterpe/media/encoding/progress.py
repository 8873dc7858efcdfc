"""Parse the output of `ffmpeg -progress`, and compute percent, speed and remaining time of an encode."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import nan

# A whole progress block has a few hundred bytes, so only a compromised ffmpeg sends longer lines.
_LONGEST_LINE = 4096
# The limit of seconds and of speed: ffmpeg never exceeds it, and the store rejects larger values.
_TOO_MUCH = 1e9


@dataclass(frozen=True)
class EncodeProgress:
    """The progress of an encode. None means that a value is not known yet, or never will be."""

    percent: float | None = None
    speed: float | None = None
    eta_seconds: float | None = None
    out_bytes: int = 0


@dataclass(frozen=True)
class ProgressLine:
    """A progress block: the seconds of media done, and the speed as a multiple of real time."""

    done_seconds: float | None
    speed: float | None


class ReportReader:
    def __init__(self) -> None:
        self._rest = b""
        self._fields: dict[str, str] = {}

    def feed(self, data: bytes) -> Iterator[ProgressLine]:
        """Yield the blocks that `data` completes. The iterator must be consumed."""
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
            # The value is negative while ffmpeg processes media before the start time.
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
    """Return the number. For other text, such as ffmpeg's N/A, return NaN, which fails every range check."""
    try:
        return float(text)
    except ValueError:
        return nan
