"""Search for the constant rate factor that gives a target VMAF: encode samples of the film at four factors.

One command opens the source once for each sample, joins the samples, encodes them at each of the four
factors, and measures the VMAF of each encode (`quality.py`). The factor is interpolated between the four
scores.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count, pairwise
from math import exp, log

from euterpe.domain.codecs import CODECS
from euterpe.media.planning.builder import CommandBuilder
from euterpe.media.planning.tree import (
    Command,
    Discard,
    File,
    Input,
    Joined,
    Plan,
    PlanWarning,
    QualityCheck,
    Rendition,
    SearchMeasurement,
    SearchResult,
    VideoTrack,
    VmafModel,
    output_of,
)
from euterpe.media.source.media_info import MediaInfo

# The sample of a film of up to 10 s is the whole film. The samples of a longer film have 2 % of its length in
# total, but at least 3 s and at most 32 s. So the samples of a film below 150 s have more than 2 % of its
# length. A search consists of four encodes of the samples, with their measurement. For a film of 180 s with
# 360 lines, encoded with x264, the search took 10 % of the processor time of the encode of the whole film.
# For a film of 120 s, with samples of 3 % of its length, the search took 18 % of the processor time of the
# encode.
_WHOLE_SECONDS = 10.0
_SHARE, _LEAST_SECONDS, _MOST_SECONDS = 0.02, 3.0, 32.0
_FEW, _MANY, _MANY_FROM = 3, 8, 8.0
_COST_OF_VMAF = 0.3
# VMAF is computed for every 3rd picture of the samples. The samples have few pictures, so the longer
# intervals for whole films would measure too few.
_INTERVAL = 3
# Each step of the rate factor multiplies the error, 101 - VMAF, by about the same number. In a test with
# seven pairs of film and encoder, predictions between the four measured factors were wrong by at most 0.5,
# for a VMAF above 85.
_PERFECT = 101.0
# A prediction is wrong by at most 1 point. If the prediction exceeds the target by more than 1 point, the
# requester gets a warning.
_TOLERANCE = 1.0


@dataclass(frozen=True)
class MeasuredCurve:
    """The VMAF of the samples at each factor of a search."""

    vmaf: tuple[float, ...]


@dataclass(frozen=True)
class CrfPrediction:
    """A constant rate factor, and the VMAF that the samples predict for it."""

    crf: int
    predicted_vmaf: float


def chosen(crfs: Sequence[int], vmaf: Sequence[float], target: float) -> CrfPrediction:
    """Return the highest factor with a predicted VMAF of at least the target, or else the lowest factor."""
    curve = [CrfPrediction(crf, _predicted(crfs, vmaf, crf)) for crf in range(crfs[0], crfs[-1] + 1)]
    return next((one for one in reversed(curve) if one.predicted_vmaf >= target), curve[0])


def _predicted(crfs: Sequence[int], vmaf: Sequence[float], crf: int) -> float:
    points = list(zip(crfs, vmaf, strict=True))
    (low, at_low), (high, at_high) = next(pair for pair in pairwise(points) if crf <= pair[1][0])
    part = (crf - low) / (high - low)
    error = (1 - part) * log(_PERFECT - at_low) + part * log(_PERFECT - at_high)
    return round(_PERFECT - exp(error), 2)


def samples(source: Input, seconds: float | None) -> tuple[Input, ...]:
    """Return the parts of an input that a search encodes, evenly spread.

    `seconds` is the length of the input, or None if it is unknown.
    """
    if seconds is None or seconds <= _WHOLE_SECONDS:
        length = min(source.seconds or _WHOLE_SECONDS, _WHOLE_SECONDS)
        return (Input(source.start, length, is_sample=True),)
    total = min(max(_SHARE * seconds, _LEAST_SECONDS), _MOST_SECONDS)
    parts = _MANY if total >= _MANY_FROM else _FEW
    length, begin = total / parts, source.start or 0.0
    starts = (begin + seconds * (place + 0.5) / parts - length / 2 for place in range(parts))
    return tuple(Input(round(start, 6), round(length, 6), is_sample=True) for start in starts)


def with_searches(plan: Plan, info: MediaInfo) -> Plan:
    """Return the plan with a search for each encode that has a VMAF goal."""
    found: list[SearchMeasurement] = []
    numbers = count(sum(video.quality is not None for one in plan.commands for video in one.videos))

    def add(command: Command, place: int, video: VideoTrack) -> VideoTrack:
        if video.goal is None:
            return video
        found.append(_search(command, place, info, numbers))
        return replace(video, goal=replace(video.goal, measurement=len(plan.measurements) + len(found) - 1))

    made = _changed(plan, add)
    return replace(made, measurements=(*plan.measurements, *found))


def with_factors(plan: Plan, results: Mapping[int, MeasuredCurve | None]) -> Plan:
    """Return the plan with rate factors in place of the goals, and a warning for each goal that is missed.

    `results` has the result of each search, by the index of the search in the plan. If a search failed, its
    result is None, and the outputs that need this result will not be made.
    """
    warnings: list[PlanWarning] = []

    def settle(_command: Command, _place: int, video: VideoTrack) -> VideoTrack:
        if video.goal is None:
            return video
        search, curve = plan.measurements[video.goal.measurement], results[video.goal.measurement]
        if curve is None or not isinstance(search, SearchMeasurement) or video.quality is None:
            return replace(video, goal=None)
        choice = chosen(search.crfs, curve.vmaf, video.goal.vmaf)
        warnings.extend(_warnings(search, choice, video.goal.vmaf))
        result = SearchResult(choice.crf, choice.predicted_vmaf, search.command.seconds or 0.0)
        return replace(video, goal=None, crf=choice.crf, quality=replace(video.quality, search=result))

    made = _changed(plan, settle)
    return replace(made, warnings=(*plan.warnings, *warnings))


def _changed(plan: Plan, change: Callable[[Command, int, VideoTrack], VideoTrack]) -> Plan:
    commands = (
        replace(one, videos=tuple(change(one, place, video) for place, video in enumerate(one.videos)))
        for one in plan.commands
    )
    return replace(plan, commands=tuple(commands))


def _search(command: Command, place: int, info: MediaInfo, numbers: Iterator[int]) -> SearchMeasurement:
    video = command.videos[place]
    scale = command.scales[video.scale]
    picture = command.pictures[scale.picture]
    source = command.inputs[picture.input]
    seconds = _length(source, info)
    parts = samples(source, seconds)
    total = sum(part.seconds or 0.0 for part in parts)
    crfs = CODECS[video.codec].probes
    builder = CommandBuilder(seconds=total if seconds is None else min(total, seconds), inputs=[*parts])
    builder.pictures.append(replace(picture, input=0, shift=0.0, lead=0.0, joined=_joined(len(parts), info)))
    over = scale.overlay and replace(scale.overlay, input=builder.input(command.inputs[scale.overlay.input]))
    builder.scales.append(replace(scale, picture=0, parent=None, overlay=over))
    for crf in crfs:
        check = QualityCheck(("vmaf",), _model(video), number=next(numbers), interval=_INTERVAL)
        probe = builder.video(replace(video, scale=0, crf=crf, goal=None, quality=check))
        builder.products.append(Discard("discard", probe))
    outputs = tuple(_users(command, place))
    return SearchMeasurement("search", crfs, builder.build(), outputs, command.is_optional)


def _joined(count: int, info: MediaInfo) -> Joined:
    if info.video is None or not info.video.width or not info.video.height:
        raise ValueError("the source of an encode has no pictures")
    width, height = info.video.width, info.video.height
    if info.video.rotation in (90, 270):  # decoded pictures are upright
        width, height = height, width
    return Joined(count, width, height)


def _model(video: VideoTrack) -> VmafModel:
    if video.quality is None:
        raise ValueError("an encode with a goal is not measured")
    return video.quality.model


def _length(source: Input, info: MediaInfo) -> float | None:
    """Return the length of the pictures of an input in seconds, or None if it is not known."""
    whole = (info.video.duration_seconds if info.video else None) or info.duration_seconds
    if whole is None:
        return source.seconds
    rest = max(0.0, whole - (source.start or 0.0))
    return rest if source.seconds is None else min(rest, source.seconds)


def _users(command: Command, place: int) -> Iterator[str]:
    """Yield the name of each output that has the encode."""
    for product in command.products:
        match product:
            case File(path=path, tracks=tracks):
                name = output_of(path)
            case Rendition(folder=name, track=track):
                tracks = (track,)
            case _:
                continue
        if any(one.kind == "video" and not one.is_copied and one.place == place for one in tracks):
            yield name


def _warnings(search: SearchMeasurement, choice: CrfPrediction, target: float) -> Iterator[PlanWarning]:
    is_too_low = choice.predicted_vmaf < target
    is_too_high = choice.crf == search.crfs[-1] and choice.predicted_vmaf > target + _TOLERANCE
    if is_too_low or is_too_high:
        bound = "best" if is_too_low else "lowest"
        tried = f"crf {choice.crf}, the {bound} quality that was tried"
        message = f"{tried}, has a predicted VMAF of {choice.predicted_vmaf:g} instead of {target:g}"
        for output in search.outputs:
            yield PlanWarning("target_missed", output, message)
