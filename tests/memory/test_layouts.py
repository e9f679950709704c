"""What is special to one of the Stores: older tables, other names, values that are wrapped."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest
import redis

from tests.kit.command import ROOT, ckpt
from tests.kit.memory.benches import (
    BENCHES,
    DIMENSIONS,
    Bench,
    MongoBench,
    PostgresBench,
    RedisBench,
    SqliteBench,
    embed,
)
from tests.kit.memory.contents import fill, keys, listed, settle
from tests.kit.servers import Server

ONE: Any = {(("s",), "k"): {"text": "one"}}


@pytest.fixture
def file(tmp_path: Path) -> SqliteBench:
    return SqliteBench(str(tmp_path / "memory.db"))


@pytest.fixture
def database(postgres_server: Server, tmp_path: Path) -> Iterator[PostgresBench]:
    with PostgresBench.place(tmp_path, postgres_server) as url:
        yield PostgresBench(url)


@pytest.fixture
def documents(redis_stack_server: Server, tmp_path: Path) -> Iterator[RedisBench]:
    with RedisBench.place(tmp_path, redis_stack_server) as url:
        yield RedisBench(url)


@pytest.fixture
def collection(mongodb_server: Server, tmp_path: Path) -> Iterator[MongoBench]:
    with MongoBench.place(tmp_path, mongodb_server) as url:
        yield MongoBench(url)


def test_the_document_tells_of_every_layout() -> None:
    text = (ROOT / "docs" / "memory.md").read_text("utf-8")
    rows = [line.split(" | ") for line in text.splitlines() if line.startswith("| `")]
    told = {row[0].strip("| `"): row[3] for row in rows if len(row) > 3}
    assert told.keys() == {one.layout for one in BENCHES}
    for one in BENCHES:
        assert told[one.layout].startswith("stay") is one.keeps_expired


def test_a_store_says_what_it_is(bench: Bench) -> None:
    from ckpt_backends.registry import open_memory
    from ckpt_backends.url import parse_url

    fill(bench, ONE)
    with open_memory(parse_url(bench.url)) as memory:
        info = memory.describe()
        assert (info.layout, info.changes, info.needs_write) == (bench.layout, "", "")
        assert info.tables
        assert info.engine.split()[0] in {"SQLite", "PostgreSQL", "Valkey", "Redis", "MongoDB"}


def test_threads_and_items_live_in_one_place(bench: Bench) -> None:
    from langgraph.checkpoint.base import empty_checkpoint

    fill(bench, ONE)
    with bench.saver() as saver:
        config: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
        saver.put(config, empty_checkpoint(), {"source": "input", "step": -1, "parents": {}}, {})

    def threads() -> list[str]:
        found = ckpt("-s", bench.url, "threads", "list", "-o", "json").json
        return [one["thread_id"] for one in found]

    assert (threads(), keys(bench)) == (["t"], [(("s",), "k")])
    assert ckpt("-s", bench.url, "threads", "delete", "t", "--yes").code == 0
    assert keys(bench) == [(("s",), "k")]
    with bench.saver() as saver:
        saver.put(config, empty_checkpoint(), {"source": "input", "step": -1, "parents": {}}, {})
    assert ckpt("-s", bench.url, "memory", "delete", "k", "--yes").code == 0
    assert (threads(), keys(bench)) == (["t"], [])


# SQLite


OLD = """
    CREATE TABLE store (prefix text NOT NULL, key text NOT NULL, value text NOT NULL,
        created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP,
        updated_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP, PRIMARY KEY (prefix, key));
"""


def test_a_file_older_than_times_to_live_and_vectors(file: SqliteBench) -> None:
    with sqlite3.connect(file.url) as db:
        db.executescript(OLD)
        db.execute("INSERT INTO store (prefix, key, value) VALUES ('a.b', 'k', '{\"x\": \"é\"}')")
    db.close()
    (one,) = listed(file)
    assert (one["expires_at"], one["vectors"], one["bytes"]) == (None, [], 11)
    assert ckpt("-s", file.url, "memory", "delete", "k", "--yes").code == 0
    assert not keys(file)


def test_hints_name_options_that_the_command_has(file: SqliteBench) -> None:
    fill(file, ONE)
    orphans = ckpt("-s", file.url, "memory", "list", "--orphans")
    assert (orphans.code, "--threads STORE" in orphans.err) == (4, True)
    pattern = ckpt("-s", file.url, "memory", "search", "-E", "(")
    assert (pattern.code, "leave out -E" in pattern.err) == (2, True)


def test_a_plan_without_items_is_one_note(file: SqliteBench) -> None:
    fill(file, ONE)
    answer = ckpt("-s", file.url, "memory", "delete", "--expired", "--yes")
    assert (answer.code, answer.out, answer.err) == (0, "", "note: nothing to do\n")


def test_a_table_of_an_unknown_store_is_read_and_not_changed(file: SqliteBench) -> None:
    fill(file, ONE)
    with sqlite3.connect(file.url) as db:
        db.execute("ALTER TABLE store ADD COLUMN later text")
    db.close()
    assert keys(file) == [(("s",), "k")]
    answer = ckpt("-s", file.url, "memory", "delete", "k", "--yes")
    assert answer.code == 4
    assert "later" in answer.err
    assert keys(file) == [(("s",), "k")]


HOSTILE = [
    ("'broken'", b'{"x": ', None, "not a time"),
    ("'deep'", b"[" * 100_000, None, "2020-13-45"),
    ("'latin'", b"\xff\xfe", b"\xff", "9999-12-31 23:59:59-14:00"),
    ("x'ff41'", b'{"a": NaN}', 5, "0001-01-01 00:00:00+14:00"),
    ("''", b"", None, 17),
]


def test_nothing_in_a_file_breaks_a_reading(file: SqliteBench) -> None:
    with file.store():
        pass
    with sqlite3.connect(file.url) as db:
        for key, value, other, at in HOSTILE:
            db.execute(
                "INSERT INTO store (prefix, key, value, created_at, updated_at, expires_at)"
                f" VALUES ('h..\x1b', CAST({key} AS TEXT), ?, ?, ?, ?)",
                [value, other, at, at],
            )
        db.execute(
            "INSERT INTO store_vectors VALUES ('h..\x1b', 'broken', 'a,b:1', x'00', NULL, NULL)"
        )
    db.close()
    for words in (
        *(["list"], ["list", "-o", "table"], ["list", "-o", "json"], ["export"]),
        *(["show", "broken"], ["show", "latin"], ["show", "deep", "-o", "json"]),
        ["search", "h"],
    ):
        answer = ckpt("-s", file.url, "memory", *words)
        assert answer.code == 0, answer.err
        assert "\x1b" not in answer.out
    found = {one["key"]: one for one in listed(file)}
    assert found["broken"]["vectors"] == [{"field": "a,b:1", "bytes": 1}]
    assert {tuple(one["namespace"]) for one in found.values()} == {("h", "", "\x1b")}
    answer = ckpt("-s", file.url, "memory", "search", "no such text")
    assert answer.code == 7
    assert ckpt("-s", file.url, "memory", "delete", "--match", "*", "--yes").code == 0
    assert not keys(file)
    assert file.vectors() == 0


def test_vectors_that_the_library_left_go_with_the_next_item_of_that_name(
    file: SqliteBench,
) -> None:
    fill(file, ONE)
    with file.store() as store:
        store.delete(("s",), "k")
    assert file.vectors() == 1
    fill(file, ONE)
    assert ckpt("-s", file.url, "memory", "delete", "k", "--yes").code == 0
    assert file.vectors() == 0


# PostgreSQL


def test_tables_in_a_schema_of_their_own(database: PostgresBench) -> None:
    with psycopg.connect(database.url) as connection:
        connection.execute("CREATE EXTENSION vector")
        connection.execute('CREATE SCHEMA "odd % schema"')
    place = f"{database.url}?options=-csearch_path%3D%22odd%5C%20%25%5C%20schema%22,public"
    fill(PostgresBench(place), ONE)
    answer = ckpt("-s", database.url, "memory", "list")
    assert answer.code == 4
    assert "?schema=odd%20%25%20schema" in answer.err
    there = PostgresBench(f"{database.url}?schema=odd%20%25%20schema")
    assert keys(there) == [(("s",), "k")]
    assert ckpt("-s", there.url, "memory", "delete", "k", "--yes").code == 0
    assert not keys(there)


def test_a_role_that_may_only_select_reads(database: PostgresBench) -> None:
    fill(database, ONE)
    role = f"reader_{database.url[-12:]}"
    with psycopg.connect(database.url) as connection:
        connection.execute(f"CREATE ROLE {role} LOGIN")
        connection.execute(f"GRANT SELECT ON store, store_vectors TO {role}")
    try:
        url = database.url.replace("postgres@", f"{role}@")
        assert keys(PostgresBench(url)) == [(("s",), "k")]
        refused = ckpt("-s", url, "memory", "delete", "k", "--yes")
        assert refused.code == 4
        assert "permission denied" in refused.err
        assert keys(database) == [(("s",), "k")]
    finally:
        with psycopg.connect(database.url) as connection:
            connection.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")


def test_times_beyond_the_calendar_are_none(database: PostgresBench) -> None:
    fill(database, ONE)
    with psycopg.connect(database.url) as connection:
        connection.execute("UPDATE store SET expires_at = 'infinity', created_at = '0044-03-15 BC'")
    (one,) = listed(database)
    assert (one["expires_at"], one["created_at"]) == (None, None)


# Redis


def test_prefixes_of_a_store_are_told_by_the_url(documents: RedisBench) -> None:
    from langgraph.store.redis import RedisStore

    index: Any = {"dims": DIMENSIONS, "embed": embed, "fields": ["text"]}
    with RedisStore.from_conn_string(
        documents.url, index=index, store_prefix="mem[1]", vector_prefix="vec"
    ) as store:
        store.setup()
        store.put(("s",), "k", {"text": "one"})
    answer = ckpt("-s", documents.url, "memory", "list")
    assert answer.code == 4
    assert "store_prefix" in answer.err
    there = RedisBench(f"{documents.url}?store_prefix=mem%5B1%5D&vector_prefix=vec")
    (one,) = listed(there)
    assert [vector["field"] for vector in one["vectors"]] == ["text"]
    assert ckpt("-s", there.url, "memory", "delete", "k", "--yes").code == 0
    with redis.Redis.from_url(documents.url) as client:
        assert not client.keys("mem*")
        assert not client.keys("vec*")


def test_vectors_may_be_hashes(documents: RedisBench, tmp_path: Path) -> None:
    from langgraph.store.redis import RedisStore

    index: Any = {"dims": DIMENSIONS, "embed": embed, "fields": ["text"]}
    index["vector_storage_type"] = "hash"
    with RedisStore.from_conn_string(documents.url, index=index) as store:
        store.setup()
        store.put(("s",), "k", {"text": "one"}, ttl=60)
    (one,) = listed(documents)
    assert one["vectors"] == [{"field": "text", "bytes": 4 * DIMENSIONS}]
    words = ["memory", "delete", "k", "--archive", str(tmp_path), "--yes"]
    with redis.Redis.from_url(documents.url) as client:
        (name,) = client.keys("store_vectors:*")
        before = client.hgetall(name)
        assert ckpt("-s", documents.url, *words).code == 0
        assert not client.keys("*:*")
        (bundle,) = tmp_path.iterdir()
        assert ckpt("-s", documents.url, "memory", "import", bundle, "--yes").code == 0
        assert client.hgetall(name) == before
        assert 0 < client.pttl(name) <= 3_600_000
    assert listed(documents) == [one]


def test_values_that_json_cannot_hold_are_unwrapped(documents: RedisBench) -> None:
    from langchain_core.messages import HumanMessage

    with documents.store(embeds=False) as store:
        store.put(("s",), "message", {"said": HumanMessage("tea, please")})
        store.put(("s",), "bytes", {"raw": b"\x00\xff", "at": datetime(2026, 1, 2, tzinfo=UTC)})
        store.put(("s",), "own", {"__serde_type__": "x", "__serde_data__": "not hex"})
    found = {
        key: ckpt("-s", documents.url, "memory", "show", key, "-o", "json").json["value"]
        for key in ("message", "bytes", "own")
    }
    assert found["message"]["said"]["content"] == "tea, please"
    assert found["bytes"]["raw"] == {"$bytes": "AP8="}
    assert found["own"] == {"__serde_type__": "x", "__serde_data__": "not hex"}
    answer = ckpt("-s", documents.url, "memory", "search", "tea, please")
    assert answer.code == 0


def test_other_documents_under_the_same_names_are_no_items(documents: RedisBench) -> None:
    fill(documents, ONE)
    with redis.Redis.from_url(documents.url) as client:
        client.execute_command("JSON.SET", "store:1", "$", json.dumps({"prefix": 1, "key": []}))
        client.execute_command("JSON.SET", "store:2", "$", json.dumps([1, 2]))
        client.set("store:3", "text")
    assert keys(documents) == [(("s",), "k")]
    assert ckpt("-s", documents.url, "memory", "delete", "--match", "*", "--yes").code == 0
    with redis.Redis.from_url(documents.url) as client:
        assert sorted(client.keys("store:*")) == [b"store:1", b"store:2", b"store:3"]


# MongoDB


def test_of_several_collections_one_has_to_be_named(collection: MongoBench) -> None:
    from langgraph.store.mongodb import MongoDBStore

    fill(collection, ONE)
    with MongoDBStore.from_conn_string(
        collection.url, db_name=collection.database, collection_name="other"
    ) as store:
        store.put(("o",), "k", {"text": "x"})
    answer = ckpt("-s", collection.url, "memory", "list")
    assert answer.code == 4
    assert "?store_collection=other" in answer.err
    assert keys(MongoBench(f"{collection.url}?store_collection=other")) == [(("o",), "k")]
    assert ckpt("-s", f"{collection.url}?store_collection=no", "memory", "list").code == 4


def test_documents_of_older_releases_and_other_separators(collection: MongoBench) -> None:
    fill(collection, ONE)
    with collection.collection() as found:
        found.insert_one({"namespace": ["old", "a/b"], "key": "older", "value": {"x": b"123"}})
        value = {"x": ["a", b"1"]}
        found.insert_one({"namespace": ["sep"], "namespace_str": "o", "key": "k", "value": value})
        found.insert_one({"_id": {"n": 1}, "namespace": ["odd"], "key": "n", "value": 5})
        found.insert_one({"namespace": ["text"], "key": "t", "value": "no document"})
    assert keys(collection) == [
        (("old", "a/b"), "older"),
        *((("s",), "k"), (("sep",), "k"), (("text",), "t")),
    ]
    # What a saver would take for values of its own is what the application stored.
    shown = ckpt("-s", collection.url, "memory", "show", r"old/a\/b/older", "-o", "json").json
    assert shown["value"] == {"x": {"$bytes": "MTIz"}}
    shown = ckpt("-s", collection.url, "memory", "show", "sep/k", "-o", "json").json
    assert shown["value"] == {"x": ["a", {"$bytes": "MQ=="}]}
    assert ckpt("-s", collection.url, "memory", "list", "-o", "table").code == 0
    assert ckpt("-s", collection.url, "memory", "show", "text/t").code == 0
    words = ["memory", "delete", r"old/a\/b/older", "sep/k", "text/t", "--yes"]
    assert ckpt("-s", collection.url, *words).code == 0
    assert keys(collection) == [(("s",), "k")]


def test_reading_moves_no_time_to_live(collection: MongoBench) -> None:
    with collection.store(ttl={"default_ttl": 3600, "refresh_on_read": True}) as store:
        store.put(("s",), "k", {"text": "x"})
        settle(store, 1)
    before = listed(collection)
    for words in (["show", "k"], ["search", "x"], ["export"]):
        assert ckpt("-s", collection.url, "memory", *words).code == 0
    assert listed(collection) == before
