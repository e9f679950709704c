"""What only Redis has: layouts side by side, ids in names of keys, times to live, no snapshots."""

import json
from base64 import b64encode
from typing import Any
from uuid import uuid4

import pytest
import redis
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.redis import RedisSaver, ShallowRedisSaver
from langgraph.store.redis import RedisStore
from ormsgpack import packb, unpackb

from ckpt_backends.redis.engine import search as search_index
from ckpt_backends.registry import open_store
from ckpt_backends.url import parse_url
from tests.engines.answers import refuses, succeeds
from tests.engines.commands import COMMANDS
from tests.kit.agents.steps import talk
from tests.kit.command import FIXTURES, ckpt, ids_of
from tests.kit.savers.redis import PlainRedisSaver, dump
from tests.kit.savers.redis_threads import FILLS, client, fill, fill_plain, fill_shallow
from tests.kit.stores import restore_keys


@pytest.fixture(params=["redis", "redis-hash"])
def layout(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


# Layouts


def test_the_layout_is_told_by_what_is_stored(redis_stack_url: str) -> None:
    for name, make in FILLS.items():
        client(redis_stack_url).flushall()
        make(redis_stack_url, "trip")
        (found,) = ckpt("-s", redis_stack_url, "stores", "-o", "json").json
        assert found["layout"] == name
        assert ("inline_values" in found["capabilities"]) == (name != "redis-plain")


def test_a_colon_in_the_namespace_of_a_call_does_not_end_the_thread(redis_url: str) -> None:
    fill_plain(redis_url, "trip", separator=":")
    call = f"a:{uuid4()}"
    with redis.Redis.from_url(redis_url) as server:
        place = {"thread_id": "trip", "checkpoint_ns": call}
        saver = PlainRedisSaver(server, ":")
        saver.put({"configurable": place}, empty_checkpoint(), {}, {})
    with open_store(parse_url(redis_url)) as store:
        assert [one.thread_id for one in store.threads()] == ["trip"]
        assert store.namespaces("trip") == ["", call]


def test_two_layouts_in_one_store_are_both_offered_and_one_is_pinned(redis_stack_url: str) -> None:
    fill(redis_stack_url, "documents")
    fill_plain(redis_stack_url, "hashes")
    refused = refuses(redis_stack_url, "threads", "list", says="redis, redis-hash", code=2)
    assert "?layout=redis" in refused.err
    for name, thread in (("redis", "documents"), ("redis-hash", "hashes")):
        listed = ckpt("-s", f"{redis_stack_url}?layout={name}", "threads", "list", "-o", "json")
        assert [one["thread_id"] for one in listed.json] == [thread]
    assert ckpt("-s", f"{redis_stack_url}?layout=hash", "threads", "list").code == 2


def test_an_empty_database_is_not_the_one_whose_indexes_it_names(redis_stack_url: str) -> None:
    """RediSearch has the indexes of database 0 in every database."""
    with RedisSaver.from_conn_string(redis_stack_url) as saver:
        saver.setup()
        talk(saver, "trip")
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
    assert "keys are in database 2" in ckpt("-s", f"{server}/1", "threads", "list").err


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
    for words in COMMANDS:
        answer = ckpt("-s", redis_stack_url, *("linear" if one == "trip" else one for one in words))
        answer.ends_cleanly(0, 1, 3)


def test_a_first_release_wrote_an_empty_namespace_as_such(redis_stack_url: str) -> None:
    """0.0.1 and 0.0.2 have no word for what is empty."""
    body = {"v": 1, "id": "1ef00000-0000-6000-8001-000000000000", "channel_values": {"x": [1]}}
    body |= {"type": "json", "channel_versions": {"x": "1"}, "versions_seen": {}}
    stored = {"thread_id": "t:u", "checkpoint_ns": "", "checkpoint_id": "", "checkpoint": body}
    stored |= {"parent_checkpoint_id": "", "metadata": '{"source": "input", "step": -1}'}
    client(redis_stack_url).json().set("checkpoint:t:u::", "$", stored)
    shown = ckpt("-s", redis_stack_url, "show", "t:u", "-o", "json").json
    assert (shown["values"], shown["parent_checkpoint_id"]) == ({"x": [1]}, None)


# What a read may do


def test_what_one_answer_of_an_index_cannot_hold_is_read_by_a_cursor(
    redis_stack_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
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


# Values that are large


def grow(url: str, layout: str, size: int) -> tuple[str, int]:
    """Let the head of a thread hold a text of so many bytes, and its parent a write of as many."""
    FILLS[layout](url, "trip")
    head, parent, *_ = ids_of(url, "trip")
    admin = client(url)
    text = "x" * size
    if layout == "redis":
        name = f"checkpoint:trip:__empty__:{head}"
        path = "$.checkpoint.channel_values.big"
        admin.execute_command("JSON.SET", name, path, json.dumps(text))
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
    shown = succeeds(redis_stack_url, "show", "trip")
    assert "not read" in shown.out
    past = ckpt("-s", redis_stack_url, "show", f"trip@{parent}", "--writes", "-o", "json").json
    assert max(one["bytes"] for one in past["writes"]) >= size
    assert past["values"]["items"] == ["in trip", "from a"]
    for words, code in (
        *((["threads", "list", "--long"], 0), (["history", "trip"], 0), (["du"], 0)),
        *((["grep", "no such words"], 7), (["show", "trip", "--raw"], 4)),
    ):
        assert ckpt("-s", redis_stack_url, *words).code == code, words
    assert admin.info("stats")["total_net_output_bytes"] - before < 1_000_000


# What the official saver reads wrongly


def test_writes_that_come_before_their_checkpoint_are_shown(redis_stack_url: str) -> None:
    """As LangGraph stores them, which does not wait for a checkpoint before it runs tasks."""
    fill(redis_stack_url, "trip")
    root: Any = {"configurable": {"thread_id": "trip", "checkpoint_ns": ""}}
    with RedisSaver.from_conn_string(redis_stack_url) as saver:
        saver.setup()
        head = saver.get_tuple(root)
        assert head is not None
        new: Any = {**head.checkpoint, "id": str(uuid6(clock_seq=3))}
        at: Any = {"configurable": {**root["configurable"], "checkpoint_id": new["id"]}}
        saver.put_writes(at, [("items", ["early"])], "task")
        saver.put(head.config, new, head.metadata, {})
        found = saver.get_tuple(root)
        assert found is not None
        assert found.checkpoint["id"] == new["id"]
        assert not found.pending_writes
    shown = ckpt("-s", redis_stack_url, "show", "trip", "--writes", "-o", "json").json
    assert shown["checkpoint_id"] == new["id"]
    assert [(one["channel"], one["value"]) for one in shown["writes"]] == [("items", ["early"])]


def test_what_a_saver_left_of_a_checkpoint_is_none(redis_stack_url: str) -> None:
    fill(redis_stack_url, "trip")
    stub = "checkpoint:trip:__empty__:ffffffff-ffff-6fff-bfff-ffffffffffff"
    client(redis_stack_url).json().set(stub, "$", {"has_writes": True})
    with open_store(redis_stack_url) as store:
        (thread,) = store.threads()
        assert thread.checkpoints == 4
        assert store.thread("trip") == thread
        head = thread.head
    # Behind the head, a listing counts it, which is the price of reading names alone.
    client(redis_stack_url).rename(stub, stub.replace("ffffffff", "00000000"))
    with open_store(redis_stack_url) as store:
        (thread,) = store.threads()
        assert (thread.head, thread.checkpoints) == (head, 5)
        assert store.thread("trip").checkpoints == 4  # type: ignore[union-attr]


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


# The shallow saver


def test_what_a_shallow_saver_takes_for_pending_is_of_checkpoints_that_are_gone(
    redis_stack_url: str,
) -> None:
    """Its list of writes is never cleared, and it does not look at which checkpoint they are of."""
    fill_shallow(redis_stack_url, "trip")
    with ShallowRedisSaver.from_conn_string(redis_stack_url) as saver:
        saver.setup()
        found = saver.get_tuple({"configurable": {"thread_id": "trip", "checkpoint_ns": ""}})
    assert found is not None
    assert {channel for _, channel, _ in found.pending_writes or ()} > {"items", "messages"}
    shown = ckpt("-s", redis_stack_url, "show", "trip", "--writes", "-o", "json").json
    assert (shown["writes"], shown["next"]) == ([], [])
    (listed,) = ckpt("-s", redis_stack_url, "threads", "list", "-o", "json").json
    assert listed["status"] == "done"


# Changes


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
