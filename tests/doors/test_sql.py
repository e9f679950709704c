"""`ckpt sql`: its answers and its prompt, what a query reads, and that it reaches nothing else."""

import json
import os
import re
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from ckpt_backends.files import create_part
from ckpt_backends.model import Thread
from ckpt_backends.sql.store import SqlStore
from ckpt_backends.testing.killing import calls_of, kill_at
from ckpt_cli.api import sql as exporting
from ckpt_cli.api.sql import SqlSession, SqlSource, ThreadChoice
from ckpt_cli.commands.sql import answer_all, completions, is_complete, private_history
from ckpt_cli.session import Session
from ckpt_cli.sql import tables
from ckpt_cli.sql.bounds import RowBounds
from ckpt_cli.sql.database import MAIN
from ckpt_cli.sql.planning import QueryPlanner, TableNeed
from ckpt_cli.sql.tables import TABLES
from tests.kit.cases import cases
from tests.kit.command import ROOT, SAMPLE, ckpt, copy_store, first_now
from tests.kit.hostile.watched import in_child
from tests.kit.rows import change

QUERIES = re.findall(
    r"^([A-Z][^\n]*)\n\n```sql\n(.*?)```", (ROOT / "docs/sql.md").read_text("utf-8"), re.M | re.S
)
WITHOUT_ROWS = (
    "What did agents answer in the last week",
    "Which messages did people send more than once",
    "How much does long-term memory hold",
)
"""The sample store is old, nobody repeats a message in it, and it has no long-term memory."""


@pytest.mark.parametrize(("question", "query"), QUERIES, ids=[one[0] for one in QUERIES])
def test_a_query_of_the_cookbook_answers(question: str, query: str, tmp_path: Path) -> None:
    found = ckpt("-s", copy_store(SAMPLE, tmp_path), "sql", query, "-o", "json", "--utc").json
    assert bool(found) != question.startswith(WITHOUT_ROWS)
    if "called a tool" in question:
        assert found == [{"thread_id": "trip-to-kyoto"}]


def test_types_of_results_and_days_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    query = """
        SELECT 9007199254740993 AS big, 1.50::DECIMAL(9, 2) AS decimal, [1, NULL] AS list,
          {'a': 1, 'b': '{"c": [1]}'::JSON} AS struct, MAP {'k': 2} AS map, 'ab'::BLOB AS blob,
          'NaN'::DOUBLE AS nan, DATE '2026-01-02' AS date,
          TIMESTAMPTZ '2026-01-02 03:04:05+00' AS ts,
          INTERVAL 90 SECOND AS interval, NULL AS nothing, '"x"'::JSON AS text, 2 AS big
    """
    (found,) = ckpt("-s", SAMPLE, "sql", query, "-o", "json", "--utc").json
    assert found == {
        "big": {"$int": "9007199254740993"},
        "decimal": 1.5,
        "list": [1, None],
        "struct": {"a": 1, "b": {"c": [1]}},
        "map": {"k": 2},
        "blob": {"$bytes": "YWI="},
        "nan": {"$float": "NaN"},
        "date": "2026-01-02",
        "ts": "2026-01-02T03:04:05.000000Z",
        "interval": 90.0,
        "nothing": None,
        "text": "x",
        "big_2": 2,
    }
    # Days begin in the zone of the user.
    query = "SELECT date_trunc('day', TIMESTAMPTZ '2026-01-01 23:30:00+00')::DATE::VARCHAR AS day"
    assert ckpt("-s", SAMPLE, "sql", query, "--utc", "-o", "json").json == [{"day": "2026-01-01"}]
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    assert ckpt("-s", SAMPLE, "sql", query, "-o", "json").json == [{"day": "2026-01-02"}]


def test_several_stores(tmp_path: Path) -> None:
    (tmp_path / "ckpt.toml").write_text(
        f'default = "prod"\n[stores.prod]\nurl = "{SAMPLE}"\n[stores.staging]\nurl = "{SAMPLE}"\n'
    )
    words = ("--config", tmp_path / "ckpt.toml", "-s", "prod", "sql", "-o", "json", "--attach")
    query = """
        SELECT count(*) AS n FROM prod.threads JOIN staging.threads USING (thread_id)
        JOIN threads USING (thread_id)
    """
    assert ckpt(*words, "staging", query).json == [{"n": 8}]
    ckpt(*words, "prod", query, code=2, says="two stores are named 'prod'")


class Typed:
    """Types some lines; an exception is raised in place of a line."""

    def __init__(self, *lines: str | BaseException) -> None:
        self._lines = iter((*lines, EOFError()))

    def prompt(self, message: str) -> str:
        line = next(self._lines)
        if isinstance(line, BaseException):
            raise line
        return line


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    found = Session()
    found.settings |= {"store": str(copy_store(SAMPLE, tmp_path)), "output": "ndjson"}
    yield found
    found.close()


def asking(session: Session) -> SqlSession:
    return SqlSession({MAIN: SqlSource(session.store, session.opening, session)}, session)


def test_what_a_person_types_is_answered_and_completed(
    session: Session, capsys: pytest.CaptureFixture[str]
) -> None:
    typed = Typed(
        "SELECT count(*) AS n FROM threads;",
        KeyboardInterrupt(),
        "SELEC 1;",
        ".schema writs",
        ".schema interrupts",
        "",
        "SELECT 2 AS two;",
        ".quit",
        "SELECT 3 AS three;",
    )
    with asking(session) as one:
        answer_all(session, one, ThreadChoice(), None, typed)
    out, err = capsys.readouterr()
    assert (out.splitlines()[0], '{"two":2}' in out, "three" in out) == ('{"n":8}', True, False)
    assert '"column":"interrupt_id"' in out
    assert len([line for line in err.splitlines() if "error" in line]) == 2
    # Names are completed until a semicolon and the history is private.
    with asking(session) as one:
        words = completions(one, ThreadChoice())
    assert {"threads", "checkpoint_id", "GROUP BY", "'messages'"} <= set(words)
    assert not is_complete("SELECT 1")
    assert all(map(is_complete, ("SELECT 1\n;", ".tables", " ")))
    assert stat.S_IMODE(private_history().stat().st_mode) == 0o600


Call = tuple[str, str, dict[str, Any]]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[Call]:
    """What is read of a store: the method, the thread, and which parts."""
    found: list[Call] = []

    def note(method: str) -> None:
        original = getattr(SqlStore, method)

        def noted(self: SqlStore, what: Any, **how: Any) -> Any:
            threads = [what] if isinstance(what, str) else [one.thread_id for one in what]
            found.extend((method, one, how) for one in threads)
            return original(self, what, **how)

        monkeypatch.setattr(SqlStore, method, noted)

    for one in ("checkpoints", "writes", "checkpoints_at"):
        note(one)
    return found


def test_only_what_a_query_needs_is_read(sample: Path, calls: list[Call]) -> None:
    def read(query: str) -> set[str]:
        """Return the threads of which something is read."""
        calls.clear()
        assert ckpt("-s", sample, "sql", query).out.count("\n") > 1
        return {thread for _, thread, _ in calls}

    def has_read(part: str) -> bool:
        return any(how.get(part) for _, _, how in calls)

    assert read("SELECT count(*), max(last_at) FROM threads") == set()
    assert len(read("SELECT channel, sum(bytes) FROM writes GROUP BY 1")) == 8
    assert not any(map(has_read, ("body", "metadata", "values")))
    read("SELECT node, count(*) FROM writes GROUP BY 1")
    assert True not in [how.get("values") for _, _, how in calls]
    read("SELECT value FROM writes WHERE channel = 'messages'")
    assert not has_read("body")
    query = "SELECT value FROM \"values\" WHERE thread_id = 'trip-to-kyoto'"
    assert read(query) == {"trip-to-kyoto"}
    query = "SELECT count(*) FROM checkpoints WHERE ts < '2026-11-21 22:28:26.5+00'"
    assert {"nightly-report", "trip-to-kyoto"} & read(query) == {"nightly-report"}


def test_writes_of_checkpoints_that_are_gone_are_no_rows(sample: Path) -> None:
    first = "checkpoint_id = (SELECT min(checkpoint_id) FROM writes)"
    ((gone,),) = change(sample, f"SELECT count(*) FROM writes WHERE {first}")
    counts = []
    for statement in ("", f"DELETE FROM checkpoints WHERE {first}"):
        change(sample, statement)
        (row,) = ckpt("-s", sample, "sql", "SELECT count(*) AS n FROM writes", "-o", "json").json
        counts.append(row["n"])
    assert counts[0] - counts[1] == gone > 0


def test_a_missing_package_is_named(sample: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    assert "langgraph-ckpt[sql]" in ckpt("-s", sample, "sql", "SELECT 1", code=2, says="duckdb").err


NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.fixture(scope="module")
def planner() -> QueryPlanner:
    return QueryPlanner()


def need(planner: QueryPlanner, query: str) -> TableNeed:
    (found,) = planner.needs(query)
    return found


EARLIER, LATER = "2025-01-01 12:00+00", "2027-01-01 12:00+00"
MANY = [f"{'long' * 30}-{n}" for n in range(500)]


@cases(
    "condition bounds",
    ("thread_id = 'a'", RowBounds(thread_ids=frozenset("a"))),
    ("thread_id IN ('a', 'b', 'c')", RowBounds(thread_ids=frozenset("abc"))),
    ("thread_id = 'a' OR 'b' = thread_id", RowBounds(thread_ids=frozenset("ab"))),
    ("thread_id = 'it''s) OR (x'", RowBounds(thread_ids=frozenset({"it's) OR (x"}))),
    ("thread_id LIKE 'user-%'", RowBounds(first_id="user-", last_id="user.")),
    ("channel = 'b'", RowBounds(channels=frozenset("b"))),
    ("thread_id = 'a' AND upper(node) = 'B'", RowBounds(thread_ids=frozenset("a"))),
    ("ts >= '2026-01-01 12:00+00'", RowBounds(since=NOON)),
    ("ts < TIMESTAMPTZ '2026-01-01 12:00+00'", RowBounds(until=NOON)),
    ("thread_id > 'm' AND thread_id <> 'q'", RowBounds(first_id="m")),
    (
        "thread_id IN ('a', 'optional: b') AND thread_id LIKE '%b'",
        RowBounds(thread_ids=frozenset({"a", "optional: b"})),
    ),
    (f"thread_id IN {tuple(MANY)}", RowBounds(thread_ids=frozenset(MANY))),
    ("thread_id > 'b' AND thread_id < 'x'", RowBounds(first_id="b", last_id="x")),
    ("thread_id > 'b' AND (thread_id > 'd' OR thread_id >= 'c')", RowBounds(first_id="c")),
    ("thread_id < 'b' OR thread_id < 'd' AND node = 'x'", RowBounds(last_id="d")),
    (f"ts > '{LATER}' OR ts >= '2026-01-01 12:00+00' AND idx > 1", RowBounds(since=NOON)),
    (f"ts < '2026-01-01 12:00+00' OR ts <= '{EARLIER}' AND idx > 1", RowBounds(until=NOON)),
    ("(thread_id = 'a' OR thread_id > 'x') AND channel = 'b'", RowBounds(channels=frozenset("b"))),
    # What is not certain bounds nothing.
    ("thread_id IN ('a', node)", RowBounds()),
    ("thread_id > 'b' OR thread_id < 'x'", RowBounds()),
    (f"ts > '{LATER}' OR ts < '{EARLIER}'", RowBounds()),
    ("thread_id = 'a' OR node = 'b'", RowBounds()),
    ("NOT thread_id = 'a'", RowBounds()),
    ("upper(thread_id) = 'A'", RowBounds()),
    ("thread_id = node", RowBounds()),
    ids=lambda one: one[:40] if isinstance(one, str) else "",
)
def test_bounds_of_a_condition(planner: QueryPlanner, condition: str, bounds: RowBounds) -> None:
    assert need(planner, f"SELECT count(*) FROM writes WHERE {condition}").bounds == bounds


def test_columns_are_those_that_the_scans_of_a_query_need(planner: QueryPlanner) -> None:
    assert need(planner, "SELECT count(*) FROM writes").columns == ("thread_id",)
    assert need(planner, "SELECT node, count(*) FROM writes GROUP BY 1").columns == ("node",)
    found = need(planner, "SELECT value->>'$.x' FROM writes WHERE channel = 'a' AND idx > 1")
    assert found.columns == ("idx", "channel", "value")
    assert set(need(planner, "FROM threads").columns) > {"status", "bytes"}
    joined = planner.needs("SELECT t.step FROM threads t JOIN writes USING (thread_id)")
    assert {one.table: one.columns for one in joined} == {
        "threads": ("thread_id", "step"),
        "writes": ("thread_id",),
    }
    # Two scans of one table read what both need.
    query = """
        SELECT (SELECT max(idx) FROM writes WHERE thread_id = 'a'),
               (SELECT max(node) FROM writes WHERE thread_id = 'b' AND channel = 'c')
    """
    found = need(planner, query)
    assert found.columns == ("thread_id", "node", "idx", "channel")
    assert found.bounds == RowBounds(thread_ids=frozenset("ab"))
    assert need(planner, "SELECT 1 FROM writes, writes w WHERE w.thread_id = 'a'").bounds == (
        RowBounds()
    )
    # Dates without a zone mean the zone of the run.
    with QueryPlanner(zone=ZoneInfo("America/New_York")) as one:
        assert need(one, "FROM checkpoints WHERE ts < '2026-01-01 07:00'").bounds.until == NOON


def test_a_thread_that_went_on_has_rows_of_all_its_time() -> None:
    hour = timedelta(hours=1)
    thread = Thread("a", None, NOON - hour, NOON + hour, 3, 1)
    named = RowBounds(frozenset("a"), first_id="a", last_id="a", until=NOON - hour)
    for inside in (RowBounds(since=NOON), named, RowBounds(since=NOON + hour)):
        assert inside.admits(thread)
    others = RowBounds(frozenset("b")), RowBounds(first_id="b"), RowBounds(last_id="A")
    for outside in (*others, RowBounds(since=NOON + 2 * hour), RowBounds(until=NOON - 2 * hour)):
        assert not outside.admits(thread)


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
    found = ckpt("-s", SAMPLE, "sql", query.format(file=file, folder=tmp_path), code=2)
    assert (found.out, SECRET in found.err) == ("", False)
    assert set(tmp_path.iterdir()) == before


@cases(
    "query",
    "WITH RECURSIVE r AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM r) SELECT count(*) FROM r",
    "WITH RECURSIVE r AS (SELECT [1] AS i UNION ALL SELECT i || i FROM r) SELECT 1 FROM r",
    "SELECT string_agg(repeat('x', 1000000), '') FROM range(10000)",
    "SELECT count(*) FROM range(100000000) a, range(100000000) b WHERE a.range * b.range = 7",
    "EXPLAIN ANALYZE SELECT string_agg(repeat('x', 1000000), '') FROM range(10000)",
)
def test_a_query_is_bounded(query: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = SAMPLE.resolve()
    monkeypatch.chdir(tmp_path)
    ckpt("-s", store, "sql", "--timeout", "1", query, code=5, out="")
    assert not list(tmp_path.iterdir())


LATE = (
    "SELECT a.range FROM range(100000000) a, range(100000000) b"
    " WHERE a.range < 3000 OR a.range * b.range = -7"
)
"""Its first rows come at once, and then none."""


@cases("query", LATE, "SELECT repeat('x', 1000000) FROM range(100000)", ids=["time", "memory"])
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
            threading.Thread(target=process.stdout.read, daemon=True).start()
            time.sleep(1)
            process.send_signal(number)
            code = process.wait(20)
        finally:
            process.kill()
    assert code == (130 if number == signal.SIGINT else -number)


def test_what_is_too_large_for_python_is_refused() -> None:
    for text in ("SELECT INTERVAL 100000000 YEAR", "SELECT [INTERVAL 100000000 YEAR]"):
        ckpt("-s", SAMPLE, "sql", text, code=2, out="", says="hint: cast it")
    cast = "SELECT CAST(INTERVAL 100000000 YEAR AS VARCHAR) AS long"
    assert ckpt("-s", SAMPLE, "-o", "json", "sql", cast).json == [{"long": "100000000 years"}]


def test_a_query_that_cannot_be_stopped_is_left(tmp_path: Path) -> None:
    # DuckDB calculates this while it plans, and hears no interruption.
    query = "SELECT length(repeat('x', 1000000000))"
    command = [sys.executable, "-m", "ckpt_cli", "-s", str(SAMPLE), "sql", "--timeout", "1", query]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    found = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert (found.returncode, found.stdout, "stopped after 1 s" in found.stderr) == (5, "", True)
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux bounds what a process allocates")
@cases(
    "query",
    "SELECT length(repeat('x', 4000000000))",
    "SELECT len(range(1000000000)) FROM threads",
    "SELECT length(repeat('x', 4000000000 + step)) FROM threads",
)
def test_a_huge_value_is_refused_before_it_is_made(query: str) -> None:
    ckpt("-s", SAMPLE, "sql", query, code=5, out="", says="needs more room")
    ckpt("-s", SAMPLE, "sql", "SELECT length(repeat('x', 1000000))", code=0)


def test_an_error_has_one_line_and_a_caret() -> None:
    found = ckpt("-s", SAMPLE, "sql", "SELECT node,\n  nope FROM writes", code=2)
    message, text, caret, *rest = found.err.splitlines()
    assert message.startswith("ckpt: ")
    assert "nope" in message
    assert text.index("nope") == caret.index("^")
    assert all(line.startswith("hint: ") for line in rest)
    assert json.loads(ckpt("-s", SAMPLE, "sql", "SELEC 1", "-o", "json").err)["position"] == 0


@pytest.mark.parametrize("name", ["MAIN", "tables", "temp", "pg_catalog", "information_schema"])
def test_a_name_that_duckdb_needs_is_refused(name: str) -> None:
    found = ckpt("-s", SAMPLE, "sql", "--attach", f"{name}={SAMPLE}", "SELECT 1")
    assert (found.code, "--attach NAME=" in found.err) == (2, True)


# Tables in files: what pandas, Polars and DuckDB read, and a run that goes on


TWO = ("--table", "threads", "--table", "writes")


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(exporting, "MOST_THREADS", 3)
    return tmp_path / "lake"


def rows_of(query: str) -> list[tuple[Any, ...]]:
    import duckdb

    return duckdb.execute(query).fetchall()


def export(lake: Path, form: str = "parquet", *more: str) -> list[dict[str, object]]:
    words = ("export", "--all", "--format", form, "--to", str(lake), "-o", "json", *more)
    found: list[dict[str, object]] = ckpt("-s", SAMPLE, *words).json
    return found


def test_files_hold_the_tables(lake: Path) -> None:
    assert len(export(lake)) == 9 * 3 + 1
    manifest = json.loads((lake / "manifest.json").read_text())
    assert manifest["complete"]
    for one in manifest["files"]:
        path = lake / one["file"]
        assert sha256(path.read_bytes()).hexdigest() == one["sha256"]
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    for table in TABLES.values():
        files = f"'{lake}/{table.name}/*.parquet'"
        types = rows_of(f"DESCRIBE FROM {files}")
        names = {"TIMESTAMPTZ": "TIMESTAMP WITH TIME ZONE"}
        assert [row[:2] for row in types] == [
            (one.name, names.get(one.type, one.type)) for one in table.columns
        ]
        if table.items is None:
            query = f'SELECT count(*) AS n FROM "{table.name}"'
            (asked,) = ckpt("-s", SAMPLE, "sql", query, "-o", "json").json
            assert rows_of(f"SELECT count(*) FROM {files}") == [(asked["n"],)]


def test_a_run_that_was_stopped_goes_on(lake: Path) -> None:
    whole = export(lake)
    lost = lake / "writes" / "part-00001.parquet"
    lost.unlink()
    assert [one["file"] for one in export(lake)] == ["writes/part-00001.parquet"]
    assert export(lake) == []
    assert len(whole) == len(json.loads((lake / "manifest.json").read_text())["files"])
    for more, form in (([], "csv"), (["--redact"], "parquet")):
        words = ("export", "--all", "--format", form, "--to", lake)
        ckpt("-s", SAMPLE, *more, *words, code=5, says="holds another export")
    (lake.parent / "mine.txt").write_text("x")
    found = ckpt("-s", SAMPLE, "export", "--all", "--format", "parquet", "--to", lake.parent)
    assert (found.code, "not empty" in found.err) == (5, True)


@pytest.mark.nightly
def test_a_file_that_lacks_a_thread_is_told_and_written_again(
    lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    placed = tables._placed

    def failing(reading: Any, reader: Any, *more: Any) -> Any:
        if reader.thread_id == "refund-4711":
            raise KeyError
        return placed(reading, reader, *more)

    words = ("export", "--all", "--format", "parquet", "--to", lake, *TWO)
    with monkeypatch.context() as patched:
        patched.setattr(tables, "_placed", failing)
        ckpt("-s", SAMPLE, *words, code=7, says="refund-4711")
    assert not json.loads((lake / "manifest.json").read_text())["complete"]
    (again,) = export(lake, "parquet", *TWO)
    assert str(again["file"]).startswith("writes/")
    assert export(lake, "parquet", *TWO) == []


def test_runs_that_are_killed_are_completed(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = lake / "whole"
    export(whole, "ndjson")
    rows_before = {path.relative_to(whole): path.read_bytes() for path in whole.glob("*/*")}
    names = ("writes", "messages", "threads")
    tables: list[str | Path] = [word for one in names for word in ("--table", one)]
    for share in range(1, 12):
        folder = lake / f"killed-{share}"
        words = ["-s", SAMPLE, "export", "--all", "--format", "ndjson", "--to", folder, *tables]
        calls = len(calls_of(words))
        shutil.rmtree(folder)
        for nth in (share, share + 5):
            kill_at(words, calls * nth // 17)
            listed = (
                json.loads((folder / "manifest.json").read_text())["files"]
                if (folder / "manifest.json").exists()
                else []
            )
            for one in listed:
                assert sha256((folder / one["file"]).read_bytes()).hexdigest() == one["sha256"]
        ckpt(*words, code=0)
        held = {path.relative_to(folder): path.read_bytes() for path in folder.glob("*/*")}
        assert held == {key: one for key, one in rows_before.items() if key.parts[0] in names}
        assert json.loads((folder / "manifest.json").read_text())["complete"]


def refused(lake: Path, *more: str) -> tuple[int, str]:
    done = ckpt("-s", SAMPLE, "export", "--all", "--format", "csv", "--to", lake, *more)
    return done.code, done.err


MALFORMED = [
    "[" * 100_000,
    "7",
    '{"files": [7]}',
    '{"files": [{}]}',
    '{"files": [{"table": [], "part": {}, "file": 7, "bytes": "", "left_out": 0}]}',
]


@pytest.mark.parametrize("name", ["manifest.json", "plan.ndjson"])
def test_an_odd_record_of_a_run_is_refused(lake: Path, name: str, tmp_path: Path) -> None:
    export(lake, "csv", "--table", "threads")
    shutil.rmtree(lake / "threads")
    shutil.copyfile(lake / name, tmp_path / name)
    for text in MALFORMED:
        (lake / name).write_text(text)
        code, said = refused(lake, "--table", "threads")
        assert (code, f"{name}'" in said) == (5, True), said
    (lake / name).unlink()
    os.mkfifo(lake / name)
    code, said = refused(lake, "--table", "threads")
    assert (code, "it is a FIFO" in said) == (4, True), said
    (lake / name).unlink()
    (lake / name).symlink_to(tmp_path / name)
    code, said = refused(lake, "--table", "threads")
    assert (code, "it is a symbolic link" in said) == (4, True), said


def test_a_finished_file_that_changed_is_written_again(lake: Path, tmp_path: Path) -> None:
    written = export(lake, "csv", *TWO)
    one, two, three = (lake / "threads" / f"part-0000{n}.csv" for n in range(3))
    kept = [path.read_bytes() for path in (one, two, three)]
    changed = bytearray(kept[0])
    changed[-2] ^= 1
    one.write_bytes(changed)
    two.rename(tmp_path / "elsewhere.csv")
    two.symlink_to(tmp_path / "elsewhere.csv")
    three.unlink()
    again = export(lake, "csv", *TWO)
    assert [one["file"] for one in again] == [f"threads/part-0000{n}.csv" for n in range(3)]
    assert [path.read_bytes() for path in (one, two, three)] == kept
    assert not two.is_symlink()
    assert len(written) > len(again)


def test_swapped_links_end_it(lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    precious = tmp_path / "precious"
    precious.write_text("mine")

    def swapped(path: Path) -> Any:
        part, file = create_part(path)
        part.unlink()
        part.symlink_to(precious)
        return part, file

    monkeypatch.setattr(exporting, "create_part", swapped)
    export(lake, "csv", "--table", "threads")
    assert precious.read_text() == "mine"
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    other = tmp_path / "other"
    monkeypatch.undo()
    export(other, "csv", "--table", "threads")
    shutil.rmtree(other / "threads")
    (other / "threads").symlink_to(elsewhere)
    code, said = refused(other, "--table", "threads")
    assert (code, "symbolic link" in said, list(elsewhere.iterdir())) == (5, True, [])


def test_the_memory_of_others_is_not_written(lake: Path, tmp_path: Path) -> None:
    from langgraph.store.sqlite import SqliteStore

    store = copy_store(SAMPLE, tmp_path)
    with closing(sqlite3.connect(store, isolation_level=None)) as connection:
        memory = SqliteStore(connection)
        memory.setup()
        memory.put(("users", "bert"), "profile", {"text": "likes coffee"})
    ways = (["trip-to-kyoto"], ["--match", "trip-*"], ["--where", "step > 0"])
    for chosen, form in zip(ways, ("parquet", "csv", "ndjson"), strict=True):
        folder = lake / form
        words: list[str | Path] = ["export", *chosen, "--format", form, "--to", folder]
        ckpt("-s", store, *words, code=0)
        assert not (folder / "memory").exists()
        assert "memory" not in json.loads((folder / "manifest.json").read_text())["tables"]
        ckpt("-s", store, *words, "--table", "memory", code=2, says="items of all users")
    words = ["export", "--all", "--format", "csv", "--to", lake / "all", "--table", "memory"]
    assert ckpt("-s", store, *words, "-o", "json").json[0]["rows"] == 1


def test_redacted_lines_are_not_added_to_values(tmp_path: Path) -> None:
    words = ("export", "trip-to-kyoto", "--format", "jsonl", "--to")
    values, redacted = tmp_path / "values", tmp_path / "redacted"
    ckpt("-s", SAMPLE, *words, values, code=0)
    for _ in range(2):
        ckpt("-s", SAMPLE, "--redact", *words, redacted, code=0)
    held = sorted(one.read_bytes() for one in values.iterdir())
    for folder, more in ((values, ["--redact"]), (redacted, [])):
        ckpt("-s", SAMPLE, *more, *words, folder, code=5, says="redacted differ")
    assert sorted(one.read_bytes() for one in values.iterdir()) == held
    for name, kind in (("bundles", "bundle"), ("tables", "csv")):
        folder = tmp_path / name
        ckpt("-s", SAMPLE, "export", "trip-to-kyoto", "--format", kind, "--to", folder, code=0)
        ckpt("-s", SAMPLE, "--redact", *words, folder, code=5)
