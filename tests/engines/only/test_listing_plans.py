"""How each SQL engine lists threads, as its EXPLAIN says: from key indexes, without values."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path
from typing import Any

import psycopg
import pytest
from langgraph.checkpoint.sqlite import SqliteSaver

from ckpt_backends.model import ThreadBounds
from ckpt_backends.mysql.database import MySQLDatabase
from ckpt_backends.postgres.database import PostgresDatabase
from ckpt_backends.registry import open_store
from ckpt_backends.sqlite.database import OpenedDatabase
from tests.kit.agents.steps import fill, graph_of
from tests.kit.savers.mysql import fill as fill_mysql
from tests.kit.savers.mysql import run as run_mysql

TABLES = ("checkpoints", "checkpoint_writes", "checkpoint_blobs", "writes")
COPIES = 200
"""With so many threads and checkpoints, no engine reads a table because it is small."""
ASKING = ThreadBounds(head_channels=frozenset({"__interrupt__"}))


def _reads_table(query: str) -> bool:
    """Whether a query is about the saver's tables, not about their columns."""
    return any(table in query for table in TABLES) and "pragma_" not in query


def listing_plans(url: str, database: Any, explain: str, patch: pytest.MonkeyPatch) -> list[Any]:
    """The plan of each query on the saver's tables with which a store lists threads."""
    found: list[Any] = []
    rows = database.rows

    def told(name: str) -> Any:
        method = getattr(database, name)

        def asked(self: Any, query: str, values: Any, *rest: Any) -> Any:
            if _reads_table(query) and not query.startswith(explain):
                found.append(rows(self, f"{explain} {query}", values))
            return method(self, query, values, *rest)

        return asked

    with open_store(url) as store:
        for name in ("rows", "stream"):
            patch.setattr(database, name, told(name))
        assert len([*store.threads(limit=50)]) == 50
        assert len([*store.threads()]) > COPIES
        assert store.thread("trip") is not None
        assert [*store.threads_within(ASKING)] == []
    assert len(found) >= 4
    return found


def test_postgres(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(postgres_url, "trip")
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        for table, columns in {
            "checkpoints": "checkpoint_ns, checkpoint_id || m, parent_checkpoint_id, type,"
            " checkpoint, metadata",
            "checkpoint_writes": "checkpoint_ns, checkpoint_id || m, task_id, idx, channel, type,"
            " blob, task_path",
        }.items():
            connection.execute(
                f"INSERT INTO {table} SELECT thread_id || n, {columns} FROM {table},"
                f" generate_series(1, {COPIES}) n, generate_series(1, 10) m"
            )
            for statement in ("VACUUM (FREEZE, ANALYZE)", "VACUUM"):
                # Index-only scans are planned only if the pages are known to be visible.
                connection.execute(f"{statement} {table}")
    scan = re.compile(rf"(\w+(?: \w+)*) Scan(?: Backward)?.* on (?:\w+\.)?({'|'.join(TABLES)})\b")
    # Then the server reads a whole table, or whole rows, only if no index holds what is asked.
    url = f"{postgres_url}?options=-cenable_seqscan%3Doff%20-cenable_bitmapscan%3Doff"
    for plan in listing_plans(url, PostgresDatabase, "EXPLAIN", monkeypatch):
        for kind, table in scan.findall("\n".join(line for (line,) in plan)):
            index = "Index Only" if table == "checkpoints" else "Index"
            assert kind.endswith(index), plan


def test_mysql(mysql_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fill_mysql(mysql_url, "trip")
    series = f"(SELECT seq AS n FROM seq_1_to_{COPIES}) n, (SELECT seq AS m FROM seq_1_to_10) m"
    if "mariadb" not in str(run_mysql(mysql_url, "SELECT VERSION()")).lower():
        pytest.skip("only MariaDB makes series of numbers")
    for table, columns in {
        "checkpoints": "checkpoint_ns, CONCAT(checkpoint_id, m), parent_checkpoint_id, type,"
        " checkpoint, metadata, checkpoint_ns_hash",
        "checkpoint_writes": "checkpoint_ns, CONCAT(checkpoint_id, m), task_id, idx, channel, type,"
        " `blob`, checkpoint_ns_hash, task_path",
    }.items():
        names = re.sub(r"CONCAT\((\w+), m\)", r"\1", columns)
        run_mysql(
            mysql_url,
            f"INSERT INTO {table} (thread_id, {names})"
            f" SELECT CONCAT(thread_id, n), {columns} FROM {table}, {series}",
            f"ANALYZE TABLE {table}",
        )
    for plan in listing_plans(mysql_url, MySQLDatabase, "EXPLAIN", monkeypatch):
        for _, _, table, kind, _, key, *_, extra in plan:
            if table is not None and not table.startswith("<"):
                # A whole primary key would be the whole table.
                assert (kind, key) != ("index", "PRIMARY"), plan
                assert kind != "ALL", plan
                assert "Using index" in extra or (kind, key) == ("ref", "PRIMARY"), plan


def test_sqlite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "agent.db"
    with SqliteSaver.from_conn_string(str(path)) as saver:
        graph_of(saver).invoke({"items": ["in"]}, {"configurable": {"thread_id": "trip"}})
    with sqlite3.connect(path) as connection:
        for table in ("checkpoints", "writes"):
            _, *names = (row[1] for row in connection.execute(f"PRAGMA table_info({table})"))
            connection.execute(
                f"INSERT INTO {table} WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1"
                f" FROM s WHERE n < {COPIES}) SELECT thread_id || n, {', '.join(names)}"
                f" FROM {table}, s"
            )
    connection.close()
    for plan in listing_plans(str(path), OpenedDatabase, "EXPLAIN QUERY PLAN", monkeypatch):
        for *_, step in plan:
            assert not step.startswith("SCAN") or "COVERING INDEX" in step or _is_result(step), step


def _is_result(step: str) -> bool:
    """Whether a step of SQLite's plan reads what another one found."""
    return step in {"SCAN t", "SCAN h", "SCAN CONSTANT ROW"}
