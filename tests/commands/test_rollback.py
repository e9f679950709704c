"""`rollback` on the command line; how threads go on is tested in tests/travel and tests/many."""

from pathlib import Path
from typing import Any

import pytest

from tests.commands.words import asks_first, refusals
from tests.kit.command import ckpt


@pytest.mark.parametrize("place", ["~2", "step:10", "--steps 2"])
def test_an_earlier_checkpoint_is_the_head_again(sample: Path, place: str) -> None:
    def shown(ref: str) -> Any:
        return ckpt("-s", sample, "show", f"trip-to-kyoto@{ref}", "-o", "json").json

    before = shown("~2")
    asks_first(sample, f"rollback trip-to-kyoto {place}")
    after = shown("head")
    assert (after["values"], after["next"]) == (before["values"], before["next"])
    assert (after["source"], after["checkpoint_id"] != before["checkpoint_id"]) == ("fork", True)


test_wrong_words_are_refused = refusals(
    ("rollback", 2, "no thread given"),
    ("rollback trip-to-kyoto", 2, "no checkpoint given for thread 'trip-to-kyoto'"),
    ("rollback trip-to-kyoto --steps 0", 2, "--steps"),
    ("rollback trip-to-kyoto --steps 99", 3, "its head has 13 earlier checkpoints"),
    ("rollback trip-to-kyoto ~1 --steps 1", 2, "a REF cannot be combined with --steps"),
    ("rollback nobody --steps 1", 3, "no thread 'nobody'"),
)
