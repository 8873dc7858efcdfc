"""Run the measurements of a plan, and read their results from what ffmpeg wrote."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from euterpe.domain.error_codes import ErrorCode
from euterpe.media.encoding.optional_outputs import MAY_FAIL, output_failed
from euterpe.media.encoding.quality import measured_quality
from euterpe.media.encoding.runner import Runner
from euterpe.media.errors import MediaError
from euterpe.media.planning.argv import measurement_arguments
from euterpe.media.planning.loudness import MeasuredLoudness
from euterpe.media.planning.measurements import Result
from euterpe.media.planning.search import MeasuredCurve
from euterpe.media.planning.tree import LoudnessMeasurement, Plan, PlanWarning, SearchMeasurement

# The summary of the loudness meter, at the end of the log. Its parts are searched separately, because another
# thread can log between them.
_NUMBER = r"(-?[0-9]{1,3}\.[0-9])"
_INTEGRATED = re.compile(rf"Integrated loudness:\n +I: +{_NUMBER} LUFS$", re.MULTILINE)
_TRUE_PEAK = re.compile(rf"True peak:\n +Peak: +(?:{_NUMBER}|-inf) dBFS$", re.MULTILINE)
# If no block of a sound is louder than the meter's absolute threshold (-70 LUFS), the meter reports this
# threshold.
_LEAST_LUFS, _MOST_LUFS = -70.0, 20.0
_LEAST_PEAK, _MOST_PEAK = -200.0, 40.0


@dataclass(frozen=True)
class Measured:
    """The results of all measurements, in order. None stands for a measurement that failed.

    `failed` has a warning for each optional output that needs a failed measurement.
    """

    results: tuple[Result | None, ...]
    failed: Mapping[str, PlanWarning]


def measure(runner: Runner, plan: Plan) -> Measured:
    """Run the measurements of the plan. Raise `MediaError` if a required measurement fails."""
    results, failed = list[Result | None](), dict[str, PlanWarning]()
    for one in plan.measurements:
        try:
            log = runner.run(one, measurement_arguments(plan, one, runner.sandbox.ffmpeg))
            results.append(_curve(runner, one) if isinstance(one, SearchMeasurement) else result_of(one, log))
        except MediaError as error:
            if not one.is_optional or error.code not in MAY_FAIL:
                raise
            results.append(None)
            failed |= {name: output_failed(name, error) for name in one.outputs}
        runner.finish(one)
    return Measured(tuple(results), failed)


def _curve(runner: Runner, search: SearchMeasurement) -> MeasuredCurve:
    """Return the VMAF of the samples at each rate factor of a search."""
    checks = [video.quality for video in search.command.videos if video.quality]
    found = measured_quality(runner.sandbox, checks, runner.folder, on_tick=runner.on_tick(search))
    return MeasuredCurve(tuple(score for one in checks if (score := found[one.number].vmaf) is not None))


def result_of(measurement: LoudnessMeasurement, log: str) -> Result:
    """Return the result from the log. Raise `MediaError` if the result is missing or out of range.

    The result is checked, because the log can quote the source, and a compromised ffmpeg can write anything.
    """
    match measurement:
        case LoudnessMeasurement():
            return _loudness(log)


def _loudness(log: str) -> MeasuredLoudness:
    integrated, peaks = [*_INTEGRATED.finditer(log)], [*_TRUE_PEAK.finditer(log)]
    if not integrated or not peaks:
        raise MediaError(ErrorCode.ENCODE_FAILED, "the loudness of the sound could not be measured")
    lufs, peak = float(integrated[-1][1]), peaks[-1][1]
    if lufs == _LEAST_LUFS or peak is None:
        return MeasuredLoudness(None, None)
    if not (_LEAST_LUFS < lufs <= _MOST_LUFS and _LEAST_PEAK <= float(peak) <= _MOST_PEAK):
        raise MediaError(ErrorCode.ENCODE_FAILED, "the sound has an impossible loudness")
    return MeasuredLoudness(lufs, float(peak))
