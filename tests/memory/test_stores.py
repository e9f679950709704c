"""LangGraph's four Stores: read, changed and copied as their official libraries read them."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
import redis
from langchain_core.messages import HumanMessage
from langgraph.store.base import PutOp
from langgraph.store.mongodb import MongoDBStore
from langgraph.store.redis import RedisStore

from ckpt_backends import open_for_writing
from ckpt_backends.archive import Bundle, check_bundle, write_bundle
from ckpt_backends.errors import Refused, StoreChanged, Unsupported
from ckpt_backends.memory import ItemKey
from ckpt_backends.mongodb.write import WritableMongoMemory
from ckpt_backends.open_for_writing import create_memory, open_writable_memory
from ckpt_backends.registry import open_memory
from ckpt_backends.rows import Cell, Row
from ckpt_backends.testing.killing import calls_of, kill_at
from ckpt_backends.url import parse_url
from tests.kit.agents.steps import role
from tests.kit.command import ROOT, CommandResult, ckpt
from tests.kit.harness.redis import dump
from tests.kit.memory.benches import (
    BENCHES,
    DIMENSIONS,
    ITEMS,
    Bench,
    Items,
    MongoBench,
    PostgresBench,
    RedisBench,
    SqliteBench,
    embed,
    exported,
    fill,
    keys,
    listed,
    memory,
    official,
    settle,
    told,
)
from tests.kit.servers import Server, start_mongodb
from tests.kit.stores import postgres_schema

FAST = {"sqlite", "postgres"}
"""The layouts that are tested by default."""
ENGINES = {"SQLite", "PostgreSQL", "Valkey", "Redis", "MongoDB"}
ONE: Any = {(("s",), "k"): {"text": "one"}}


@contextmanager
def benches(
    request: pytest.FixtureRequest, folder: Path, *kinds: type[Bench]
) -> Iterator[list[Bench]]:
    """A Store of each layout, in an empty place."""
    with ExitStack() as stack:
        made = []
        for kind in kinds:
            server = None if kind.server is None else request.getfixturevalue(kind.server)
            made.append(kind(stack.enter_context(kind.place(folder, server))))
        yield made


@pytest.fixture(
    params=[
        pytest.param(one, id=one.name, marks=() if one.name in FAST else pytest.mark.engines)
        for one in BENCHES
    ]
)
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    with benches(request, tmp_path, request.param) as (made,):
        yield made


def of(*kinds: type[Bench]) -> pytest.MarkDecorator:
    """Run a test on these layouts alone."""
    name, given = ("pair", kinds) if kinds[1:] else ("bench", kinds[0])
    return pytest.mark.parametrize(name, [given], indirect=True, ids=[kinds[0].name])


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
        info = memory.describe()
        assert (info.layout, info.changes, info.needs_write) == (bench.layout, "", "")
        assert (info.engine.split()[0] in ENGINES, bool(info.tables)) == (True, True)
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
def test_an_export_is_written_whole_to_a_file(bench: Bench, tmp_path: Path) -> None:
    fill(bench)
    target = tmp_path / "out.ndjson"
    words = ["memory", "export", "--namespace", "users/anna", "--to", str(target)]
    ckpt("-s", bench.url, *words, code=0)
    records = [json.loads(line) for line in target.read_text().splitlines()]
    assert [one["key"] for one in records] == [key for _, key in keys(bench, "users/anna")]
    assert [one.name for one in tmp_path.iterdir() if one.name.endswith(".part")] == []
    assert memory(bench, "export", "--to", str(tmp_path / "no" / "x")).code == 4


def test_where_there_are_no_threads_or_items_a_command_says_so(bench: Bench, sample: Path) -> None:
    url = str(sample) if isinstance(bench, SqliteBench) else bench.url
    answer = ckpt("-s", url, "memory", "list", code=4, says="no long-term memory")
    assert "hint:" in answer.err
    with bench.store():
        pass
    answer = memory(bench, "list")
    assert (answer.code, "no items" in answer.err) == (0, True)
    fill(bench, {(("m",), "k"): {"text": "x"}})
    answer = ckpt("-s", bench.url, "threads", "list", code=4, says=" memory list`")


def test_the_document_tells_of_every_layout() -> None:
    text = (ROOT / "docs" / "memory.md").read_text("utf-8")
    rows = [line.split(" | ") for line in text.splitlines() if line.startswith("| `")]
    told = {row[0].strip("| `"): row[3] for row in rows if len(row) > 3}
    assert told.keys() == {one.layout for one in BENCHES}
    for one in BENCHES:
        assert told[one.layout].startswith("stay") is one.keeps_expired


# SQLite


OLD = """
    CREATE TABLE store (prefix text NOT NULL, key text NOT NULL, value text NOT NULL,
        created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP,
        updated_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP, PRIMARY KEY (prefix, key));
    INSERT INTO store (prefix, key, value) VALUES ('a.b', 'k', '{"x": "é"}')
"""


@of(SqliteBench)
def test_a_file_before_times_to_live_and_vectors_or_of_an_unknown_store(bench: SqliteBench) -> None:
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
    rights = "CREATE ROLE {role} LOGIN; GRANT SELECT ON store, store_vectors TO {role};"
    with role(bench.url, rights) as url:
        assert keys(PostgresBench(url)) == [(("s",), "k")]
        ckpt("-s", url, "memory", "delete", "k", "--yes", code=4, says="permission denied")
        assert keys(bench) == [(("s",), "k")]


# Redis


@of(RedisBench)
def test_other_prefixes_and_vectors_that_are_hashes(bench: RedisBench, tmp_path: Path) -> None:
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
    ckpt("-s", f"{bench.url}?store_collection=no", "memory", "list", code=4)


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
    ckpt("-s", bench.url, "memory", "delete", r"old/a\/b/older", "sep/k", "text/t", "--yes", code=0)
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


# What is removed, erased and taken back


NAMES = ["users/anna/profile", r"a b/c:d/k\/1", "用户/张三/记忆"]


def test_nothing_goes_unasked_and_what_fits_a_rule_goes(bench: Bench, tmp_path: Path) -> None:
    fill(bench)
    before = exported(bench)
    words = ("tea", "--dry-run", "--archive", tmp_path / "not", "-o", "json")
    planned = memory(bench, "delete", *words).json
    assert (planned["dry_run"], planned["removed"]["items"]) == (True, 0)
    assert [one["key"] for one in planned["items"]] == ["tea"]
    assert not (tmp_path / "not").exists()
    assert memory(bench, "delete", "tea").code == 5
    for more in ("", "tea --expired", "--all", "--all --namespace /", "--namespace users"):
        assert memory(bench, "delete", *more.split(), "--yes").code == 2
    assert memory(bench, "delete", "nothing", "--yes").code == 3
    assert memory(bench, "delete", "--older-than", "1h", "--yes").code == 0
    assert memory(bench, "delete", "--older-than", "2020-01-01", "--yes").code == 0
    assert keys(bench) == sorted(ITEMS)
    vectors = bench.vectors()
    receipt = memory(bench, "delete", *NAMES, "--yes", "-o", "json").json
    assert receipt["removed"] == receipt["before"]
    assert receipt["removed"]["items"] == receipt["removed"]["vectors"] == len(NAMES)
    assert receipt["after"] == {"items": 0, "vectors": 0, "bytes": 0}
    assert bench.vectors() == vectors - len(NAMES)
    assert memory(bench, "delete", "--match", "k*", "--yes").code == 0
    limited = memory(bench, "delete", "--namespace", "users/anna", "--all", "-n", "1", "--yes")
    assert limited.code == 7
    assert memory(bench, "delete", "--namespace", "users/anna", "--all", "--yes").code == 0
    gone = ("k/1", "k\\2", "记忆")
    left = [at for at in ITEMS if at[0][:2] != ("users", "anna") and at[1] not in gone]
    assert exported(bench) == official(bench, len(left)) == {at: before[at] for at in left}


def test_what_has_expired_goes_and_what_has_not_stays(bench: Bench) -> None:
    with bench.with_lifetime(minutes=60) as store:
        store.put(("t",), "stays", {"text": "x"})
        store.put(("t",), "went", {"text": "y"})
    expired = bench.keeps_expired
    if expired:
        bench.expire(("t",), "went")
    assert memory(bench, "delete", "--expired", "--yes").code == 0
    assert keys(bench) == [(("t",), "stays"), *([] if expired else [(("t",), "went")])]
    with bench.store() as store:
        assert not hasattr(store, "sweep_ttl") or not store.sweep_ttl()


def test_an_item_that_changed_meanwhile_stops_it_all(bench: Bench) -> None:
    fill(bench)
    with open_memory(parse_url(bench.url)) as read:
        planned = list(read.items())
    with bench.store() as store:
        store.put(("users", "anna"), "profile", {"text": "changed by the application"})
        settle(store, len(ITEMS))
    before = exported(bench)
    with open_writable_memory(parse_url(bench.url)) as writable:
        with pytest.raises(StoreChanged) as refused:
            writable.remove(planned)
        assert refused.value.exit_code == 6
        assert exported(bench) == before
        with bench.store() as store:
            store.delete(("users", "anna"), "profile")
            settle(store, len(ITEMS) - 1)
        with pytest.raises(StoreChanged, match="no longer exists"):
            writable.remove(planned)
    assert len(keys(bench)) == len(ITEMS) - 1


@pytest.mark.engines
@of(MongoBench)
def test_an_item_that_changes_in_the_last_moment_stops_it_all(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(bench)
    removing = WritableMongoMemory._remove

    def late(self: Any, *given: Any) -> int:
        with bench.store() as store:
            store.put(("users", "anna"), "profile", {"text": "changed by the application"})
        return removing(self, *given)

    monkeypatch.setattr(WritableMongoMemory, "_remove", late)
    refused = memory(bench, "delete", "--namespace", "users/anna", "--all", "--yes")
    assert (refused.code, "so nothing was removed" in refused.err) == (6, True)
    assert len(keys(bench)) == len(ITEMS)


@pytest.mark.engines
def test_a_standalone_mongodb_takes_all_items_back_or_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ckpt_backends.mongodb.write.DOCUMENTS_AT_ONCE", 1)
    server = start_mongodb("--standalone")
    try:
        bench = MongoBench(server.at("agents"))
        fill(bench, {(("w",), one): {"text": one} for one in "kl"})
        done = memory(bench, "delete", "k", "l", "--archive", tmp_path, "--yes", "-o", "json")
        assert (keys(bench), done.json["removed"]["items"]) == ([], 2)
        with bench.store() as store:
            store.put(("w",), "l", {"text": "second"})
        assert memory(bench, "import", done.json["archive"], "--yes").code == 6
        assert keys(bench) == [(("w",), "l")]
        assert memory(bench, "delete", "l", "--yes").code == 0
        assert memory(bench, "import", done.json["archive"], "--yes").code == 0
        assert {name for _, name in keys(bench)} == {"k", "l"}
    finally:
        server.stop()


def test_an_archive_and_an_undo_bring_everything_back(bench: Bench, tmp_path: Path) -> None:
    def run(*words: str | Path) -> None:
        ckpt("-s", bench.url, *words, "--yes", code=0)

    fill(bench)
    truth, vectors = official(bench, len(ITEMS)), bench.vectors()
    first, archive = exported(bench), tmp_path / "archive"
    run("memory", "delete", "--match", "*", "--archive", archive)
    (bundle,) = archive.iterdir()
    assert (keys(bench), bench.vectors()) == ([], 0)
    assert memory(bench, "import", bundle, "--dry-run").code == 0
    assert memory(bench, "import", bundle).code == 5
    assert not keys(bench)
    (done,) = memory(bench, "import", bundle, "--yes", "-o", "json").json
    assert done["added"] == done["rows"]
    assert official(bench, len(ITEMS)) == truth
    assert (exported(bench), bench.vectors()) == (first, vectors)
    (again,) = memory(bench, "import", bundle, "--yes", "-o", "json").json
    assert (again["added"], again["there"]) == (0, done["rows"])
    run("undo")
    assert not keys(bench)
    planned = ckpt("-s", bench.url, "undo", "--dry-run", "-o", "table").out
    assert f"{len(ITEMS)} items" in planned.splitlines()[0]
    run("undo")
    assert (exported(bench), bench.vectors()) == (first, vectors)
    run("redo")
    assert not keys(bench)


def test_an_archive_goes_over_no_item_that_was_used_since(bench: Bench, tmp_path: Path) -> None:
    fill(bench, {(("w",), "k"): {"text": "first"}, (("w",), "l"): {"text": "other"}})
    answer = memory(bench, "delete", "k", "l", "--archive", tmp_path, "--yes", "-o", "json")
    bundle = answer.json["archive"]
    with bench.store() as store:
        store.put(("w",), "k", {"text": "second"})
        settle(store, 1)
    refused = memory(bench, "import", bundle, "--yes")
    assert (refused.code, "`ckpt memory delete KEY" in refused.err) == (6, True)
    assert official(bench, 1)[("w",), "k"][0] == {"text": "second"}
    assert keys(bench) == [(("w",), "k")]
    assert memory(bench, "delete", "k", "--yes").code == 0
    assert memory(bench, "import", bundle, "--yes").code == 0
    with bench.store() as store:
        store.put(("w",), "k", {"text": "used"})
    used = exported(bench)
    ckpt("-s", bench.url, "undo", "--yes", code=6, says="cannot undo: item 'w/k' was used since")
    assert exported(bench) == used


CANARY = "canary8f3a"
PEOPLE: Items = {
    (("users", CANARY), "profile"): {"text": f"{CANARY} likes tea"},
    (("users", "bert"), "profile"): {"text": "likes coffee"},
}


def erase(bench: Bench) -> list[str]:
    """Erase the items of the canary. Returns the places that a later run could erase."""
    url = parse_url(bench.url)
    with open_memory(url) as memory:
        items = list(memory.items(prefix=("users", CANARY)))
    with open_writable_memory(url) as writable:
        writable.begin_erasure()
        assert writable.remove(items) == 1
        remains = writable.erase_remains(rewrite=True)
    assert "backups" in {one.place for one in remains.places}
    return [one.place for one in remains.places if one.is_reachable]


def keys_and_terms(url: str) -> str:
    """Return all keys of Redis, and all terms of its search indexes."""
    with redis.Redis.from_url(url, protocol=2) as client:
        names = client.execute_command("FT._LIST")
        terms = [client.execute_command("FT.DEBUG", "DUMP_TERMS", one) for one in names]
    return f"{dump(url)} {terms}"


def test_an_erased_item_is_gone_and_no_other(bench: Bench) -> None:
    fill(bench, PEOPLE)
    has_terms = bench.url.startswith("redis")
    assert not has_terms or CANARY in keys_and_terms(bench.url)
    with bench.store() as store:
        before = told(store)
    assert erase(bench) == []
    assert not has_terms or CANARY not in keys_and_terms(bench.url)
    with bench.store() as store:
        after = told(store)
    gone, _ = PEOPLE
    assert after == {key: one for key, one in before.items() if key != gone}


MINE: Items = {(("users", "anna"), "profile"): {"text": "first"}}
OTHER: Items = {(("users", "bob"), "profile"): {"text": "other"}}


def archived(bench: Bench, folder: Path) -> Bundle:
    """The archive of an item that was removed; another item stays."""
    fill(bench, MINE | OTHER)
    more = ("--archive", folder, "--yes", "-o", "json")
    return check_bundle(Path(memory(bench, "delete", "users/anna/profile", *more).json["archive"]))


def foreign_rows(row: Row) -> Iterator[Row]:
    def changed(**cells: Cell) -> Row:
        return Row(row.table, {**row.cells, **cells})

    for table in ("checkpoints", "users", "sqlite_master", 'store" --', ""):
        yield Row(table, row.cells)
        yield Row(table, {"thread_id": "trip", "prefix": "users", "key": "a"})
    yield Row(row.table, {})
    if "bson" in row.cells:
        from bson import decode, encode

        raw = row.cells["bson"]
        assert isinstance(raw, bytes)
        document = decode(raw)
        for name, value in (
            ("namespace", "users.bob"),
            ("namespace", [1]),
            ("namespace", None),
            ("namespace_str", "users/bob"),
            ("namespace_str", ""),
            ("namespace_prefix", ["admin"]),
            ("key", 5),
        ):
            yield changed(bson=encode({**document, name: value}))
        first = encode({"key": "other"})[4:-1]
        yield changed(bson=(len(raw) + len(first)).to_bytes(4, "little") + first + raw[4:])
        yield changed(bson=b"")
        return
    yield changed(key=5)
    yield changed(key=None)
    if "prefix" in row.cells:
        yield changed(prefix=None)
        yield changed(**{"value) SELECT 1; --": "a"})
        yield Row(row.table, {one: row.cells[one] for one in row.cells if one != "prefix"})
    else:
        document = json.loads(str(row.cells["value"]))
        yield changed(key="agent:secret")
        yield changed(type="hash")
        yield changed(value="[]")
        yield changed(value="x")
        for name in ("prefix", "key"):
            yield changed(value=json.dumps({**document, name: None}))
        yield changed(value='{"key": "other", ' + str(row.cells["value"])[1:])


def test_an_archive_brings_nothing_but_items(bench: Bench, tmp_path: Path) -> None:
    bundle = archived(bench, tmp_path)
    rows = list(bundle.rows())
    with open_memory(parse_url(bench.url)) as opened:
        assert {opened.key_of(row) for row in rows} == {ItemKey(("users", "anna"), "profile")}
        for row in foreign_rows(rows[0]):
            with pytest.raises((Refused, Unsupported)):
                pytest.fail(f"{row}: {opened.key_of(row)}")
    before = keys(bench)
    write_bundle(bundle.path, bundle.header, [*rows, Row("users", {"key": "a"})])
    for word in ("--dry-run", "--yes"):
        refused = memory(bench, "import", bundle.path, word)
        assert (refused.code, refused.raw, "a row of 'users'" in refused.err) == (5, b"", True)
    write_bundle(bundle.path, replace(bundle.header, layout="other"), rows)
    refused = memory(bench, "import", bundle.path, "--yes")
    assert (refused.code, "its layout is 'other'" in refused.err) == (5, True)
    assert keys(bench) == before


def test_an_archive_that_is_swapped_at_the_question_brings_nothing(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = archived(bench, tmp_path)
    rows = [Row(row.table, row.cells) for row in bundle.rows()]
    before = keys(bench)
    (planned,) = memory(bench, "import", bundle.path, "--dry-run", "-o", "json").json
    assert planned["namespaces"] == [["users", "anna"]]

    def swap(question: str) -> None:
        assert " into users/anna of '" in question
        write_bundle(bundle.path, bundle.header, [*rows, *rows])

    monkeypatch.setattr("ckpt_cli.commands.memory.confirm", swap)
    refused = memory(bench, "import", bundle.path)
    assert (refused.code, "changed after it was checked" in refused.err) == (6, True)
    assert keys(bench) == before


# What is copied, the official Store of the target lists as that of the source


Pair = tuple[Bench, Bench]
_NUMBERS = {
    "whole": [0, -1, 2**53 + 1, -(2**63), 2**63 - 1],
    "other": [0.1, 1.0, 1e-7, 2.5e15, 1 / 3, 5e-324, 1.7976931348623157e308 / 3e300],
    "rest": [True, None, "", "\u2028é", {"a": {"b": []}}, {}],
}


class OtherFile(SqliteBench):
    @classmethod
    @contextmanager
    def place(cls, folder: Path, server: Server | None) -> Iterator[str]:
        yield str(folder / "other.db")


@pytest.fixture(
    params=[
        pytest.param(
            pair,
            id=f"{pair[0].name}-{pair[1].name}",
            marks=() if PostgresBench in pair else pytest.mark.engines,
        )
        for one in BENCHES
        if one is not SqliteBench
        for pair in ((SqliteBench, one), (one, SqliteBench))
    ]
)
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[list[Bench]]:
    """Each layout as a source and as a target of SQLite, both empty: what is copied does not depend
    on the other side.
    """
    with benches(request, tmp_path, *request.param) as made:
        yield made


def copied(pair: Pair, *words: str) -> CommandResult:
    source, target = pair
    return memory(source, "copy", "--to", target.url, *words)


def rounded(items: dict[Any, Any], target: Bench) -> dict[Any, Any]:
    """Return items with the times that a target can hold: MongoDB stores milliseconds."""
    digits = 3 if isinstance(target, MongoBench) else 6
    return {
        at: (value, *(f"{text[:-1][: 20 + digits]:0<26}Z" for text in times))
        for at, (value, *times) in items.items()
    }


def spelled(items: dict[Any, Any]) -> str:
    """Return the numbers of a list as JSON, where 1 differs from 1.0."""
    return json.dumps(items[("numbers",), "all"][0], sort_keys=True)


def test_the_official_store_lists_the_same_items(pair: Pair) -> None:
    source, target = pair
    items: Items = {**ITEMS, (("numbers",), "all"): {"text": "n", "numbers": _NUMBERS}}
    fill(source, items)
    before = official(source, len(items))
    answer = copied(pair, "--create", "--yes", "-o", "json")
    report = answer.json
    assert (report["items"], report["added"], report["present"]) == (len(items), len(items), 0)
    assert report["verified"]
    assert (report["skipped"], report["without_vectors"]) == ([], source.vectors())
    assert f"vectors of {source.vectors()} items are not copied" in answer.err
    after = official(target, len(items))
    assert (after, spelled(after)) == (rounded(before, target), spelled(before))
    assert exported(target) == rounded(exported(source), target)
    if target.gets:
        with target.store(embeds=False) as store:
            assert all(store.get(*at).value == value for at, value in items.items())


def test_a_second_run_adds_what_is_new_and_replaces_what_differs_only_if_asked(pair: Pair) -> None:
    source, target = pair
    fill(source, {(("a", "b"), "1"): {"text": "one"}, (("c",), "3"): {"text": "other"}})
    assert copied(pair, "--create", "--namespace", "a", "--yes").code == 0
    again = copied(pair, "--create", "--namespace", "a", "--yes", "-o", "json").json
    assert (again["added"], again["present"], again["verified"]) == (0, 1, True)
    with source.store() as store:
        store.put(("a", "b"), "2", {"text": "two"})
        settle(store, 3)
    more = copied(pair, "--yes", "-o", "json").json
    assert (more["added"], more["present"], more["verified"]) == (2, 1, True)
    assert official(target, 3) == rounded(official(source, 3), target)
    with target.store(embeds=False) as store:
        store.put(("a", "b"), "1", {"text": "of the target"})
        settle(store, 3)
    reasons = skipped(copied(pair, "--yes", "-o", "json"))
    assert reasons.keys() == {"1"}
    assert "the target has" in reasons["1"]
    fill(source, {(("d",), "4"): {"text": "new"}})
    shown = copied(pair, "--replace", "--dry-run", "-o", "json").json
    assert shown["replaced"] == [{"namespace": ["a", "b"], "key": "1"}]
    assert copied(pair, "--replace", "--yes", "-o", "json").json["verified"]
    assert official(target, 4) == rounded(official(source, 4), target)
    assert ckpt("-s", target.url, "undo", "--yes").code == 5
    assert official(target, 4) == rounded(official(source, 4), target)


def lifetimes(bench: Bench) -> dict[str, str]:
    return {one["key"]: one["expires_at"] for one in listed(bench)}


def same_moments(one: dict[str, str], other: dict[str, str]) -> bool:
    near = timedelta(seconds=1)
    return one.keys() == other.keys() and all(
        abs(datetime.fromisoformat(one[key]) - datetime.fromisoformat(other[key])) < near
        for key in one
    )


def test_items_expire_when_they_would_have(pair: Pair) -> None:
    source, target = pair
    with source.with_lifetime(minutes=90) as store:
        store.put(("t",), "one", {"text": "x"})
        store.put(("t",), "two", {"text": "y"})
        settle(store, 2)
    if isinstance(target, MongoBench):
        refused = copied(pair, "--create", "--yes")
        assert (refused.code, "no TTL index" in refused.err) == (4, True)
        with target.with_lifetime(minutes=90):
            pass  # the library makes the index
    assert copied(pair, "--create", "--yes", "-o", "json").json["verified"]
    assert same_moments(lifetimes(source), lifetimes(target))
    again = copied(pair, "--yes", "-o", "json").json
    assert (again["added"], again["present"]) == (0, 2)


@of(SqliteBench, OtherFile)
def test_nothing_is_written_unasked(pair: Pair) -> None:
    source, target = pair
    fill(source, {(("n",), "k"): {"text": "x"}})
    assert copied(pair).code == 5
    planned = copied(pair, "--create", "--dry-run", "-o", "json").json
    assert planned["dry_run"]
    assert planned["added"] == 1
    (columns, row) = copied(pair, "--create", "--dry-run", "-o", "tsv").out.splitlines()
    cells = dict(zip(columns.split("\t"), row.split("\t"), strict=True))
    assert (cells["action"], cells["step"]) == ("copy", "copy")
    assert not Path(target.url).exists()
    assert copied(pair, "--create").code == 5
    assert not Path(target.url).exists()
    missing = copied(pair, "--yes")
    assert (missing.code, "add --create" in missing.err) == (4, True)
    assert copied((source, source), "--yes").code == 2
    assert memory(source, "copy").code == 2


@of(SqliteBench, OtherFile)
def test_items_that_change_once_compared(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = pair
    fill(source, {(("a",), key): {"text": "as compared"} for key in "1234"})
    opened = open_for_writing.open_writable_memory

    def opened_late(url: Any) -> Any:
        with source.store(embeds=False) as store, target.store(embeds=False) as other:
            store.delete(("a",), "1")
            store.put(("a",), "2", {"text": "new"})
            other.put(("a",), "3", {"text": "of the target"})
        return opened(url)

    monkeypatch.setattr(open_for_writing, "open_writable_memory", opened_late)
    done = copied(pair, "--create", "--yes", "-o", "json")
    reasons = skipped(done)
    assert (done.code, reasons["1"]) == (7, "it was removed from the source meanwhile")
    assert reasons.keys() == {"1", "3"}
    found = {key[1]: value["text"] for key, (value, *_) in official(target, 3).items()}
    assert found == {"2": "new", "3": "of the target", "4": "as compared"}
    assert ckpt("-s", target.url, "undo", "--yes").code == 0
    assert [key for _, key in official(target, 1)] == ["3"]


@of(SqliteBench, OtherFile)
def test_an_item_that_cannot_be_read_back_is_told(pair: Pair) -> None:
    source, target = pair
    fill(source, {(("a",), "1"): {"text": "x"}})
    assert copied(pair, "--create", "--yes").code == 0
    with closing(sqlite3.connect(target.url)) as db, db:
        spoil = "UPDATE store SET value = '{}' WHERE key = new.key"
        db.execute(f"CREATE TRIGGER spoil AFTER INSERT ON store BEGIN {spoil}; END")
    with source.store(embeds=False) as store:
        store.put(("a",), "2", {"text": "y"})
    done = copied(pair, "--yes")
    assert (done.code, "item 'a/2' is not the same in the target" in done.err) == (4, True)


@pytest.mark.engines
@of(SqliteBench, RedisBench)
def test_expired_items_are_copied_where_no_server_removes_them(pair: Pair) -> None:
    source, target = pair
    with source.with_lifetime(minutes=60) as store:
        store.put(("t",), "went", {"text": "y"})
        store.put(("t",), "stays", {"text": "y"})
    source.expire(("t",), "went")
    answer = copied(pair, "--create", "--yes", "-o", "json")
    assert (answer.json["expired"], answer.json["added"]) == (1, 1)
    assert "time to live has ended" in answer.err
    assert [one["key"] for one in listed(target)] == ["stays"]
    other = OtherFile(str(Path(source.url).with_name("other.db")))
    assert copied((source, other), "--create", "--yes").code == 0
    assert [one["expired"] for one in listed(other)] == [False, True]


@pytest.mark.engines
@of(SqliteBench, RedisBench)
def test_names_that_redis_takes_for_one_are_refused(pair: Pair) -> None:
    fill(pair[0], {(("users", "Anna"), "x"): {"text": "1"}, (("users", "anna"), "x"): {}})
    (reason,) = skipped(copied(pair, "--create", "--yes", "-o", "json")).values()
    assert "cannot tell it from 'users/Anna/x'" in reason
    assert copied(pair, "--yes").code == 7


@pytest.mark.engines
@of(MongoBench, SqliteBench, PostgresBench)
def test_names_and_values_without_a_form_are_refused_by_name(pair: list[Bench]) -> None:
    mongo, local, postgres = pair
    with mongo.store(embeds=False) as store:
        store.batch([PutOp(("a.b",), "dotted", {"x": 1})])
        store.put(("n",), "date", {"x": [datetime(2026, 1, 1, tzinfo=UTC)]})
        store.put(("n",), "infinite", {"x": float("inf")})
        store.put(("n",), "large", {"x": 1e22})
        store.put(("n",), "fine", {"x": 1})
    reasons = skipped(copied((mongo, local), "--create", "--yes", "-o", "json"))
    assert reasons.keys() == {"dotted", "date", "infinite"}
    assert "label 'a.b' has a '.'" in reasons["dotted"]
    assert "datetime" in reasons["date"]
    assert official(local, 2)[("n",), "large"][0] == {"x": 1e22}
    answer = copied((local, postgres), "--create", "--yes", "-o", "json")
    assert skipped(answer).keys() == {"large"}
    with local.store(embeds=False) as store:
        store.put(("a/b",), "slash", {"x": 1})
    answer = copied((local, mongo), "--match", "slash", "--yes")
    assert (answer.code, "label 'a/b' has a '/'" in answer.err) == (4, True)


@pytest.mark.engines
@of(RedisBench, SqliteBench)
def test_values_that_only_redis_holds_stay_in_redis(pair: Pair) -> None:
    source, _ = pair
    with source.store(embeds=False) as store:
        store.put(("n",), "message", {"said": HumanMessage("hi", id="1")})
        settle(store, 1)
    answer = copied(pair, "--create", "--yes")
    assert (answer.code, "which only RedisStore can hold" in answer.err) == (4, True)
    other = RedisBench(f"{source.url}?store_prefix=other&vector_prefix=other_vectors")
    assert copied((source, other), "--create", "--yes", "-o", "json").json["verified"]
    values = [[value for value, *_ in exported(one).values()] for one in (source, other)]
    assert values[0] == values[1]


def skipped(answer: CommandResult) -> dict[str, str]:
    assert answer.code == 7, answer.err
    return {one["key"]: one["reason"] for one in json.loads(answer.out)["skipped"]}


def schema_of(bench: Bench) -> object:
    """Return what the engine's catalog says about an empty store."""
    match bench:
        case SqliteBench():
            with closing(sqlite3.connect(bench.url)) as db:
                queries = (
                    "PRAGMA journal_mode",
                    "SELECT type, name, tbl_name, sql LIKE '%WHERE%' FROM sqlite_master ORDER BY 2",
                    "SELECT m.name, c.* FROM sqlite_master m, pragma_table_info(m.name) c"
                    " WHERE m.type = 'table' ORDER BY 1, 2",
                    "SELECT v FROM store_migrations ORDER BY v",
                )
                return [db.execute(query).fetchall() for query in queries]
        case PostgresBench():
            return postgres_schema(bench.url, "store_migrations")
        case MongoBench():
            with bench.collection() as found:
                return list(found.list_indexes())
    with redis.Redis.from_url(bench.url) as client:
        described = client.ft("store").info()
        names = ("index_name", "index_options", "index_definition", "attributes")
        return [described[name] for name in names]


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(one, id=one.name, marks=() if one is SqliteBench else pytest.mark.engines)
        for one in BENCHES
    ],
)
def test_a_made_store_is_as_the_official_one_sets_it_up(
    kind: type[Bench], request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    (tmp_path / "official").mkdir()
    with benches(request, tmp_path / "official", kind) as (one,):
        with one.store(embeds=False):
            pass
        wanted = schema_of(one)
    with benches(request, tmp_path, kind) as (one,):
        for _ in range(2):
            create_memory(parse_url(one.url))
        assert schema_of(one) == wanted
        with one.store(embeds=False) as store:
            store.put(("a",), "k", {"x": 1})
            settle(store, 1)
            assert len(store.search((), limit=2)) == 1


def test_a_store_is_made_beside_threads_and_nothing_else(tmp_path: Path) -> None:
    bench = SqliteBench(str(tmp_path / "agent.db"))
    with bench.saver() as saver:
        saver.setup()
    create_memory(parse_url(bench.url))
    assert listed(bench) == []
    path = tmp_path / "other.db"
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE accounts (id)")
    with pytest.raises(Refused, match="not empty"):
        create_memory(parse_url(str(path)))


@pytest.mark.nightly
@of(SqliteBench, OtherFile)
def test_a_killed_copy_is_finished_by_the_next(pair: Pair) -> None:
    source, target = pair
    fill(source, {(("n", f"{n % 7}"), f"{n}"): {"text": "x" * 5000, "n": n} for n in range(900)})
    words = ["-s", source.url, "memory", "copy", "--to", target.url, "--create", "--yes"]
    calls, numbers = calls_of(words), []
    Path(target.url).unlink()
    for call in calls[:: len(calls) // 7]:
        kill_at(words, call)
        numbers.append(len(listed(target)) if Path(target.url).exists() else 0)
    assert numbers == sorted(numbers)
    assert copied(pair, "--create", "--yes", "-o", "json").json["verified"]
    assert official(target, 900) == official(source, 900)
