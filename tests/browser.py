"""A headless Chromium that records the errors of a page."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from playwright.sync_api import Browser, Page, sync_playwright


@dataclass
class WatchedPage:
    """A page, the errors in its console (including violations of the CSP), and the URLs that it requested."""

    page: Page
    errors: list[str] = field(default_factory=list)
    requested: list[str] = field(default_factory=list)


@contextmanager
def chromium(*switches: str) -> Iterator[Browser]:
    """Yield the system's Chromium, started with these command line switches."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu", *switches]
        )
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def browser_page(width: int = 1280, height: int = 1000) -> Iterator[WatchedPage]:
    """Yield an empty page of the system's Chromium; playwright's own build is not downloaded."""
    with chromium() as browser:
        watched = WatchedPage(browser.new_page(viewport={"width": width, "height": height}))
        watched.page.on("pageerror", lambda error: watched.errors.append(str(error)))
        watched.page.on(
            "console",
            lambda message: watched.errors.append(message.text) if message.type == "error" else None,
        )
        watched.page.on("request", lambda request: watched.requested.append(request.url))
        yield watched
