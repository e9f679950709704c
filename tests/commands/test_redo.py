"""`redo` on the command line; what it makes again is tested in tests/operations."""

from pathlib import Path

import pytest

from tests.commands.words import asks_first, refuses
from tests.kit.command import ckpt


def test_what_an_undo_took_back_is_made_again(sample: Path) -> None:
    def head() -> object:
        return ckpt("-s", sample, "show", "trip-to-kyoto", "-o", "json").json["head"]

    assert ckpt("-s", sample, "rollback", "trip-to-kyoto", "~1", "--yes").code == 0
    changed = head()
    assert ckpt("-s", sample, "undo", "--yes").code == 0
    assert head() != changed
    asks_first(sample, "redo")
    assert head() == changed


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [("redo", 3, "nothing to redo"), ("redo trip-to-kyoto", 3, "no operation 'trip-to-kyoto'")],
)
def test_wrong_words_are_refused(sample: Path, words: str, code: int, said: str) -> None:
    refuses(sample, words, code, said)
