"""A real browser for tests of pages: nothing may be fetched, and nothing may be complained of."""

from __future__ import annotations

import os
import shutil

import pytest

CHROMIUMS = ("chromium", "chromium-browser", "google-chrome")


def chromium() -> str | None:
    named = os.environ.get("DREE_CHROMIUM")
    return named or next((found for name in CHROMIUMS if (found := shutil.which(name))), None)


def need_browser():
    """Skip the module where there is none; playwright's functions otherwise."""
    if chromium() is None:
        pytest.skip(f"needs one of {', '.join(CHROMIUMS)}, or $DREE_CHROMIUM", allow_module_level=True)
    return pytest.importorskip("playwright.sync_api", reason="needs playwright")


def launch(driver):
    # Without a sandbox, which containers and root do not have; the page is our own.
    return driver.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])


class Watched:
    """An open page, what it has complained of, and what it has asked for."""

    def __init__(self, browser, address, width=1280, **options):
        self.trouble, self.requests, self.address = [], [], address
        self.page = browser.new_page(viewport={"width": width, "height": 900}, **options)
        self.page.on("console", lambda message: self.trouble.append(message.text))
        self.page.on("pageerror", lambda error: self.trouble.append(str(error)))
        self.page.route("**/*", self._answer)
        self.page.goto(address)

    def close(self):
        self.page.close()
        assert self.trouble == []
        assert self.requests == [self.address]

    def _answer(self, route):
        self.requests.append(route.request.url)
        if len(self.requests) == 1:
            route.continue_()
        else:
            route.abort()
