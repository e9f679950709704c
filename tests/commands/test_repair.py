"""`repair` on the command line; what it mends is tested in tests/repair."""

from pathlib import Path

import pytest

from tests.commands.words import contents, refusals
from tests.kit.command import ckpt


@pytest.mark.parametrize("kind", ["messages", "values", "writes"])
def test_a_sound_store_is_left_as_it_is(sample: Path, kind: str) -> None:
    before = contents(sample)
    answer = ckpt("-s", sample, "repair", kind, "--all", "--yes")
    assert (answer.code, answer.err) == (0, "note: nothing to repair\n")
    assert contents(sample) == before


test_wrong_words_are_refused = refusals(
    ("repair messages", 2, "no thread given"),
    ("repair messages nobody", 3, "no thread 'nobody'"),
    ("repair values nobody", 3, "no thread 'nobody'"),
    ("repair writes nobody", 3, "no thread 'nobody'"),
)
