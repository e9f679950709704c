"""`ckpt copy` to and from SQLite, PostgreSQL and MySQL: new stores, rows, and refusals."""

from __future__ import annotations

import re
import sqlite3
import warnings
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from ckpt_backends.errors import Refused
from ckpt_backends.open_for_writing import create_store
from ckpt_backends.transfer.form import Language
from ckpt_backends.url import parse_url
from tests.servers import mysql_connection

PYTHON, JAVASCRIPT = Language.PYTHON, Language.JAVASCRIPT
FIXTURES = Path(__file__).parents[2] / "fixtures"


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
    from langgraph.checkpoint.sqlite import SqliteSaver

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
    from langgraph.checkpoint.sqlite import SqliteSaver
    from langgraph.store.sqlite import SqliteStore

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
    from langgraph.checkpoint.postgres import PostgresSaver

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
    from tests.restore import restore_rows

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
    from langgraph.checkpoint.mysql.pymysql import PyMySQLSaver, ShallowPyMySQLSaver

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


def _empty(url: str) -> None:
    with mysql_connection(url) as connection, connection.cursor() as cursor:
        cursor.execute("SHOW TABLES")
        for (name,) in cursor.fetchall():
            cursor.execute(f"DROP TABLE {name}")
