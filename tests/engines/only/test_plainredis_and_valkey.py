"""What only the savers of plainredis, and of AWS on Valkey, store in keys of Redis."""

import json
from base64 import b64decode, b64encode
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from re import findall
from typing import Any

import pytest
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.types import Command
from langgraph_checkpoint_aws import AgentCoreValkeySaver
from valkey import Valkey

from ckpt_backends.apps.plainredis import layout as plain_removal
from ckpt_backends.changes import MOVED
from ckpt_backends.open_for_writing import open_writable
from ckpt_backends.redis.engine import layout as thread_removal
from ckpt_backends.registry import open_store
from ckpt_backends.testing.official import drive
from ckpt_backends.testing.scenarios.catalog import SCENARIOS
from ckpt_backends.url import parse_url
from tests.engines.answers import check_damaged, items_of, refuses, succeeds
from tests.kit.agents.steps import config_of, graph_of
from tests.kit.command import ckpt, ids_of
from tests.kit.harness.redis import dump
from tests.kit.savers.redis_threads import (
    client,
    fill_plain,
    fill_plainredis,
    fill_valkey,
    keys,
    plainredis_of,
    removal_of,
    valkey_of,
)

# plainredis: timelines, a registry, everything in texts, values that all branches share


pytestmark = pytest.mark.engines

SEQ = b"lg:seq"


def held(url: str) -> dict[bytes, Any]:
    """All keys but the counter, which only grows."""
    return {name: value for name, value in keys(url).items() if name != SEQ}


def items(url: str, thread_id: str, saver: Callable[..., Any] = plainredis_of) -> list[str]:
    """What the official saver reads."""
    state = graph_of(saver(url)).get_state(config_of(thread_id))
    return list(state.values.get("items", []))


# Ids that a split would take for one another


def test_a_value_that_two_threads_could_have_is_that_of_who_names_it(redis_url: str) -> None:
    """`lg:blob:a::node:x:1` is of the root of `a`, or of the namespace `node` of `a:`."""
    fill_plainredis(redis_url, "a")
    saver = plainredis_of(redis_url)
    head = saver.get_tuple(config_of("a"))
    place = {"configurable": {"thread_id": "a:", "checkpoint_ns": "node"}}
    saver.put(place, {**head.checkpoint, "channel_values": {"x": 1}}, {}, {"x": 9})
    body = {**head.checkpoint, "channel_values": {"node:y": 2}}
    body = {**body, "id": f"{body['id'][:-4]}ffff", "channel_versions": {"node:y": 7}}
    saver.put(head.config, body, {}, {"node:y": 7})
    saver.client.set("lg:blob:a::node:z:1", "named by nobody")
    with open_store(redis_url) as store:
        mine = {(key.channel, key.version) for key, _ in store.blobs("a")}
        assert ("node:y", "7") in mine
        assert not {one for one in mine if one[0] in {"x", "z", "node:x", "node:z"}}
    ckpt("-s", redis_url, "threads", "delete", "a", "--yes", code=0)
    assert {one for one in keys(redis_url) if one.startswith(b"lg:blob:a")} == {
        b"lg:blob:a::node:z:1",
        b"lg:blob:a::node:x:9",
    }


# Branches


def test_the_head_is_what_was_stored_last(redis_url: str) -> None:
    """Not the greatest id: so the saver has it."""
    fill_plainredis(redis_url, "trip")
    newest, _, older, _ = ids_of(redis_url, "trip")
    client(redis_url).zadd("lg:idx:trip:", {older: 1000})
    client(redis_url).set(SEQ, 1000)
    assert ids_of(redis_url, "trip")[0] == older
    shown = ckpt("-s", redis_url, "show", "trip", "-o", "json").json
    assert shown["checkpoint_id"] == older
    tree = ckpt("-s", redis_url, "show", "trip", "--tree").out.splitlines()
    (marked,) = (line for line in tree if "head" in line)
    assert older[-4:] in marked
    stored = plainredis_of(redis_url).get_tuple(config_of("trip")).checkpoint["channel_values"]
    assert stored["items"] == shown["values"]["items"] == ["in trip"]
    ckpt("-s", redis_url, "rollback", "trip", newest, "--yes", code=0)
    assert items(redis_url, "trip") == ["in trip", "from a", "from b"]


def test_a_copy_has_seen_the_version_that_was_raised(redis_url: str) -> None:
    """An answer marks what an interrupt has seen, which is not to count as new in a copy."""
    saver = plainredis_of(redis_url)
    fill_plainredis(redis_url, "trip", asks=True)
    graph_of(saver, asks=True).invoke(Command(resume="yes"), config_of("trip"))
    succeeds(redis_url, "rollback", "trip", "head", "--yes")
    copy = saver.get_tuple(config_of("trip")).checkpoint
    seen, versions = copy["versions_seen"]["__interrupt__"], copy["channel_versions"]
    assert seen["__start__"] == versions["__start__"]


def test_what_went_by_itself_counts_for_nothing(redis_url: str) -> None:
    """The timeline is kept alive by each checkpoint, and keeps the ids of those that are gone."""
    fill_plainredis(redis_url, "trip", "other", ttl=3600)
    *_, oldest = ids_of(redis_url, "trip")
    admin = client(redis_url)
    admin.delete(f"lg:cp:trip::{oldest}")
    assert len(ids_of(redis_url, "trip")) == 3
    with open_store(redis_url) as store:
        counts = {one.thread_id: one.checkpoints for one in store.threads()}
        assert counts == {"trip": 3, "other": 4}
        assert store.size("trip").checkpoints == 3
    admin.delete(*(one for one in keys(redis_url) if one.startswith(b"lg:cp:other")))
    (listed,) = ckpt("-s", redis_url, "threads", "list", "-o", "json").json
    assert listed["thread_id"] == "trip"
    assert "expires_at" in listed
    for name in ("trip", "other"):
        ckpt("-s", redis_url, "threads", "delete", name, "--yes", code=0)
    assert keys(redis_url).keys() == {SEQ}


def test_what_comes_back_stands_before_what_is_stored_next(redis_url: str, tmp_path: Path) -> None:
    """Also in a server that never counted so far."""
    fill_plainredis(redis_url, "first", "trip")

    def mine() -> dict[bytes, Any]:
        return {name: value for name, value in held(redis_url).items() if b"trip" in name}

    before = mine()
    assert before
    ckpt("-s", redis_url, "export", "trip", "--to", tmp_path, code=0)
    client(redis_url).flushall()
    fill_plainredis(redis_url, "other")
    (bundle,) = tmp_path.iterdir()
    succeeds(redis_url, "import", bundle, "--yes")
    assert mine() == before
    fill_plainredis(redis_url, "trip")
    assert items(redis_url, "trip") == ["in trip", "from a", "from b"] * 2
    ckpt("-s", redis_url, "import", bundle, "--yes", code=6)


def test_a_thread_going_on_midway_stays(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain_removal, "KEYS_AT_ONCE", 4)
    fill_plainredis(redis_url, "trip")
    removal, head = removal_of(redis_url, "trip"), max(ids_of(redis_url, "trip"))
    ran, number = thread_removal.run, 0

    def late(pipe: Any, step: Any, rows: Any) -> None:
        nonlocal number
        number += 1
        if number == 2:
            fill_plainredis(redis_url, "trip")
        ran(pipe, step, rows)

    with monkeypatch.context() as patch, open_writable(parse_url(redis_url)) as writable:
        patch.setattr(plain_removal, "run", late)
        (done,) = writable.remove([removal])
    assert (done.skipped, done.rows["checkpoint"]) == (MOVED, 1)
    assert head in ids_of(redis_url, "trip")
    assert items(redis_url, "trip") == ["in trip", "from a", "from b"] * 2
    # A subgraph with writes goes in an earlier step than the root.
    saver = plainredis_of(redis_url)
    inner = config_of("trip", checkpoint_ns="inner")
    inner = saver.put(inner, empty_checkpoint(), {"source": "loop", "step": 0}, {})
    saver.put_writes(inner, [("items", ["x"])], "task")
    with open_writable(parse_url(redis_url)) as writable:
        (done,) = writable.remove([removal_of(redis_url, "trip")])
    assert not done.skipped
    assert keys(redis_url).keys() == {SEQ}
    # The counter that is left still tells the layout.
    assert ckpt("-s", redis_url, "threads", "list", "-o", "json").json == []


def test_encrypted_checkpoints_are_named(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Metadata, parent and names of channels are encrypted with them, so nothing can be told."""
    monkeypatch.setenv("LANGGRAPH_AES_KEY", "0123456789abcdef")
    fill_plainredis(redis_url, "trip", serde=EncryptedSerializer.from_pycryptodome_aes())
    shown = ckpt("-s", redis_url, "show", "trip")
    assert shown.code in {0, 4}
    assert "encrypted" in shown.out + shown.err
    ckpt("-s", redis_url, "threads", "list", "--long", code=0)
    before = dump(redis_url)
    ckpt("-s", redis_url, "rollback", "trip", "~0", "--yes", code=4)
    assert dump(redis_url) == before
    ckpt("-s", redis_url, "threads", "delete", "trip", "--yes", code=0)


@pytest.mark.in_ci("\\x00")
@pytest.mark.parametrize(
    "stored",
    [
        b"\x00\xff",
        b'{"t": "msgpack", "d": "%%%"}',
        b'{"t": "msgpack", "d": "' + b64encode(b"\xdf\xff\xff\xff\xff") + b'"}',
        b'{"t": "pickle", "d": "' + b64encode(b"cos\nsystem\n(S'x'\ntR.") + b'"}',
        b"[" * 100_000,
    ],
)
def test_broken_keys_break_nothing(redis_url: str, stored: bytes) -> None:
    fill_plainredis(redis_url, "trip", "other")
    head, *_ = ids_of(redis_url, "trip")
    admin = client(redis_url)
    for name in [one for one in keys(redis_url) if b"blob:trip::items" in one]:
        admin.set(name, stored)
    admin.set(f"lg:cp:trip::{head}", stored)
    admin.hset(f"lg:wr:trip::{head}", "task:x:0", stored)
    admin.hset(f"lg:wr:trip::{head}", "no number", stored)
    admin.hset("lg:threads", "lg:idx:trip:broken", stored)
    check_damaged(redis_url)
    assert not [one for one in keys(redis_url) if b":trip:" in one]


def test_a_lost_value_is_put_back(redis_url: str) -> None:
    drive(plainredis_of(redis_url), SCENARIOS["linear"])
    before = held(redis_url)
    (name, *_) = sorted(one for one in before if one.startswith(b"lg:blob:linear::items:"))[1:]
    client(redis_url).delete(name)
    ckpt("-s", redis_url, "replay", "linear", "--verify", code=1)
    for _ in range(2):
        succeeds(redis_url, "replay", "linear", "--repair", "--yes")
        assert held(redis_url) == before
        client(redis_url).set(name, '{"t": "msgpack", "d": "kv8="}')


# ValkeySaver: lists of checkpoints


HOUR = 3_600_000


def name_of(url: str, kind: str, thread_id: str = "trip", place: int = 0) -> str:
    """The key of a checkpoint or its writes, by its place in the list."""
    own = client(url).lindex(f"thread:{{{thread_id}}}:", place).decode()
    return f"{kind}:{{{thread_id}}}::{own}"


def test_its_urls_open_every_layout(redis_url: str) -> None:
    as_valkey = redis_url.replace("redis://", "valkey://")
    refuses(as_valkey, "threads", "list", says="valkey://HOST:PORT/N")
    with client(redis_url).pipeline() as pipe:
        for number in range(20_000):  # It is found among them, too.
            pipe.set(f"checkpoint:{number}", "x")
        pipe.execute()
    fill_valkey(redis_url, "trip")
    for url in (redis_url, as_valkey):
        (found,) = ckpt("-s", url, "stores", "-o", "json").json
        assert found["layout"] == "valkey"
    client(redis_url).delete(*(f"checkpoint:{number}" for number in range(20_000)))
    fill_plain(redis_url, "trip", separator=":")
    several = refuses(as_valkey, "threads", "list", says="valkey://", code=2)
    assert "layout=redis-hash-colon" in several.err
    for layout in ("valkey", "redis-hash-colon"):
        url = f"{as_valkey}?layout={layout}"
        (listed,) = ckpt("-s", url, "threads", "list", "-o", "json").json
        assert listed["checkpoints"] == 4


def test_a_namespace_with_a_brace_is_told_by_the_checkpoint(redis_url: str) -> None:
    """The keys are those of thread `a}:b` too; only the JSON of the checkpoint names the thread."""
    saver = valkey_of(redis_url)
    config = config_of("a", checkpoint_ns="b}:c")
    place = saver.put(config, empty_checkpoint(), {"source": "input", "step": -1}, {})
    saver.put_writes(place, [("x", 1)], "task")
    with open_store(redis_url) as store:
        assert [found.thread_id for found in store.threads()] == ["a"]
        assert store.namespaces("a") == ["b}:c"]
        assert [found.key.checkpoint_ns for found in store.writes("a")] == ["b}:c"]
        assert store.thread("a}:b") is None
    ckpt("-s", redis_url, "threads", "delete", "a", "--yes", code=0)
    assert keys(redis_url) == {}


def test_the_head_is_the_first_of_its_list(redis_url: str) -> None:
    """A checkpoint that is put again is in the list twice, and is the head."""
    fill_valkey(redis_url, "trip")
    saver = valkey_of(redis_url)
    first, second, *_ = ids_of(redis_url, "trip")
    found = saver.get_tuple(config_of("trip", checkpoint_id=second))
    saver.put(found.parent_config, found.checkpoint, found.metadata, {})
    (listed,) = ckpt("-s", redis_url, "threads", "list", "-o", "json").json
    assert saver.get_tuple(config_of("trip")).checkpoint["id"] == second
    assert listed["head"] == second
    assert ckpt("-s", redis_url, "show", "trip", "-o", "json").json["checkpoint_id"] == second
    succeeds(redis_url, "purge", "--keep-last", "1", "--yes")
    left = {one.checkpoint["id"] for one in saver.list(config_of("trip"))}
    assert {second} <= left <= {first, second}
    assert saver.get_tuple(config_of("trip")).checkpoint["id"] == second


def test_a_head_that_is_gone_is_shown_and_can_be_replaced(redis_url: str) -> None:
    """The saver finds nothing then, though the other checkpoints are still stored."""
    fill_valkey(redis_url, "trip", "other")
    gone = name_of(redis_url, "checkpoint")
    client(redis_url).delete(gone)
    assert items(redis_url, "trip", valkey_of) == []
    listed = ckpt("-s", redis_url, "threads", "list", "-o", "json", "--all").json
    (mine,) = [one for one in listed if one["thread_id"] == "trip"]
    assert gone.endswith(mine["head"])
    assert mine["checkpoints"] == 4
    shown = ckpt("-s", redis_url, "show", "trip")
    assert "still uses it as the head" in shown.out + shown.err
    for words in (["history", "trip"], ["show", "trip", "--tree"], ["du"], ["stats", "trip"]):
        ckpt("-s", redis_url, *words).ends_cleanly(0, 1, 7)
    refuses(redis_url, "copy", "trip", "--as", "new", "--yes", says="so it cannot be copied")
    succeeds(redis_url, "copy", "trip@step:0", "--as", "new", "--yes")
    assert items(redis_url, "new", valkey_of) == ["in trip"]
    succeeds(redis_url, "rollback", "trip", "step:0", "--yes")
    assert items(redis_url, "trip", valkey_of) == ["in trip"]
    # Other ids without a checkpoint are left out, and come back with no change.
    client(redis_url).delete(name_of(redis_url, "checkpoint", place=2))
    before = dump(redis_url)
    ckpt("-s", redis_url, "rollback", "trip", "head", "--yes", code=0)
    ckpt("-s", redis_url, "undo", "trip", "--yes", code=0)
    assert dump(redis_url) == before
    # Without the list, as after a removal that was interrupted, the thread is still found.
    client(redis_url).delete("thread:{trip}:")
    ckpt("-s", redis_url, "threads", "delete", "trip", "--yes", code=0)
    assert {one for one in keys(redis_url) if b"trip" in one} == set()
    assert items(redis_url, "other", valkey_of) == ["in other", "from a", "from b"]


def test_a_new_checkpoint_lives_as_long_as_its_list(redis_url: str) -> None:
    fill_valkey(redis_url, "trip", asks=True, ttl=7200)
    admin = client(redis_url)
    for name in admin.scan_iter():
        admin.pexpire(name, 2 * HOUR if name.startswith(b"thread:") else HOUR)
    before = dump(redis_url)
    shown = ckpt("-s", redis_url, "show", "trip", "-o", "json").json
    left = datetime.fromisoformat(shown["expires_at"]) - datetime.now(UTC)
    assert timedelta(minutes=59) < left <= timedelta(hours=1)
    succeeds(redis_url, "rollback", "trip", "head", "--yes", "-o", "json")
    for kind in ("checkpoint", "thread"):
        name = name_of(redis_url, kind) if kind != "thread" else "thread:{trip}:"
        assert 1.9 * HOUR < admin.pttl(name) <= 2 * HOUR
    ckpt("-s", redis_url, "undo", "trip", "--yes", code=0)
    assert dump(redis_url) == before


NESTED = "[" * 900 + "]" * 900
BROKEN: dict[str, Callable[[dict[str, Any]], str]] = {
    "half of it": lambda found: json.dumps(found)[:-40],
    "nested": lambda _: "[" * 50_000,
    "nested inside": lambda found: json.dumps({**found, "x": "@"}).replace('"@"', NESTED),
    "a number": lambda _: "7",
    "nothing in it": lambda _: "{}",
    "no base64": lambda found: json.dumps({**found, "checkpoint": "=%", "metadata": "ä"}),
    "wrong bytes": lambda found: json.dumps({**found, "checkpoint": "////", "metadata": "////"}),
    "other types": lambda found: json.dumps({one: {"a": [1]} for one in found}),
    "a huge number": lambda found: json.dumps({**found, "x": "@"}).replace('"@"', "9" * 5000),
    "a lone surrogate": lambda found: json.dumps({**found, "parent_checkpoint_id": "\ud800"}),
    "a pickle": lambda found: json.dumps(
        {**found, "type": "pickle", "checkpoint": b64encode(b"cos\nsystem\n(S'x'\ntR.").decode()}
    ),
}


# Each kind is shown by every eighth command, another one for each; with `-m nightly` by all.
@pytest.mark.parametrize("share", [8, pytest.param(1, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("kind", BROKEN)
@pytest.mark.parametrize("what", ["checkpoint", "writes"])
def test_damaged_texts_are_shown_as_such(redis_url: str, what: str, kind: str, share: int) -> None:
    fill_valkey(redis_url, "trip", "other", asks=True)
    name = name_of(redis_url, what)
    stored = json.loads(client(redis_url).get(name))
    text = BROKEN[kind](stored[0] if isinstance(stored, list) else stored)
    if isinstance(stored, list) and kind != "a number":
        text = f"[{text}, 7, null]"
    client(redis_url).set(name, text.encode("utf-8", "surrogatepass"))
    check_damaged(redis_url, list(BROKEN).index(kind) % share, share)
    assert not [one for one in keys(redis_url) if b"trip" in one]


@pytest.mark.parametrize("what", ["checkpoint", "writes", "thread"])
def test_keys_of_other_types_are_none_of_its_keys(redis_url: str, what: str) -> None:
    fill_valkey(redis_url, "trip", "other")
    name = "thread:{trip}:" if what == "thread" else name_of(redis_url, what, place=1)
    client(redis_url).delete(name)
    client(redis_url).zadd(name, {"x": 1})
    check_damaged(redis_url)


def test_a_text_of_another_saver_keeps_its_fields(redis_url: str) -> None:
    """Blanks and unknown fields do not matter."""
    fill_valkey(redis_url, "trip")
    for place in range(4):
        name = name_of(redis_url, "checkpoint", place=place)
        stored = json.loads(client(redis_url).get(name))
        client(redis_url).set(name, json.dumps({"thread_id": "trip", "added": 1, **stored}))
    assert items_of(redis_url, "trip") == ["in trip", "from a", "from b"]
    ckpt("-s", redis_url, "copy", "trip@head", "--as", "new", "--yes", code=0)
    assert json.loads(client(redis_url).get(name_of(redis_url, "checkpoint", "new")))["added"] == 1
    assert items(redis_url, "new", valkey_of) == ["in trip", "from a", "from b"]


# AgentCoreValkeySaver: actors, and values that nobody reads


def run(url: str, thread_id: str = "trip", actor: str = "ann", **options: Any) -> Any:
    """Run a graph with the official saver. Returns the graph."""
    saver = AgentCoreValkeySaver(Valkey.from_url(url.replace("redis://", "valkey://")), **options)
    graph = graph_of(saver)
    graph.invoke({"items": ["secret-4711"]}, config_of(thread_id, actor_id=actor))
    return graph


def threads(url: str) -> dict[str, int]:
    listed = ckpt("-s", url, "threads", "list", "-o", "json").json
    return {one["thread_id"]: one["checkpoints"] for one in listed}


def test_it_is_found_beside_valkey_saver_and_texts_tell_whose_a_key_is(redis_url: str) -> None:
    run(redis_url, "a", "b:c")
    run(redis_url, "a:b:d", "c")
    (found,) = ckpt("-s", redis_url, "stores", "-o", "json").json
    assert found["layout"] == "valkey-agentcore"
    assert threads(redis_url) == {"a": 4, "a:b:d": 4}
    fill_valkey(redis_url, "other")
    refuses(redis_url, "threads", "list", says="layout=valkey-agentcore", code=2)
    url = f"{redis_url}?layout=valkey-agentcore"
    ckpt("-s", url, "threads", "delete", "a", "--yes", code=0)
    assert threads(url) == {"a:b:d": 4}


def test_a_new_checkpoint_expires_with_the_list(redis_url: str) -> None:
    graph = run(redis_url, ttl=3600)
    ckpt("-s", redis_url, "rollback", "trip", "--steps", "1", "--yes", code=0)
    assert graph.get_state(config_of("trip", actor_id="ann")).next == ("b",)
    assert all(3500 < client(redis_url).ttl(one) <= 3600 for one in dump(redis_url) if one)
    # The channels' values expire, too; ckpt adds none.
    (own,) = client(redis_url).lrange("agentcore:session:trip:ann:checkpoints", 0, 0)
    assert not [one for one in dump(redis_url) if b":channel:" in one and one.endswith(own)]
    # Without its checkpoint, the saver finds no thread by this head.
    client(redis_url).delete(f"agentcore:checkpoint:trip:ann::{own.decode()}")
    assert graph.get_state(config_of("trip", actor_id="ann")).values == {}
    ckpt("-s", redis_url, "doctor", "trip").ends_cleanly(1)


def test_an_erased_value_is_in_no_key(redis_url: str) -> None:
    run(redis_url, ttl=3600)
    assert any(b"channel" in one for one in dump(redis_url))
    ckpt("-s", redis_url, "erase", "--value", "trip:items[0]", "--yes", code=0)
    assert all(3500 < client(redis_url).ttl(one) <= 3600 for one in dump(redis_url) if one)
    for text in map(repr, dump(redis_url).values()):
        for part in findall(r'"data":"([^"]*)"', text):
            assert b"secret-4711" not in b64decode(part)
