from euterpe.analytics.marts.costs import TABLE as COSTS
from euterpe.analytics.marts.fairness import TABLE as FAIRNESS
from euterpe.analytics.report.blocks import Section, counted, drawn, figure, table
from euterpe.analytics.report.charts.canvas import canvas
from euterpe.analytics.report.html import Html, text
from tests.analytics.report.reading import Page


def test_a_table_has_a_caption_and_headers_with_scope() -> None:
    page = Page(table("Cost", ("requester", "#jobs"), [("acme", "3")], ("all", "3")))
    assert page.all("th") == [
        {"scope": "col"},
        {"scope": "col", "class": "number"},
        {"scope": "row"},
        {"scope": "row"},
    ]
    assert {"caption", "thead", "tbody", "tfoot"} <= page.tags
    assert page.all("td") == [{"class": "number"}] * 2


def test_a_wide_table_can_be_scrolled_with_the_keyboard() -> None:
    (scroll,) = Page(table("Cost", ("requester",), [("acme",)])).all("div")
    assert scroll == {"class": "scroll", "role": "group", "aria-label": "Cost", "tabindex": "0"}


def test_a_number_is_short_and_its_tooltip_is_exact() -> None:
    assert counted(12_345) == '<span title="12,345">12.3 k</span>'
    assert counted(999) == "999"
    assert counted(None) == "\N{EN DASH}"


def test_a_figure_is_drawn_twice_under_its_title_and_legend() -> None:
    made = figure("Jobs", lambda width: canvas(width, 5, "Jobs"), legend=[("bad", "failed")], note="By day.")
    page = Page(made)
    assert [svg["class"] for svg in page.all("svg")] == ["wide", "narrow"]
    assert page.all("span") == [{"class": "key bad"}]
    assert page.words == "Jobs  By day. failed"


def test_a_section_explains_every_column_of_its_marts() -> None:
    page = drawn(Section("cost", "Why?", "Because.", Html(""), (COSTS, FAIRNESS)))
    for column in (*COSTS.columns, *FAIRNESS.columns):
        assert f"<dt>{column.name}</dt><dd>{text(column.meaning)}</dd>" in page
    assert "What the numbers of “costs” and “fairness” mean" in page
