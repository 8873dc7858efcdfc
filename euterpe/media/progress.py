"""How far an encode is: what ffmpeg writes with `-progress`, read as it comes."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import isfinite

# A block has some hundred bytes; a child that sends no line end at all is not ffmpeg any more.
_LONGEST_LINE = 4096


@dataclass(frozen=True)
class Progress:
    """None: not known, or not yet."""

    percent: float | None = None
    speed: float | None = None
    eta_seconds: float | None = None
    out_bytes: int = 0


@dataclass(frozen=True)
class Report:
    """One block: how many seconds of media are done, at what multiple of real time."""

    done_seconds: float | None
    speed: float | None


class ReportReader:
    def __init__(self) -> None:
        self._rest = b""
        self._fields: dict[str, str] = {}

    def feed(self, data: bytes) -> Iterator[Report]:
        *lines, rest = (self._rest + data).split(b"\n")
        self._rest = rest[-_LONGEST_LINE:]
        for line in lines:
            key, _, value = line.decode(errors="replace").partition("=")
            if key in ("out_time_us", "speed"):
                self._fields[key] = value.strip()
            elif key == "progress":
                yield self._report()
                self._fields = {}

    def _report(self) -> Report:
        done = _number(self._fields.get("out_time_us", ""))
        return Report(
            done_seconds=None if done is None else done / 1_000_000,
            speed=_number(self._fields.get("speed", "").removesuffix("x")),
        )


def progress_of(report: Report, duration_seconds: float | None, out_bytes: int) -> Progress:
    if not duration_seconds or report.done_seconds is None:
        return Progress(speed=report.speed, out_bytes=out_bytes)
    done = min(max(report.done_seconds, 0.0), duration_seconds)
    left = duration_seconds - done
    return Progress(
        percent=round(100 * done / duration_seconds, 2),
        speed=report.speed,
        eta_seconds=round(left / report.speed, 1) if report.speed else None,
        out_bytes=out_bytes,
    )


def _number(text: str) -> float | None:
    """ffmpeg writes N/A for what it does not know."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if isfinite(number) else None
