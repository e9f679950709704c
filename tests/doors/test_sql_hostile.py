"""SQL reaches nothing but the tables, whatever it says; values full of SQL stay data."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from threading import Thread

import pytest

from tests.kit.command import SAMPLE, ckpt, copy_store, first_now
from tests.kit.hostile.watched import in_child

SECRET = "text of a file"
FILES = [
    *(f"SELECT * FROM {one}('{{file}}')" for one in ("read_csv", "read_text", "read_blob")),
    *(f"SELECT * FROM {one}('{{file}}')" for one in ("read_json", "read_parquet", "sniff_csv")),
    *("SELECT * FROM parquet_metadata('{file}')", "SELECT * FROM glob('{folder}/*')"),
    *("SELECT * FROM '{file}'", "SELECT * FROM read_csv('https://127.0.0.1:1/x.csv')"),
    *("SELECT * FROM 's3://bucket/x.parquet'", "SELECT getenv('HOME')", "FROM duckdb_secrets()"),
    "EXPLAIN ANALYZE COPY threads TO '{folder}/out'",
    "EXPLAIN ANALYZE SELECT * FROM read_text('{file}')",
    "WITH x AS (INSERT INTO threads (thread_id) VALUES ('x') RETURNING thread_id) FROM x",
    "SELECT * FROM query('SELECT * FROM read_text(''{file}'')')",
]
STATEMENTS = [
    *("COPY threads TO '{folder}/out'", "COPY (SELECT 1) TO '{folder}/out'", "LOAD httpfs"),
    *("ATTACH '{folder}/other.db'", "INSTALL httpfs", "PRAGMA database_list", "USE memory"),
    *("SET memory_limit = '100GB'", "RESET lock_configuration", "CREATE TABLE x AS SELECT 1"),
    *("CREATE SECRET (TYPE s3)", "DELETE FROM threads", "UPDATE threads SET step = 1"),
    *("EXPORT DATABASE '{folder}/out'", "CALL pragma_version()", "CHECKPOINT"),
    *("SELECT 1; SELECT 2", "SELECT * FROM needs"),
]
"""The last one names a variable of the program."""


@pytest.mark.parametrize("query", [*FILES, *STATEMENTS])
def test_a_query_reaches_nothing_outside(query: str, tmp_path: Path) -> None:
    file = tmp_path / "file.csv"
    file.write_text(f"a\n{SECRET}\n")
    before = set(tmp_path.iterdir())
    found = ckpt("-s", SAMPLE, "sql", query.format(file=file, folder=tmp_path))
    assert found.code == 2, found.err
    assert found.out == ""
    assert SECRET not in found.err
    assert set(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    "query",
    [
        "WITH RECURSIVE r AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM r) SELECT count(*) FROM r",
        "WITH RECURSIVE r AS (SELECT [1] AS i UNION ALL SELECT i || i FROM r) SELECT 1 FROM r",
        "SELECT string_agg(repeat('x', 1000000), '') FROM range(10000)",
        "SELECT count(*) FROM range(100000000) a, range(100000000) b WHERE a.range * b.range = 7",
        "EXPLAIN ANALYZE SELECT string_agg(repeat('x', 1000000), '') FROM range(10000)",
    ],
)
def test_a_query_is_bounded(query: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = SAMPLE.resolve()
    monkeypatch.chdir(tmp_path)
    found = ckpt("-s", store, "sql", "--timeout", "1", query)
    assert (found.code, found.out) == (5, "")
    assert not list(tmp_path.iterdir())


LATE = (
    "SELECT a.range FROM range(100000000) a, range(100000000) b"
    " WHERE a.range < 3000 OR a.range * b.range = -7"
)
"""Its first rows come at once, and then none."""


@pytest.mark.parametrize(
    "query", [LATE, "SELECT repeat('x', 1000000) FROM range(100000)"], ids=["time", "memory"]
)
def test_the_rows_of_an_answer_are_bounded_too(query: str) -> None:
    found, _ = in_child("-s", SAMPLE, "-o", "ndjson", "sql", "--timeout", "1", query, seconds=30)
    assert found.code == 5, found.err
    assert json.loads(found.err)["error"] == "refused"


@pytest.mark.parametrize("number", first_now([signal.SIGINT, signal.SIGTERM]))
def test_a_query_hears_signals_after_its_first_rows(number: signal.Signals) -> None:
    command = [sys.executable, "-m", "ckpt_cli", "-s", str(SAMPLE), "-o", "ndjson", "sql"]
    with subprocess.Popen(
        [*command, "--timeout", "0", LATE], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        try:
            assert json.loads(process.stdout.readline())["range"] >= 0
            # Nothing comes any more once these were read.
            Thread(target=process.stdout.read, daemon=True).start()
            time.sleep(1)
            process.send_signal(number)
            code = process.wait(20)
        finally:
            process.kill()
    assert code == (130 if number == signal.SIGINT else -number)


def test_what_is_too_large_for_python_is_refused() -> None:
    for text in ("SELECT INTERVAL 100000000 YEAR", "SELECT [INTERVAL 100000000 YEAR]"):
        found = ckpt("-s", SAMPLE, "sql", text)
        assert (found.code, found.out) == (2, ""), found.err
        assert "hint: cast it" in found.err
    cast = "SELECT CAST(INTERVAL 100000000 YEAR AS VARCHAR) AS long"
    assert ckpt("-s", SAMPLE, "-o", "json", "sql", cast).json == [{"long": "100000000 years"}]


def test_a_query_that_cannot_be_stopped_is_left(tmp_path: Path) -> None:
    # DuckDB calculates this while it plans, and hears no interruption.
    query = "SELECT length(repeat('x', 1000000000))"
    command = [sys.executable, "-m", "ckpt_cli", "-s", str(SAMPLE), "sql", "--timeout", "1", query]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    found = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert (found.returncode, found.stdout) == (5, "")
    assert "stopped after 1 s" in found.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux bounds what a process allocates")
@pytest.mark.parametrize(
    "query",
    [
        "SELECT length(repeat('x', 4000000000))",
        "SELECT len(range(1000000000)) FROM threads",
        "SELECT length(repeat('x', 4000000000 + step)) FROM threads",
    ],
)
def test_a_huge_value_is_refused_before_it_is_made(query: str) -> None:
    found = ckpt("-s", SAMPLE, "sql", query)
    assert (found.code, found.out) == (5, "")
    assert "needs more room" in found.err
    assert ckpt("-s", SAMPLE, "sql", "SELECT length(repeat('x', 1000000))").code == 0


def test_values_full_of_sql_stay_data(tmp_path: Path) -> None:
    store = copy_store(SAMPLE, tmp_path)
    hostile = "'; DROP TABLE threads; COPY threads TO '/tmp/x'; --\"}]"
    with sqlite3.connect(store) as connection:
        connection.execute(
            "UPDATE checkpoints SET thread_id = ? WHERE thread_id = 'weekly-digest'", (hostile,)
        )
        connection.execute(
            "UPDATE writes SET thread_id = ?, channel = ? WHERE thread_id = 'weekly-digest'",
            (hostile, hostile),
        )
    quoted = hostile.replace("'", "''")
    query = f"SELECT DISTINCT thread_id, channel FROM writes WHERE thread_id = '{quoted}'"
    found = ckpt("-s", store, "sql", query, "-o", "json")
    assert found.json == [{"thread_id": hostile, "channel": hostile}]
    every = ckpt("-s", store, "sql", "SELECT thread_id FROM threads", "-o", "json")
    assert hostile in {one["thread_id"] for one in every.json}


def test_an_error_has_one_line_and_a_caret() -> None:
    found = ckpt("-s", SAMPLE, "sql", "SELECT node,\n  nope FROM writes")
    assert found.code == 2
    message, text, caret, *rest = found.err.splitlines()
    assert message.startswith("ckpt: ")
    assert "nope" in message
    assert text.index("nope") == caret.index("^")
    assert all(line.startswith("hint: ") for line in rest)
    as_json = ckpt("-s", SAMPLE, "sql", "SELEC 1", "-o", "json")
    assert json.loads(as_json.err)["position"] == 0


@pytest.mark.parametrize("name", ["MAIN", "tables", "temp", "pg_catalog", "information_schema"])
def test_a_name_that_duckdb_needs_is_refused(name: str) -> None:
    found = ckpt("-s", SAMPLE, "sql", "--attach", f"{name}={SAMPLE}", "SELECT 1")
    assert found.code == 2
    assert "--attach NAME=" in found.err
