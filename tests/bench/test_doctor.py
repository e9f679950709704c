"""A quick `ckpt doctor` on a million checkpoints, against raw queries for the same rows."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import sysconfig
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import psycopg
import pytest

from tests.bench import raw, raw_postgres
from tests.bench.make_long import make_long
from tests.bench.make_postgres import DEEP, fill
from tests.bench.measure import Figure, compared, interleaved, memory, run
from tests.servers import Server, postgres_database

pytestmark = pytest.mark.bench

CKPT = Path(sysconfig.get_path("scripts")) / "ckpt"
MEMORY = 150
ROUNDS = 3
STEPS = 100
_HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def long_threads() -> int:
    """How many threads of a hundred checkpoints are made."""
    return int(os.environ.get("CKPT_BENCH_LONG_THREADS", "10000"))


@pytest.fixture(scope="module")
def long_file(long_threads: int) -> Path:
    """A SQLite file, kept until the code that makes it changes."""
    recipe = hashlib.sha256(version("langgraph").encode())
    for name in ("agent.py", "clone.py", "make_store.py", "make_long.py"):
        recipe.update((_HERE / name).read_bytes())
    cache = _HERE.parent.parent / "bench-data"
    folder = cache / f"long-{long_threads}-{recipe.hexdigest()[:12]}"
    if not folder.exists():
        for stale in cache.glob(f"long-{long_threads}-*"):
            shutil.rmtree(stale)
        part = folder.with_name(f"{folder.name}-part")
        part.mkdir(parents=True)
        make_long(part / "long.db", long_threads)
        part.rename(folder)
    return folder / "long.db"


@pytest.fixture(scope="module")
def long_database(postgres_server: Server, long_threads: int) -> Iterator[str]:
    """The URL of a database that is made anew."""
    with postgres_database(postgres_server) as url:
        fill(url, long_threads, STEPS)
        yield url


def test_sqlite(long_file: Path, long_threads: int, figures: list[Figure], tmp_path: Path) -> None:
    _compare("SQLite", str(long_file), long_threads, raw, figures, tmp_path)


def test_postgres(
    long_database: str, long_threads: int, figures: list[Figure], tmp_path: Path
) -> None:
    _compare("PostgreSQL", long_database, long_threads + 1, raw_postgres, figures, tmp_path)
    with psycopg.connect(long_database) as connection:
        ((count,),) = connection.execute("SELECT count(*) FROM checkpoints").fetchall()
    assert count == long_threads * STEPS + DEEP


def _compare(
    engine: str, url: str, threads: int, queries: object, figures: list[Figure], folder: Path
) -> None:
    out = folder / "answer.json"
    run([CKPT, "-s", url, "doctor", "-o", "json"], out=out)
    found = json.loads(out.read_bytes())
    assert found["complete"]
    assert found["findings"] == []
    assert found["checked"]["threads"] == threads
    programs = {
        "keys and heads, raw": "KEYS_AND_HEADS",
        "the same, keys compared": "COMPARED_KEYS_AND_HEADS",
    }
    commands = {
        name: [sys.executable, "-c", getattr(queries, program), url]
        for name, program in programs.items()
    }
    runs = interleaved({"ckpt": [CKPT, "-s", url, "doctor"], **commands}, ROUNDS)
    what = f"doctor, {engine}, {found['checked']['checkpoints']} checkpoints"
    for name in commands:
        figures.append(compared(what, runs["ckpt"], name, runs[name], 2))
    figures.append(memory(what, runs["ckpt"].mib, MEMORY))
