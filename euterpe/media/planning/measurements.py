"""Settle a plan: replace its goals by the numbers that were measured in the source. No I/O."""

from collections.abc import Sequence
from dataclasses import replace

from euterpe.media.planning.loudness import MeasuredLoudness, with_gains
from euterpe.media.planning.search import MeasuredCurve, with_factors
from euterpe.media.planning.tree import LoudnessMeasurement, Plan, SearchMeasurement

Result = MeasuredLoudness | MeasuredCurve


def settled(plan: Plan, results: Sequence[Result | None]) -> Plan:
    """Return the plan with measured numbers in place of its goals, and without measurements.

    `results` has the result of each measurement of the plan, in order. If an optional measurement failed, its
    result is None, and the outputs that need this result are not made. A plan without measurements is
    returned unchanged.
    """
    pairs = list(enumerate(zip(plan.measurements, results, strict=True)))
    loudness: dict[int, MeasuredLoudness | None] = {}
    curves: dict[int, MeasuredCurve | None] = {}
    for place, pair in pairs:
        match pair:
            case LoudnessMeasurement(), MeasuredLoudness() | None as gained:
                loudness[place] = gained
            case SearchMeasurement(), MeasuredCurve() | None as curve:
                curves[place] = curve
            case _:
                raise ValueError(f"measurement {place} has a result of another kind")
    return replace(with_factors(with_gains(plan, loudness), curves), measurements=())
