"""How long `bisect` takes on 10,000 checkpoints, and a look of `tail` at a large store."""

from __future__ import annotations

import sysconfig
import time
from pathlib import Path
from statistics import median

import pytest

from ckpt_backends.registry import open_store
from ckpt_cli.queries.store_tail import StoreTail
from tests.bench.make_store import DEEP
from tests.bench.measure import Command, Figure, bounded, interleaved, memory

pytestmark = pytest.mark.bench

CKPT = Path(sysconfig.get_path("scripts")) / "ckpt"
_LAST = DEEP - 10
_ROUNDS = 5


def test_bisect(deep: Path, figures: list[Figure]) -> None:
    bisect: list[str | Path] = [CKPT, "-s", deep, "bisect", "loop"]
    conditions = {
        "values": f"values.turns > {_LAST}",
        "step": f"step > {_LAST}",
        "next": f"next = work and step > {_LAST}",
    }
    commands: dict[str, Command] = {
        name: [*bisect, condition] for name, condition in conditions.items()
    }
    commands["--binary"] = [*bisect, conditions["values"], "--binary"]
    for name, found in interleaved(commands, 3).items():
        figures.append(bounded(f"bisect, {DEEP} checkpoints: {name}", found, 5))
        figures.append(memory(f"bisect: {name}", found.mib, 150))


def test_looks_of_tail(large: Path, threads: int, figures: list[Figure]) -> None:
    tail = StoreTail(None, None, all_ns=False)
    looks: list[float] = []
    with open_store(str(large)) as store:
        assert len(list(tail.last(store, 5))) == 5
        for _ in range(_ROUNDS):
            begun = time.perf_counter()
            assert list(tail.new(store)) == []
            looks.append(time.perf_counter() - begun)
    figures.append(Figure(f"tail: a look at {threads} threads", f"{median(looks) * 1000:.0f} ms"))
