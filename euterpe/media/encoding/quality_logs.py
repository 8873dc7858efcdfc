"""Read the logs that ffmpeg's metric filters and encoders wrote for each picture.

This module runs in sandboxed children only.
"""

import re
from collections.abc import Iterator, Sequence
from math import ceil, inf, log10
from pathlib import Path
from typing import Any

# This number is enough for 77 hours at 60 pictures per second.
_MOST_PICTURES = 1 << 24
_LONGEST_LINE = 4096
_BLOCK_BYTES = 1 << 20
# VMAF scores are counted in a histogram with steps of 0.01, whose size does not grow with the film.
_STEPS, _MOST_VMAF = 100, 100
_LOW_SHARE = 0.01
# The value for a picture that equals its reference. The PSNR of such a picture is infinite, but JSON has no
# infinity.
_MOST_DECIBELS = 100.0
_NUMBER = rb"([0-9]{1,9}(?:\.[0-9]{1,9})?|inf)"
_PATTERNS = {
    "psnr": re.compile(rb"\bpsnr_y:" + _NUMBER),
    "ssim": re.compile(rb"\bY:" + _NUMBER),
    "xpsnr": re.compile(rb"\bXPSNR y: *" + _NUMBER),
}
# The factor of the logarithm that converts a mean error to decibels. As in ffmpeg, the PSNR of a film is
# computed from the mean of the squared errors of its pictures. The XPSNR is computed from the mean of the
# roots of the weighted squared errors.
_DECIBELS = {"psnr": 10, "xpsnr": 20}


def read_quality_logs(logs: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
    """Return, for each log, the score of the film or the problem with the log. A log is (path, metric).

    For VMAF, `low` is the score that 99 % of the pictures reach.
    """
    return [_read(Path(path), metric) for path, metric in logs]


def count_pictures(logs: Sequence[str]) -> list[int | None]:
    """Return the number of lines of each log, or None if the log cannot be read."""
    return [_count(Path(path)) for path in logs]


def _count(path: Path) -> int | None:
    try:
        with path.open("rb") as file:
            return sum(block.count(b"\n") for block in iter(lambda: file.read(_BLOCK_BYTES), b""))
    except OSError:
        return None


def _read(path: Path, metric: str) -> dict[str, Any]:
    try:
        if metric == "vmaf":
            return _vmaf(path)
        return {"mean": _mean(_scores(path, _PATTERNS[metric]), _DECIBELS.get(metric))}
    except (OSError, ValueError, IndexError, ArithmeticError) as error:
        return {"problem": f"its {metric} cannot be read ({type(error).__name__})"}


def _vmaf(path: Path) -> dict[str, Any]:
    lines = _lines(path)
    column = next(lines, b"").strip().split(b",").index(b"vmaf")
    counts, total = [0] * (_MOST_VMAF * _STEPS + 1), 0.0
    for line in lines:
        score = float(line.split(b",")[column])
        if not 0 <= score <= _MOST_VMAF:
            raise ValueError(score)
        counts[int(score * _STEPS)] += 1
        total += score
    pictures = sum(counts)
    return {"mean": total / pictures, "low": _low(counts, ceil(_LOW_SHARE * pictures))}


def _low(counts: Sequence[int], rank: int) -> float:
    """Return the score of the picture with this rank. Rank 1 is the picture with the lowest score."""
    seen = 0
    for place, count in enumerate(counts):
        seen += count
        if seen >= rank:
            return place / _STEPS
    raise ValueError(rank)


def _scores(path: Path, pattern: re.Pattern[bytes]) -> Iterator[float]:
    for line in _lines(path):
        if not line.startswith(b"n:"):  # the summary that XPSNR writes after the last picture
            return
        if (found := pattern.search(line)) is None:
            raise ValueError("a picture has no score")
        yield float(found[1])


def _mean(scores: Iterator[float], decibels: int | None) -> float:
    total, pictures = 0.0, 0
    for score in scores:
        total += score if decibels is None else 10 ** (-score / decibels)
        pictures += 1
    mean = total / pictures
    if decibels is None:
        return mean
    return min(_MOST_DECIBELS, -decibels * log10(mean) if mean else inf)


def _lines(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        for _ in range(_MOST_PICTURES):
            if not (line := file.readline(_LONGEST_LINE)):
                return
            yield line
    raise ValueError("there are too many pictures")
