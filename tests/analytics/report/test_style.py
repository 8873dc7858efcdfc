"""The style sheet: contrast by WCAG 2, and colours that are all defined."""

import re

import pytest

from euterpe.analytics.report.style import FILLS, PALETTE, STYLE, colours

TEXT = ("ink", "soft", "accent", "bad", "warning", "good", "plain")


def luminance(colour: str) -> float:
    parts = [int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


in_light_and_dark_mode = pytest.mark.parametrize("night", [False, True])


@in_light_and_dark_mode
@pytest.mark.parametrize("name", TEXT)
@pytest.mark.parametrize("ground", ["paper", "panel"])
def test_text_can_be_read(name: str, ground: str, night: bool) -> None:
    assert contrast(PALETTE[name][night], PALETTE[ground][night]) >= 4.5


@in_light_and_dark_mode
@pytest.mark.parametrize("name", sorted(set(FILLS) - {"tail"}))
def test_what_a_chart_shows_can_be_seen(name: str, night: bool) -> None:
    assert contrast(PALETTE[name][night], PALETTE["paper"][night]) >= 3


@in_light_and_dark_mode
def test_the_parts_of_a_range_can_be_told_apart(night: bool) -> None:
    tail, body, middle = (luminance(PALETTE[name][night]) for name in ("tail", "body", "middle"))
    assert sorted((tail, body, middle), reverse=not night) == [tail, body, middle]


def test_every_colour_that_is_used_is_defined() -> None:
    assert set(re.findall(r"var\(--(\w+)\)", STYLE)) <= set(PALETTE)


def test_the_style_refers_to_nothing_outside() -> None:
    assert re.findall(r"url\(|@import|https?:|expression", STYLE) == []


def test_both_palettes_are_whole() -> None:
    assert colours(night=False).count("#") == colours(night=True).count("#") == len(PALETTE)
