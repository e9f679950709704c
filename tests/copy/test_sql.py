"""`ckpt copy` to and from SQLite, PostgreSQL and MySQL: new stores, rows, and refusals."""

import json
import re
import sqlite3
import warnings
import zlib
from collections.abc import Callable, Iterable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import ormsgpack
import psycopg
import pytest
from langgraph.checkpoint.mysql.pymysql import PyMySQLSaver, ShallowPyMySQLSaver
from langgraph.checkpoint.postgres import PostgresSaver, ShallowPostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.store.sqlite import SqliteStore

from ckpt_backends.errors import Refused, Unsupported
from ckpt_backends.model import Record
from ckpt_backends.open_for_writing import create_store
from ckpt_backends.registry import open_store
from ckpt_backends.sqlite.journals import bind
from ckpt_backends.transfer.copying import records_of_rows
from ckpt_backends.transfer.form import CannotHold, Language
from ckpt_backends.url import parse_url
from tests.kit.cases import cases
from tests.kit.command import FIXTURES, SAMPLE, ckpt
from tests.kit.hostile.corpus import build_odd_store, ordinary_body
from tests.kit.servers import mysql_connection
from tests.kit.stores import postgres_schema, restore_rows

PYTHON, JAVASCRIPT = Language.PYTHON, Language.JAVASCRIPT
MIGRATIONS = "checkpoint_migrations"


def sqlite_schema(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        rows = connection.execute("SELECT coalesce(sql, name) FROM sqlite_master ORDER BY name")
        return [re.sub(r"\s", "", sql) for (sql,) in rows]


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
    ours, official, ours_js, js = (tmp_path / f"{number}.db" for number in range(4))
    create_store(parse_url(str(ours)), PYTHON)
    with SqliteSaver.from_conn_string(str(official)) as saver:
        saver.setup()
    assert sqlite_schema(ours) == sqlite_schema(official)
    assert ours.stat().st_mode == official.stat().st_mode
    before = ours.read_bytes()
    create_store(parse_url(str(ours)), PYTHON)
    assert ours.read_bytes() == before
    create_store(parse_url(str(ours_js)), JAVASCRIPT)
    with closing(sqlite3.connect(FIXTURES / "js-1.7.3" / "store.db")) as connection:
        connection.execute("VACUUM INTO ?", [str(js)])
    with closing(sqlite3.connect(js)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
    assert sqlite_schema(ours_js) == sqlite_schema(js)


def test_tables_are_made_beside_long_term_memory_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "agent.db"
    with SqliteStore.from_conn_string(str(path)) as store:
        store.setup()
    create_store(parse_url(str(path)), PYTHON)
    with SqliteSaver.from_conn_string(str(path)) as saver:
        assert [*saver.list(None)] == []
    path = tmp_path / "books.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE books (title)")
    before = path.read_bytes()
    with pytest.raises(Refused, match="is not empty") as refused:
        create_store(parse_url(str(path)), PYTHON)
    assert "books" in str(refused.value.hint)
    assert path.read_bytes() == before


@pytest.mark.parametrize("schema", ["public", "Agents 1"])
def test_new_tables_in_postgresql_are_those_of_the_saver(postgres_url: str, schema: str) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA official")
    official = f"{postgres_url}?options=-csearch_path%3Dofficial"
    with PostgresSaver.from_conn_string(official) as saver:
        saver.setup()
    url = f"{postgres_url}?schema={schema.replace(' ', '%20')}"
    create_store(parse_url(url), PYTHON)
    create_store(parse_url(url), PYTHON)
    assert postgres_schema(postgres_url, MIGRATIONS, schema) == postgres_schema(
        postgres_url, MIGRATIONS, "official"
    )
    ckpt("-s", SAMPLE, "copy", "refund-4711", "--to", url, "--yes", code=0)
    ckpt("-s", url, "rollback", "refund-4711", "step:0", "--yes", code=0)
    assert _ids(url) == ["refund-4711"]


def test_tables_for_langgraph_js_have_its_migrations_only(postgres_url: str) -> None:
    create_store(parse_url(f"{postgres_url}?schema=ours"), JAVASCRIPT)
    restore_rows(FIXTURES / "js-1.7.3" / "postgres.jsonl.gz", postgres_url)
    ours = postgres_schema(postgres_url, MIGRATIONS, "ours")
    assert ours == postgres_schema(postgres_url, MIGRATIONS)


@cases(
    "params problem",
    ("?schema=books", "is not empty"),
    ("?layout=postgres-shallow", "a store of the layout 'postgres-shallow'"),
    ("?schema=shallow", "it has the tables of the shallow saver"),
    ("?options=-csearch_path%3Dnone", "its search path names no schema that exists"),
)
def test_no_store_is_made_beside_something_else_or_nowhere(
    postgres_url: str, params: str, problem: str
) -> None:
    place = f"{postgres_url}?options=-csearch_path%3Dshallow"
    shallow = ShallowPostgresSaver.from_conn_string(place)
    tables = "SELECT relname FROM pg_class WHERE relnamespace = 'books'::regnamespace"
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(
            "CREATE SCHEMA shallow; CREATE SCHEMA books; CREATE TABLE books.novel ()"
        )
        with warnings.catch_warnings(action="ignore"), shallow as saver:
            saver.setup()
        with pytest.raises((Refused, Unsupported), match=problem):
            create_store(parse_url(postgres_url + params), PYTHON)
        assert connection.execute(tables).fetchall() == [("novel",)]


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
    create_store(parse_url(str(tmp_path / "source.db")), PYTHON)
    return tmp_path / "source.db"


def add(path: Path, thread_id: str, **changed: Any) -> None:
    cells = {"values": {}, "metadata": b"{}", "task_path": "", "channel": "seen", **changed}
    key = bind(thread_id), f"1f0a0000-0000-6000-8000-{zlib.crc32(bind(thread_id)):012x}"
    versions = dict.fromkeys(cells["values"], f"{1:032}.0.5")
    body = ormsgpack.unpackb(ordinary_body(key[1]))
    body |= {"channel_values": cells["values"], "channel_versions": versions, "versions_seen": {}}
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(
            "INSERT INTO checkpoints VALUES (CAST(? AS TEXT), '', ?, NULL, 'msgpack', ?, ?)",
            (*key, ormsgpack.packb(body), cells["metadata"]),
        )
        connection.execute(
            "INSERT INTO writes VALUES (CAST(? AS TEXT), '', ?, 't', ?, 0, ?, 'msgpack', x'01')",
            (*key, cells["task_path"], cells["channel"]),
        )


def _copied(source: object, target: str, *words: str) -> Any:
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
        assert "checkpoint '1f0a0000-" in reasons[name]
        assert "metadata" in reasons[name]
    assert "the write to 'a" in reasons["written nul"]
    assert _ids(postgres_url) == ["fine"]


def test_branches_of_langgraph_js_do_not_go_to_postgresql(postgres_url: str) -> None:
    there = _reasons(_copied(FIXTURES / "js-1.7.3" / "store.db", postgres_url, "--create"))
    # Its versions are numbers, so two branches have other values at the same version.
    assert there.keys() >= {"fork-chat", "fork-asking", "fork-update-open", "fork-update"}
    assert all("elsewhere" in reason for reason in there.values())
    assert not there.keys() & {"linear", "interrupt-answered", "chat"}


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
    assert "checkpoint '1f0a0000-" in reasons["nan"]
    assert "equal to another one in the collation" in reasons["mixed"]


def test_a_target_unknown_or_without_task_paths_is_refused(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "other.db"
    create_store(parse_url(str(target)), JAVASCRIPT)
    add(source, "one", task_path="~__pregel_pull, ask")
    refused = _copied(source, str(target))["error"]
    assert ("no column for the task paths" in refused, "run setup()" in refused) == (True, True)
    with closing(sqlite3.connect(source)) as db, db:
        db.execute("UPDATE writes SET task_path = ''")
    assert _copied(source, str(target))["verified"]
    with closing(sqlite3.connect(target)) as db:
        db.execute("ALTER TABLE writes ADD COLUMN color TEXT")
    assert "': unknown column writes.color" in _copied(source, str(target))["error"]


def _ids(url: str) -> list[str]:
    with open_store(url) as store:
        return sorted(one.thread_id for one in store.threads())


def _empty(url: str) -> None:
    with mysql_connection(url) as connection, connection.cursor() as cursor:
        cursor.execute("SHOW TABLES")
        for (name,) in cursor.fetchall():
            cursor.execute(f"DROP TABLE {name}")


def test_records_of_odd_cells_are_those_of_the_rows(tmp_path: Path) -> None:
    build_odd_store(tmp_path / "odd.db")
    with open_store(str(tmp_path / "odd.db")) as store:
        layout = store.describe().layout
        for thread_id in [one.thread_id for one in store.threads()]:
            assert _told(partial(store.records_of, [thread_id])) == _told(
                lambda: records_of_rows(layout, store.rows(thread_id))  # noqa: B023
            )


def _told(read: Callable[[], Iterable[Record]]) -> list[Record] | str:
    try:
        return list(read())
    except CannotHold as error:
        return error.message
