"""What is special to one of the Stores: older tables, other names, values that are wrapped."""

import json
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest
import redis
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.store.mongodb import MongoDBStore
from langgraph.store.redis import RedisStore

from ckpt_backends.registry import open_memory
from ckpt_backends.url import parse_url
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
from tests.kit.memory.contents import fill, keys, listed, memory, settle

ONE: Any = {(("s",), "k"): {"text": "one"}}


def of(kind: type[Bench]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("bench", [kind], indirect=True, ids=[kind.name])


def test_the_document_tells_of_every_layout() -> None:
    text = (ROOT / "docs" / "memory.md").read_text("utf-8")
    rows = [line.split(" | ") for line in text.splitlines() if line.startswith("| `")]
    told = {row[0].strip("| `"): row[3] for row in rows if len(row) > 3}
    assert told.keys() == {one.layout for one in BENCHES}
    for one in BENCHES:
        assert told[one.layout].startswith("stay") is one.keeps_expired


def test_a_store_says_what_it_is(bench: Bench) -> None:
    fill(bench, ONE)
    with open_memory(parse_url(bench.url)) as memory:
        info = memory.describe()
        assert (info.layout, info.changes, info.needs_write) == (bench.layout, "", "")
        assert info.tables
        assert info.engine.split()[0] in {"SQLite", "PostgreSQL", "Valkey", "Redis", "MongoDB"}


def test_threads_and_items_live_in_one_place(bench: Bench) -> None:
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
    assert memory(bench, "delete", "k", "--yes").code == 0
    assert (threads(), keys(bench)) == (["t"], [])


# SQLite


OLD = """
    CREATE TABLE store (prefix text NOT NULL, key text NOT NULL, value text NOT NULL,
        created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP,
        updated_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP, PRIMARY KEY (prefix, key));
"""


@of(SqliteBench)
def test_a_file_older_than_times_to_live_and_vectors(bench: SqliteBench) -> None:
    with closing(sqlite3.connect(bench.url)) as db, db:
        db.executescript(OLD)
        db.execute("INSERT INTO store (prefix, key, value) VALUES ('a.b', 'k', '{\"x\": \"é\"}')")
    (one,) = listed(bench)
    assert (one["expires_at"], one["vectors"], one["bytes"]) == (None, [], 11)
    assert memory(bench, "delete", "k", "--yes").code == 0
    assert not keys(bench)


@of(SqliteBench)
def test_hints_name_options_that_the_command_has(bench: SqliteBench) -> None:
    fill(bench, ONE)
    orphans = memory(bench, "list", "--orphans")
    assert (orphans.code, "--threads STORE" in orphans.err) == (4, True)
    pattern = memory(bench, "search", "-E", "(")
    assert (pattern.code, "leave out -E" in pattern.err) == (2, True)


@of(SqliteBench)
def test_a_plan_without_items_is_one_note(bench: SqliteBench) -> None:
    fill(bench, ONE)
    answer = memory(bench, "delete", "--expired", "--yes")
    assert (answer.code, answer.out, answer.err) == (0, "", "note: nothing to do\n")


@of(SqliteBench)
def test_a_table_of_an_unknown_store_is_read_and_not_changed(bench: SqliteBench) -> None:
    fill(bench, ONE)
    with closing(sqlite3.connect(bench.url)) as db, db:
        db.execute("ALTER TABLE store ADD COLUMN later text")
    assert keys(bench) == [(("s",), "k")]
    answer = memory(bench, "delete", "k", "--yes")
    assert (answer.code, "later" in answer.err) == (4, True)
    assert keys(bench) == [(("s",), "k")]


HOSTILE = [
    ("'broken'", b'{"x": ', None, "not a time"),
    ("'deep'", b"[" * 100_000, None, "2020-13-45"),
    ("'latin'", b"\xff\xfe", b"\xff", "9999-12-31 23:59:59-14:00"),
    ("x'ff41'", b'{"a": NaN}', 5, "0001-01-01 00:00:00+14:00"),
    ("''", b"", None, 17),
]


@of(SqliteBench)
def test_nothing_in_a_file_breaks_a_reading(bench: SqliteBench) -> None:
    with bench.store():
        pass
    with closing(sqlite3.connect(bench.url)) as db, db:
        for key, value, other, at in HOSTILE:
            db.execute(
                "INSERT INTO store (prefix, key, value, created_at, updated_at, expires_at)"
                f" VALUES ('h..\x1b', CAST({key} AS TEXT), ?, ?, ?, ?)",
                [value, other, at, at],
            )
        db.execute(
            "INSERT INTO store_vectors VALUES ('h..\x1b', 'broken', 'a,b:1', x'00', NULL, NULL)"
        )
    for words in (
        *(["list"], ["list", "-o", "table"], ["list", "-o", "json"], ["export"]),
        *(["show", "broken"], ["show", "latin"], ["show", "deep", "-o", "json"]),
        ["search", "h"],
    ):
        answer = memory(bench, *words)
        assert answer.code == 0, answer.err
        assert "\x1b" not in answer.out
    found = {one["key"]: one for one in listed(bench)}
    assert found["broken"]["vectors"] == [{"field": "a,b:1", "bytes": 1}]
    assert {tuple(one["namespace"]) for one in found.values()} == {("h", "", "\x1b")}
    answer = memory(bench, "search", "no such text")
    assert answer.code == 7
    assert memory(bench, "delete", "--match", "*", "--yes").code == 0
    assert not keys(bench)
    assert bench.vectors() == 0


@of(SqliteBench)
def test_vectors_that_the_library_left_go_with_the_next_item_of_that_name(
    bench: SqliteBench,
) -> None:
    fill(bench, ONE)
    with bench.store() as store:
        store.delete(("s",), "k")
    assert bench.vectors() == 1
    fill(bench, ONE)
    assert memory(bench, "delete", "k", "--yes").code == 0
    assert bench.vectors() == 0


# PostgreSQL


@of(PostgresBench)
def test_tables_in_a_schema_of_their_own(bench: PostgresBench) -> None:
    with psycopg.connect(bench.url) as connection:
        connection.execute("CREATE EXTENSION vector")
        connection.execute('CREATE SCHEMA "odd % schema"')
    place = f"{bench.url}?options=-csearch_path%3D%22odd%5C%20%25%5C%20schema%22,public"
    fill(PostgresBench(place), ONE)
    answer = memory(bench, "list")
    assert (answer.code, "?schema=odd%20%25%20schema" in answer.err) == (4, True)
    there = PostgresBench(f"{bench.url}?schema=odd%20%25%20schema")
    assert keys(there) == [(("s",), "k")]
    assert memory(there, "delete", "k", "--yes").code == 0
    assert not keys(there)


@of(PostgresBench)
def test_a_role_that_may_only_select_reads(bench: PostgresBench) -> None:
    fill(bench, ONE)
    role = f"reader_{bench.url[-12:]}"
    with psycopg.connect(bench.url) as connection:
        connection.execute(f"CREATE ROLE {role} LOGIN")
        connection.execute(f"GRANT SELECT ON store, store_vectors TO {role}")
    try:
        url = bench.url.replace("postgres@", f"{role}@")
        assert keys(PostgresBench(url)) == [(("s",), "k")]
        refused = ckpt("-s", url, "memory", "delete", "k", "--yes")
        assert (refused.code, "permission denied" in refused.err) == (4, True)
        assert keys(bench) == [(("s",), "k")]
    finally:
        with psycopg.connect(bench.url) as connection:
            connection.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")


@of(PostgresBench)
def test_times_beyond_the_calendar_are_none(bench: PostgresBench) -> None:
    fill(bench, ONE)
    with psycopg.connect(bench.url) as connection:
        connection.execute("UPDATE store SET expires_at = 'infinity', created_at = '0044-03-15 BC'")
    (one,) = listed(bench)
    assert (one["expires_at"], one["created_at"]) == (None, None)


# Redis


@of(RedisBench)
def test_prefixes_of_a_store_are_told_by_the_url(bench: RedisBench) -> None:
    index: Any = {"dims": DIMENSIONS, "embed": embed, "fields": ["text"]}
    with RedisStore.from_conn_string(
        bench.url, index=index, store_prefix="mem[1]", vector_prefix="vec"
    ) as store:
        store.setup()
        store.put(("s",), "k", {"text": "one"})
    answer = memory(bench, "list")
    assert (answer.code, "store_prefix" in answer.err) == (4, True)
    there = RedisBench(f"{bench.url}?store_prefix=mem%5B1%5D&vector_prefix=vec")
    (one,) = listed(there)
    assert [vector["field"] for vector in one["vectors"]] == ["text"]
    assert memory(there, "delete", "k", "--yes").code == 0
    with redis.Redis.from_url(bench.url) as client:
        assert not client.keys("mem*")
        assert not client.keys("vec*")


@of(RedisBench)
def test_vectors_may_be_hashes(bench: RedisBench, tmp_path: Path) -> None:
    index: Any = {"dims": DIMENSIONS, "embed": embed, "fields": ["text"]}
    index["vector_storage_type"] = "hash"
    with RedisStore.from_conn_string(bench.url, index=index) as store:
        store.setup()
        store.put(("s",), "k", {"text": "one"}, ttl=60)
    (one,) = listed(bench)
    assert one["vectors"] == [{"field": "text", "bytes": 4 * DIMENSIONS}]
    words = ["memory", "delete", "k", "--archive", str(tmp_path), "--yes"]
    with redis.Redis.from_url(bench.url) as client:
        (name,) = client.keys("store_vectors:*")
        before = client.hgetall(name)
        assert ckpt("-s", bench.url, *words).code == 0
        assert not client.keys("*:*")
        (bundle,) = tmp_path.iterdir()
        assert memory(bench, "import", bundle, "--yes").code == 0
        assert client.hgetall(name) == before
        assert 0 < client.pttl(name) <= 3_600_000
    assert listed(bench) == [one]


@of(RedisBench)
def test_values_that_json_cannot_hold_are_unwrapped(bench: RedisBench) -> None:
    with bench.store(embeds=False) as store:
        store.put(("s",), "message", {"said": HumanMessage("tea, please")})
        store.put(("s",), "bytes", {"raw": b"\x00\xff", "at": datetime(2026, 1, 2, tzinfo=UTC)})
        store.put(("s",), "own", {"__serde_type__": "x", "__serde_data__": "not hex"})
    found = {
        key: memory(bench, "show", key, "-o", "json").json["value"]
        for key in ("message", "bytes", "own")
    }
    assert found["message"]["said"]["content"] == "tea, please"
    assert found["bytes"]["raw"] == {"$bytes": "AP8="}
    assert found["own"] == {"__serde_type__": "x", "__serde_data__": "not hex"}
    assert memory(bench, "search", "tea, please").code == 0


@of(RedisBench)
def test_other_documents_under_the_same_names_are_no_items(bench: RedisBench) -> None:
    fill(bench, ONE)
    with redis.Redis.from_url(bench.url) as client:
        client.execute_command("JSON.SET", "store:1", "$", json.dumps({"prefix": 1, "key": []}))
        client.execute_command("JSON.SET", "store:2", "$", json.dumps([1, 2]))
        client.set("store:3", "text")
    assert keys(bench) == [(("s",), "k")]
    assert memory(bench, "delete", "--match", "*", "--yes").code == 0
    with redis.Redis.from_url(bench.url) as client:
        assert sorted(client.keys("store:*")) == [b"store:1", b"store:2", b"store:3"]


# MongoDB


@of(MongoBench)
def test_of_several_collections_one_has_to_be_named(bench: MongoBench) -> None:
    fill(bench, ONE)
    with MongoDBStore.from_conn_string(
        bench.url, db_name=bench.database, collection_name="other"
    ) as store:
        store.put(("o",), "k", {"text": "x"})
    answer = memory(bench, "list")
    assert (answer.code, "?store_collection=other" in answer.err) == (4, True)
    assert keys(MongoBench(f"{bench.url}?store_collection=other")) == [(("o",), "k")]
    assert ckpt("-s", f"{bench.url}?store_collection=no", "memory", "list").code == 4


@of(MongoBench)
def test_documents_of_older_releases_and_other_separators(bench: MongoBench) -> None:
    fill(bench, ONE)
    with bench.collection() as found:
        found.insert_one({"namespace": ["old", "a/b"], "key": "older", "value": {"x": b"123"}})
        value = {"x": ["a", b"1"]}
        found.insert_one({"namespace": ["sep"], "namespace_str": "o", "key": "k", "value": value})
        found.insert_one({"_id": {"n": 1}, "namespace": ["odd"], "key": "n", "value": 5})
        found.insert_one({"namespace": ["text"], "key": "t", "value": "no document"})
    assert keys(bench) == [
        (("old", "a/b"), "older"),
        *((("s",), "k"), (("sep",), "k"), (("text",), "t")),
    ]
    # What a saver would take for values of its own is what the application stored.
    shown = memory(bench, "show", r"old/a\/b/older", "-o", "json").json
    assert shown["value"] == {"x": {"$bytes": "MTIz"}}
    shown = memory(bench, "show", "sep/k", "-o", "json").json
    assert shown["value"] == {"x": ["a", {"$bytes": "MQ=="}]}
    assert memory(bench, "list", "-o", "table").code == 0
    assert memory(bench, "show", "text/t").code == 0
    words = ["memory", "delete", r"old/a\/b/older", "sep/k", "text/t", "--yes"]
    assert ckpt("-s", bench.url, *words).code == 0
    assert keys(bench) == [(("s",), "k")]


@of(MongoBench)
def test_reading_moves_no_time_to_live(bench: MongoBench) -> None:
    with bench.store(ttl={"default_ttl": 3600, "refresh_on_read": True}) as store:
        store.put(("s",), "k", {"text": "x"})
        settle(store, 1)
    before = listed(bench)
    for words in (["show", "k"], ["search", "x"], ["export"]):
        assert memory(bench, *words).code == 0
    assert listed(bench) == before
