"""`undo` on the command line; what it brings back is tested in tests/operations."""

from pathlib import Path

from tests.commands.words import asks_first, refusals
from tests.kit.command import ckpt


def test_the_last_change_is_taken_back(sample: Path) -> None:
    def head() -> object:
        return ckpt("-s", sample, "show", "trip-to-kyoto", "-o", "json").json["head"]

    before = head()
    assert ckpt("-s", sample, "rollback", "trip-to-kyoto", "~1", "--yes").code == 0
    assert head() != before
    asks_first(sample, "undo trip-to-kyoto")
    assert head() == before


test_wrong_words_are_refused = refusals(
    ("undo", 3, "nothing to undo"),
    ("undo nobody", 3, "no thread 'nobody'"),
    ("undo trip-to-kyoto", 3, "nothing"),
)
