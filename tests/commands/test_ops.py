"""`ops` on the command line; what is recorded is tested in tests/operations."""

from pathlib import Path

from tests.commands.words import refusals
from tests.kit.command import ckpt


def test_each_change_is_an_operation_with_its_command(sample: Path) -> None:
    words = ["rollback", "trip-to-kyoto", "~1", "--reason", "wrong hotel", "--yes"]
    assert ckpt("-s", sample, *words).code == 0
    (listed,) = ckpt("-s", sample, "ops", "list", "-o", "json").json
    assert (listed["action"], listed["threads"]) == ("rollback", ["trip-to-kyoto"])
    assert listed["reason"] == "wrong hotel"
    shown = ckpt("-s", sample, "ops", "show", listed["op"][:4], "-o", "json").json
    assert (shown["op"], "rollback trip-to-kyoto" in shown["command"]) == (listed["op"], True)


test_wrong_words_are_refused = refusals(
    ("ops show", 2, "missing argument 'OP'"),
    ("ops show abc", 3, "no operation 'abc'"),
    ("ops verify", 2, "no audit file given"),
    ("ops verify none.log", 2, "none.log"),
)
