"""The page that `euterpe demo` serves, in a browser: playback, thumbnails, menus, keys, small screens."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from urllib.parse import urlsplit

import av
import numpy as np
import pytest
import webvtt
from numpy.typing import NDArray
from playwright.sync_api import Page, expect

from euterpe.cli.demo.clip import SECONDS
from tests.browser import WatchedPage, browser_page

STOP_TIMEOUT_S = 30.0
TIMEOUT_S = 60.0


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo")


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    """Start the demo without Spark, and yield its address. Interrupt the demo after the last test."""
    command = [sys.executable, "-m", "euterpe", "demo", "--page", "--dir", str(folder)]
    environ = {**os.environ, "JAVA_HOME": str(folder)}
    with subprocess.Popen(
        command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            yield next(line.split()[1] for line in process.stdout if line.startswith("page "))
            process.send_signal(signal.SIGINT)
            out, errors = process.communicate(timeout=STOP_TIMEOUT_S)
        finally:
            process.kill()
    assert (process.returncode, errors) == (0, "")
    assert f"python3 -m http.server --bind 127.0.0.1 --directory {folder / 'site'}" in out


@contextmanager
def opened(address: str, width: int = 1280, height: int = 1000) -> Iterator[WatchedPage]:
    """Open the page. At the end, check that the page had no errors and loaded nothing from other hosts."""
    with browser_page(width, height) as watched:
        warnings: list[str] = []
        watched.page.on("console", lambda message: warnings.append(f"{message.type}: {message.text}"))
        watched.page.goto(address)
        wait_until(watched.page, "video.readyState >= 3")
        wait_until(watched.page, "thumbnails.list.length > 0")
        yield watched
        # On a busy machine hls.js reports a stall, and goes on playing.
        others = [warning for warning in warnings if "bufferStalledError" not in warning]
        assert (watched.errors, others) == ([], [])
        assert watched.page.evaluate("video.error") is None
        assert not watched.page.locator("#problem").is_visible()
        asked = {urlsplit(url) for url in watched.requested if not url.startswith(("data:", "blob:"))}
        assert {url.netloc for url in asked} == {urlsplit(address).netloc}


def difference(shown: NDArray[np.uint8], wanted: NDArray[np.uint8]) -> float:
    """Return the mean difference of two pictures, without the lower lines, which the time label covers.

    The element can begin between two lines of the screen, so compare at two offsets and use the better
    result.
    """
    height, width, _ = wanted.shape
    above = height - 30
    return min(
        float(np.abs(shown[first : first + above, :width].astype(int) - wanted[:above]).mean())
        for first in range(shown.shape[0] - height + 1)
    )


def wait_until(page: Page, condition: str) -> None:
    """Wait until a condition of JavaScript holds. `page.wait_for_function` would need 'unsafe-eval'."""
    deadline = time.monotonic() + TIMEOUT_S
    while not page.evaluate(condition):
        assert time.monotonic() < deadline, condition
        page.wait_for_timeout(50)


def hover(page: Page, share: float) -> None:
    """Move the pointer to a position on the seek bar, given as a share of the film's duration."""
    box = page.locator("#seek input").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 8 + share * (box["width"] - 16), box["y"] + box["height"] / 2)


def pixels(image: bytes) -> NDArray[np.uint8]:
    """Return the RGB pixels of a PNG or JPEG file."""
    with av.open(BytesIO(image), "r") as file:
        return next(file.decode(video=0)).to_ndarray(format="rgb24").astype(np.uint8)


def test_the_film_plays_to_its_end(address: str) -> None:
    with opened(address) as watched:
        page = watched.page
        assert page.evaluate("video.poster") == f"{address}media/poster/1.jpg"
        page.get_by_role("button", name="Play the film").click()
        wait_until(page, "video.currentTime > 0.5")
        expect(page.get_by_role("button", name="Pause")).to_be_visible()
        page.evaluate("video.playbackRate = 4")
        wait_until(page, "video.ended")
        assert page.evaluate("video.duration") == pytest.approx(SECONDS, abs=0.1)
        expect(page.locator("#clock")).to_have_text(f"0:{SECONDS} / 0:{SECONDS}")
        expect(page.get_by_role("button", name="Play", exact=True)).to_be_visible()


@pytest.mark.parametrize("share", [0.0, 0.13, 0.52, 0.99])
def test_a_hover_shows_the_thumbnail_of_its_moment(address: str, folder: Path, share: float) -> None:
    thumbnails = folder / "site" / "media" / "thumbnails"
    caption = webvtt.read(str(thumbnails / "sprite.vtt")).captions[int(share * SECONDS)]
    sheet, _, place = caption.text.partition("#xywh=")
    x, y, width, height = map(int, place.split(","))
    with opened(address) as watched:
        page = watched.page
        expect(page.locator("#thumbnail")).to_be_hidden()
        hover(page, share)
        expect(page.locator("#thumbnail")).to_be_visible()
        expect(page.locator("#moment")).to_have_text(f"0:{int(share * SECONDS):02}")
        wanted = pixels((thumbnails / sheet).read_bytes())[y : y + height, x : x + width]
        assert difference(pixels(page.locator("#picture").screenshot()), wanted) < 6
        box, bar = page.locator("#thumbnail").bounding_box(), page.locator("#seek").bounding_box()
        assert box is not None
        assert bar is not None
        pointer = bar["x"] + 8 + share * (bar["width"] - 16)
        assert box["x"] <= pointer <= box["x"] + box["width"]
        assert bar["x"] <= box["x"]
        assert box["x"] + box["width"] <= bar["x"] + bar["width"]
        page.mouse.move(5, 5)
        expect(page.locator("#thumbnail")).to_be_hidden()


def test_a_click_on_the_seek_bar_goes_to_the_moment_of_the_thumbnail(address: str) -> None:
    with opened(address) as watched:
        hover(watched.page, 0.6)
        watched.page.mouse.down()
        watched.page.mouse.up()
        at = watched.page.evaluate("video.currentTime")
        assert at == pytest.approx(0.6 * SECONDS, abs=0.1)


def test_the_menus_choose_quality_sound_and_subtitles(address: str) -> None:
    with opened(address) as watched:
        page = watched.page
        assert page.get_by_label("Quality").locator("option").all_inner_texts()[1:] == [
            *("720p", "480p", "360p", "240p")
        ]
        page.get_by_label("Quality").select_option(label="240p")
        page.get_by_label("Sound").select_option(label="German")
        page.get_by_label("Subtitles").select_option(label="English")
        page.get_by_role("button", name="Play the film").click()
        wait_until(page, "video.videoHeight === 240")
        wait_until(page, "[...video.textTracks].some((track) => track.activeCues?.length)")
        cues = page.evaluate("[...video.textTracks].flatMap(({ cues }) => [...cues]).map(({ text }) => text)")
        assert "second 0" in cues
        assert any("audio_deu" in url for url in watched.requested)


def test_a_choice_that_stops_a_request_is_no_error(address: str) -> None:
    """hls.js reports the stopped request as an error that is not fatal."""
    with opened(address) as watched:
        page = watched.page
        with page.expect_request(lambda request: "240p" in request.url):
            page.route("**/*240p*", lambda _: None)  # the first request is not answered
            page.get_by_label("Quality").select_option(label="240p")
        page.get_by_label("Quality").select_option(label="480p")
        page.unroute("**/*240p*")
        page.get_by_role("button", name="Play the film").click()
        wait_until(page, "video.videoHeight === 480")


def test_keys_play_seek_and_mute(address: str) -> None:
    with opened(address) as watched:
        page = watched.page
        page.locator("#seek input").focus()
        page.keyboard.press("ArrowRight")
        wait_until(page, "video.currentTime === 5")
        expect(page.locator("#moment")).to_have_text("0:05")
        page.keyboard.press("ArrowLeft")
        wait_until(page, "video.currentTime === 0")
        page.keyboard.press("m")
        expect(page.get_by_role("button", name="Unmute")).to_be_visible()
        page.keyboard.press(" ")
        wait_until(page, "video.currentTime > 0.2")
        page.keyboard.press("k")
        expect(page.get_by_role("button", name="Play", exact=True)).to_be_visible()


def test_every_control_can_be_reached_with_the_tab_key(address: str) -> None:
    with opened(address) as watched:
        reached = []
        for _ in range(8):
            watched.page.keyboard.press("Tab")
            reached.append(
                watched.page.evaluate("document.activeElement.id || document.activeElement.ariaLabel")
            )
        assert reached == ["start", "Seek", "play", "mute", "quality", "sound", "subtitles", "fullscreen"]


@pytest.mark.parametrize("width", [360, 1280])
def test_nothing_is_wider_than_the_screen(address: str, width: int) -> None:
    with opened(address, width=width, height=800) as watched:
        assert watched.page.evaluate("document.documentElement.scrollWidth") == width
        hover(watched.page, 0.5)
        expect(watched.page.locator("#thumbnail")).to_be_visible()
        assert watched.page.evaluate("document.documentElement.scrollWidth") == width


def test_a_browser_without_media_source_extensions_is_told_so(address: str) -> None:
    with browser_page() as watched:
        watched.page.add_init_script("delete window.MediaSource; delete window.ManagedMediaSource;")
        watched.page.goto(address)
        expect(watched.page.get_by_role("alert")).to_contain_text("it has no Media Source Extensions")
        assert watched.errors == []
