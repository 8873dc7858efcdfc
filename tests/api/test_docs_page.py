"""GET /docs: the page is complete, has no broken link and loads nothing."""

import re
from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser

import pytest

from euterpe.api.problems import PROBLEMS
from tests.api.serving import Served

VOID = {"meta", "link", "img", "br", "hr", "input"}
OPTIONAL_END = {"p", "tr", "td", "th", "html"}


class Page(HTMLParser):
    """A parser that collects tags, ids and links, and checks that elements are closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.ids: list[str] = []
        self.links: set[str] = set()
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(str(value))
            if name in ("href", "src"):
                self.links.add(str(value))
        if tag not in VOID | OPTIONAL_END:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID | OPTIONAL_END:
            assert self.open.pop() == tag


@pytest.fixture
def page(served: Served) -> Page:
    return Page(served.anonymous.get("/docs").text)


def test_the_page_needs_nothing_from_anywhere(page: Page) -> None:
    assert page.tags.isdisjoint({"script", "link", "img", "iframe", "object"})
    assert {link for link in page.links if not link.startswith("#")} == {"/openapi.json"}
    assert page.open == []


def test_every_link_within_the_page_leads_somewhere(page: Page) -> None:
    assert {link.removeprefix("#") for link in page.links if link.startswith("#")} <= set(page.ids)
    assert len(set(page.ids)) == len(page.ids)


def test_the_type_of_every_problem_leads_to_its_advice(served: Served, page: Page) -> None:
    assert set(PROBLEMS) <= set(page.ids)
    assert served.anonymous.get("/transcode/jobs").json()["type"] == "/docs#unauthorized"


def test_every_call_and_shape_is_on_the_page(served: Served) -> None:
    text = served.anonymous.get("/docs").text
    document = served.anonymous.get("/openapi.json").json()
    for name in (*document["paths"], *document["components"]["schemas"]):
        assert name in text


def test_the_content_security_policy_allows_the_style_of_the_page_alone(served: Served) -> None:
    answer = served.anonymous.get("/docs")
    style = re.search("<style>(.*?)</style>", answer.text, re.DOTALL)
    assert style is not None
    digest = b64encode(sha256(style[1].encode()).digest()).decode()
    policy = answer.headers["content-security-policy"]
    assert policy.startswith(f"default-src 'none'; style-src 'sha256-{digest}';")
