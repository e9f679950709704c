"""A run that is killed leaves each thread whole, and the same command goes on where it ended."""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest

from ckpt_backends.testing.chance import Chance
from ckpt_backends.testing.killing import calls_of, kill_at
from tests.kit.command import ckpt
from tests.kit.rows import rows_of
from tests.many.broken import FAILED, KILLED, LAST_GOOD, RETRY, by_thread

COMMANDS = {"last-good": LAST_GOOD, "steps": ("rollback", *FAILED, "--steps", "1"), "copy": RETRY}
SINCE = "open_writable"


def killed(path: Path, store: Path, words: Sequence[str | Path], call: int) -> str:
    """Kill a command at a call, and run it again. Return what the killed run had done."""
    shutil.copyfile(path, store)
    shutil.rmtree(Path(os.environ["XDG_STATE_HOME"]), ignore_errors=True)
    before = rows_of(store)
    kill_at(words, call, SINCE)
    left = rows_of(store)
    again = ckpt(*words)
    assert again.code == 0, again.err
    if LAST_GOOD[2] in words:
        assert set(by_thread(again)) == {*FAILED, *KILLED}, "the list to resume is whole"
    whole = rows_of(store)
    assert left <= whole
    # Each thread has all that is added to it, or nothing.
    for one in {row[1] for row in whole - before}:
        added = {row for row in whole - before if row[1] == one}
        assert added <= left or not added & left
    for _ in range(2):
        ckpt("-s", store, "undo", "--yes")
    assert rows_of(store) == before
    return "nothing" if left == before else "all" if left == whole else "some"


@pytest.mark.in_ci("some-last-good")
@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("number", ["some", pytest.param("many", marks=pytest.mark.nightly)])
def test_the_same_command_goes_on_after_a_kill(
    path: Path, tmp_path: Path, name: str, number: str, chance: Chance
) -> None:
    store = tmp_path / "killed.db"
    shutil.copyfile(path, store)
    words: list[str | Path] = ["-s", store, *COMMANDS[name], "--yes", "-o", "ndjson"]
    calls = calls_of(words, SINCE)
    if number == "some":
        for call in Random(name).sample(calls, 3):
            killed(path, store, words, call)
        return
    done = {killed(path, store, words, dice.choice(calls)) for dice in chance.rounds(30)}
    assert len(done) > 1, "some kills must fall before the first change, or after one"
