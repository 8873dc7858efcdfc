"""Parse the output of `ffmpeg -progress`, and compute percent, speed and remaining time of a plan."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import nan
from time import monotonic

from euterpe.media.planning.tree import Command, Measurement, Plan

Step = Command | Measurement

# A whole progress block has a few hundred bytes, so only a compromised ffmpeg sends longer lines.
_LONGEST_LINE = 4096
# The upper limit of seconds and of speed. ffmpeg never exceeds it, and the store rejects larger values.
_TOO_MUCH = 1e9


@dataclass(frozen=True)
class EncodeProgress:
    """The progress of an encode. A value that is not known, or not known yet, is None."""

    percent: float | None = None
    speed: float | None = None
    eta_seconds: float | None = None
    out_bytes: int = 0


@dataclass(frozen=True)
class ProgressLine:
    """A progress block of ffmpeg: the finished seconds of media, and the speed relative to real time."""

    done_seconds: float | None
    speed: float | None


class ReportReader:
    def __init__(self) -> None:
        self._rest = b""
        self._fields: dict[str, str] = {}

    def feed(self, data: bytes) -> Iterator[ProgressLine]:
        """Yield the blocks that `data` completes.

        Read the iterator to its end, because the lines that are not read are lost.
        """
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


class PlanProgress:
    """The progress of a plan: the weight of its finished steps, and a part of the weight of the running step.

    The steps are the measurements and the commands of the plan. The percentage never falls, even when ffmpeg
    reports an earlier time.
    """

    def __init__(self, plan: Plan, clock: Callable[[], float] = monotonic) -> None:
        steps: tuple[Step, ...] = (*plan.measurements, *plan.commands)
        self._total = sum(step.weight for step in steps) or 1.0
        self._done = self._share = 0.0
        self._clock, self._began = clock, clock()

    def at(self, step: Step, report: ProgressLine, out_bytes: int) -> EncodeProgress:
        """Return the progress while `step` runs."""
        if step.seconds and report.done_seconds is not None:
            part = min(max(report.done_seconds, 0.0) / step.seconds, 1.0)
            self._share = max(self._share, (self._done + part * step.weight) / self._total)
        elif not self._share:
            return EncodeProgress(speed=report.speed, out_bytes=out_bytes)
        return EncodeProgress(
            percent=round(100 * self._share, 2),
            speed=report.speed,
            eta_seconds=self._eta(),
            out_bytes=out_bytes,
        )

    def finish(self, step: Step) -> None:
        self._done += step.weight
        self._share = max(self._share, self._done / self._total)

    def _eta(self) -> float | None:
        if not self._share:
            return None
        eta = (self._clock() - self._began) * (1 - self._share) / self._share
        return round(eta, 1) if eta < _TOO_MUCH else None


def _number(text: str) -> float:
    """Return the number. For other text, such as ffmpeg's N/A, return NaN, which fails every range check."""
    try:
        return float(text)
    except ValueError:
        return nan
