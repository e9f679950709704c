"""Killed at any moment, a purge of Redis loses nothing that the next run does not remove.

A thread is whole or gone, but for one of so many keys that it goes in several transactions: what
is left of that has lost its pointers, is still listed, and goes with the next run. An import
brings a thread back whole or not at all.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.kit.agents.steps import talk
from tests.kit.command import ckpt
from tests.kit.kill.anywhere import run_and_kill, seconds_of
from tests.kit.plugin import redis_of_its_own
from tests.kit.savers.redis import SeeingRedisSaver
from tests.kit.savers.redis_threads import client

pytestmark = pytest.mark.engines

THREADS = 20
LONG = "t-long"
LENGTH = 100
"""Its checkpoints with 50 writes each: enough that some kills fall between its transactions."""
SLOWLY = ("--batch", "1", "--sleep", "0.01", "--archive")
LOCK = b"ckpt:purge-lock"
READ: dict[bytes, Callable[[bytes], tuple[Any, ...]]] = {
    b"checkpoint": lambda name: ("JSON.GET", name),
    b"checkpoint_write": lambda name: ("JSON.GET", name),
    b"checkpoint_latest": lambda name: ("GET", name),
    b"write_keys_zset": lambda name: ("ZRANGE", name, 0, -1, "WITHSCORES"),
}
"""What reads a key, by what its name begins with."""


@dataclass(frozen=True)
class Full:
    """A server, and what it holds when it is full."""

    url: str
    admin: Any
    stored: dict[bytes, bytes]

    def fill(self) -> None:
        admin = self.admin
        with admin.pipeline(transaction=False) as pipe:
            for name in admin.scan_iter(count=5000):
                pipe.unlink(name)
            for name, value in self.stored.items():
                pipe.restore(name, 0, value, replace=True)
            pipe.execute()

    def threads(self) -> dict[str, dict[bytes, Any]]:
        """Every key of every thread, but for the one that always stays."""
        admin = self.admin
        names = [name for name in admin.scan_iter(count=5000) if name != LOCK]
        with admin.pipeline(transaction=False) as pipe:
            for name in names:
                pipe.execute_command(*READ[name.partition(b":")[0]](name))
            held = pipe.execute()
        found: dict[str, dict[bytes, Any]] = {}
        for name, value in zip(names, held, strict=True):
            if (thread := name.decode().split(":")[1]) != "stays":
                found.setdefault(thread, {})[name] = value
        return found

    def is_locked(self) -> bool:
        return bool(self.admin.exists(LOCK))

    def unlock(self) -> None:
        """As if the time of a killed run's lock were over."""
        admin = self.admin
        assert admin.pttl(LOCK) != -1
        admin.delete(LOCK)


@pytest.fixture(scope="module")
def full() -> Iterator[Full]:
    """Threads of the official saver, one of them with more keys than go at once."""
    with redis_of_its_own(modules=True) as server:
        with SeeingRedisSaver.from_conn_string(server.url) as saver:
            saver.setup()
            talk(saver, "stays", *(f"t{number}" for number in range(THREADS)), LONG)
            _lengthen(saver)
        admin = client(server.url)
        stored = {name: admin.dump(name) for name in admin.scan_iter(count=5000)}
        yield Full(server.url, admin, stored)


def _lengthen(saver: Any) -> None:
    head = saver.get_tuple({"configurable": {"thread_id": LONG, "checkpoint_ns": ""}})
    for number in range(LENGTH):
        own = f"{head.checkpoint['id'][:-4]}{number:04x}"
        config = saver.put(head.parent_config, {**head.checkpoint, "id": own}, head.metadata, {})
        saver.put_writes(config, [("items", ["x"])] * 50, "task")


def check(full: Full, folder: Path, seed: int, longest: float, working: float) -> str:
    """One round: kill a purge at its work; in some, kill the import of what it archived too."""
    dice, archive = random.Random(seed), folder / "archive"
    full.fill()
    before = full.threads()
    words: list[str | Path] = ["-s", full.url, "purge", "--match", "t*", "--yes"]
    words += ["--include-pending", "--include-interrupted"]
    ended = run_and_kill([*words, *SLOWLY, archive], dice, working, begun=full.is_locked)
    full.unlock()
    after = full.threads()
    for thread, found in after.items():
        assert found.items() <= before[thread].items(), thread
        if found != before[thread]:
            assert thread == LONG
            assert not [name for name in found if name.startswith(b"checkpoint_latest")]
    listed = ckpt("-s", full.url, "threads", "list", "--all", "-o", "json").json
    assert {one["thread_id"] for one in listed} == {*after, "stays"}
    bundles = list(archive.glob("*.ckpt.gz")) if archive.exists() else []
    if bundles and seed % 5 == 0:
        run_and_kill(["-s", full.url, "import", *bundles, "--yes"], dice, longest)
        for thread, found in full.threads().items():
            assert found in (before[thread], after.get(thread)), thread
        done = ckpt("-s", full.url, "import", *bundles, "--yes")
        assert done.code == 0, done.err
        assert full.threads() == before
    # The other rounds go on where the killed run ended.
    again = ckpt(*words, "-o", "json").json
    assert again["skipped"] == []
    assert full.threads() == {}
    part = after.get(LONG) not in (None, before[LONG])
    return "in part" if part else "ended" if ended else "killed" if after == before else "between"


def rounds(full: Full, folder: Path, number: int) -> Iterator[str]:
    full.fill()
    words: list[str | Path] = ["-s", full.url, "purge", "--match", "t*"]
    longest = seconds_of([*words, "--dry-run"])
    working = seconds_of([*words, "--yes", *SLOWLY, folder / "timed"]) - longest
    for seed in range(number):
        place = folder / str(seed)
        place.mkdir()
        # The long thread goes first: every other kill comes about then.
        yield check(full, place, seed, longest, max(working, 0.1) / (1 + 9 * (seed % 2)))
        shutil.rmtree(place)


@pytest.mark.slow
def test_ten_kills(full: Full, tmp_path: Path) -> None:
    assert {"between", "in part"} & set(rounds(full, tmp_path, 10))


@pytest.mark.slow
def test_two_hundred_kills(full: Full, tmp_path: Path) -> None:
    assert set(rounds(full, tmp_path, 200)) >= {"between", "in part"}
