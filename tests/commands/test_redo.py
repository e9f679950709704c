"""`redo` on the command line; what it makes again is tested in tests/operations."""

from pathlib import Path

from tests.commands.words import asks_first, refusals
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


test_wrong_words_are_refused = refusals(
    ("redo", 3, "nothing to redo"), ("redo trip-to-kyoto", 3, "no operation 'trip-to-kyoto'")
)
