"""A run that is killed leaves each thread whole, and the same command goes on where it ended."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.kit.command import ckpt
from tests.kit.kill.effects import Runner, runner
from tests.kit.rows import rows_of
from tests.many.test_fork import RETRY
from tests.many.test_rollback import FAILED, KILLED, LAST_GOOD, by_thread

COMMANDS = {"last-good": LAST_GOOD, "steps": ("rollback", *FAILED, "--steps", "1"), "copy": RETRY}


@dataclass(frozen=True)
class Place:
    """A folder with a store and a log of operations."""

    first: Path
    """The store as it is before a command."""
    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        return {"XDG_STATE_HOME": str(self.folder / "state"), "HOME": str(self.folder)}

    def renewed(self) -> Path:
        """Return the store as it was at first, with an empty log."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        return Path(shutil.copyfile(self.first, self.folder / "many.db"))


@pytest.fixture(scope="module")
def killer() -> Iterator[Runner]:
    with runner() as found:
        yield found


@pytest.fixture
def place(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """A place for the commands, and for the log of operations."""
    place = Place(path, tmp_path / "place")
    for name, value in place.environment.items():
        monkeypatch.setenv(name, value)
    return place


def check(killer: Runner, place: Place, words: list[str], point: int) -> str:
    """Kill a command at a point, and run it again. Returns what the killed run had done."""
    store = place.renewed()
    before = rows_of(store)
    was_killed = killer.kill_at(["-s", str(store), *words], place.environment, point)
    left = rows_of(store)
    again = ckpt("-s", store, *words)
    assert again.code == 0, again.err
    whole = rows_of(store)
    assert left <= whole
    # Each thread has all that is added to it, or nothing.
    for one in {row[1] for row in whole - before}:
        added = {row for row in whole - before if row[1] == one}
        assert added <= left or not added & left
    for _ in range(2):
        ckpt("-s", store, "undo", "--yes")
    assert rows_of(store) == before
    if not was_killed:
        return "ended"
    return "nothing" if left == before else "all" if left == whole else "some"


def kills(killer: Runner, place: Place, name: str, number: int) -> set[str]:
    words = [*COMMANDS[name], "--yes", "-o", "ndjson"]
    points = killer.points(["-s", str(place.renewed()), *words], place.environment)
    # Most of the points are before anything is written.
    late = range(0 if number > 3 else points // 2, points)
    chosen = random.Random(name).sample(late, min(number, len(late)))
    return {check(killer, place, words, point) for point in chosen}


@pytest.mark.parametrize("name", COMMANDS)
def test_some_kills(killer: Runner, place: Place, name: str) -> None:
    assert kills(killer, place, name, 3) - {"ended"}


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_a_hundred_kills(killer: Runner, place: Place, name: str) -> None:
    assert kills(killer, place, name, 100) >= {"nothing", "some", "all"}


@pytest.mark.slow
def test_a_resume_list_is_whole_after_a_kill(killer: Runner, place: Place) -> None:
    words = [*LAST_GOOD, "--yes", "-o", "ndjson"]
    points = killer.points(["-s", str(place.renewed()), *words], place.environment)
    store = place.renewed()
    assert killer.kill_at(["-s", str(store), *words], place.environment, points * 3 // 4)
    assert set(by_thread(ckpt("-s", store, *words))) == {*FAILED, *KILLED}
