"""What only the savers of langgraph-checkpoint-aws have on Valkey: lists of checkpoints, actors."""

import json
from base64 import b64decode, b64encode
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from re import findall
from typing import Any

import pytest
from langgraph.checkpoint.base import empty_checkpoint
from langgraph_checkpoint_aws import AgentCoreValkeySaver
from valkey import Valkey

from ckpt_backends.registry import open_store
from tests.engines.answers import check_damaged, items_of, refuses, succeeds
from tests.kit.agents.steps import config_of, graph_of
from tests.kit.command import ckpt, ids_of
from tests.kit.harness.redis import dump
from tests.kit.savers.redis_threads import client, fill_plain, fill_valkey, keys, valkey_of

pytestmark = pytest.mark.engines

HOUR = 3_600_000


def items(url: str, thread_id: str) -> list[str]:
    """What the official saver reads."""
    found = graph_of(valkey_of(url)).get_state(config_of(thread_id)).values
    return list(found.get("items", []))


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
    assert ckpt("-s", redis_url, "threads", "delete", "a", "--yes").code == 0
    assert keys(redis_url) == {}


def test_the_head_is_what_was_stored_last(redis_url: str) -> None:
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
    assert items(redis_url, "trip") == []
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
    assert items(redis_url, "new") == ["in trip"]
    succeeds(redis_url, "rollback", "trip", "step:0", "--yes")
    assert items(redis_url, "trip") == ["in trip"]
    # Other ids without a checkpoint are left out, and come back with no change.
    client(redis_url).delete(name_of(redis_url, "checkpoint", place=2))
    before = dump(redis_url)
    assert ckpt("-s", redis_url, "rollback", "trip", "head", "--yes").code == 0
    assert ckpt("-s", redis_url, "undo", "trip", "--yes").code == 0
    assert dump(redis_url) == before
    # Without the list, as after a removal that was interrupted, the thread is still found.
    client(redis_url).delete("thread:{trip}:")
    assert ckpt("-s", redis_url, "threads", "delete", "trip", "--yes").code == 0
    assert {one for one in keys(redis_url) if b"trip" in one} == set()
    assert items(redis_url, "other") == ["in other", "from a", "from b"]


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
    assert ckpt("-s", redis_url, "undo", "trip", "--yes").code == 0
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
    assert ckpt("-s", redis_url, "copy", "trip@head", "--as", "new", "--yes").code == 0
    assert json.loads(client(redis_url).get(name_of(redis_url, "checkpoint", "new")))["added"] == 1
    assert items(redis_url, "new") == ["in trip", "from a", "from b"]


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
    assert ckpt("-s", url, "threads", "delete", "a", "--yes").code == 0
    assert threads(url) == {"a:b:d": 4}


def test_a_new_checkpoint_expires_with_the_list(redis_url: str) -> None:
    graph = run(redis_url, ttl=3600)
    assert ckpt("-s", redis_url, "rollback", "trip", "--steps", "1", "--yes").code == 0
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
    run(redis_url)
    assert any(b"channel" in one for one in dump(redis_url))
    assert ckpt("-s", redis_url, "erase", "--value", "trip:items[0]", "--yes").code == 0
    for text in map(repr, dump(redis_url).values()):
        for part in findall(r'"data":"([^"]*)"', text):
            assert b"secret-4711" not in b64decode(part)
