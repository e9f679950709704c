"""`ckpt copy` to and from SQLite, PostgreSQL and MySQL: new stores, rows, and refusals."""

import json
import random
import re
import sqlite3
import sysconfig
import warnings
import zlib
from contextlib import closing
from pathlib import Path
from typing import Any

import ormsgpack
import psycopg
import pytest
from langgraph.checkpoint.mysql.pymysql import PyMySQLSaver, ShallowPyMySQLSaver
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.store.sqlite import SqliteStore

from bench.measure import run
from ckpt_backends.errors import Refused
from ckpt_backends.model import Record
from ckpt_backends.open_for_writing import create_store
from ckpt_backends.protocol import Store
from ckpt_backends.registry import open_store
from ckpt_backends.sqlite.journals import bind
from ckpt_backends.testing.filling import quiet
from ckpt_backends.testing.scenarios.catalog import SCENARIOS
from ckpt_backends.transfer.copying import records_of_rows
from ckpt_backends.transfer.form import CannotHold, Language
from ckpt_backends.url import parse_url
from tests.kit.command import FIXTURES, ckpt, copy_store
from tests.kit.servers import mysql_connection
from tests.kit.stores import restore_rows

CKPT = Path(sysconfig.get_path("scripts")) / "ckpt"
PYTHON, JAVASCRIPT = Language.PYTHON, Language.JAVASCRIPT


def _sqlite_schema(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        rows = connection.execute("SELECT coalesce(sql, name) FROM sqlite_master ORDER BY name")
        return [re.sub(r"\s", "", sql) for (sql,) in rows]


def _postgres_schema(url: str, schema: str = "public") -> list[Any]:
    """Return everything that the catalogue says about the tables of a schema."""
    queries = (
        "SELECT table_name, ordinal_position, column_name, data_type, is_nullable, column_default"
        " FROM information_schema.columns WHERE table_schema = %(schema)s ORDER BY 1, 2",
        "SELECT replace(indexdef, quote_ident(%(schema)s) || '.', '') FROM pg_indexes"
        " WHERE schemaname = %(schema)s ORDER BY 1",
        "SELECT conname, contype, pg_get_constraintdef(oid) FROM pg_constraint"
        " WHERE connamespace = quote_ident(%(schema)s)::regnamespace ORDER BY 1",
    )
    with psycopg.connect(url) as connection:
        found = [connection.execute(one, {"schema": schema}).fetchall() for one in queries]
        migrations = f'SELECT v FROM "{schema}".checkpoint_migrations ORDER BY v'.encode()
        return [*found, connection.execute(migrations).fetchall()]


def _mysql_schema(url: str) -> list[Any]:
    with mysql_connection(url) as connection, connection.cursor() as cursor:
        cursor.execute("SHOW TABLES")
        found = [*cursor.fetchall()]
        for (name,) in sorted(found):
            cursor.execute(f"SHOW CREATE TABLE {name}")
            found += cursor.fetchall()
        cursor.execute("SELECT v FROM checkpoint_migrations ORDER BY v")
        return [*found, *cursor.fetchall()]


def test_a_new_file_is_as_the_saver_sets_it_up(tmp_path: Path) -> None:
    ours, official = tmp_path / "ours.db", tmp_path / "official.db"
    create_store(parse_url(str(ours)), PYTHON)
    with SqliteSaver.from_conn_string(str(official)) as saver:
        saver.setup()
    assert _sqlite_schema(ours) == _sqlite_schema(official)
    assert ours.stat().st_mode == official.stat().st_mode
    before = ours.read_bytes()
    create_store(parse_url(str(ours)), PYTHON)
    assert ours.read_bytes() == before


def test_a_new_file_for_langgraph_js_is_as_its_saver_sets_it_up(tmp_path: Path) -> None:
    create_store(parse_url(str(tmp_path / "new.db")), JAVASCRIPT)
    with closing(sqlite3.connect(FIXTURES / "js-1.7.3" / "store.db")) as connection:
        connection.execute("VACUUM INTO ?", [str(tmp_path / "official.db")])
    with closing(sqlite3.connect(tmp_path / "official.db")) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
    assert _sqlite_schema(tmp_path / "new.db") == _sqlite_schema(tmp_path / "official.db")


def test_a_file_with_other_tables_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "books.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE books (title)")
    before = path.read_bytes()
    with pytest.raises(Refused, match="is not empty") as refused:
        create_store(parse_url(str(path)), PYTHON)
    assert "books" in str(refused.value.hint)
    assert path.read_bytes() == before


def test_a_file_with_long_term_memory_gets_the_tables_too(tmp_path: Path) -> None:
    path = tmp_path / "agent.db"
    with SqliteStore.from_conn_string(str(path)) as store:
        store.setup()
        store.put(("users",), "anna", {"likes": "tea"})
    create_store(parse_url(str(path)), PYTHON)
    with SqliteSaver.from_conn_string(str(path)) as saver:
        assert [*saver.list(None)] == []


@pytest.mark.parametrize("schema", ["public", "Agents 1"])
def test_new_tables_in_postgresql_are_as_the_saver_sets_them_up(
    postgres_url: str, schema: str
) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA official")
    official = f"{postgres_url}?options=-csearch_path%3Dofficial"
    with PostgresSaver.from_conn_string(official) as saver:
        saver.setup()
    url = parse_url(f"{postgres_url}?schema={schema.replace(' ', '%20')}")
    create_store(url, PYTHON)
    create_store(url, PYTHON)
    assert _postgres_schema(postgres_url, schema) == _postgres_schema(postgres_url, "official")


def test_new_tables_for_langgraph_js_have_its_migrations_only(postgres_url: str) -> None:
    create_store(parse_url(postgres_url), JAVASCRIPT)
    ours = _postgres_schema(postgres_url)
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    restore_rows(FIXTURES / "js-1.7.3" / "postgres.jsonl.gz", postgres_url)
    assert ours == _postgres_schema(postgres_url)


def test_a_schema_with_other_tables_stays_as_it_is(postgres_url: str) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("CREATE TABLE books (title text)")
    with pytest.raises(Refused, match="is not empty") as refused:
        create_store(parse_url(postgres_url), PYTHON)
    assert "books" in str(refused.value.hint)
    with psycopg.connect(postgres_url) as connection:
        found = connection.execute(
            "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace"
        )
        assert found.fetchall() == [("books",)]


def test_new_tables_in_mysql_are_as_the_saver_sets_them_up(mysql_url: str) -> None:
    with PyMySQLSaver.from_conn_string(mysql_url) as saver:
        saver.setup()
    official = _mysql_schema(mysql_url)
    _empty(mysql_url)
    create_store(parse_url(mysql_url), PYTHON)
    create_store(parse_url(mysql_url), PYTHON)
    assert _mysql_schema(mysql_url) == official

    # What a killed run left is completed.
    with mysql_connection(mysql_url) as connection, connection.cursor() as cursor:
        cursor.execute("DROP TABLE checkpoints, checkpoint_migrations")
    create_store(parse_url(mysql_url), PYTHON)
    assert _mysql_schema(mysql_url) == official

    _empty(mysql_url)
    with warnings.catch_warnings(), mysql_connection(mysql_url) as connection:
        warnings.simplefilter("ignore", DeprecationWarning)
        ShallowPyMySQLSaver(connection).setup()
    with pytest.raises(Refused, match="shallow"):
        create_store(parse_url(mysql_url), PYTHON)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """An empty file that is not open."""
    create_store(parse_url(str(tmp_path / "source.db")), PYTHON)
    return tmp_path / "source.db"


def add(path: Path, thread_id: str, ns: str = "", **changed: Any) -> None:
    """Add a thread with one checkpoint and one write to a file."""
    checkpoint_id = f"1f1e6072-59e0-6ab0-8003-{zlib.crc32(bind(thread_id)):012x}"
    cells: dict[str, Any] = {"values": {}, "metadata": b"{}", "task_path": "", "channel": "seen"}
    cells |= changed
    key = (bind(thread_id), ns, checkpoint_id)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(
            "INSERT INTO checkpoints VALUES (CAST(? AS TEXT), ?, ?, NULL, 'msgpack', ?, ?)",
            (*key, _body(checkpoint_id, cells["values"]), cells["metadata"]),
        )
        connection.execute(
            "INSERT INTO writes VALUES (CAST(? AS TEXT), ?, ?, 't', ?, 0, ?, 'msgpack', x'01')",
            (*key, cells["task_path"], cells["channel"]),
        )


def _body(checkpoint_id: str, values: dict[str, Any]) -> bytes:
    version = "00000000000000000000000000000001.0.5"
    return ormsgpack.packb(
        {
            **{"v": 4, "ts": "2026-11-21T23:56:19.547000+00:00", "id": checkpoint_id},
            **{"channel_values": values, "channel_versions": dict.fromkeys(values, version)},
            **{"versions_seen": {}, "updated_channels": None},
        }
    )


def _copied(source: object, target: str, *words: str) -> Any:
    """Copy all threads. Return the answer."""
    done = ckpt("-s", str(source), "copy", "--all", "--to", target, "--yes", "-o", "json", *words)
    return json.loads(done.raw) if done.out else {"error": done.err}


def _reasons(answer: Any) -> dict[str, str]:
    return {one["thread_id"]: one["reason"] for one in answer["skipped"]}


NAN = b'{"x": NaN}'


def test_what_postgresql_cannot_hold_is_named(source: Path, postgres_url: str) -> None:
    add(source, "fine")
    add(source, "nul", metadata=rb'{"name": "a\u0000b"}')
    add(source, "nan", metadata=NAN)
    add(source, "written nul", channel="a\0b")
    add(source, "surrogate \udcff")
    reasons = _reasons(_copied(source, postgres_url, "--create"))
    assert reasons.keys() == {"nul", "nan", "written nul", "surrogate \udcff"}
    for name in ("nul", "nan"):
        assert "checkpoint '1f1e6072-" in reasons[name]
        assert "metadata" in reasons[name]
    assert "the write to 'a" in reasons["written nul"]
    assert _ids(postgres_url) == ["fine"]


def test_what_mysql_cannot_hold_is_named(source: Path, mysql_url: str) -> None:
    for name in ("fine", "Anna", "anna", "x" * 151):
        add(source, name)
    add(source, "long", channel="c" * 151)
    add(source, "nan", metadata=NAN)
    add(source, "mixed", values={"Seen": [1], "seen": [2]})
    reasons = _reasons(_copied(source, mysql_url, "--create"))
    (rival,) = reasons.keys() & {"anna", "Anna"}
    assert reasons.keys() == {rival, "x" * 151, "long", "nan", "mixed"}
    assert "equal in the collation" in reasons[rival]
    assert "'channel'" in reasons["long"]
    assert "checkpoint '1f1e6072-" in reasons["nan"]
    assert "equal to another one in the collation" in reasons["mixed"]


def test_odd_texts_stay_as_they_are(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "target.db"
    add(source, "fine")
    add(source, "surrogate \udcff")
    add(source, "nul \0", metadata=rb'{"name": "a\u0000b"}')
    assert _copied(source, str(target), "--create")["verified"]
    query = "SELECT CAST(thread_id AS BLOB), checkpoint, metadata FROM checkpoints ORDER BY 1"
    found = []
    for path in (source, target):
        with closing(sqlite3.connect(path)) as connection:
            found.append(connection.execute(query).fetchall())
    assert found[0] == found[1]
    assert len(found[0]) == 3


def test_a_target_without_task_paths_is_refused(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "old.db"
    create_store(parse_url(str(target)), JAVASCRIPT)
    add(source, "one", task_path="~__pregel_pull, ask")
    refused = _copied(source, str(target))["error"]
    assert "no column for the task paths" in refused
    assert "run setup()" in refused
    with closing(sqlite3.connect(source)) as db, db:
        db.execute("UPDATE writes SET task_path = ''")
    assert _copied(source, str(target))["verified"]


def test_a_target_of_an_unknown_saver_is_refused(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "newer.db"
    create_store(parse_url(str(target)), PYTHON)
    with closing(sqlite3.connect(target)) as connection:
        connection.execute("ALTER TABLE writes ADD COLUMN color TEXT")
    add(source, "one")
    assert "': unknown column writes.color" in _copied(source, str(target))["error"]


@pytest.mark.parametrize("name", ["interrupt-sends", "fanout-send"])
@pytest.mark.parametrize("era", ["lg-0.2.14", "lg-0.2.70"])
def test_pending_sends_of_old_checkpoints_move(
    tmp_path: Path, postgres_url: str, era: str, name: str
) -> None:
    from langgraph.checkpoint.postgres import PostgresSaver

    old, back = copy_store(FIXTURES / era / "store.db", tmp_path), tmp_path / "back.db"
    for source, target in ((str(old), postgres_url), (postgres_url, str(back))):
        done = ckpt("-s", source, "copy", name, "--to", target, "--create", "--yes")
        assert done.code == 0, done.err
    found = []
    for kind, url in ((SqliteSaver, old), (PostgresSaver, postgres_url), (SqliteSaver, back)):
        with quiet(), kind.from_conn_string(str(url)) as saver:
            graph = SCENARIOS[name].build(saver)
            states = graph.get_state_history({"configurable": {"thread_id": name}})
            found.append([(one.next, one.values, one.config) for one in states])
    assert any(len(following) > 1 for following, _, _ in found[0])
    assert found[0] == found[1] == found[2]


def test_branches_of_langgraph_js_do_not_go_to_postgresql(
    tmp_path: Path, postgres_url: str
) -> None:
    source = copy_store(FIXTURES / "js-1.7.3" / "store.db", tmp_path)
    there = _reasons(_copied(source, postgres_url, "--create"))
    # Its versions are numbers, so two branches have other values at the same version.
    assert there.keys() >= {"fork-chat", "fork-asking", "fork-update-open", "fork-update"}
    assert all("elsewhere" in reason for reason in there.values())
    assert not there.keys() & {"linear", "interrupt-answered", "chat"}


def _ids(url: str) -> list[str]:
    with open_store(url) as store:
        return sorted(one.thread_id for one in store.threads())


LARGE, VALUE = 32, 10 << 20
"""Checkpoints of a large thread, and the bytes of the value in each."""
MOST_MIB = 200
"""Memory that a copy may use."""


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["sqlite", "postgres", "mysql"])
def test_a_large_thread_is_copied_in_little_memory(
    tmp_path: Path, request: pytest.FixtureRequest, kind: str
) -> None:
    source, target = tmp_path / "large.db", str(tmp_path / "target.db")
    if kind != "sqlite":
        target = request.getfixturevalue(f"{kind}_url")
    create_store(parse_url(str(source)), PYTHON)
    with closing(sqlite3.connect(source)) as connection, connection:
        for n in range(LARGE):
            checkpoint_id = f"1f1e6072-59e0-6ab0-8003-{n:012x}"
            body = ormsgpack.unpackb(_body(checkpoint_id, {"text": random.randbytes(VALUE // 2)}))
            body["channel_versions"] = {"text": f"{n:032}.0.5"}
            key = ("large", "", checkpoint_id)
            row = (*key, None, "msgpack", ormsgpack.packb(body), b"{}")
            connection.execute("INSERT INTO checkpoints VALUES (?, ?, ?, ?, ?, ?, ?)", row)
            write = (*key, "t", "", 0, "text", "bytes", random.randbytes(VALUE // 2))
            connection.execute("INSERT INTO writes VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", write)
    for one, other in ((str(source), target), (target, str(tmp_path / "back.db"))):
        done = run([CKPT, "-s", one, "copy", "--all", "--to", other, "--create", "--yes"])
        assert done.mib < MOST_MIB, (one, other)


def _empty(url: str) -> None:
    with mysql_connection(url) as connection, connection.cursor() as cursor:
        cursor.execute("SHOW TABLES")
        for (name,) in cursor.fetchall():
            cursor.execute(f"DROP TABLE {name}")


_COLUMNS = {
    "writes": ("checkpoint_ns", "task_id", "task_path", "idx", "channel", "type", "value"),
    "checkpoints": ("checkpoint_ns", "parent_checkpoint_id", "type", "checkpoint", "metadata"),
}
_CELLS = ("NULL", "7", "-1", "1.5", "'text'", "''", "CAST(X'ff41' AS TEXT)", "X'c0'", "X''")


@pytest.mark.parametrize("seed", range(12))
def test_records_of_odd_cells_are_those_of_the_rows(
    scenes: Path, tmp_path: Path, seed: int
) -> None:
    path, chance = tmp_path / "odd.db", random.Random(seed)
    path.write_bytes(scenes.read_bytes())
    with closing(sqlite3.connect(path)) as connection, connection:
        for table, columns in _COLUMNS.items():
            for (row,) in connection.execute(f"SELECT rowid FROM {table}").fetchall():
                column, cell = chance.choice(columns), chance.choice(_CELLS)
                # What must not be NULL keeps its cell.
                change = f"UPDATE OR IGNORE {table} SET {column} = {cell} WHERE rowid = {row}"
                if chance.random() < 0.3:
                    connection.execute(change)
    with open_store(str(path)) as store:
        threads = sorted(one.thread_id for one in store.threads())
        assert threads
        for thread_id in threads:
            assert _read(store, thread_id) == _of_rows(store, thread_id)


def test_an_older_table_has_no_task_paths(scenes: Path, tmp_path: Path) -> None:
    path = tmp_path / "older.db"
    path.write_bytes(scenes.read_bytes())
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("ALTER TABLE writes DROP COLUMN task_path")
    with open_store(str(path)) as store:
        for one in store.threads():
            assert _read(store, one.thread_id) == _of_rows(store, one.thread_id)


def _read(store: Store, thread_id: str) -> list[Record] | str:
    try:
        return list(store.records_of([thread_id]))
    except CannotHold as error:
        return error.message


def _of_rows(store: Store, thread_id: str) -> list[Record] | str:
    try:
        return list(records_of_rows(store.describe().layout, store.rows(thread_id)))
    except CannotHold as error:
        return error.message
