"""Settings of quality: the metrics to measure, the lowest accepted score, and the target score."""

from typing import Annotated, Literal, get_args

from pydantic import AfterValidator, Field, ValidationInfo

from euterpe.domain.model import Items, StrictModel
from euterpe.domain.outputs.common import PictureOutput
from euterpe.domain.outputs.numbers import Rounded

Metric = Literal["vmaf", "psnr", "ssim", "xpsnr"]
METRICS: tuple[Metric, ...] = get_args(Metric)


def _in_order(metrics: tuple[Metric, ...]) -> tuple[Metric, ...]:
    return tuple(metric for metric in METRICS if metric in metrics)


Metrics = Annotated[tuple[Metric, ...], Items(0, len(METRICS), unique=True), AfterValidator(_in_order)]
Vmaf = Annotated[float, Field(ge=0, le=100, allow_inf_nan=False), Rounded]


class MeasuredOutput(PictureOutput):
    """The fields of all types of output that contain a film, whose quality can be measured."""

    measure: Metrics = ()
    """The metrics that compare the encode with the encoder's input: VMAF, PSNR, SSIM, XPSNR."""
    vmaf_min: Vmaf | None = None
    """The lowest accepted mean VMAF of the film or of each rung. Null accepts every VMAF."""


class Target(StrictModel):
    """The target quality. A search chooses the constant rate factor with samples of the film."""

    vmaf: Annotated[float, Field(ge=20, le=99, allow_inf_nan=False), Rounded]
    """The mean VMAF to reach."""


def _check_target(target: Target | None, info: ValidationInfo) -> Target | None:
    """Raise if the request has both a target and a constant rate factor."""
    ladder = info.data.get("ladder", ())
    rungs = ladder if isinstance(ladder, tuple) else ()
    if target is not None and any(one is not None for one in (info.data.get("crf"), *(r.crf for r in rungs))):
        raise ValueError("must be null if crf is given, because a target chooses crf")
    return target


QualityTarget = Annotated[Target | None, AfterValidator(_check_target)]
