"""Tests of reading the results of ffmpeg's metric filters, including hostile results."""

from math import log10
from pathlib import Path
from typing import Any

import pytest

from euterpe.media.encoding.quality_logs import count_pictures, read_quality_logs

VMAF = "Frame,integer_adm2,vmaf,\n"
PSNR = "n:{n} mse_avg:1.0 mse_y:1.0 psnr_avg:1.0 psnr_y:{score} psnr_u:9.0\n"
SSIM = "n:{n} Y:{score} U:0.5 V:0.5 All:0.5 (3.0)\n"
XPSNR = "n: {n:4}  XPSNR y: {score}  XPSNR u: 9.0  XPSNR v: 9.0\n"


def read(folder: Path, text: str | bytes, metric: str) -> dict[str, Any]:
    path = folder / "log"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    (found,) = read_quality_logs([(str(path), metric)])
    return found


def lines(form: str, *scores: object) -> str:
    return "".join(form.format(n=n + 1, score=score) for n, score in enumerate(scores))


def test_the_vmaf_of_a_film_is_the_mean_and_the_score_of_99_percent(tmp_path: Path) -> None:
    rows = [f"{5 * n},0.9,{score},\n" for n, score in enumerate([*[90.0] * 199, 20.5])]
    found = read(tmp_path, VMAF + "".join(rows), "vmaf")
    assert found["mean"] == pytest.approx((90 * 199 + 20.5) / 200)
    assert found["low"] == 90.0
    rows[0] = "0,0.9,30.25,\n"
    assert read(tmp_path, VMAF + "".join(rows), "vmaf")["low"] == 30.25


def test_psnr_is_the_mean_of_squared_errors(tmp_path: Path) -> None:
    found = read(tmp_path, lines(PSNR, "40.00", "50.00"), "psnr")
    assert found["mean"] == pytest.approx(-10 * log10((1e-4 + 1e-5) / 2))


def test_xpsnr_is_the_mean_of_the_roots_of_squared_errors(tmp_path: Path) -> None:
    summary = "\nXPSNR average, 2 frames  y: 9.0  u: 9.0  v: 9.0  (minimum: 9.0)\n"
    found = read(tmp_path, lines(XPSNR, "40.0000", "60.0000") + summary, "xpsnr")
    assert found["mean"] == pytest.approx(-20 * log10((1e-2 + 1e-3) / 2))


def test_ssim_is_the_mean_of_the_luma(tmp_path: Path) -> None:
    assert read(tmp_path, lines(SSIM, "0.900000", "1.000000"), "ssim") == {"mean": pytest.approx(0.95)}


@pytest.mark.parametrize(("form", "metric"), [(PSNR, "psnr"), (XPSNR, "xpsnr")])
def test_equal_pictures_have_100_decibels(tmp_path: Path, form: str, metric: str) -> None:
    assert read(tmp_path, lines(form, "inf", "inf"), metric) == {"mean": 100.0}


@pytest.mark.parametrize("metric", ["vmaf", "psnr", "ssim", "xpsnr"])
@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n",
        VMAF,
        VMAF + "0,0.9,nan,\n",
        VMAF + "0,0.9,1e999,\n",
        VMAF + "0,0.9,-1,\n",
        VMAF + "0\n",
        VMAF + "0,0.9,ninety,\n",
        lines(PSNR, "nan"),
        lines(PSNR, "1e9") + "n:2 psnr_y:\n",
        lines(SSIM, "0.9") + "n:2\n",
        b"\xff" * 100_000,
        b"vmaf\n" + b"9" * 1_000_000,
    ],
)
def test_a_hostile_log_is_a_problem_and_no_score(tmp_path: Path, text: str | bytes, metric: str) -> None:
    found = read(tmp_path, text, metric)
    assert list(found) == ["problem"]


def test_a_missing_log_is_a_problem(tmp_path: Path) -> None:
    (found,) = read_quality_logs([(str(tmp_path / "none"), "vmaf")])
    assert list(found) == ["problem"]


def test_the_pictures_of_a_log_are_its_lines(tmp_path: Path) -> None:
    log, empty = tmp_path / "log", tmp_path / "empty"
    log.write_bytes(b"0, 1, 2\n" * 300_000 + b"the beginning of a line")
    empty.touch()
    assert count_pictures([str(log), str(empty), str(tmp_path / "none")]) == [300_000, 0, None]


def test_a_log_of_more_than_77_hours_is_counted(tmp_path: Path) -> None:
    """An earlier version counted at most 2^24 pictures, and refused longer films after their encode."""
    (tmp_path / "log").write_bytes(b"\n" * ((1 << 24) + 1))
    assert count_pictures([str(tmp_path / "log")]) == [(1 << 24) + 1]
