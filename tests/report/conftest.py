"""One browser for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.plugin import started
from tests.report.browser import Browser, start_browser


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """A headless Chromium, started when the first test needs it."""
    with started("chromium", start_browser) as browser:
        yield browser


@pytest.fixture
def browser(chromium: Browser) -> Iterator[Browser]:
    """The same, with nothing left of earlier tests: a page must neither ask nor raise."""
    yield chromium
    chromium.drawn()
    assert chromium.trouble == []
