"""The result of a benchmark: a measured value, its baseline and its target."""

from dataclasses import dataclass

from euterpe.domain.errors import EuterpeError


class BenchFailed(EuterpeError):
    code = "bench_failed"


@dataclass(frozen=True)
class Figure:
    """A measured value. `bare` is the value of a program without Euterpe, measured in the same run.

    If `bare` is set, the target applies to the ratio `value / bare`, otherwise to `value`."""

    what: str
    unit: str
    value: float
    bare: float | None = None
    at_least: float | None = None
    at_most: float | None = None

    @property
    def ratio(self) -> float | None:
        return None if self.bare is None else self.value / self.bare

    @property
    def target(self) -> str:
        suffix = "×" if self.bare is not None else self.unit
        if self.at_least is not None:
            return f"≥ {self.at_least:g} {suffix}"
        return "" if self.at_most is None else f"≤ {self.at_most:g} {suffix}"

    @property
    def is_met(self) -> bool:
        judged = self.value if self.ratio is None else self.ratio
        return (self.at_least is None or judged >= self.at_least) and (
            self.at_most is None or judged <= self.at_most
        )

    def document(self) -> dict[str, object]:
        return {
            "what": self.what,
            "unit": self.unit,
            "value": round(self.value, 3),
            "bare": None if self.bare is None else round(self.bare, 3),
            "ratio": None if self.ratio is None else round(self.ratio, 3),
            "target": self.target or None,
            "met": self.is_met,
        }
