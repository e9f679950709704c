"""What only Redis has: layouts side by side, ids and prefixes in names of keys, times to live, its
own locks, and sessions.
"""

import json
import re
import time
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit
from uuid import uuid4

import pytest
import redis
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.redis import RedisSaver, ShallowRedisSaver
from langgraph.store.redis import RedisStore
from ormsgpack import packb, unpackb

from ckpt_backends.errors import Unsupported
from ckpt_backends.open_for_writing import open_writable
from ckpt_backends.redis.engine import layout as purge_lock
from ckpt_backends.redis.engine import search as search_index
from ckpt_backends.redis.engine import write as restoring
from ckpt_backends.redis.engine.connection import RedisConnection
from ckpt_backends.redis.engine.layout import LOCK, RedisLayout
from ckpt_backends.registry import open_store
from ckpt_backends.testing.official import drive
from ckpt_backends.testing.scenarios.catalog import SCENARIOS
from ckpt_backends.url import parse_url
from tests.engines.answers import refuses, succeeds, threads_of
from tests.kit.agents.steps import config_of, talk
from tests.kit.cases import cases
from tests.kit.command import FIXTURES, ROOT, ckpt, ids_of, later
from tests.kit.harness.redis import PlainRedisSaver, SeeingRedisSaver, dump
from tests.kit.plugin import redis_of_its_own
from tests.kit.savers.redis_threads import (
    FILLS,
    ContextState,
    client,
    fill,
    fill_plain,
    fill_plainredis,
    fill_shallow,
    keys,
    removal_of,
    save,
)
from tests.kit.stores import restore_keys


@pytest.fixture(params=["redis", "redis-hash"])
def layout(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def test_a_colon_in_the_namespace_of_a_call_does_not_end_the_thread(redis_url: str) -> None:
    fill_plain(redis_url, "trip", separator=":")
    call = f"a:{uuid4()}"
    with redis.Redis.from_url(redis_url) as server:
        place = {"thread_id": "trip", "checkpoint_ns": call}
        PlainRedisSaver(server, ":").put({"configurable": place}, empty_checkpoint(), {}, {})
    with open_store(parse_url(redis_url)) as store:
        assert [one.thread_id for one in store.threads()] == ["trip"]
        assert store.namespaces("trip") == ["", call]


def test_layouts_are_told_by_what_is_stored_and_of_two_one_is_pinned(redis_stack_url: str) -> None:
    for name, make in FILLS.items():
        client(redis_stack_url).flushall()
        make(redis_stack_url, "trip")
        (found,) = ckpt("-s", redis_stack_url, "stores", "-o", "json").json
        assert found["layout"] == name
        assert ("inline_values" in found["capabilities"]) == (name != "redis-plain")
    client(redis_stack_url).flushall()
    for name in ("redis", "redis-hash"):
        FILLS[name](redis_stack_url, f"of {name}")
    refused = refuses(redis_stack_url, "threads", "list", says="redis, redis-hash", code=2)
    assert "?layout=redis" in refused.err
    for name in ("redis", "redis-hash"):
        assert threads_of(f"{redis_stack_url}?layout={name}") == [f"of {name}"]
    ckpt("-s", f"{redis_stack_url}?layout=hash", "threads", "list", code=2)


def test_an_empty_database_is_not_the_one_whose_indexes_it_names(redis_stack_url: str) -> None:
    """RediSearch has the indexes of database 0 in every database."""
    fill(redis_stack_url, "trip")
    server, _, _ = redis_stack_url.rpartition("/")
    for words in (["threads", "list"], ["doctor"], ["du"], ["show", "trip"]):
        refuses(f"{server}/1", *words, says="database 1 is empty; database 0 of this server hold")
    with RedisStore.from_conn_string(redis_stack_url) as store:
        store.setup()
    for words in (["stores"], ["memory", "list"]):
        assert ckpt("-s", f"{server}/1", *words).code == 4, words
    client(f"{server}/2").set("cache:1", "x")
    answer = ckpt("-s", f"{server}/2", "threads", "list")
    assert "found other keys, such as 'cache:1'" in answer.err
    assert "database 0 of this server hold" in answer.err
    client(redis_stack_url).flushdb()
    refuses(f"{server}/1", "threads", "list", says="keys are in database 2")


@pytest.mark.engines
def test_documents_of_the_first_releases_are_read_and_not_changed(redis_stack_url: str) -> None:
    """They are stored under the id of the checkpoint before; written by 0.0.8."""
    kept = {"linear", "chat", "subgraph", "interrupt-nested"}
    restore_keys(FIXTURES / "redis" / "lg-0.4.10" / "store.jsonl.gz", redis_stack_url, kept)
    (about,) = ckpt("-s", redis_stack_url, "stores", "-o", "json").json
    assert (about["layout"], about["saver"]) == ("redis", "langgraph-checkpoint-redis 0.0")
    assert "adding" not in about["capabilities"]
    shown = ckpt("-s", redis_stack_url, "show", "linear", "-o", "json").json
    assert shown["values"]["items"] == ["in", "read", "think", "written"]
    where = ckpt("-s", redis_stack_url, "show", "linear", "--where").out
    name = json.loads(where.splitlines()[0].removeprefix("JSON.GET "))
    stored = json.loads(client(redis_stack_url).execute_command("JSON.GET", name))
    assert stored["checkpoint"]["id"] == shown["checkpoint_id"]
    assert shown["checkpoint_id"] not in name
    with open_store(redis_stack_url) as store:
        rows = [one.table for one in store.rows("linear")]
    assert {*rows} == {"checkpoint_blob", "checkpoint_write", "checkpoint"}
    before = dump(redis_stack_url)
    for words in (
        *(["rollback", "linear", "~1"], ["fork", "linear", "head"]),
        *(["copy", "linear", "--as", "new"], ["threads", "delete", "linear"]),
    ):
        assert ckpt("-s", redis_stack_url, *words, "--yes").code == 4, words
    assert dump(redis_stack_url) == before


def test_a_first_release_wrote_an_empty_namespace_as_such(redis_stack_url: str) -> None:
    """0.0.1 and 0.0.2 have no word for what is empty."""
    body = {"v": 1, "id": "1ef00000-0000-6000-8001-000000000000", "channel_values": {"x": [1]}}
    body |= {"type": "json", "channel_versions": {"x": "1"}, "versions_seen": {}}
    stored = {"thread_id": "t:u", "checkpoint_ns": "", "checkpoint_id": "", "checkpoint": body}
    stored |= {"parent_checkpoint_id": "", "metadata": '{"source": "input", "step": -1}'}
    client(redis_stack_url).json().set("checkpoint:t:u::", "$", stored)
    shown = ckpt("-s", redis_stack_url, "show", "t:u", "-o", "json").json
    assert (shown["values"], shown["parent_checkpoint_id"]) == ({"x": [1]}, None)


def test_a_cursor_reads_the_rest(redis_stack_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["here", "there"]
    fill(redis_stack_url, *names)
    with open_store(redis_stack_url) as store:
        found = store.sizes(names)
    admin = client(redis_stack_url)
    admin.config_resetstat()
    monkeypatch.setattr(search_index, "_AT_ONCE", 3)
    with open_store(redis_stack_url) as store:
        assert store.sizes(names) == found
    assert {"cmdstat_FT.CURSOR", "cmdstat_FT.AGGREGATE"} <= admin.info("commandstats").keys()


def grow(url: str, layout: str, size: int) -> tuple[str, int]:
    """Let the head of a thread hold a text of so many bytes, and its parent a write of as many."""
    FILLS[layout](url, "trip")
    head, parent, *_ = ids_of(url, "trip")
    admin = client(url)
    text = "x" * size
    if layout == "redis":
        name = f"checkpoint:trip:__empty__:{head}"
        admin.execute_command("JSON.SET", name, "$.checkpoint.channel_values.big", json.dumps(text))
        (name, *_) = admin.keys(f"checkpoint_write:trip:*:{parent}:*")
        stored = b64encode(json.dumps(text).encode()).decode()
        admin.execute_command("JSON.SET", name, "$.blob", json.dumps(stored))
    else:
        name = f"checkpoint$trip$${head}"
        body = unpackb(admin.hget(name, "checkpoint"))
        body["channel_values"]["big"] = text
        admin.hset(name, "checkpoint", packb(body))
        (name, *_) = admin.keys(f"writes$trip$*${parent}$*")
        admin.hset(name, "value", packb(text))
    return parent, size


def test_a_value_over_the_limit_is_named_and_not_read(
    redis_stack_url: str, layout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent, size = grow(redis_stack_url, layout, 3_000_000)
    for module in ("engine.keyspace", "engine.documents", "official.documents", "hashes.layout"):
        monkeypatch.setattr(f"ckpt_backends.redis.{module}.MOST_BYTES", 1_000_000)
    admin = client(redis_stack_url)
    before = admin.info("stats")["total_net_output_bytes"]
    assert "not read" in succeeds(redis_stack_url, "show", "trip").out
    past = ckpt("-s", redis_stack_url, "show", f"trip@{parent}", "--writes", "-o", "json").json
    assert max(one["bytes"] for one in past["writes"]) >= size
    assert past["values"]["items"] == ["in trip", "from a"]
    for words, code in (
        *((["threads", "list", "--long"], 0), (["history", "trip"], 0), (["du"], 0)),
        *((["grep", "no such words"], 7), (["show", "trip", "--raw"], 4)),
    ):
        assert ckpt("-s", redis_stack_url, *words).code == code, words
    assert admin.info("stats")["total_net_output_bytes"] - before < 1_000_000


def test_writes_that_come_before_their_checkpoint_are_shown(redis_stack_url: str) -> None:
    """As LangGraph stores them, which does not wait for a checkpoint before it runs tasks."""
    fill(redis_stack_url, "trip")
    root = config_of("trip")
    with RedisSaver.from_conn_string(redis_stack_url) as saver:
        saver.setup()
        head: Any = saver.get_tuple(root)
        new: Any = {**head.checkpoint, "id": str(uuid6(clock_seq=3))}
        saver.put_writes(config_of("trip", checkpoint_id=new["id"]), [("items", ["early"])], "task")
        saver.put(head.config, new, head.metadata, {})
        found: Any = saver.get_tuple(root)
    assert found.checkpoint["id"] == new["id"]
    assert not found.pending_writes
    shown = ckpt("-s", redis_stack_url, "show", "trip", "--writes", "-o", "json").json
    assert shown["checkpoint_id"] == new["id"]
    assert [(one["channel"], one["value"]) for one in shown["writes"]] == [("items", ["early"])]


def test_the_rest_of_a_checkpoint_is_none_and_goes_with_its_thread(redis_stack_url: str) -> None:
    fill(redis_stack_url, "trip", "other")
    admin, own = client(redis_stack_url), "ffffffff-ffff-6fff-bfff-ffffffffffff"
    stub = f"checkpoint:trip:__empty__:{own}"
    admin.json().set(stub, "$", {"has_writes": True})
    with open_store(redis_stack_url) as store:
        before = store.thread("trip")
        assert before is not None
        assert before.checkpoints == 4
        assert before in list(store.threads())
    # Behind the head, a listing counts it, which is the price of reading names alone.
    own = own.replace("ffffffff", "00000000")
    admin.rename(stub, stub.replace("ffffffff", "00000000"))
    with open_store(redis_stack_url) as store:
        (listed,) = (one for one in store.threads() if one.thread_id == "trip")
        assert (listed.head, listed.checkpoints) == (before.head, 5)
        assert store.thread("trip") == before
    place = f"trip:__empty__:{own}"
    write: Any = {"thread_id": "trip", "checkpoint_ns": "__empty__", "checkpoint_id": own}
    write |= {"task_id": "t", "task_path": "", "idx": 0, "channel": "x", "type": "null", "blob": ""}
    admin.json().set(f"checkpoint_write:{place}:t:0", "$", write)
    admin.zadd(f"write_keys_zset:{place}", {f"checkpoint_write:{place}:t:0": 0})
    admin.zadd(f"write_keys_zset:trip::{own}", {"as in 0.1.0": 0})
    done = ckpt("-s", redis_stack_url, "purge", "--match", "trip", "--yes", "-o", "json").json
    assert (done["removed"]["threads"], done["skipped"]) == (1, [])
    assert not [name for name in keys(redis_stack_url) if b"trip" in name]
    ckpt("-s", redis_stack_url, "show", "other", code=0)


def test_a_half_written_hash_is_left_out(redis_url: str) -> None:
    fill_plain(redis_url, "trip")
    admin = client(redis_url)
    admin.hset("checkpoint$trip$$ffffffff-ffff-6fff-bfff-ffffffffffff", "checkpoint_id", "x")
    admin.hset("checkpoint$nothing", "type", "msgpack")
    with open_store(redis_url) as store:
        before = list(store.writes("trip", values=True))
        admin.hset("writes$trip$$1f$task$0", "channel", "items")
        store.refresh()
        assert list(store.writes("trip", values=True)) == before
        assert store.thread("trip").checkpoints == 4  # type: ignore[union-attr]
        assert [one.thread_id for one in store.threads()] == ["trip"]


def test_keys_that_go_meanwhile_are_left_out(redis_stack_url: str, layout: str) -> None:
    FILLS[layout](redis_stack_url, "trip")
    with open_store(redis_stack_url) as store:
        known = list(store.checkpoints("trip"))
        client(redis_stack_url).flushall()
        assert list(store.checkpoints("trip")) == known
        assert list(store.checkpoints("trip", body=True, metadata=True)) == []
        assert list(store.writes("trip", values=True)) == []


def test_what_a_shallow_saver_takes_for_pending_is_of_no_checkpoint(redis_stack_url: str) -> None:
    """Its list of writes is never cleared, and it does not look at which checkpoint they are of."""
    fill_shallow(redis_stack_url, "trip")
    with ShallowRedisSaver.from_conn_string(redis_stack_url) as saver:
        saver.setup()
        found: Any = saver.get_tuple(config_of("trip"))
    assert {channel for _, channel, _ in found.pending_writes} > {"items", "messages"}
    words = ("-s", redis_stack_url, "show", "trip", "--writes", "-o", "json")
    shown = ckpt(*words).json
    assert (shown["writes"], shown["next"]) == ([], [])
    (listed,) = ckpt("-s", redis_stack_url, "threads", "list", "-o", "json").json
    assert listed["status"] == "done"
    # `gc` collects them. The list is then of those that stay.
    fill_shallow(redis_stack_url, "trip", "other", asks=True)
    shown = ckpt(*words).json
    done = ckpt("-s", redis_stack_url, *GC).json
    assert {one["thread_id"] for one in done["threads"]} == {"trip", "other"}
    assert ckpt(*words).json == shown
    assert shown["writes"] != []
    left = keys(redis_stack_url)
    listed, _ = left[b"write_registry:trip:__empty__:shallow"]
    names = {name for name in left if name.startswith(b"checkpoint_write:trip:")}
    assert {name for name, _ in listed} == names
    assert ckpt("-s", redis_stack_url, *GC).json["threads"] == []


def test_times_to_live_are_shown_with_what_expires_first(redis_stack_url: str, layout: str) -> None:
    FILLS[layout](redis_stack_url, "stays", "goes")
    assert "expires_at" not in ckpt("-s", redis_stack_url, "show", "stays", "-o", "json").out
    admin = client(redis_stack_url)
    names = [one for one in dump(redis_stack_url) if b"goes" in one]
    for name in names:
        admin.expire(name, 7200)
    listed = ckpt("-s", redis_stack_url, "threads", "list", "-o", "json").json
    told = {one["thread_id"]: one.get("expires_at") for one in listed}
    assert told["stays"] is None
    assert told["goes"] is not None
    assert "in 1h" in ckpt("-s", redis_stack_url, "show", "goes").out
    past = ckpt("-s", redis_stack_url, "show", "goes@~1")
    assert "expires" in past.out
    assert "first" not in past.out
    ids = ids_of(redis_stack_url, "goes")
    for name in names:
        if ids[1].encode() in name and name.startswith((b"checkpoint_write:", b"writes")):
            admin.expire(name, 60)
        if ids[3].encode() in name:
            admin.expire(name, 600)
    past = ckpt("-s", redis_stack_url, "show", "goes@~1")
    assert "its writes expire first" in past.out
    assert f"its ancestor {ids[3]} expires first" in " ".join(past.out.split())
    shown = ckpt("-s", redis_stack_url, "show", "goes@~1", "-o", "json").json
    assert shown["writes_expire_at"] < shown["ancestor_expires_at"] < shown["expires_at"]


# Removing and putting back

GC = ["gc", "--scope", "writes", "--grace", "0s", "--yes", "-o", "json"]


def test_a_pointer_goes_with_the_last_checkpoint_of_its_namespace(redis_stack_url: str) -> None:
    """Calls of subgraphs, whose caller is gone: heads of their namespaces."""
    with SeeingRedisSaver.from_conn_string(redis_stack_url) as saver:
        saver.setup()
        drive(saver, SCENARIOS["interrupt-nested"])
    admin, name = client(redis_stack_url), b"checkpoint:interrupt-nested:__empty__:"
    calls = {one for one in keys(redis_stack_url) if b"__empty__" not in one}
    assert {one.split(b":")[0] for one in calls} >= {b"checkpoint", b"checkpoint_latest"}
    admin.delete(*(one for one in keys(redis_stack_url) if one.startswith(name)))
    words = ["gc", "--scope", "calls", "--grace", "0s", "--yes", "-o", "json"]
    assert len(ckpt("-s", redis_stack_url, *words).json["threads"]) == 1
    assert not calls & keys(redis_stack_url).keys()


@pytest.mark.engines
def test_another_purge_is_waited_for(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fill_plain(redis_url, "trip", "other")
    before, admin = keys(redis_url), client(redis_url)
    delete = ("threads", "delete", "trip", "--yes")
    admin.set(LOCK, "another run", px=60_000)
    assert set(threads_of(redis_url)) == {"trip", "other"}
    with monkeypatch.context() as patch:
        patch.setattr(purge_lock, "_PATIENCE", 0.2)
        refused = refuses(redis_url, *delete, says="another purge", code=5)
    assert "hint: " in refused.err
    assert admin.get(LOCK) == b"another run"
    admin.delete(LOCK)
    assert keys(redis_url) == before
    # A lock that ran out was taken by another run, which releases it alone.
    lock, other = (purge_lock.PurgeLock(admin, parse_url(redis_url)) for _ in range(2))
    lock.take()
    admin.delete(LOCK)
    other.take()
    others = admin.get(LOCK)
    lock.release()
    assert admin.get(LOCK) == others
    admin.set(LOCK, "a run that was killed", px=300)
    succeeds(redis_url, *delete)
    assert admin.get(LOCK) is None


@pytest.mark.parametrize("is_gone", [False, True], ids=["runs out", "gone"])
def test_a_lock_is_extended_while_it_is_held_and_taken_again_if_it_went(
    redis_stack_url: str, monkeypatch: pytest.MonkeyPatch, is_gone: bool
) -> None:
    """It goes after a pause that was longer than it lives."""
    fill(redis_stack_url, "trip", "other")
    removals = [removal_of(redis_stack_url, name) for name in ("trip", "other")]
    monkeypatch.setattr(purge_lock, "_KEPT", 0.0)
    admin, happened, left = client(redis_stack_url), list[object](), list[int]()
    named, keep = RedisLayout.named_in, purge_lock.PurgeLock.keep

    def seen(owning: RedisLayout, owned: Any) -> list[set[bytes]]:
        found = named(owning, owned)
        if not happened:
            happened.append(admin.delete(LOCK) if is_gone else admin.pexpire(LOCK, 900))
        return found

    def look(lock: purge_lock.PurgeLock) -> None:
        keep(lock)
        left.append(admin.pttl(LOCK))

    monkeypatch.setattr(RedisLayout, "named_in", seen)
    monkeypatch.setattr(purge_lock.PurgeLock, "keep", look)
    admin.config_resetstat()
    with open_writable(parse_url(redis_stack_url)) as writable:
        assert [one.skipped for one in writable.remove(removals)] == ["", ""]
    assert happened == [1]
    assert len(left) > 1
    assert min(left) > 900
    assert admin.info("commandstats")["cmdstat_set"]["calls"] == 1 + is_gone
    assert admin.get(LOCK) is None


def test_what_has_expired_since_is_left_out_and_said(
    redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill_plain(redis_url, "trip", "stays", seconds=3600)
    admin, before = client(redis_url), keys(redis_url)
    short = sorted(name for name in before if name.startswith(b"writes$trip"))[:2]
    for name in short:
        admin.pexpire(name, 600_000)
    words: list[str | Path] = ["threads", "delete", "trip", "--archive", tmp_path, "--yes"]
    ckpt("-s", redis_url, *words, code=0)
    later = int(time.time() * 1000) + 1_200_000  # Between the two times to live.
    monkeypatch.setattr(restoring, "time_now", lambda _: later)
    (bundle,) = tmp_path.iterdir()
    done = ckpt("-s", redis_url, "import", bundle, "--yes", "-o", "json", code=7)
    assert "2 rows left out" in done.err
    assert "bundles still hold them" in done.err
    (told,) = json.loads(done.out)
    assert told["expired"] == 2 == told["rows"] - told["added"]
    assert keys(redis_url) == {name: held for name, held in before.items() if name not in short}


def test_servers_before_redis_7_tell_them(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has no PEXPIRETIME."""
    fill_plain(redis_url, "trip", seconds=3600)
    asked = RedisConnection.ask_all

    def older(connection: RedisConnection, commands: Any, *rest: Any) -> Iterator[Any]:
        listed = list(commands)
        for command, answer in zip(listed, asked(connection, listed, *rest), strict=True):
            yield None if command[0] == "PEXPIRETIME" else answer

    monkeypatch.setattr(RedisConnection, "ask_all", older)
    with open_store(redis_url) as store:
        told: Any = {row.cells["key"]: row.cells["expires_at"] for row in store.rows("trip")}
    for name in keys(redis_url):
        at = client(redis_url).execute_command("PEXPIRETIME", name)
        assert abs(told[name.decode()] - at) < 60_000


def test_nothing_is_vacuumed(redis_url: str) -> None:
    fill_plain(redis_url, "trip", "other")
    with open_writable(parse_url(redis_url)) as writable, pytest.raises(Unsupported) as refused:
        writable.vacuum()
    assert "MEMORY PURGE" in str(refused.value.hint)
    done = ckpt("-s", redis_url, "purge", "--match", "trip", "--vacuum", "--yes", "-o", "json")
    assert json.loads(done.out)["removed"]["threads"] == 1
    assert (done.code, "by itself" in done.err) == (7, True)


@pytest.mark.parametrize("rights", [["+@read", "+info"], ["+@read", "+info", "+set", "+get"]])
def test_a_user_without_rights_is_told_what_it_needs(redis_url: str, rights: list[str]) -> None:
    fill_plain(redis_url, "trip")
    before, admin = keys(redis_url), client(redis_url)
    admin.execute_command("ACL", "SETUSER", "reader", "on", ">pw", "~*", "+@connection", *rights)
    url = redis_url.replace("redis://", "redis://reader:pw@")
    refused = refuses(url, "threads", "delete", "trip", "--yes", says="permission denied")
    assert "hint: " in refused.err
    assert {name: held for name, held in keys(redis_url).items() if name != LOCK} == before
    assert admin.get(LOCK) is None or admin.pttl(LOCK) > 0


@pytest.mark.parametrize("layout", ["redis", "redis-hash", "redis-plain", "valkey"])
def test_the_rights_of_the_docs_suffice_and_times_to_live_come_back(
    redis_stack_url: str, layout: str, tmp_path: Path
) -> None:
    FILLS[layout](redis_stack_url, "trip", "stays")
    for name in keys(redis_stack_url):
        if b"trip" in name:
            client(redis_stack_url).expire(name, 3600)
    before = keys(redis_stack_url)
    text = (ROOT / "docs" / "purge.md").read_text().partition("A user of Redis needs")[2]
    rights = re.findall(r"\+[@a-z.]+", text.partition("\n\n")[0])
    assert {"+unlink", "+json.set"} <= set(rights)
    rights += ["+@read", "+@connection", "+info", "+json.get", "+json.mget", "+json.type"]
    client(redis_stack_url).execute_command(
        *("ACL", "SETUSER", "keeper", "on", ">pw", "~*", *rights, "+json.debug")
    )
    url = redis_stack_url.replace("redis://", "redis://keeper:pw@")
    succeeds(url, "threads", "delete", "trip", "--archive", tmp_path, "--yes")
    assert not [name for name in keys(redis_stack_url) if b":trip:" in name]
    (bundle,) = tmp_path.iterdir()
    for _ in range(2):
        succeeds(url, "import", bundle, "--yes")
        assert keys(redis_stack_url) == before


# Savers with prefixes: each store is read with all of its writes, or not at all


@contextmanager
def prefixed(url: str, prefix: str, writes: str, kind: Any = RedisSaver) -> Iterator[Any]:
    options = {"checkpoint_prefix": prefix, "checkpoint_write_prefix": writes}
    with kind.from_conn_string(url, **options) as made:
        made.setup()
        yield made


def fill_prefixed(
    url: str, prefix: str, writes: str, *threads: str, kind: Any = RedisSaver
) -> None:
    with prefixed(url, prefix, writes, kind) as made:
        talk(made, *threads, asks=True)


def named(err: str) -> list[str]:
    """The URLs in a hint."""
    return re.findall(r"'(redis://[^']*\?[^']*)'", err.partition("hint:")[2])


def check(url: str, *threads: str) -> None:
    """That every thread is there, waits for an answer, and has all that was written."""
    listed = ckpt("-s", url, "threads", "list", "-o", "json").json
    assert {one["thread_id"]: one["status"] for one in listed} == dict.fromkeys(
        threads, "interrupted"
    )
    for thread in threads:
        shown = ckpt("-s", url, "show", thread, "-o", "json").json
        assert shown["values"]["items"] == [f"in {thread}", "from a"]
        assert [one["value"] for one in shown["interrupts"]] == ["sure?"]


@contextmanager
def without_search(source: str) -> Iterator[str]:
    """A copy of the keys of a Redis in one that has no search module."""
    with redis_of_its_own(modules=True, search=False) as bare:
        admin, target = client(source), client(bare.url)
        for name in admin.scan_iter(count=1000):
            target.restore(name, 0, admin.dump(name))
        yield bare.url


PAIRS = [
    *(("agenta", "agenta_write"), ("app:agent", "anything"), ("checkpoint", "other")),
    *(("other", "checkpoint_write"), ("checkpoint:v2", "checkpoint_write:v2")),
]


@pytest.mark.parametrize("pair", [*PAIRS[:2], *later(*PAIRS[2:])], ids="-".join)
def test_the_only_store_is_found_with_writes(redis_stack_url: str, pair: tuple[str, str]) -> None:
    prefix, writes = pair
    fill_prefixed(redis_stack_url, prefix, writes, "trip")
    for query in ("", f"?prefix={prefix}", f"?prefix={prefix}&write_prefix={writes}"):
        check(f"{redis_stack_url}{query}", "trip")
    check(f"{redis_stack_url}?layout=redis", "trip")


@cases("has_search", True, False, ids=["indexes", "keys"])
def test_stores_of_a_server_are_named_each_whole(redis_stack_url: str, has_search: bool) -> None:
    fill_prefixed(redis_stack_url, "agenta", "agenta_write", "same", "one")
    fill_prefixed(redis_stack_url, "agentb", "written", "same", "two")
    fill_prefixed(redis_stack_url, "checkpoint", "checkpoint_write", "same")
    with nullcontext(redis_stack_url) if has_search else without_search(redis_stack_url) as url:
        refused = refuses(url, "threads", "list", says="holds 3 stores", code=2)
        assert [dict(parse_qsl(urlsplit(one).query)) for one in named(refused.err)] == [
            {"prefix": "checkpoint", "write_prefix": "checkpoint_write"},
            {"prefix": "agenta", "write_prefix": "agenta_write"},
            {"prefix": "agentb", "write_prefix": "written"},
        ]
        usual, one, two = named(refused.err)
        check(usual, "same")
        check(one, "same", "one")
        check(two, "same", "two")
        check(f"{url}?prefix=agentb", "same", "two")
        check(f"{url}?prefix=checkpoint", "same")
        stores = ckpt("-s", url, "stores", "-o", "json").json
        assert [one["url"] for one in stores] == named(refused.err)
        assert {one["layout"] for one in stores} == {"redis"}


def test_shallow_stores_that_share_a_list_of_writes_are_told_apart(redis_stack_url: str) -> None:
    fill_prefixed(redis_stack_url, "agentc", "cw", "full")
    for prefix, writes in (("agenta", "zz"), ("agentb", "aa")):
        fill_prefixed(redis_stack_url, prefix, writes, "same", kind=ShallowRedisSaver)
    for prefix, writes in (("agenta", "zz"), ("agentb", "aa")):
        url = f"{redis_stack_url}?prefix={prefix}"
        (thread,) = ckpt("-s", url, "threads", "list", "-o", "json").json
        assert thread["status"] == "interrupted"
        assert f'"{writes}:same:' in ckpt("-s", url, "show", "same", "--where").out
    stores = ckpt("-s", redis_stack_url, "stores", "-o", "json").json
    layouts = {one["layout"]: one["url"] for one in stores}
    assert (len(stores), set(layouts)) == (3, {"redis", "redis-shallow"})
    check(layouts["redis"], "full")


def test_writes_under_two_prefixes_are_refused(redis_stack_url: str) -> None:
    """Whichever were taken, the others would be missing."""
    fill_prefixed(redis_stack_url, "agenta", "first", "one")
    fill_prefixed(redis_stack_url, "agenta", "second", "two")
    says = "cannot tell which prefix the writes of 'agenta' have"
    for url in (redis_stack_url, f"{redis_stack_url}?prefix=agenta"):
        refused = refuses(url, "threads", "list", says=says, code=2)
        assert [dict(parse_qsl(urlsplit(one).query)) for one in named(refused.err)] == [
            {"prefix": "agenta", "write_prefix": one} for one in ("first", "second")
        ]


@pytest.mark.parametrize("is_old", [False, True])
def test_what_is_added_is_found_and_goes_alone(redis_stack_url: str, is_old: bool) -> None:
    fill_prefixed(redis_stack_url, "checkpoint", "checkpoint_write", "trip")
    before = keys(redis_stack_url)
    url = f"{redis_stack_url}?prefix=agenta"
    with prefixed(redis_stack_url, "agenta", "aw") as made:
        talk(made, "trip", asks=True)
        back = ckpt("-s", url, "rollback", "trip", "~1", "--yes", "-o", "json").json
        head = made.get_tuple(config_of("trip"))
        assert head is not None
        assert head.checkpoint["id"] == back["checkpoint_id"]
    if is_old:
        # Before 0.5 the pointer began as that of any other saver.
        admin = client(redis_stack_url)
        admin.delete("checkpoint_latest:trip:__empty__")
        admin.rename("agenta_latest:trip:__empty__", "checkpoint_latest:trip:__empty__")
    ckpt("-s", url, "threads", "delete", "trip", "--yes", code=0)
    assert keys(redis_stack_url).items() <= before.items()
    assert before.keys() - keys(redis_stack_url).keys() <= {b"checkpoint_latest:trip:__empty__"}


def test_the_prefixes_of_plainredis_are_named(redis_url: str) -> None:
    fill_plainredis(redis_url, "trip", prefix="my:app:")
    fill_plainredis(redis_url, "other", prefix="your:app")
    mine, yours = named(ckpt("-s", redis_url, "threads", "list").err)
    assert (threads_of(mine), threads_of(yours)) == (["trip"], ["other"])
    ckpt("-s", yours, "threads", "delete", "other", "--yes", code=0)
    # The only one that is left needs no name.
    assert threads_of(redis_url) == ["trip"]


def test_a_prefix_that_is_missing_and_a_user_with_rights_to_its_keys(redis_stack_url: str) -> None:
    fill_prefixed(redis_stack_url, "agenta", "agenta_write", "trip")
    for query in ("prefix=agent", "prefix=agent&layout=redis", "prefix=agenta&write_prefix=x"):
        (url,) = named(ckpt("-s", f"{redis_stack_url}?{query}", "threads", "list", code=4).err)
        check(url, "trip")
    fill_prefixed(redis_stack_url, "agentb", "agentb_write", "other")
    rights = "+@read +@connection +info +json.get +json.mget +json.type +json.debug"
    told = f"ACL SETUSER limited on >secret ~agenta* ~write_keys_zset:* {rights}"
    client(redis_stack_url).execute_command(*told.split())
    url = redis_stack_url.replace("redis://", "redis://limited:secret@")
    check(f"{url}?prefix=agenta", "trip")


# Sessions beside the plain saver: found by what they say, joined to their threads both ways


@pytest.fixture
def url(redis_url: str) -> str:
    """Two threads, three sessions, and keys that are none."""
    fill_plain(redis_url, "trip", "other")
    said = {"role": "user", "content": "北京 \x1b[31m", "timestamp": "now", "step": 1}
    save(redis_url, ContextState("s1", "ann", "trip", conversation_history=[said]))
    save(redis_url, ContextState("s2", "ann", "gone"))
    save(redis_url, ContextState("s1", "bob", "other"), prefix="loomi:context")
    admin = client(redis_url)
    admin.set("my_context:a:b", "not json")
    admin.set("my_context:a:c", '{"session_id": "x"}')
    admin.hset("my_context:a:d", "session_id", "x")
    admin.set("elsewhere:ann:s9", json.dumps(asdict(ContextState("s9", "ann", "trip"))))
    return redis_url


def sessions(url: str, *words: str) -> Any:
    return succeeds(url, "memory", "sessions", *words, "-o", "json").json


def test_sessions_are_listed_with_their_threads(url: str) -> None:
    before = dump(url)
    found = sessions(url)
    told = ("user_id", "session_id", "thread_id", "status")
    assert [tuple(one.get(name) for name in told) for one in found] == [
        ("bob", "s1", "other", "done"),
        ("ann", "s2", "gone", None),
        ("ann", "s1", "trip", "done"),
    ]
    assert all(one["expires_at"] and "fields" not in one for one in found)
    assert "in 2d" in succeeds(url, "memory", "sessions", "-o", "table").out
    assert [one["session_id"] for one in sessions(url, "--thread", "trip")] == ["s1"]
    assert [len(sessions(url, "--user", user)) for user in ("ann", "nobody")] == [2, 0]
    (other,) = sessions(f"{url}?pattern=elsewhere:*")
    assert (other["session_id"], "expires_at" in other) == ("s9", False)
    assert dump(url) == before
    client(url).delete(*(one for one in before if one.startswith((b"checkpoint", b"writes"))))
    assert not any("status" in one for one in sessions(url)), "no store is needed"


def test_one_session_is_shown_whole_and_safe(url: str) -> None:
    shown = sessions(url, "ann:s1")
    assert shown["fields"]["conversation_history"][0]["content"] == "北京 \x1b[31m"
    assert shown["status"] == "done"
    text = succeeds(url, "memory", "sessions", "research_context:ann:s1", "-o", "table").out
    assert "\x1b[31m" not in text
    assert "北京" in text
    for form in ("json", "table"):
        assert (
            "北京" not in succeeds(url, "--redact", "memory", "sessions", "ann:s1", "-o", form).out
        )
    for name in ("s1", "none"):
        ckpt("-s", url, "memory", "sessions", name, code=3)
    assert "not in this store" in ckpt("-s", url, "memory", "sessions", "s2", "-o", "table").out


def test_other_stores_have_no_sessions(sample: Any) -> None:
    refuses(sample, "memory", "sessions", says="redis://")
    ckpt("-s", sample, "memory", "sessions", "s1", "--user", "ann", code=2)
