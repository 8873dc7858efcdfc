"""The measured quality of encodes: read the results that ffmpeg wrote, and compare VMAF with its minimum."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field, TypeAdapter, with_config

from euterpe.domain.error_codes import ErrorCode
from euterpe.media.errors import MediaError
from euterpe.media.planning.quality import log_path
from euterpe.media.planning.tree import QualityCheck
from euterpe.media.sandbox.child import HELPER_TIMEOUT_S
from euterpe.media.sandbox.child_results import Line, checked
from euterpe.media.sandbox.sandbox import Sandbox

# The timeout assumes that a child reads logs at this speed or faster. A slow machine reads 10 MB per second.
# The log of one metric has 10 MB for an hour of film at 25 pictures per second.
_READ_BYTES_PER_SECOND = 2_000_000
_DIGITS, _DIGITS_OF_SSIM = 2, 5
# The fields of `Quality` that compare an encode with its source. The other fields describe the search for the
# rate factor of the encode.
SCORES = ("vmaf", "vmaf_p1", "psnr", "ssim", "xpsnr")


@with_config(extra="forbid")
@dataclass(frozen=True)
class _Score:
    """The result of `read_quality_logs` for one log."""

    mean: Annotated[float, Field(strict=True, ge=0, le=100)] | None = None
    low: Annotated[float, Field(strict=True, ge=0, le=100)] | None = None
    problem: Line | None = None


_SCORES = TypeAdapter(tuple[_Score, ...])


@dataclass(frozen=True)
class Quality:
    """The quality of a picture track. A metric that was not measured is None."""

    vmaf: float | None = None
    vmaf_p1: float | None = None  # the score that 99 % of the pictures reach
    psnr: float | None = None
    ssim: float | None = None
    xpsnr: float | None = None
    crf: int | None = None  # the constant rate factor that a search has chosen
    predicted_vmaf: float | None = None
    sample_seconds: float | None = None

    def document(self) -> dict[str, float]:
        """Return the known figures, as the status document shows them."""
        return {name: value for name, value in asdict(self).items() if value is not None}


def measured_quality(
    sandbox: Sandbox,
    checks: Sequence[QualityCheck],
    folder: Path,
    *,
    on_tick: Callable[[], None] = lambda: None,
) -> dict[int, Quality]:
    """Return the quality of each measured encode, keyed by the number of the measurement.

    Parse the results in the sandbox, because ffmpeg wrote them after it had read an untrusted source.
    """
    logs = [(check, metric) for check in checks for metric in check.metrics]
    if not logs:
        return {}
    paths = [(log_path(*log), log[1]) for log in logs]
    found = checked(
        _SCORES,
        sandbox.call(
            "read_quality_logs",
            {"logs": paths},
            blame=ErrorCode.OUTPUT_UNDECODABLE,
            cwd=folder,
            on_tick=on_tick,
            timeout_s=HELPER_TIMEOUT_S + _bytes_of(folder, paths) / _READ_BYTES_PER_SECOND,
        ),
        blame=ErrorCode.OUTPUT_UNDECODABLE,
    )
    if len(found) != len(logs):
        raise MediaError(
            ErrorCode.OUTPUT_UNDECODABLE,
            "the sandboxed process that read the file returned an invalid result",
        )
    figures: dict[int, dict[str, float]] = {}
    for (check, metric), score in zip(logs, found, strict=True):
        figures.setdefault(check.number, {}).update(_figures(metric, score))
    return {check.number: _quality(check, figures[check.number]) for check in checks}


def _quality(check: QualityCheck, figures: Mapping[str, float]) -> Quality:
    search = check.search
    return Quality(
        vmaf=figures.get("vmaf"),
        vmaf_p1=figures.get("vmaf_p1"),
        psnr=figures.get("psnr"),
        ssim=figures.get("ssim"),
        xpsnr=figures.get("xpsnr"),
        crf=search.crf if search else None,
        predicted_vmaf=search.predicted_vmaf if search else None,
        sample_seconds=round(search.sample_seconds, _DIGITS) if search else None,
    )


def refuse_low_quality(path: str, check: QualityCheck, found: Quality) -> None:
    """Raise `quality_too_low` if the VMAF of the encode at `path` is below the minimum of the request."""
    if check.least_vmaf is not None and (found.vmaf is None or found.vmaf < check.least_vmaf):
        raise MediaError(
            ErrorCode.QUALITY_TOO_LOW,
            f"{path} has a VMAF of {found.vmaf}, below the requested minimum of {check.least_vmaf:g}",
        )


def _figures(metric: str, score: _Score) -> Mapping[str, float]:
    if score.mean is None:
        raise MediaError(ErrorCode.OUTPUT_UNDECODABLE, f"no {metric} was measured: {score.problem}")
    figures = {metric: round(score.mean, _DIGITS_OF_SSIM if metric == "ssim" else _DIGITS)}
    return figures if score.low is None else {**figures, f"{metric}_p1": round(score.low, _DIGITS)}


def _bytes_of(folder: Path, logs: Sequence[tuple[str, str]]) -> int:
    return sum(path.lstat().st_size for name, _ in logs if (path := folder / name).exists())
