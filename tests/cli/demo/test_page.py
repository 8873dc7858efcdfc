"""The page of the demo: its files, and the server that sends them."""

import json
import threading
from collections.abc import Iterator
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path

import httpx
import pytest

import euterpe.cli.demo
from euterpe.cli.demo.page import page_server, write_page
from tests.node import NODE_MODULES

STATIC = Path(euterpe.cli.demo.__file__).parent / "static"
# The SHA-256 of each file of hls.js 1.7.4.
VENDORED = {
    "LICENSE": "ca8773cf798c7ed997d4dd7c8e23c348699f8d5b7462636694cc14de6cda12db",
    "hls.min.js": "cfc70cc9e9fc63d071919e087670abc760c8fd1bc889b88588026e4d22193bbe",
}
OUTPUTS = ({"name": "stream", "type": "adaptive"},)


class Loaded(HTMLParser):
    """A parser that collects the files that a page loads, and its inline scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.files: list[str] = []
        self.inline: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        if tag in ("script", "link"):
            self.files.append(str(named.get("src") or named.get("href")))
        self.inline += [name for name, _ in attrs if name == "style" or name.startswith("on")]


@pytest.fixture
def site(tmp_path: Path) -> Path:
    site = tmp_path / "site"
    (site / "media" / "stream").mkdir(parents=True)
    (site / "media" / "stream" / "master.m3u8").write_text("#EXTM3U\n")
    (tmp_path / "keks.json").write_text("secret")
    write_page(site, OUTPUTS)
    return site


@pytest.fixture
def http(site: Path) -> Iterator[httpx.Client]:
    with page_server(site) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            with httpx.Client(base_url=server.address) as client:
                yield client
        finally:
            server.shutdown()
            thread.join()


def test_the_vendored_player_is_that_of_the_release() -> None:
    folder = STATIC / "hls.js"
    assert {file.name: sha256(file.read_bytes()).hexdigest() for file in folder.iterdir()} == VENDORED
    released = NODE_MODULES / "hls.js"
    assert json.loads((released / "package.json").read_text())["version"] == "1.7.4"
    assert (folder / "hls.min.js").read_bytes() == (released / "dist" / "hls.min.js").read_bytes()
    assert (folder / "LICENSE").read_bytes() == (released / "LICENSE").read_bytes()


def test_the_page_loads_only_files_of_its_own_folder(http: httpx.Client) -> None:
    page = Loaded(http.get("/").text)
    assert "hls.js/hls.min.js" in page.files
    assert page.inline == []
    for name in page.files:
        if name != "data:,":
            assert (STATIC / name).is_file(), name
            assert http.get(f"/{name}").status_code == 200


def test_the_page_shows_the_outputs_of_the_job(http: httpx.Client) -> None:
    assert http.get("/outputs.json").json() == list(OUTPUTS)


@pytest.mark.parametrize("name", ["", "hls.js/hls.min.js", "media/stream/master.m3u8", "nothing"])
def test_every_answer_has_the_policy(http: httpx.Client, name: str) -> None:
    headers = http.get(f"/{name}").headers
    policy = dict(part.strip().partition(" ")[::2] for part in headers["content-security-policy"].split(";"))
    assert (policy["default-src"], policy["script-src"], policy["style-src"]) == (
        "'none'",
        "'self'",
        "'self'",
    )
    assert headers["x-content-type-options"] == "nosniff"


def test_a_playlist_has_the_type_that_players_expect(http: httpx.Client) -> None:
    answer = http.get("/media/stream/master.m3u8")
    assert answer.headers["content-type"] == "application/vnd.apple.mpegurl"
    assert answer.text == "#EXTM3U\n"


@pytest.mark.parametrize("name", ["../keks.json", "%2e%2e/keks.json", "media/", "media/stream/", "keks.json"])
def test_nothing_else_is_served(http: httpx.Client, name: str) -> None:
    answer = http.get(f"/{name}")
    assert answer.status_code == 404
    assert "secret" not in answer.text
