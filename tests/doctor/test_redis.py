"""Faults of what only layouts on Redis have: pointers, lists, flags, search indexes, expiry."""

import re
import shlex
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from langgraph.checkpoint.redis import RedisSaver

from ckpt_backends.model import Fault
from ckpt_backends.redis.engine import store as thread_faults
from ckpt_backends.redis.engine.store import RedisStore
from ckpt_backends.registry import open_store
from tests.doctor.asking import faults_of_all, findings, run_redis
from tests.doctor.engine_faults import REDIS
from tests.kit.agents.steps import config_of, graph_of, talk
from tests.kit.command import FIXTURES, ckpt, ids_of
from tests.kit.harness import HARNESSES
from tests.kit.harness.redis import dump
from tests.kit.harness.valkey import ACTOR
from tests.kit.opening import empty_store
from tests.kit.planting.planters import fill as fill_scenarios
from tests.kit.savers.redis_threads import (
    client,
    fill,
    fill_plainredis,
    fill_shallow,
    fill_valkey,
    plainredis_of,
)
from tests.kit.stores import restore_javascript_keys

KINDS = {kind.name: kind for kind in HARNESSES}
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


def admin_of(url: str) -> Any:
    """A client of the server, whatever its scheme."""
    return client(f"redis://{urlsplit(url).netloc}")


def run_fixes(url: str) -> None:
    """Run each fix as redis-cli would."""
    for faults in found(url).values():
        for one in faults:
            if one.fix:
                run_redis(url, one.fix)


# RedisSaver


PLANTED: dict[str, tuple[str, str, int | None]] = {
    "pointer-lost": ("DEL {pointer}", "index-stale", None),
    "pointer-to-nothing": ("SET {pointer} {head}ffff", "index-stale", None),
    "pointer-to-parent": ("SET {pointer} {before}", "head-not-newest", 1),
    "write-not-listed": ("ZREM {written_before} {write}", "index-stale", 1),
    "list-lost": ("DEL {written}", "index-stale", 0),
    "write-lost": ("DEL {write}", "index-stale", 1),
    "writes-hidden": ("JSON.SET {head} $.has_writes false", "index-stale", 0),
    "all-but-one-expire": ("EXPIRE {each} 3600", "ttl-partial", None),
}
"""By thread: what is run, with `{each}` for each key of the thread; the code; and the place of its
checkpoint in the history, None if it names none."""


def pointer(thread: str) -> str:
    return f"checkpoint_latest:{thread}:__empty__"


def plant(url: str, thread: str) -> list[str]:
    """Plant the fault after which a thread is named. Returns the thread's history from before."""
    admin, history = client(url), ids_of(url, thread)
    head, before = (f"checkpoint:{thread}:__empty__:{one}" for one in history[:2])
    written, written_before = (
        one.replace("checkpoint:", "write_keys_zset:", 1) for one in (head, before)
    )
    keys = {"pointer": pointer(thread), "head": head, "before": before, "written": written}
    keys |= {"written_before": written_before}
    keys |= {"write": admin.zrange(written_before, 0, 0)[0].decode()}
    kinds = ("checkpoint", "checkpoint_write", "write_keys_zset")
    names = [one for kind in kinds for one in admin.scan_iter(f"{kind}:{thread}:*")]
    command = PLANTED[thread][0]
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
    assert (places(redis_stack_url), dump(redis_stack_url).keys()) == (expected, before.keys())
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


@pytest.mark.engines
def test_doctor_waits_once_for_all(redis_stack_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thread_faults, "_PAUSE_SECONDS", 1.0)
    waited: list[float] = []
    monkeypatch.setattr(thread_faults, "sleep", waited.append)
    fill(redis_stack_url, "t0", "t1", asks=True)
    client(redis_stack_url).delete(pointer("t0"), pointer("t1"))
    assert [one["code"] for one in findings(redis_stack_url)] == ["index-stale"] * 2
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
def test_a_write_that_a_shallow_saver_lists_not(redis_stack_url: str) -> None:
    fill_shallow(redis_stack_url, "trip", "sound", asks=True)
    assert found(redis_stack_url) == {}
    client(redis_stack_url).delete("write_registry:trip:__empty__:shallow")
    head = ids_of(redis_stack_url, "trip")[0]
    assert places(redis_stack_url) == {"trip": [("index-stale", "", head)]}
    run_fixes(redis_stack_url)
    assert found(redis_stack_url) == {}


# Eviction


@pytest.mark.engines
@pytest.mark.parametrize("layout", REDIS)
def test_keys_that_expire_or_are_evicted(
    layout: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    with empty_store(KINDS[layout], request, tmp_path) as harness:
        url, admin = harness.url, admin_of(harness.url)
        fill_scenarios(harness, frozenset({"chat", "interrupt-alone"}))
        assert found(url) == {}
        with open_store(url) as store:
            key = next(iter(store.checkpoints("interrupt-alone"))).key
            name = shlex.split(store.sources(key)[0])[1]
        assert admin.expire(name, HOUR)
        assert places(url) == {"interrupt-alone": [("ttl-partial", "", key.checkpoint_id)]}
        run_fixes(url)
        assert found(url) == {}

        admin.config_set("maxmemory-policy", "volatile-random")
        admin.config_set("maxmemory", int(admin.info("memory")["used_memory"]) + (1 << 17))
        for n in range(1000):
            admin.set(f"cache:{n}", "x" * 3000, ex=HOUR)
            if admin.info("stats")["evicted_keys"]:
                break
        admin.config_set("maxmemory", 0)
        admin.delete(*admin.scan_iter("cache:*"))
        assert found(url) == {}  # These keys do not expire, so they are not removed.
        admin.config_set("maxmemory-policy", "allkeys-lru")
        (one,) = found(url)[None]
        assert one.code == "keys-evicted"
        assert re.fullmatch(r"the server removed \d+ keys? because .* allkeys-lru\).*", one.detail)
        assert "; CONFIG SET maxmemory-policy noeviction keeps the others" in one.detail
        admin.config_set("maxmemory-policy", "noeviction")
        (one,) = found(url)[None]
        assert "maxmemory-policy noeviction)" in one.detail
        assert "CONFIG SET" not in one.detail
        admin.config_resetstat()
        assert found(url) == {}


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
    hidden = {"functional-asking": [("index-stale", "", ids_of(url, "functional-asking")[0])]}
    assert places(url) == (hidden if name == "redis" else {})
    if name == "redis":
        (one,) = found(url)["functional-asking"]
        assert one.is_info
        run_fixes(url)
    assert found(url) == {}


@pytest.mark.engines
@pytest.mark.parametrize("name", ["redis", "redis-shallow"])
def test_writes_that_langgraph_js_does_not_read(name: str, redis_stack_url: str) -> None:
    restore_javascript(name, redis_stack_url)
    head = ids_of(redis_stack_url, "interrupt-alone")[0]
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
    url, admin = redis_stack_url, client(redis_stack_url)
    assert "value-missing" not in {one["code"] for one in findings(url)}
    shown = ckpt("-s", url, "show", "chat", "-o", "json").json
    document = f"checkpoint:chat::{shown['checkpoint_id']}"
    # Neither the checkpoint that the step made nor a document has the value that tasks wrote.
    admin.execute_command("JSON.DEL", document, "$.checkpoint.channel_values.messages")
    assert admin.delete(f"checkpoint_blob:chat::messages:{shown['versions']['messages']}")
    listed = findings(url, "chat")
    assert [(one["code"], one["channel"]) for one in listed] == [("value-missing", "messages")]
    assert ckpt("-s", url, "show", "chat", "-o", "json").json["unstored"] == ["messages"]


# Layouts without modules


LISTS = {
    "valkey": ("checkpoint:{{{0}}}::{1}", "thread:{{{0}}}:"),
    "valkey-agentcore": (
        f"agentcore:checkpoint:{{0}}:{ACTOR}::{{1}}",
        f"agentcore:session:{{0}}:{ACTOR}:checkpoints",
    ),
}
"""By layout, the key of a checkpoint, and that of the list of a thread's checkpoints."""


@pytest.mark.engines
@pytest.mark.parametrize("layout", LISTS)
def test_contradicting_lists(layout: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    checkpoint, listed = LISTS[layout]
    with empty_store(KINDS[layout], request, tmp_path) as harness:
        with harness.saver() as saver:
            talk(saver, "head", "older", "listless", "unlisted", "sound")
        url, admin = harness.url, admin_of(harness.url)
        assert found(url) == {}
        kept = admin.lrange(listed.format("listless"), 0, -1)
        of = {name: ids_of(url, name) for name in ("head", "older", "unlisted")}
        assert admin.delete(checkpoint.format("head", of["head"][0]))
        assert admin.delete(checkpoint.format("older", of["older"][1]))
        assert admin.delete(listed.format("listless"))
        assert admin.lrem(listed.format("unlisted"), 0, of["unlisted"][1])
        # Whether a checkpoint that is in no list belongs there, nobody can tell.
        stays = {"unlisted": [("index-stale", "", of["unlisted"][1])]}
        assert places(url) == {
            **stays,
            "head": [("index-stale", "", of["head"][0])],
            "older": [("index-stale", "", of["older"][1])],
            "listless": [("index-stale", "", None)],
        }
        run_fixes(url)
        assert places(url) == stays
        assert admin.lrange(listed.format("listless"), 0, -1) == kept
        with harness.saver() as saver:
            assert "items" in graph_of(saver).get_state(config_of("head")).values


@pytest.mark.engines
def test_a_list_may_name_what_has_expired(redis_url: str) -> None:
    fill_valkey(redis_url, "older", "listless", ttl=HOUR)
    client(redis_url).delete(f"checkpoint:{{older}}::{ids_of(redis_url, 'older')[1]}")
    assert found(redis_url) == {}
    client(redis_url).delete("thread:{listless}:")
    run_fixes(redis_url)
    run_fixes(redis_url)  # a list that is stored again gets its time to live
    assert found(redis_url) == {}


@pytest.mark.engines
def test_a_timeline_that_names_lost_checkpoints(redis_url: str) -> None:
    fill_plainredis(redis_url, "head", "older", "a:b")
    fill_plainredis(redis_url, "expired", ttl=HOUR)
    assert found(redis_url) == {}
    admin = client(redis_url)
    of = {name: ids_of(redis_url, name) for name in ("head", "older", "expired")}
    admin.delete(f"lg:cp:head::{of['head'][0]}")
    admin.delete(*(f"lg:cp:{name}::{of[name][1]}" for name in ("older", "expired")))
    admin.hdel("lg:threads", "lg:idx:a:b:")
    assert places(redis_url) == {
        "head": [("index-stale", "", of["head"][0])],
        "older": [("index-stale", "", of["older"][1])],
        "a:b": [("index-stale", "", None)],
    }
    run_fixes(redis_url)
    assert found(redis_url) == {}
    state = graph_of(plainredis_of(redis_url)).get_state(config_of("head"))
    assert state.values["items"] == ["in head", "from a", "from b"]
    with open_store(redis_url) as store:
        assert {one.thread_id for one in store.threads()} == {"head", "older", "expired", "a:b"}
