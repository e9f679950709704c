"""How long listing takes on a Redis of 100,000 checkpoints: `python -m pytest -m bench -s`.

Prints; asserts only right answers. What is raw is the driver alone: its start, and a pass over the
names of keys.
"""

from __future__ import annotations

import json
import os
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.bench.make_redis import STEPS, fill_documents, fill_hashes, name_of
from tests.bench.measure import Command, Figure, Runs, compared, interleaved, memory, run
from tests.plugin import redis_of_its_own

pytestmark = pytest.mark.bench

CKPT = Path(sysconfig.get_path("scripts")) / "ckpt"
ROUNDS = 5
MEMORY = 150
MOST = 3
FILLS = {"redis": fill_documents, "redis-hash": fill_hashes}
CHECKPOINTS = {"redis": "checkpoint:*", "redis-hash": "checkpoint$*"}
OTHERS = {
    "redis": ("start-up + SCAN of pointers", "checkpoint_latest:*"),
    "redis-hash": ("start-up + SCAN of all names", "*"),
}
"""Hashes have no index, so that what a head's tasks have written is found among all names."""
SCAN = """
import sys
import click, redis
client = redis.Redis.from_url(sys.argv[1], protocol=2)
print(sum(1 for _ in client.scan_iter(sys.argv[2], count=5000)))
"""
OFFICIAL = """
import sys
from langgraph.checkpoint.redis import RedisSaver
with RedisSaver.from_conn_string(sys.argv[1]) as saver:
    saver.setup()
    for found in saver.list(None, limit=int(sys.argv[2])):
        print(found.config["configurable"]["thread_id"])
"""


@pytest.fixture(scope="session")
def redis_threads() -> int:
    """How many threads of 200 checkpoints are made."""
    return int(os.environ.get("CKPT_BENCH_REDIS_THREADS", "500"))


@pytest.fixture(scope="module", params=FILLS)
def layout(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def store(layout: str, redis_threads: int, figures: list[Figure]) -> Iterator[str]:
    """The URL of a server that is filled anew."""
    with redis_of_its_own(modules=layout == "redis") as server:
        FILLS[layout](server.url, redis_threads)
        with redis.Redis.from_url(server.url) as client:
            told: Any = client.info("memory")
            what = f"{layout}, {redis_threads} threads of {STEPS}, {client.dbsize()} keys"
        figures.append(Figure(what, f"{told['used_memory'] / 2**20:.0f} MiB"))
        yield server.url


def python(program: str, *arguments: str) -> list[str | Path]:
    return [sys.executable, "-c", program, *arguments]


def test_listing(
    store: str, layout: str, redis_threads: int, figures: list[Figure], tmp_path: Path
) -> None:
    out = tmp_path / "answer.json"
    run([CKPT, "-s", store, "threads", "list", "--all", "-o", "json"], out=out)
    rows = json.loads(out.read_bytes())
    assert {row["thread_id"] for row in rows} == set(map(name_of, range(redis_threads)))
    assert {row["checkpoints"] for row in rows} == {STEPS}
    raw = {
        "start-up + SCAN of checkpoints": python(SCAN, store, CHECKPOINTS[layout]),
        OTHERS[layout][0]: python(SCAN, store, OTHERS[layout][1]),
    }
    ours: dict[str, Command] = {
        "threads list": [CKPT, "-s", store, "threads", "list", "-o", "json"],
        "threads list --all": [CKPT, "-s", store, "threads", "list", "--all", "-o", "json"],
    }
    found = interleaved({**raw, **ours}, ROUNDS)
    for what in ours:
        for other in raw:
            figures.append(compared(what, found[what], other, found[other], MOST))
        figures.append(memory(f"{what}, {layout}", found[what].mib, MEMORY))
    if layout == "redis":
        for limit in ("50", "2000"):
            theirs = Runs([run(python(OFFICIAL, store, limit))])
            other = f"official list(None, limit={limit})"
            figures.append(
                compared("threads list --all", found["threads list --all"], other, theirs)
            )


def test_one_thread_of_many(store: str, layout: str, figures: list[Figure]) -> None:
    thread = name_of(0)
    shown: Command = [CKPT, "-s", store, "show", thread, "-o", "json"]
    found = interleaved({"ours": shown, "raw": python(SCAN, store, CHECKPOINTS[layout])}, ROUNDS)
    figures.append(
        compared("show THREAD", found["ours"], "start-up + SCAN of checkpoints", found["raw"])
    )
    figures.append(memory(f"show THREAD, {layout}", found["ours"].mib, MEMORY))
