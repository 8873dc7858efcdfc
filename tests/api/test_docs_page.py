"""GET /docs: Swagger UI works under the page's content security policy, and needs no other host."""

import json
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import expect

import euterpe.api
from euterpe.api.problems import ProblemCode
from tests.api.serving import Requester, Served
from tests.browser import WatchedPage, browser_page
from tests.domain.documents import MINIMAL

STATIC = Path(euterpe.api.__file__).parent / "static"
# The SHA-256 of each file of swagger-ui-dist 5.35.0.
VENDORED = {
    "LICENSE": "cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30",
    "NOTICE": "0d20d1adef18aee3f40dd258172155521ce702ac445cb5f7b7d60ed32dad2fb2",
    "swagger-ui-bundle.js": "e6a898692f2d768e807c3ba4626068a69a2c5dd960dd6c76f3e4d3a3de180af2",
    "swagger-ui-bundle.js.LICENSE.txt": "37eb6e7e59aed57b2c1acf076574b818ea07b74265717e0bd67b59e0baf9abbb",
    "swagger-ui.css": "5ed08757e53da3e026d6cbecc61fe5d43585c9560b302d534ad56692519a273d",
}


class PageLinks(HTMLParser):
    """A parser that collects the ids and the links of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, _: str, attrs: list[tuple[str, str | None]]) -> None:
        self.ids += [str(value) for name, value in attrs if name == "id"]
        self.links += [str(value) for name, value in attrs if name in ("href", "src")]


def test_the_vendored_files_are_those_of_the_release() -> None:
    folder = STATIC / "swagger-ui"
    assert {file.name: sha256(file.read_bytes()).hexdigest() for file in folder.iterdir()} == VENDORED


def test_every_link_of_the_page_is_served(served: Served) -> None:
    links = [link for link in PageLinks(served.anonymous.get("/docs").text).links if link != "data:,"]
    assert "/openapi.json" in links
    for link in links:
        assert link.startswith("/")
        assert served.anonymous.get(link).status_code == 200, link


def test_a_browser_keeps_the_files_and_revalidates_them(served: Served) -> None:
    address = "/docs/static/swagger-ui/swagger-ui-bundle.js"
    first = served.anonymous.get(address)
    assert (first.headers["cache-control"], first.headers["x-content-type-options"]) == (
        "no-cache",
        "nosniff",
    )
    again = served.anonymous.get(address, headers={"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize(
    "name", ["", "nothing.js", "../docs_page.py", "%2e%2e/docs_page.py", "swagger-ui", "docs.html"]
)
def test_nothing_else_is_served_from_the_folder(served: Served, name: str) -> None:
    answer = served.anonymous.get(f"/docs/static/{name}")
    assert (answer.status_code, answer.json()["code"]) == (404, "no_route")


def test_a_slow_download_holds_no_file(served: Served) -> None:
    def open_files() -> int:
        return sum(str(STATIC) in str(link.resolve()) for link in Path("/proc/self/fd").iterdir())

    with served.anonymous.stream("GET", "/docs/static/swagger-ui/swagger-ui-bundle.js") as answer:
        assert next(answer.iter_raw(1024))
        assert open_files() == 0


def test_a_range_is_answered_with_the_whole_file(served: Served) -> None:
    answer = served.anonymous.get("/docs/static/docs.css", headers={"range": "bytes=9999999-"})
    assert (answer.status_code, answer.content) == (200, (STATIC / "docs.css").read_bytes())


def test_the_type_of_every_problem_leads_to_its_advice(served: Served) -> None:
    assert set(ProblemCode) <= set(PageLinks(served.anonymous.get("/docs").text).ids)
    assert served.anonymous.get("/transcode/jobs").json()["type"] == "/docs#unauthorized"


def test_the_viewer_shows_every_operation_and_loads_nothing_from_elsewhere(served: Served) -> None:
    document = served.anonymous.get("/openapi.json").json()
    with browser_page() as watched:
        watched.page.goto(f"{served.url}/docs")
        operations = watched.page.locator(".opblock")
        expect(operations).to_have_count(
            sum(len(methods) for section in ("paths", "webhooks") for methods in document[section].values())
        )
        for index in range(operations.count()):
            control = operations.nth(index).locator(".opblock-summary-control")
            control.click()
            expect(operations.nth(index).locator(".opblock-body")).to_be_visible()
            control.click()  # close it, because each open operation slows the next click
        assert_clean(watched, served)


def test_a_problems_type_shows_its_row(served: Served) -> None:
    with browser_page() as watched:
        watched.page.goto(f"{served.url}/docs#overloaded")
        expect(watched.page.locator(".opblock").first).to_be_visible()
        expect(watched.page.locator("tr#overloaded")).to_be_in_viewport()
        assert_clean(watched, served)


def test_the_viewer_submits_a_job_with_the_readers_key(served: Served, requester: Requester) -> None:
    with browser_page() as watched:
        page = watched.page
        page.goto(f"{served.url}/docs")
        page.locator("button.authorize").first.click()
        page.locator(".auth-container input").first.fill(requester.key)
        page.locator(".auth-btn-wrapper button.authorize").first.click()
        page.locator(".btn-done").first.click()
        submit = page.locator(".opblock", has_text="Submit a job")
        submit.locator(".opblock-summary-control").click()
        submit.locator("textarea.body-param__text").fill(json.dumps(MINIMAL))
        submit.locator("button.execute").click()
        expect(submit.locator("tr.response .response-col_status").first).to_contain_text("202")
        assert_clean(watched, served)
    assert len(requester.http.get("/transcode/jobs").json()["jobs"]) == 1


def assert_clean(watched: WatchedPage, served: Served) -> None:
    assert watched.errors == []
    hosts = {urlsplit(url).netloc for url in watched.requested if not url.startswith("data:")}
    assert hosts == {urlsplit(served.url).netloc}
