"""Only what a query names is read, and duckdb is imported only for SQL."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ckpt_backends.base import WrappedStore
from ckpt_backends.model import Checkpoint, Write
from ckpt_cli.api.sql import SqlSession, SqlSource, ThreadChoice
from ckpt_cli.session import Session
from ckpt_cli.sql.database import MAIN
from tests.kit.command import SAMPLE, copy_store


class CountingStore(WrappedStore):
    """Counts what is read of a store."""

    bodies = metadata = writes_read = 0
    values: set[Any]
    threads_read: set[str]

    def checkpoints(self, thread_id: str, **how: Any) -> Iterator[Checkpoint]:
        self._note(thread_id, how)
        return super().checkpoints(thread_id, **how)

    def writes(self, thread_id: str, **how: Any) -> Iterator[Write]:
        self.writes_read += 1
        self._note(thread_id, how)
        return super().writes(thread_id, **how)

    def checkpoints_at(self, keys: Any, **how: Any) -> Iterator[Checkpoint]:
        for key in keys:
            self._note(key.thread_id, how)
        return self.inner.checkpoints_at(keys, **how)

    def _note(self, thread_id: str, how: dict[str, Any]) -> None:
        self.threads_read.add(thread_id)
        self.bodies += bool(how.get("body"))
        self.metadata += bool(how.get("metadata"))
        if how.get("values"):
            values = how["values"]
            self.values.add(values if isinstance(values, bool) else frozenset(values))


def read(store: Path, query: str) -> CountingStore:
    session = Session()
    session.settings["store"] = str(store)
    counting = CountingStore(session.store)
    counting.values, counting.threads_read = set(), set()
    source = SqlSource(counting, session.opening, session)
    with (
        SqlSession({MAIN: source}, session) as asking,
        asking.asked(query, ThreadChoice()) as found,
    ):
        assert list(found)
    session.close()
    return counting


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return copy_store(SAMPLE, tmp_path)


def test_a_count_of_threads_reads_the_index(store: Path) -> None:
    found = read(store, "SELECT count(*), max(last_at) FROM threads")
    assert (found.bodies, found.writes_read, found.threads_read) == (0, 0, set())


def test_a_count_of_writes_by_channel_reads_no_body_and_no_value(store: Path) -> None:
    found = read(store, "SELECT channel, sum(bytes) FROM writes GROUP BY 1")
    assert (found.bodies, found.metadata, found.values) == (0, 0, set())
    assert found.writes_read


def test_a_count_of_writes_by_node_reads_no_value_of_a_channel(store: Path) -> None:
    found = read(store, "SELECT node, count(*) FROM writes GROUP BY 1")
    assert True not in found.values


def test_one_thread_is_read_alone(store: Path) -> None:
    query = "SELECT value FROM \"values\" WHERE thread_id = 'trip-to-kyoto'"
    assert read(store, query).threads_read == {"trip-to-kyoto"}
    query = "SELECT count(*) FROM checkpoints WHERE ts < '2026-11-21 22:28:26.5+00'"
    found = read(store, query).threads_read
    assert "nightly-report" in found
    assert "trip-to-kyoto" not in found


def test_one_channel_is_read_alone(store: Path) -> None:
    query = "SELECT value FROM writes WHERE channel = 'messages'"
    assert read(store, query).bodies == 0


def test_only_sql_imports_duckdb() -> None:
    code = (
        "import sys; from ckpt_cli.run import run;"
        f"run(['-s', {str(SAMPLE)!r}, 'threads', 'list']); run(['sql', '--help']);"
        "run(['sql', '--schema', 'writes']);"
        "print(sorted({'duckdb', 'prompt_toolkit', 'numpy'} & set(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.splitlines()[-1] == "[]"


def test_a_missing_package_is_named_with_its_command(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.kit.command import ckpt

    monkeypatch.setitem(sys.modules, "duckdb", None)
    found = ckpt("-s", store, "sql", "SELECT 1")
    assert found.code == 2
    assert "duckdb" in found.err
    assert "langgraph-ckpt[sql]" in found.err
