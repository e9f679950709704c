"""`ops` on the command line; what is recorded is tested in tests/operations."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.commands.words import refuses
from tests.kit.command import ckpt


def test_each_change_is_an_operation_with_its_command(sample: Path) -> None:
    words = ["rollback", "trip-to-kyoto", "~1", "--reason", "wrong hotel", "--yes"]
    assert ckpt("-s", sample, *words).code == 0
    (listed,) = ckpt("-s", sample, "ops", "list", "-o", "json").json
    assert (listed["action"], listed["threads"]) == ("rollback", ["trip-to-kyoto"])
    assert listed["reason"] == "wrong hotel"
    shown = ckpt("-s", sample, "ops", "show", listed["op"][:4], "-o", "json").json
    assert shown["op"] == listed["op"]
    assert "rollback trip-to-kyoto" in shown["command"]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("ops show", 2, "missing argument 'OP'"),
        ("ops show abc", 3, "no operation 'abc'"),
        ("ops verify", 2, "no audit file given"),
        ("ops verify none.log", 2, "none.log"),
    ],
)
def test_wrong_words_are_refused(sample: Path, words: str, code: int, said: str) -> None:
    refuses(sample, words, code, said)
