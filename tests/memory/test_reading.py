"""LangGraph's four Stores, filled by their official libraries, are read as these read them."""

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

from ckpt_backends.memory import ItemKey
from ckpt_backends.registry import open_memory
from ckpt_backends.url import parse_url
from tests.kit.command import ROOT, ckpt
from tests.kit.memory.benches import (
    BENCHES,
    DIMENSIONS,
    IN_VECTORS,
    Bench,
    MongoBench,
    PostgresBench,
    RedisBench,
    SqliteBench,
    embed,
)
from tests.kit.memory.contents import ITEMS, exported, fill, keys, listed, memory, settle, told

ENGINES = {"SQLite", "PostgreSQL", "Valkey", "Redis", "MongoDB"}
ONE: Any = {(("s",), "k"): {"text": "one"}}


def of(kind: type[Bench]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("bench", [kind], indirect=True, ids=[kind.name])


def test_items_and_namespaces_are_those_of_the_official_store(bench: Bench) -> None:
    fill(bench)
    anna = ("users", "anna")
    with bench.store() as store:
        truth = told(store)
        official = set(store.list_namespaces(limit=100))
        below = set(told(store, prefix=anna))
        got = {
            (namespace, key): found.value
            for namespace, key in ITEMS
            if (found := store.get(namespace, key, refresh_ttl=False)) is not None
        }
    assert {at: value for at, (value, _, _) in truth.items()} == ITEMS
    assert exported(bench) == truth
    assert not bench.gets or got == ITEMS
    assert keys(bench) == sorted(ITEMS)
    # A namespace is its labels, and not the beginning of a text.
    found = keys(bench, "users/anna")
    assert found == sorted(at for at in ITEMS if at[0][:2] == anna)
    assert below == set(found) or bench.prefix_is_text
    with open_memory(parse_url(bench.url)) as memory:
        namespaces = list(memory.namespaces())
        assert [one.namespace for one in namespaces] == sorted(official)
        assert [one.namespace for one in memory.namespaces(anna)] == [anna, (*anna, "memories")]
        assert not list(memory.items(prefix=("users.anna",)))
        assert not list(memory.items(prefix=("users", "ann")))
        assert {one.namespace: one.items for one in namespaces}["a b", "c:d"] == 2
        items = list(memory.items())
        assert sum(one.bytes for one in namespaces) == sum(one.size for one in items) > 0
        assert all(one.value is None for one in items)
        wanted = [ItemKey(*at) for at in sorted(ITEMS)[2:5]]
        some = list(memory.items(keys=[*reversed(wanted), ItemKey(("no",), "such")], values=True))
        assert [one.key for one in some] == wanted
        assert all(one.value is not None for one in some)
        profiles = [one.key.namespace for one in memory.items(key="profile")]
        assert profiles == [anna, ("users", "anna-2")]


def test_vectors_are_named_and_never_printed(bench: Bench) -> None:
    fill(bench, {(("v",), "with"): {"text": "some"}, (("v",), "without"): {"other": 1}})
    found = {one["key"]: one["vectors"] for one in listed(bench)}
    (vector,) = found["with"]
    assert vector["field"]
    assert vector["bytes"] > 0
    assert sum(map(len, found.values())) == bench.vectors()
    for words in (["list"], ["list", "-o", "table"], ["show", "with"], ["export"]):
        assert str(IN_VECTORS) not in memory(bench, *words).out


def test_times_to_live_are_told(bench: Bench) -> None:
    with bench.with_lifetime(minutes=60) as store:
        store.put(("t",), "goes", {"text": "x"})
    (one,) = listed(bench)
    assert listed(bench, "--no-expired") == [one]
    assert not one["expired"]
    assert one["expires_at"] > one["updated_at"]
    table = memory(bench, "list", "-o", "table").out
    assert "expires in 59m" in table or "expires in 1h" in table
    text = memory(bench, "show", "goes").out
    (expiry,) = [one for one in text.splitlines() if one.startswith("expires ")]
    assert expiry.count("expires") == 1
    assert not listed(bench, "--expired")


@of(SqliteBench)
def test_one_item_is_shown_by_key_or_by_namespace_and_key(bench: Bench) -> None:
    fill(bench)
    for name, at in {
        "记忆": (("用户", "张三"), "记忆"),
        "users/anna/profile": (("users", "anna"), "profile"),
        "a b/c:d/k/1": (("a b", "c:d"), "k/1"),
        r"a b/c:d/k\\2": (("a b", "c:d"), "k\\2"),
        "k\\2": (("a b", "c:d"), "k\\2"),
    }.items():
        record = memory(bench, "show", name, "-o", "json").json
        assert (tuple(record["namespace"]), record["key"]) == at
        assert record["value"] == ITEMS[at]
    assert b"upper case" in memory(bench, "show", "upper", "--raw").raw
    assert memory(bench, "show", "upper", "--raw", "--redact").code == 2
    words = ["memory", "show", "profile", "--namespace"]
    assert ckpt("-s", bench.url, *words, "users/anna", "-o", "json").json["value"]["age"] == 41.5
    ambiguous = memory(bench, "show", "profile")
    assert (ambiguous.code, "'users/anna/profile'" in ambiguous.err) == (3, True)
    assert memory(bench, "show", "nothing").code == 3
    assert memory(bench, "show", "no/such/thing").code == 3


@of(SqliteBench)
def test_search_looks_in_values_keys_and_namespaces(bench: Bench) -> None:
    fill(bench)

    def found(*words: str) -> list[tuple[str, str, str | None]]:
        records = memory(bench, "search", *words, "-o", "json").json
        return [(one["key"], one["in"], one["path"]) for one in records]

    assert found("green tea") == [("tea", "value", "text")]
    assert found("披萨") == [("记忆", "value", "text")]
    assert found("张三") == [("记忆", "namespace", None)]
    assert ("tea", "key", None) in found("tea")
    assert found("100% [x]*?") == [('it\'s "odd" 100% [x]*?', "key", None)]
    assert found("-iE", "SOMEBODY|upper case") == [
        *(("upper", "value", "text"), ("profile", "value", "text"))
    ]
    assert found("de", "--namespace", "users/anna") == [("profile", "value", "languages[0]")]
    assert memory(bench, "search", "nothing fits").code == 1
    assert len(found("-n", "2", "-E", ".")) == 2


@of(SqliteBench)
def test_listings_are_trees_without_control_characters_limited_and_filtered(bench: Bench) -> None:
    fill(bench)
    lines = memory(bench, "list", "-o", "table").out.splitlines()
    assert [line for line in lines if line.endswith("/")] == [
        *("a b/", "  c:d/", "users/", "  Anna/", "  anna/", "    memories/", "  anna-2/"),
        *("x%y/", "x_y/", "用户/", "  张三/"),
    ]
    assert len(lines) == 11 + len(ITEMS)
    for words in (["list", "--flat", "-o", "table"], ["list"], ["show", "x_y/new\nline"]):
        out = memory(bench, *words).out
        assert ("\x1b" in out, "\u202e" in out, "new\\nline" in out) == (False, False, True)
    answer = memory(bench, "list", "-n", "3", "-o", "json")
    assert (len(answer.json), "--all for more" in answer.err) == (3, True)
    profiles = [(("users", name), "profile") for name in ("anna", "anna-2")]
    assert keys(bench, "--match", "prof*") == profiles
    assert len(keys(bench, "--since", "1h")) == len(ITEMS)
    assert not keys(bench, "--until", "1h")
    rows = memory(bench, "list", "--all").out.splitlines()
    assert rows[0].split("\t")[:4] == ["namespace", "key", "updated_at", "bytes"]
    assert r"a b/c:d" in rows[1]


@of(SqliteBench)
def test_values_and_what_leads_to_them_are_redacted(bench: Bench) -> None:
    fill(bench, {(("r",), "k"): {"secret_field": "canary4711", "text": "canary4711"}})
    for words in (
        *(["list"], ["list", "-o", "table"], ["show", "k"], ["show", "k", "-o", "json"]),
        *(["search", "canary"], ["search", "canary", "-o", "json"], ["export"]),
        ["delete", "k", "--dry-run", "-o", "json"],
    ):
        answer = memory(bench, *words, "--redact")
        assert answer.code == 0
        assert "canary" not in answer.out + answer.err
        assert "secret_field" not in answer.out


@of(SqliteBench)
def test_an_export_is_written_whole_to_a_file(bench: Bench, tmp_path: Path) -> None:
    fill(bench)
    target = tmp_path / "out.ndjson"
    words = ["memory", "export", "--namespace", "users/anna", "--to", str(target)]
    assert ckpt("-s", bench.url, *words).code == 0
    records = [json.loads(line) for line in target.read_text().splitlines()]
    assert [one["key"] for one in records] == [key for _, key in keys(bench, "users/anna")]
    assert [one.name for one in tmp_path.iterdir() if one.name.endswith(".part")] == []
    assert memory(bench, "export", "--to", str(tmp_path / "no" / "x")).code == 4


def test_where_there_are_no_threads_or_items_a_command_says_so(bench: Bench, sample: Path) -> None:
    url = str(sample) if isinstance(bench, SqliteBench) else bench.url
    answer = ckpt("-s", url, "memory", "list")
    assert (answer.code, "no long-term memory" in answer.err) == (4, True)
    assert "hint:" in answer.err
    with bench.store():
        pass
    answer = memory(bench, "list")
    assert (answer.code, "no items" in answer.err) == (0, True)
    fill(bench, {(("m",), "k"): {"text": "x"}})
    answer = ckpt("-s", bench.url, "threads", "list")
    assert (answer.code, " memory list`" in answer.err) == (4, True)


def test_the_document_tells_of_every_layout() -> None:
    text = (ROOT / "docs" / "memory.md").read_text("utf-8")
    rows = [line.split(" | ") for line in text.splitlines() if line.startswith("| `")]
    told = {row[0].strip("| `"): row[3] for row in rows if len(row) > 3}
    assert told.keys() == {one.layout for one in BENCHES}
    for one in BENCHES:
        assert told[one.layout].startswith("stay") is one.keeps_expired


def test_threads_and_items_live_in_one_place(bench: Bench) -> None:
    fill(bench, ONE)
    with bench.saver() as saver:
        config: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
        saver.put(config, empty_checkpoint(), {"source": "input", "step": -1, "parents": {}}, {})

    def threads() -> list[str]:
        found = ckpt("-s", bench.url, "threads", "list", "-o", "json").json
        return [one["thread_id"] for one in found]

    with open_memory(parse_url(bench.url)) as opened:
        info = opened.describe()
    assert (info.layout, info.changes, info.needs_write) == (bench.layout, "", "")
    assert (info.engine.split()[0] in ENGINES, bool(info.tables)) == (True, True)
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
    INSERT INTO store (prefix, key, value) VALUES ('a.b', 'k', '{"x": "é"}')
"""


@of(SqliteBench)
def test_a_file_older_than_times_to_live_and_vectors_or_of_an_unknown_store(
    bench: SqliteBench,
) -> None:
    with closing(sqlite3.connect(bench.url)) as db, db:
        db.executescript(OLD)
    (one,) = listed(bench)
    assert (one["expires_at"], one["vectors"], one["bytes"]) == (None, [], 11)
    assert memory(bench, "delete", "k", "--yes").code == 0
    assert not keys(bench)
    fill(bench, ONE)
    with closing(sqlite3.connect(bench.url)) as db, db:
        db.execute("ALTER TABLE store ADD COLUMN later text")
    answer = memory(bench, "delete", "k", "--yes")
    assert (answer.code, "later" in answer.err) == (4, True)
    assert keys(bench) == [(("s",), "k")]


@of(SqliteBench)
def test_what_a_command_says_and_leaves(bench: SqliteBench) -> None:
    fill(bench, ONE)
    before = Path(bench.url).read_bytes()
    for words in (["list"], ["show", "k"], ["search", "one"], ["export"]):
        assert memory(bench, *words).code == 0
        assert Path(bench.url).read_bytes() == before
    orphans = memory(bench, "list", "--orphans")
    assert (orphans.code, "--threads STORE" in orphans.err) == (4, True)
    pattern = memory(bench, "search", "-E", "(")
    assert (pattern.code, "leave out -E" in pattern.err) == (2, True)
    nothing = memory(bench, "delete", "--expired", "--yes")
    assert (nothing.code, nothing.out, nothing.err) == (0, "", "note: nothing to do\n")
    # Vectors that the library left go with the next item of that name.
    with bench.store() as store:
        store.delete(("s",), "k")
    assert bench.vectors() == 1
    fill(bench, ONE)
    assert memory(bench, "delete", "k", "--yes").code == 0
    assert bench.vectors() == 0


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
    with psycopg.connect(bench.url) as connection:
        connection.execute(
            'UPDATE "odd % schema".store'
            " SET expires_at = 'infinity', created_at = '0044-03-15 BC'"
        )
    (one,) = listed(there)
    assert (one["expires_at"], one["created_at"]) == (None, None)
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


# Redis


@of(RedisBench)
def test_a_store_may_have_other_prefixes_and_vectors_that_are_hashes(
    bench: RedisBench, tmp_path: Path
) -> None:
    index: Any = {"dims": DIMENSIONS, "embed": embed, "fields": ["text"]}
    index["vector_storage_type"] = "hash"
    with RedisStore.from_conn_string(
        bench.url, index=index, store_prefix="mem[1]", vector_prefix="vec"
    ) as store:
        store.setup()
        store.put(("s",), "k", {"text": "one"}, ttl=60)
    answer = memory(bench, "list")
    assert (answer.code, "store_prefix" in answer.err) == (4, True)
    there = RedisBench(f"{bench.url}?store_prefix=mem%5B1%5D&vector_prefix=vec")
    (one,) = listed(there)
    assert one["vectors"] == [{"field": "text", "bytes": 4 * DIMENSIONS}]
    with redis.Redis.from_url(bench.url) as client:
        (name,) = client.keys("vec:*")
        before = client.hgetall(name)
        assert memory(there, "delete", "k", "--archive", tmp_path, "--yes").code == 0
        assert not client.keys("*:*")
        (bundle,) = tmp_path.iterdir()
        assert memory(there, "import", bundle, "--yes").code == 0
        assert client.hgetall(name) == before
        assert 0 < client.pttl(name) <= 3_600_000
    assert listed(there) == [one]


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
