"""Faults of what only layouts on Redis have: pointers, lists, flags, search indexes, expiry."""

import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from langgraph.checkpoint.redis import RedisSaver
from valkey import Valkey

from ckpt_backends.model import Fault
from ckpt_backends.redis.engine import store as thread_faults
from ckpt_backends.redis.engine.store import RedisStore
from ckpt_backends.registry import open_store
from tests.doctor.asking import faults_of_all, findings
from tests.doctor.running_fixes import run_redis
from tests.kit.agents.steps import config_of, graph_of, talk
from tests.kit.command import FIXTURES, ckpt
from tests.kit.harness.valkey import AgentCoreValkeyHarness, SeeingAgentCoreValkeySaver
from tests.kit.opening import empty_store
from tests.kit.savers.redis import dump
from tests.kit.savers.redis_threads import (
    client,
    fill,
    fill_plain,
    fill_plainredis,
    fill_shallow,
    fill_valkey,
    plainredis_of,
    valkey_of,
)
from tests.kit.stores import restore_javascript_keys

HOUR = 3600


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not wait for a saver that may be writing."""
    monkeypatch.setattr(thread_faults, "_PAUSE_SECONDS", 0)


def found(url: str) -> dict[str | None, list[Fault]]:
    """All faults of a store by thread; the key None stands for the store itself."""
    faults: dict[str | None, list[Fault]] = {}
    for one in faults_of_all(url):
        faults.setdefault(one.thread_id, []).append(one)
    return faults


def places(url: str) -> dict[str | None, list[tuple[str | None, ...]]]:
    """By thread, the code, namespace and checkpoint of each fault."""
    return {
        thread: [(one.code, one.checkpoint_ns, one.checkpoint_id) for one in faults]
        for thread, faults in found(url).items()
    }


def run_fixes(url: str) -> None:
    """Run each fix as redis-cli would."""
    for faults in found(url).values():
        for one in faults:
            if one.fix:
                run_redis(url, one.fix)


def ids(url: str, thread_id: str) -> list[str]:
    """The checkpoints of a thread, newest first."""
    with open_store(url) as store:
        return [one.key.checkpoint_id for one in store.checkpoints(thread_id)]


# RedisSaver


class Planted(NamedTuple):
    """A fault in the keys of a thread of RedisSaver."""

    command: str
    """What is run; with `{each}`, for each key of the thread."""
    code: str
    at: int | None = None
    """The place of its checkpoint in the history; None if it names none."""


PLANTED = {
    "pointer-lost": Planted("DEL {pointer}", "index-stale"),
    "pointer-to-nothing": Planted("SET {pointer} {head}ffff", "index-stale"),
    "pointer-to-parent": Planted("SET {pointer} {before}", "head-not-newest", 1),
    "write-not-listed": Planted("ZREM {written_before} {write}", "index-stale", 1),
    "list-lost": Planted("DEL {written}", "index-stale", 0),
    "write-lost": Planted("DEL {write}", "index-stale", 1),
    "writes-hidden": Planted("JSON.SET {head} $.has_writes false", "index-stale", 0),
    "one-expires": Planted("EXPIRE {before} 3600", "ttl-partial", 1),
    "all-but-one-expire": Planted("EXPIRE {each} 3600", "ttl-partial"),
}


def pointer(thread: str) -> str:
    return f"checkpoint_latest:{thread}:__empty__"


def plant(url: str, thread: str) -> list[str]:
    """Plant the fault after which a thread is named. Returns the thread's history from before."""
    admin, history = client(url), ids(url, thread)
    head, before = (f"checkpoint:{thread}:__empty__:{one}" for one in history[:2])
    written, written_before = (
        one.replace("checkpoint:", "write_keys_zset:", 1) for one in (head, before)
    )
    keys = {"pointer": pointer(thread), "head": head, "before": before, "written": written}
    keys |= {"written_before": written_before}
    keys |= {"write": admin.zrange(written_before, 0, 0)[0].decode()}
    kinds = ("checkpoint", "checkpoint_write", "write_keys_zset")
    names = [one for kind in kinds for one in admin.scan_iter(f"{kind}:{thread}:*")]
    command = PLANTED[thread].command
    for each in names if "{each}" in command else names[:1]:
        admin.execute_command(*command.format(each=each.decode(), **keys).split())
    return history


def test_keys_that_contradict_documents(redis_stack_url: str) -> None:
    fill(redis_stack_url, "sound", *PLANTED, asks=True)
    assert found(redis_stack_url) == {}
    expected: dict[str | None, list[tuple[str | None, ...]]] = {}
    for thread, (_, code, at) in PLANTED.items():
        history = plant(redis_stack_url, thread)
        expected[thread] = [(code, "", None if at is None else history[at])]
    before = dump(redis_stack_url)
    assert places(redis_stack_url) == expected
    assert dump(redis_stack_url).keys() == before.keys()
    run_fixes(redis_stack_url)
    assert found(redis_stack_url) == {}
    with RedisSaver.from_conn_string(redis_stack_url) as saver:
        saver.setup()
        for thread in {*PLANTED} - {"write-lost"}:
            state = graph_of(saver, asks=True).get_state(config_of(thread))
            assert [one.value for one in state.interrupts] == ["sure?"], thread


UNLOADED = {
    "pointer-lost": "the saver finds no checkpoint: there is no pointer to this one",
    "pointer-to-nothing": "the saver finds no checkpoint: the pointer names one that is not stored",
    "pointer-to-parent": "the saver loads {} instead, which the pointer to the head names",
}


@pytest.mark.engines
def test_a_head_that_the_saver_does_not_load_is_shown_as_such(redis_stack_url: str) -> None:
    fill(redis_stack_url, "sound", *UNLOADED, asks=True)
    url = redis_stack_url
    for thread, words in UNLOADED.items():
        history = plant(url, thread)
        told = words.format(history[1])
        with RedisSaver.from_conn_string(url) as saver:
            saver.setup()
            loaded = saver.get_tuple(config_of(thread))
        found = None if loaded is None else loaded.checkpoint["id"]
        assert found == (history[1] if thread == "pointer-to-parent" else None)
        listed = findings(url, thread)
        assert [one["severity"] for one in listed] == ["error" if loaded is None else "warning"]
        assert ckpt("-s", url, "show", thread, "-o", "json").json["unloaded"] == told
        assert f"warning  {told[:30]}" in ckpt("-s", url, "show", thread).out
        assert "unloaded" not in ckpt("-s", url, "show", thread, "~1", "-o", "json").json
        (asked,) = ckpt("-s", url, "interrupts", thread, "-o", "json").json
        assert asked["unloaded"] == told
    assert "unloaded" not in ckpt("-s", url, "show", "sound", "-o", "json").json
    answer = ckpt("-s", url, "interrupts")
    assert answer.err.count("waits at its newest checkpoint") == len(UNLOADED)
    assert "thread 'sound'" not in answer.err


def test_what_a_saver_is_about_to_store_is_no_fault(
    redis_stack_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(redis_stack_url, "trip")
    admin = client(redis_stack_url)
    head = admin.get(pointer("trip"))
    admin.delete(pointer("trip"))
    monkeypatch.setattr(thread_faults, "_PAUSE_SECONDS", 0.5)
    saver = threading.Timer(0.1, lambda: admin.set(pointer("trip"), head))
    saver.start()
    assert found(redis_stack_url) == {}
    saver.join()


@pytest.mark.engines
@pytest.mark.parametrize("chosen", [(), ("t0", "t1", "t2", "t3")])
def test_the_doctor_waits_once_for_all_threads(
    redis_stack_url: str, monkeypatch: pytest.MonkeyPatch, chosen: tuple[str, ...]
) -> None:
    monkeypatch.setattr(thread_faults, "_PAUSE_SECONDS", 1.0)
    waited: list[float] = []
    monkeypatch.setattr(thread_faults, "sleep", waited.append)
    fill(redis_stack_url, "t0", "t1", "t2", "t3", asks=True)
    for thread in ("t0", "t1", "t2", "t3"):
        client(redis_stack_url).delete(pointer(thread))
    answer = ckpt("-s", redis_stack_url, "doctor", *chosen, "-o", "json").json
    assert [one["code"] for one in answer["findings"]] == ["index-stale"] * 4
    assert sum(waited) <= 1.0


@pytest.mark.engines
def test_a_search_index_that_is_gone(redis_stack_url: str) -> None:
    fill(redis_stack_url, "trip")
    client(redis_stack_url).execute_command("FT.DROPINDEX", "checkpoint_write")
    (one,) = found(redis_stack_url)[None]
    assert (one.code, one.is_error) == ("index-missing", True)
    assert "checkpoint_write:" in one.detail
    with (
        RedisSaver.from_conn_string(redis_stack_url) as saver,
        pytest.raises(Exception, match="no such index"),
    ):
        list(saver.list(config_of("trip")))
    fill(redis_stack_url, "other")
    assert found(redis_stack_url) == {}


@pytest.mark.engines
def test_nothing_is_wrong_after_what_the_saver_itself_does(redis_stack_url: str) -> None:
    times: Any = {"ttl": {"default_ttl": 60, "refresh_on_read": True}}
    fill(redis_stack_url, "pruned", "deleted", "kept", asks=True)
    fill(redis_stack_url, "expiring", "read", asks=True, **times)
    with RedisSaver.from_conn_string(redis_stack_url, **times) as saver:
        saver.setup()
        saver.prune(["pruned"], keep_last=2)
        saver.delete_thread("deleted")
        list(graph_of(saver).get_state_history({"configurable": {"thread_id": "read"}}))
        graph_of(saver).get_state({"configurable": {"thread_id": "read"}})
    assert found(redis_stack_url) == {}


THREADS = ("trip", "back", "pruned", "archived")
FILLS: dict[str, Callable[[str, int | None], None]] = {
    "redis": lambda url, seconds: fill(
        url, *THREADS, asks=True, ttl={"default_ttl": seconds // 60} if seconds else None
    ),
    "redis-hash": lambda url, seconds: fill_plain(url, *THREADS, seconds=seconds or 0),
    "redis-plain": lambda url, seconds: fill_plainredis(url, *THREADS, asks=True, ttl=seconds),
    "valkey": lambda url, seconds: fill_valkey(url, *THREADS, asks=True, ttl=seconds),
}


@pytest.mark.engines
def test_a_write_that_a_shallow_saver_lists_not(redis_stack_url: str) -> None:
    fill_shallow(redis_stack_url, "trip", "sound", asks=True)
    assert found(redis_stack_url) == {}
    client(redis_stack_url).delete("write_registry:trip:__empty__:shallow")
    head = ids(redis_stack_url, "trip")[0]
    assert places(redis_stack_url) == {"trip": [("index-stale", "", head)]}
    run_fixes(redis_stack_url)
    assert found(redis_stack_url) == {}


def test_writes_that_expire_alone_may_outlive_their_checkpoint(redis_stack_url: str) -> None:
    fill(redis_stack_url, "trip", asks=True)
    admin = client(redis_stack_url)
    with open_store(redis_stack_url) as store:
        ids = [one.key.checkpoint_id for one in store.checkpoints("trip")]
    admin.delete(*admin.scan_iter(f"checkpoint:trip:*:{ids[1]}"))

    def codes() -> set[str]:
        words = ("doctor", "--grace", "0s", "-o", "json")
        return {one["code"] for one in ckpt("-s", redis_stack_url, *words).json["findings"]}

    assert "write-orphaned" in codes()
    for name in [*admin.scan_iter(f"checkpoint_write:trip:*:{ids[0]}:*")]:
        admin.expire(name, HOUR)
    assert "write-orphaned" not in codes()


# Eviction


@pytest.fixture(
    params=[*FILLS, "redis-js", "redis-shallow", "redis-js-shallow", "valkey-agentcore"]
)
def evicting_url(redis_stack_url: str, request: pytest.FixtureRequest) -> Iterator[str]:
    """A store in each layout, in a server that removed keys of someone else."""
    layout: str = request.param
    if layout in FILLS:
        FILLS[layout](redis_stack_url, None)
    elif layout == "redis-shallow":
        fill_shallow(redis_stack_url, *THREADS, asks=True)
    elif layout == "valkey-agentcore":
        with Valkey.from_url(redis_stack_url) as kept:
            talk(SeeingAgentCoreValkeySaver(kept), *THREADS, asks=True)
    else:
        restore_javascript(layout.replace("redis-js", "redis"), redis_stack_url)
    admin = client(redis_stack_url)
    admin.config_set("maxmemory-policy", "volatile-random")
    admin.config_set("maxmemory", int(admin.info("memory")["used_memory"]) + (1 << 17))
    for n in range(1000):
        admin.set(f"cache:{n}", "x" * 3000, ex=HOUR)
        if admin.info("stats")["evicted_keys"]:
            break
    admin.config_set("maxmemory", 0)
    admin.delete(*admin.scan_iter("cache:*"))
    yield redis_stack_url
    admin.config_set("maxmemory-policy", "noeviction")
    admin.config_resetstat()


@pytest.mark.engines
def test_a_server_that_evicts(evicting_url: str) -> None:
    admin = client(evicting_url)
    assert found(evicting_url) == {}  # These keys do not expire, so they are not removed.
    admin.config_set("maxmemory-policy", "allkeys-lru")
    (one,) = found(evicting_url)[None]
    assert one.code == "keys-evicted"
    assert re.fullmatch(r"the server removed \d+ keys? because .* allkeys-lru\).*", one.detail)
    assert "; CONFIG SET maxmemory-policy noeviction keeps the others" in one.detail
    admin.config_set("maxmemory-policy", "noeviction")
    (one,) = found(evicting_url)[None]
    assert "maxmemory-policy noeviction)" in one.detail
    assert "CONFIG SET" not in one.detail
    admin.config_resetstat()
    assert found(evicting_url) == {}


@pytest.mark.engines
def test_what_eviction_explains_is_said_once_for_a_thread(redis_stack_url: str) -> None:
    fill(redis_stack_url, "trip", "sound", asks=True)
    admin = client(redis_stack_url)
    for name in [*admin.scan_iter("checkpoint_write:trip:*")]:
        if admin.execute_command("JSON.GET", name, "channel") == b'"items"':
            admin.delete(name)

    words = ["doctor", "--deep", "--grace", "0s", "-o", "json"]

    def codes() -> dict[str | None, set[str]]:
        kinds: dict[str | None, set[str]] = {}
        for one in ckpt("-s", redis_stack_url, *words).json["findings"]:
            kinds.setdefault(one["thread_id"], set()).add(one["code"])
        return kinds

    assert codes() == {"trip": {"index-stale", "state-mismatch"}}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RedisStore, "evicted", lambda _: "the server removed 5 keys")
        assert codes() == {None: {"keys-evicted"}, "trip": {"index-stale", "keys-evicted"}}
        answer = ckpt("-s", redis_stack_url, *words, "trip")
    (one,) = [one for one in answer.json["findings"] if one["code"] == "keys-evicted"]
    assert (answer.code, one["severity"], one["thread_id"]) == (1, "error", "trip")
    assert one["detail"].endswith("x state-mismatch): the server removed 5 keys")


# LangGraph.js


def restore_javascript(name: str, url: str) -> None:
    """Restore a recording, without the thread in which LangGraph.js itself hides writes."""
    restore_javascript_keys(FIXTURES / "js-1.7.3" / f"{name}.jsonl.gz", url)
    hidden = {"functional-asking": [("index-stale", "", ids(url, "functional-asking")[0])]}
    assert places(url) == (hidden if name == "redis" else {})
    if name == "redis":
        (one,) = found(url)["functional-asking"]
        assert one.is_info
        run_fixes(url)
    assert found(url) == {}


@pytest.mark.engines
@pytest.mark.parametrize("name", ["redis", "redis-shallow"])
def test_a_key_of_langgraph_js_that_does_not_expire_is_named(
    name: str, redis_stack_url: str
) -> None:
    restore_javascript(name, redis_stack_url)
    admin = client(redis_stack_url)
    for one in admin.scan_iter("*:interrupt-alone:*"):
        admin.expire(one, HOUR)
    assert found(redis_stack_url) == {}
    head = ids(redis_stack_url, "interrupt-alone")[0]
    admin.persist("checkpoint:interrupt-alone::" + (head if name == "redis" else "shallow"))
    assert places(redis_stack_url) == {"interrupt-alone": [("ttl-partial", "", head)]}
    run_fixes(redis_stack_url)
    assert found(redis_stack_url) == {}


@pytest.mark.engines
@pytest.mark.parametrize("name", ["redis", "redis-shallow"])
def test_writes_that_langgraph_js_does_not_read(name: str, redis_stack_url: str) -> None:
    restore_javascript(name, redis_stack_url)
    head = ids(redis_stack_url, "interrupt-alone")[0]
    document = "checkpoint:interrupt-alone::" + (head if name == "redis" else "shallow")
    client(redis_stack_url).execute_command("JSON.SET", document, "$.has_writes", '"false"')
    assert places(redis_stack_url) == {"interrupt-alone": [("index-stale", "", head)]}
    run_fixes(redis_stack_url)
    told = client(redis_stack_url).execute_command("JSON.GET", document, "$.has_writes")
    assert told == b'["true"]'
    assert found(redis_stack_url) == {}


@pytest.mark.engines
def test_a_value_that_langgraph_js_lost_is_named(redis_stack_url: str) -> None:
    restore_javascript("redis", redis_stack_url)
    url, admin, lost = redis_stack_url, client(redis_stack_url), 0
    listed = findings(url)
    assert "value-missing" not in {one["code"] for one in listed}
    for thread in ("chat", "fanout-send", "interrupt-answered", "loop"):
        shown = ckpt("-s", url, "show", thread, "-o", "json").json
        head = shown["checkpoint_id"]
        for channel in shown["values"]:
            name = f"checkpoint_blob:{thread}::{channel}:{shown['versions'][channel]}"
            inside = f'$.checkpoint.channel_values["{channel}"]'
            if admin.execute_command("JSON.GET", document_of(thread, head), inside) != b"[]":
                continue  # Its value is also in the checkpoint.
            kept = admin.execute_command("JSON.GET", name)
            admin.delete(name)
            listed = findings(url, thread)
            told = {(one["code"], one["channel"]) for one in listed}
            assert told == {("value-missing", channel)}, thread
            assert ckpt("-s", url, "show", thread, "-o", "json").json["unstored"] == [channel]
            admin.execute_command("JSON.SET", name, "$", kept)
            lost += 1
    assert lost
    head = ids(url, "chat")[0]
    version = ckpt("-s", url, "show", "chat", "-o", "json").json["versions"]["messages"]
    # Neither the checkpoint that the step made nor a document has the value that tasks wrote.
    inside = "$.checkpoint.channel_values.messages"
    assert admin.execute_command("JSON.DEL", document_of("chat", head), inside)
    assert admin.delete(f"checkpoint_blob:chat::messages:{version}")
    listed = findings(url, "chat")
    assert [(one["code"], one["channel"]) for one in listed] == [("value-missing", "messages")]


def document_of(thread: str, own: str) -> str:
    """The key of a checkpoint of LangGraph.js in the root namespace."""
    return f"checkpoint:{thread}::{own}"


# Layouts without modules


@pytest.mark.engines
def test_a_key_of_the_guides_saver_that_does_not_expire_is_named(redis_url: str) -> None:
    fill_plain(redis_url, "trip", "sound", seconds=HOUR)
    assert found(redis_url) == {}
    own = ids(redis_url, "trip")[1]
    client(redis_url).persist(f"checkpoint$trip$${own}")
    assert places(redis_url) == {"trip": [("ttl-partial", "", own)]}
    run_fixes(redis_url)
    assert found(redis_url) == {}


@pytest.mark.engines
@pytest.mark.parametrize("seconds", [None, HOUR])
def test_lists_of_valkey_that_contradict_checkpoints(redis_url: str, seconds: int | None) -> None:
    fill_valkey(redis_url, "head", "older", "listless", "unlisted", "sound", ttl=seconds)
    assert found(redis_url) == {}
    admin = client(redis_url)
    kept = admin.lrange("thread:{listless}:", 0, -1)
    of = {name: ids(redis_url, name) for name in ("head", "older", "unlisted")}
    admin.delete(f"checkpoint:{{head}}::{of['head'][0]}")
    admin.delete(f"checkpoint:{{older}}::{of['older'][1]}")
    admin.delete("thread:{listless}:")
    admin.lrem("thread:{unlisted}:", 0, of["unlisted"][1])
    expected = {
        "head": [("index-stale", "", of["head"][0])],
        "listless": [("index-stale", "", None)],
        "unlisted": [("index-stale", "", of["unlisted"][1])],
    }
    if seconds is None:  # otherwise it has expired
        expected["older"] = [("index-stale", "", of["older"][1])]
    assert places(redis_url) == expected
    run_fixes(redis_url)
    run_fixes(redis_url)  # a list that is stored again gets its time to live
    # Whether a checkpoint that is in no list belongs there, nobody can tell.
    assert places(redis_url) == {"unlisted": expected["unlisted"]}
    assert admin.lrange("thread:{listless}:", 0, -1) == kept
    assert "items" in graph_of(valkey_of(redis_url)).get_state(config_of("head")).values


@pytest.mark.engines
def test_lists_of_agentcore_that_contradict_checkpoints(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    with empty_store(AgentCoreValkeyHarness, request, tmp_path) as harness:
        with harness.saver() as saver:
            talk(saver, "head", "listless", "unlisted", "sound")
        url, admin = harness.url, harness.client
        assert found(url) == {}
        of = {name: ids(url, name) for name in ("head", "unlisted")}
        kept = admin.lrange(harness.listed("listless", ""), 0, -1)
        admin.delete(harness.key("checkpoint", "head", "", of["head"][0]))
        admin.delete(harness.listed("listless", ""))
        admin.lrem(harness.listed("unlisted", ""), 0, of["unlisted"][1])
        unlisted = [("index-stale", "", of["unlisted"][1])]
        assert places(url) == {
            "head": [("index-stale", "", of["head"][0])],
            "listless": [("index-stale", "", None)],
            "unlisted": unlisted,
        }
        run_fixes(url)
        assert places(url) == {"unlisted": unlisted}
        assert admin.lrange(harness.listed("listless", ""), 0, -1) == kept


@pytest.mark.engines
@pytest.mark.parametrize("seconds", [None, HOUR])
def test_a_timeline_that_names_lost_checkpoints(redis_url: str, seconds: int | None) -> None:
    fill_plainredis(redis_url, "head", "older", "sound", ttl=seconds)
    assert found(redis_url) == {}
    admin = client(redis_url)
    of = {name: ids(redis_url, name) for name in ("head", "older")}
    admin.delete(f"lg:cp:head::{of['head'][0]}", f"lg:cp:older::{of['older'][1]}")
    expected = {"head": [("index-stale", "", of["head"][0])]}
    if seconds is None:
        expected["older"] = [("index-stale", "", of["older"][1])]
    assert places(redis_url) == expected
    run_fixes(redis_url)
    assert found(redis_url) == {}
    state = graph_of(plainredis_of(redis_url)).get_state(config_of("head"))
    assert state.values["items"] == ["in head", "from a", "from b"]


@pytest.mark.engines
def test_a_timeline_that_is_not_registered(redis_url: str) -> None:
    fill_plainredis(redis_url, "trip", "a:b")
    admin = client(redis_url)
    admin.hdel("lg:threads", "lg:idx:a:b:")
    assert places(redis_url) == {"a:b": [("index-stale", "", None)]}
    run_fixes(redis_url)
    assert found(redis_url) == {}
    with open_store(redis_url) as store:
        assert {one.thread_id for one in store.threads()} == {"trip", "a:b"}
