"""The browser of the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.kit.browser import Browser


@pytest.fixture
def browser(chromium: Browser) -> Iterator[Browser]:
    """A headless Chromium with nothing left of earlier tests: a page must neither ask nor raise."""
    yield chromium
    chromium.drawn()
    assert chromium.trouble == []
