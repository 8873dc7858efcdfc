"""The report page: well-formed, self-contained, accessible, and safe against hostile names."""

import re
from base64 import b64encode
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from hashlib import sha256
from typing import Any

import pytest

from euterpe.analytics.marts import MARTS, TABLES
from euterpe.analytics.report.page import render
from euterpe.analytics.report.results import Results
from tests.analytics.report.reading import Page
from tests.analytics.report.sample import UNTIL, arrow, empty, month, one_job, results

QUESTIONS = [mart.section(empty()).question for mart in MARTS if mart.section]
HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>\u202e"


def one_row_of_keys_alone() -> Results:
    """Return results in which every mart has one row, with values only in the columns of its key."""
    values: dict[str, Any] = {"string": "x", "day": UNTIL.date()}
    marts = {
        name: arrow(name, [{c.name: values[c.type] for c in table.columns if c.name in table.key}])
        for name, table in TABLES.items()
    }
    return replace(results(days=0), marts=marts)


def hostile() -> Results:
    """Return results in which every free text of every mart tries to inject HTML."""
    made = month()
    marts = {}
    for name, table in made.marts.items():
        texts = [column.name for column in TABLES[name].columns if column.type == "string"]
        free = [text for text in texts if text not in ("stage", "measure", "verdict", "trend")]
        marts[name] = arrow(name, [{**row, **dict.fromkeys(free, HOSTILE)} for row in table.to_pylist()])
    return replace(made, marts=marts, filters={HOSTILE: HOSTILE}, version=HOSTILE)


def with_a_gap() -> Results:
    made = month()
    missing_day = UNTIL.date() - timedelta(days=10)
    rows = [row for row in made.rows("throughput") if row["day"] != missing_day]
    worked = [row for row in made.rows("utilisation") if row["day"] != missing_day]
    marts = {"throughput": arrow("throughput", rows), "utilisation": arrow("utilisation", worked)}
    return replace(made, marts={**made.marts, **marts})


HISTORIES: dict[str, Callable[[], Results]] = {
    "empty": empty,
    "one job": one_job,
    "keys alone": one_row_of_keys_alone,
    "month": month,
    "gap": with_a_gap,
    "500 requesters": lambda: month(requesters=500),
    "300 days": lambda: month(days=300, requesters=3),
    "hostile": hostile,
}
every_history = pytest.mark.parametrize("history", HISTORIES)


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return {name: render(make()) for name, make in HISTORIES.items()}


@every_history
def test_a_page_is_well_formed_and_needs_nothing_from_anywhere(pages: dict[str, str], history: str) -> None:
    page = Page(pages[history])
    assert page.tags.isdisjoint({"script", "link", "img", "iframe", "object", "form", "base", "image", "use"})
    for _, attributes in page.elements:
        assert {"style", "src", "srcset", "action", "xlink:href"}.isdisjoint(attributes)
        assert not [name for name in attributes if name.startswith("on")]
        assert attributes.get("href", "#").startswith("#")


def test_the_policy_allows_the_pages_own_style_and_nothing_else(pages: dict[str, str]) -> None:
    (style,) = re.findall("<style>(.*?)</style>", pages["month"], re.DOTALL)
    hashed = b64encode(sha256(style.encode()).digest()).decode()
    (policy,) = [meta["content"] for meta in Page(pages["month"]).all("meta") if "http-equiv" in meta]
    assert policy == f"default-src 'none'; style-src 'sha256-{hashed}'; base-uri 'none'; form-action 'none'"


def test_hostile_names_are_escaped_everywhere(pages: dict[str, str]) -> None:
    page = Page(pages["hostile"])
    assert page.tags.isdisjoint({"script", "img"})
    assert "<script" not in pages["hostile"]
    assert "\u202e" not in pages["hostile"]
    assert "<script>alert(1)</script>" in page.words


@every_history
def test_every_question_is_asked_in_order_and_answered(pages: dict[str, str], history: str) -> None:
    found = re.findall(r'<h2[^>]*>([^<]*)</h2><p class="answer">([^<]+)</p>', pages[history])
    assert [question for question, _ in found] == QUESTIONS


@every_history
def test_no_page_shows_none_nan_or_booleans(pages: dict[str, str], history: str) -> None:
    text = Page(re.sub(r"<details.*?</details>", "", pages[history], flags=re.DOTALL)).words
    assert re.findall(r"\b(None|nan|inf|True|False)\b", text) == []


@every_history
def test_every_link_leads_somewhere_and_every_label_is_there(pages: dict[str, str], history: str) -> None:
    page = Page(pages[history])
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(set(ids)) == len(ids)
    assert {link["href"][1:] for link in page.all("a")} <= set(ids)
    assert {attributes["aria-labelledby"] for attributes in page.all("section")} <= set(ids)


def test_the_page_is_accessible(pages: dict[str, str]) -> None:
    page = Page(pages["month"])
    assert page.all("html")[0]["lang"] == "en"
    assert len(page.all("h1")) == 1
    assert len(page.all("caption")) == len(page.all("table"))
    assert {head["scope"] for head in page.all("th")} == {"col", "row"}
    assert all(svg["role"] == "img" and svg["aria-label"] for svg in page.all("svg"))
    assert {"header", "main", "nav", "footer"} <= page.tags


def test_every_chart_is_drawn_for_wide_and_for_narrow_screens(pages: dict[str, str]) -> None:
    charts = [(svg["aria-label"], svg["class"]) for svg in Page(pages["month"]).all("svg")]
    wide, narrow = ([label for label, kind in charts if kind == which] for which in ("wide", "narrow"))
    assert wide == narrow
    assert len(wide) == len(Page(pages["month"]).all("figure")) == 9


def test_the_page_says_what_it_was_made_from() -> None:
    words = Page(render(replace(month(), filters={"requester": "acme", "since": "30d"}))).words
    assert "19 Oct 2026 09:30 UTC to 16 Nov 2026 09:30 UTC (28 days)" in words
    assert "only requester: acme; since: 30d" in words
    assert "Made by Euterpe 0.1.0 on 16 Nov 2026 09:34 UTC" in words


def test_of_one_requester_nothing_is_said_of_the_workers_or_of_others() -> None:
    page = render(replace(month(), filters={"requester": "acme"}))
    assert "slots" not in Page(page).words.lower()
    assert not {"#capacity", "#fairness"} & {link["href"] for link in Page(page).all("a")}
    assert "slots" in Page(render(month())).words.lower()


def test_an_empty_history_says_so_everywhere(pages: dict[str, str]) -> None:
    page = Page(pages["empty"])
    assert "There are no jobs yet." in page.words
    assert "svg" not in page.tags
    assert len(re.findall('class="nothing"', pages["empty"])) >= len(QUESTIONS)


def test_500_requesters_are_20_and_the_others(pages: dict[str, str]) -> None:
    made = HISTORIES["500 requesters"]()
    known = len(made.grouped("costs", ["requester"], ["cost"]))
    assert f"{known - 20} others" in Page(pages["500 requesters"]).words
    assert max(table.count("<tr>") for table in pages["500 requesters"].split("<table>")) <= 32
    assert len(pages["500 requesters"]) < 400_000


def test_the_same_results_make_the_same_page() -> None:
    assert render(month()) == render(month())
