"""The pictures in docs/analytics are up to date with the code."""

import pytest

from tests.analytics.report.pictures import FOLDER, pictures
from tests.analytics.report.reading import Page

PICTURES = pictures()


def test_the_folder_has_no_other_pictures() -> None:
    assert {path.name for path in FOLDER.glob("*.svg")} == set(PICTURES)


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_what_the_code_draws(name: str) -> None:
    assert (FOLDER / name).read_text() == PICTURES[name]


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_needs_nothing_from_anywhere(name: str) -> None:
    page = Page(PICTURES[name])
    assert page.tags <= {"svg", "style", "rect", "line", "circle", "polyline", "text", "title", "g"}
    assert "var(" not in PICTURES[name]
    assert "prefers-color-scheme: dark" in PICTURES[name]
