"""Killed at any point, a command leaves no claim of what did not happen, and no silence."""

from __future__ import annotations

import random
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.kit.command import SAMPLE, ckpt
from tests.kit.kill.effects import Runner, runner

THREAD = "trip-to-kyoto"
OTHERS = ("refund-4711", "weekly-digest", "nightly-report")
Rows = list[tuple[object, ...]]


@pytest.fixture(scope="module")
def killer() -> Iterator[Runner]:
    with runner() as found:
        yield found


@dataclass(frozen=True)
class Place:
    """A folder with a store, a state folder and archives."""

    folder: Path

    @property
    def store(self) -> Path:
        return self.folder / "store.db"

    @property
    def other(self) -> Path:
        """The store to which threads are copied."""
        return self.folder / "other.db"

    @property
    def environment(self) -> dict[str, str]:
        return {"XDG_STATE_HOME": str(self.folder / "state"), "HOME": str(self.folder)}

    def words(self, *more: str) -> list[str]:
        return ["-s", str(self.store), *more]


def rows(path: Path) -> Rows:
    if not path.exists():
        return []
    with closing(sqlite3.connect(path)) as connection:
        found: Rows = []
        for table in ("checkpoints", "writes"):
            try:
                found += [(table, *row) for row in connection.execute(f"SELECT * FROM {table}")]
            except sqlite3.OperationalError:  # it is not made yet
                continue
    return sorted(found, key=repr)


def nothing(place: Place) -> None:
    """Prepare nothing."""


def rolled_back(place: Place) -> None:
    assert ckpt(*place.words("rollback", THREAD, "--steps", "2", "--yes")).code == 0


def undone(place: Place) -> None:
    rolled_back(place)
    assert ckpt(*place.words("undo", "--yes")).code == 0


def purged(place: Place) -> None:
    assert (
        ckpt(
            *place.words(
                "threads", "delete", *OTHERS, "--archive", str(place.folder / "archive"), "--yes"
            )
        ).code
        == 0
    )


def exported(place: Place) -> None:
    to = str(place.folder / "archive")
    assert ckpt(*place.words("export", *OTHERS, "--to", to)).code == 0
    assert ckpt(*place.words("threads", "delete", *OTHERS, "--yes")).code == 0
    shutil.rmtree(place.folder / "state")


COMMANDS: dict[str, tuple[Callable[[Place], None], Callable[[Path], list[str]]]] = {
    "rollback": (nothing, lambda _: ["rollback", THREAD, "--steps", "3", "--yes"]),
    "fork": (nothing, lambda _: ["fork", THREAD, "~2", "--yes"]),
    "copy-checkpoint": (nothing, lambda _: ["copy", THREAD, "--at", "~2", "--as", "new", "--yes"]),
    "copy-thread": (nothing, lambda _: ["copy", THREAD, "--as", "new", "--yes"]),
    "undo": (rolled_back, lambda _: ["undo", THREAD, "--yes"]),
    "undo-newest": (rolled_back, lambda _: ["undo", "--yes"]),
    "redo": (undone, lambda _: ["redo", "--yes"]),
    "delete": (nothing, lambda _: ["threads", "delete", *OTHERS, "--yes"]),
    "purge": (
        nothing,
        lambda folder: [
            *("purge", "--match", "*-*", "--include-interrupted", "--include-error"),
            *("--include-pending", "--batch", "2", "--archive", str(folder / "archive"), "--yes"),
        ],
    ),
    "undo-purge": (purged, lambda _: ["undo", "--yes"]),
    "import": (exported, lambda folder: ["import", str(folder / "archive"), "--yes"]),
    "copy": (
        nothing,
        lambda folder: ["copy", *OTHERS, "--to", str(folder / "other.db"), "--create", "--yes"],
    ),
}
CANNOT_UNDO = {"delete"}


def check(
    killer: Runner, place: Place, first: Path, words: list[str], point: int, name: str
) -> str:
    """Kill a command at a point, and compare what the log says with what the store has."""
    shutil.rmtree(place.folder, ignore_errors=True)
    shutil.copytree(first, place.folder)
    changed_store = place.other if name == "copy" else place.store
    before, known = rows(changed_store), logged(place)
    if not killer.kill_at(place.words(*words), place.environment, point):
        return "ended"
    after = rows(changed_store)
    claimed = [one for one in raw_log(place) if one["op"] not in known]
    assert not claimed or after != before, "the log claims what did not happen"
    found = [one for one in listed(changed_store) if one["op"] not in known]
    if after == before:
        assert found == []
        return "nothing"
    (one,) = found
    changed = {row[1] for row in set(before) ^ set(after)}
    assert set(one["threads"]) == changed
    assert one["number"] == len(changed)
    assert not list((place.folder / "state/ckpt/operations/running").iterdir())
    if one["undoable"]:
        undo = ckpt("-s", changed_store, "undo", one["op"], "--yes")
        assert undo.code == 0, undo.err
        assert rows(changed_store) == before
    else:
        assert name in CANNOT_UNDO or one["ended"], one
    return "changed"


def logged(place: Place) -> set[str]:
    return {one["op"] for one in raw_log(place)}


def raw_log(place: Place) -> list[dict[str, Any]]:
    """What the log says before a later run looks at the store."""
    return ckpt("ops", "list", "--all", "-o", "json").json  # type: ignore[no-any-return]


def listed(store: Path) -> list[dict[str, Any]]:
    return ckpt("-s", store, "ops", "list", "--all", "-o", "json").json  # type: ignore[no-any-return]


def prepared(folder: Path, name: str, patch: pytest.MonkeyPatch) -> tuple[Place, Path]:
    """Make the store as it is before a command; return the place, and a copy of it."""
    place = Place(folder / "place")
    place.folder.mkdir()
    for variable, value in place.environment.items():
        patch.setenv(variable, value)
    shutil.copyfile(SAMPLE, place.store)
    COMMANDS[name][0](place)
    with closing(sqlite3.connect(place.store)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    first = folder / "first"
    shutil.copytree(place.folder, first)
    return place, first


def kills(
    killer: Runner, folder: Path, name: str, number: int, patch: pytest.MonkeyPatch
) -> list[str]:
    place, first = prepared(folder, name, patch)
    words = COMMANDS[name][1](place.folder)
    points = killer.points(place.words(*words), place.environment)
    # Most of the points are before anything is written.
    late = range(0 if number > 3 else points // 2, points)
    dice = random.Random(name)
    chosen = dice.sample(late, min(number, len(late)))
    return [check(killer, place, first, words, point, name) for point in chosen]


@pytest.mark.parametrize("name", COMMANDS)
def test_some_kills(
    killer: Runner, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert kills(killer, tmp_path, name, 2, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_two_hundred_kills(
    killer: Runner, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert {"changed", "nothing"} <= set(kills(killer, tmp_path, name, 200, monkeypatch))
