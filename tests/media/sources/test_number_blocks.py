"""Tests of drawing a number into a picture and reading it back."""

import numpy as np
import pytest

from tests.media.sources.number_blocks import LARGEST, UnreadableNumber, draw, read


@pytest.mark.parametrize("number", [0, 1, 2, 1023, 1024, 2730, LARGEST])
@pytest.mark.parametrize("size", [(160, 90), (48, 28), (1081, 607)])
def test_a_number_is_read_back(number: int, size: tuple[int, int]) -> None:
    assert read(draw(number, *size).astype(float)) == number


def test_a_noisy_and_dim_picture_is_read() -> None:
    noise = np.random.default_rng(1).normal(0, 30, (90, 160))
    assert read(draw(1234, 160, 90) * 0.6 + 20 + noise) == 1234


@pytest.mark.parametrize("other", [6, 7, 1000])
def test_a_mixture_of_two_pictures_is_refused(other: int) -> None:
    mixed = (draw(5, 160, 90).astype(float) + draw(other, 160, 90)) / 2
    with pytest.raises(UnreadableNumber):
        read(mixed)


def test_a_picture_of_something_else_is_refused() -> None:
    flat, bright = np.full((90, 160), 128.0), np.full((90, 160), 48.0)
    bright[:60] = 208
    for picture in (flat, bright, draw(5, 160, 90)[::-1].astype(float) * 0 + np.eye(90, 160) * 200):
        with pytest.raises(UnreadableNumber):
            read(picture)
