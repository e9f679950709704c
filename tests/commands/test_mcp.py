"""`mcp` on the command line; what it serves is tested in tests/doors."""

from pathlib import Path

import pytest

from tests.commands.words import refuses


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [("mcp nobody", 2, "unexpected extra argument"), ("mcp --bogus", 2, "no such option: --bogus")],
)
def test_wrong_words_are_refused(sample: Path, words: str, code: int, said: str) -> None:
    refuses(sample, words, code, said)
