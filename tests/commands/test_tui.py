"""`tui` on the command line; the screen is tested in tests/tui."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.commands.words import refuses


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("tui", 2, "cannot start the screen: not a terminal"),
        ("tui --page 1", 2, "no such option: --page"),
    ],
)
def test_wrong_words_are_refused(sample: Path, words: str, code: int, said: str) -> None:
    refuses(sample, words, code, said)
