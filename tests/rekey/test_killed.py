"""Killed at any moment, `ckpt rekey` leaves each thread with one key, and the next run finishes."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ckpt_backends.testing.chance import Chance
from ckpt_backends.testing.encrypted import KEY, NEW, key_of
from ckpt_backends.testing.filling import quiet
from ckpt_backends.testing.killing import calls_of, kill_at
from ckpt_backends.testing.library import graph_of
from tests.kit.command import ckpt
from tests.kit.harness.sqlite import SqliteHarness

THREADS = [f"t{number}" for number in range(16)]


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A file with encrypted threads."""
    with SqliteHarness(tmp_path_factory.mktemp("killed")) as harness, key_of(harness, KEY), quiet():
        graph = graph_of(harness.kept_saver)
        for thread_id in THREADS:
            config: Any = {"configurable": {"thread_id": thread_id}}
            graph.invoke({"items": ["x" * 20_000, thread_id]}, config)
        harness.kept_saver.conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        yield harness.path


def keys_of(path: Path) -> list[set[bytes]]:
    """Return for each thread the keys with which the library loads all of it."""
    with SqliteHarness.at(str(path)) as harness:
        return [_keys_of(harness, one) for one in THREADS]


def _keys_of(harness: SqliteHarness, thread_id: str) -> set[bytes]:
    found = set()
    config: Any = {"configurable": {"thread_id": thread_id, "checkpoint_ns": ""}}
    for key in (KEY, NEW):
        with key_of(harness, key):
            try:
                history = list(harness.kept_saver.list(config))
            except ValueError:  # The tag of the ciphertext is wrong.
                continue
            assert history[0].checkpoint["channel_values"]["items"][1] == thread_id
            found.add(key)
    return found


@pytest.mark.parametrize("at_random", [False, pytest.param(True, marks=pytest.mark.nightly)])
def test_a_killed_run_is_finished_by_the_next(
    filled: Path, tmp_path: Path, old_key: Path, new_key: Path, at_random: bool, chance: Chance
) -> None:
    path = tmp_path / "store.db"
    words: list[str | Path] = ["-s", path, "--aes-key-file", old_key, "rekey", "--all"]
    words += ["--new-key-file", new_key, "--yes"]
    shutil.copy(filled, path)
    calls = calls_of(words, since="open_writable")
    rounds = (dice.choice(calls) for dice in chance.rounds(30))
    half = calls[len(calls) // 2]
    for call in rounds if at_random else (calls[len(calls) // 4], half, calls[len(calls) * 3 // 4]):
        for one in tmp_path.glob("store.db*"):
            one.unlink()
        shutil.copy(filled, path)
        kill_at(words, call, since="open_writable")
        found = keys_of(path)
        assert all(len(one) == 1 for one in found)
        done = found.count({NEW})
        # Half way, some threads are written, and some are not.
        assert 0 < done < len(THREADS) or call != half
        again = ckpt(*words, "-o", "json").json
        assert (again["threads"], again["skipped"]) == (len(THREADS), [])
        assert again["done_before"] * len(THREADS) == again["values"] * done
        assert again["rekeyed"] + again["done_before"] == again["values"]
        assert keys_of(path) == [{NEW}] * len(THREADS)
