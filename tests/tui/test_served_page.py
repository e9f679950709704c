"""The page of `ckpt tui --serve` in a real browser."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.kit.browser import Browser
from tests.tui.test_serving import children, serving

pytestmark = pytest.mark.slow

_PATIENCE = 20.0
_FIND_TERMINAL = """
// The page draws on a canvas and keeps its terminal for itself: take it where it is stored.
Object.defineProperty(Object.prototype, "terminal", {
  configurable: true,
  set(one) {
    Object.defineProperty(this, "terminal", { value: one, writable: true, configurable: true });
    if (one && one.buffer) window.shown = one;
  },
});
"""
_READ_TERMINAL = """
[...Array(shown.rows).keys()]
  .map(row => shown.buffer.active.getLine(row).translateToString(true)).join("\\n")
"""


class ServedPage:
    """A page with the screen of a store."""

    def __init__(self, browser: Browser) -> None:
        self.browser = browser

    def text(self) -> str:
        """Return what the terminal of the page shows."""
        found: str = self.browser.run(_READ_TERMINAL)
        return found

    def until(self, holds: Callable[[str], bool]) -> str:
        """Wait until what is shown is so, and return it."""
        end = time.monotonic() + _PATIENCE
        while not holds(shown := self.text()):
            assert time.monotonic() < end, shown
            self.browser.drawn()
            time.sleep(0.05)
        return shown


@pytest.fixture
def page(chromium: Browser) -> Iterator[ServedPage]:
    """A browser that can read the terminal of a page."""
    with chromium.before_each_page(_FIND_TERMINAL):
        yield ServedPage(chromium)
    chromium.go("about:blank")
    chromium.trouble.clear()


def test_the_screen_is_shown_and_driven_in_a_browser(sample: Path, page: ServedPage) -> None:
    browser = page.browser
    with serving(str(sample)) as (url, _):
        browser.show(width=1280, height=800)
        browser.go(url)
        page.until(lambda text: "refund-4711" in text and "read-only" in text)
        # Typed at once: the page has the focus.
        browser.press("/", *"weekly", "Enter")
        page.until(lambda text: "weekly-digest" in text and "refund-4711" not in text)
        # With --write, D shows a plan, over which there is no help.
        browser.press("D", "?")
        page.until(lambda text: "Keys and signs" in text)
        browser.show(width=700, height=500)
        page.until(lambda text: text.count("\n") < 30)
        asked = [one["request"]["url"] for kind, one in browser.trouble if kind == "request"]
        assert all(one.startswith(url) for one in asked)
        trouble = [one for one in browser.trouble if one[0] in {"exception", "blocked"}]
        assert trouble == []


def test_a_browser_without_the_token_sees_nothing(sample: Path, page: ServedPage) -> None:
    with serving(str(sample)) as (url, process):
        page.browser.go(urlsplit(url)._replace(path="/").geturl())
        assert page.browser.text("body").strip() == "forbidden"
        assert not children(process.pid)
