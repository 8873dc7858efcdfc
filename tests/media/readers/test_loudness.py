"""Tests of the loudness reader with the test signals of EBU Tech 3341."""

from pathlib import Path

import numpy as np
import pytest

from tests.media.readers.loudness import loudness, loudness_range, true_peak
from tests.media.sources.flashes import write_wave


def sine(path: Path, *levels: float, channels: int = 2, hertz: float = 1000) -> Path:
    """Write a sine whose level in dBFS changes every ten seconds."""
    times = np.arange(480_000) / 48_000
    pieces = [10 ** (level / 20) * np.sin(2 * np.pi * hertz * times) for level in levels]
    write_wave(path, np.vstack([np.concatenate(pieces)] * channels), 48_000)
    return path


@pytest.mark.parametrize(("channels", "expected"), [(2, -23.0), (1, -26.0)])
def test_a_sine_of_minus_23_decibels_has_minus_23_lufs_in_stereo(
    tmp_path: Path, channels: int, expected: float
) -> None:
    assert loudness(sine(tmp_path / "a.wav", -23.0, channels=channels)) == pytest.approx(expected, abs=0.1)


def test_the_range_is_the_distance_of_two_levels(tmp_path: Path) -> None:
    assert loudness_range(sine(tmp_path / "a.wav", -20.0, -30.0)) == pytest.approx(10.0, abs=1.0)


def test_a_true_peak_may_lie_between_two_samples(tmp_path: Path) -> None:
    assert true_peak(sine(tmp_path / "a.wav", -6.0, hertz=12_000)) == pytest.approx(-6.0, abs=0.4)
