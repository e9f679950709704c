"""What only ValkeySaver has: lists of checkpoints, and all writes of a checkpoint in one text."""

import json
from base64 import b64encode
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ckpt_backends.registry import open_store
from tests.kit.agents.steps import config_of, graph_of
from tests.kit.command import ckpt
from tests.kit.savers.redis import dump
from tests.kit.savers.redis_threads import client, fill_plain, fill_valkey, keys, valkey_of

pytestmark = pytest.mark.engines

HOUR = 3_600_000


def items(url: str, thread_id: str, **options: Any) -> list[str]:
    """What the official saver reads."""
    found = graph_of(valkey_of(url, **options)).get_state(config_of(thread_id)).values
    return list(found.get("items", []))


def name_of(url: str, kind: str, thread_id: str = "trip", place: int = 0) -> str:
    """The key of a checkpoint or its writes, by its place in the list."""
    own = client(url).lindex(f"thread:{{{thread_id}}}:", place).decode()
    return f"{kind}:{{{thread_id}}}::{own}"


# Opening


def test_its_urls_open_every_layout(redis_url: str) -> None:
    as_valkey = redis_url.replace("redis://", "valkey://")
    assert ckpt("-s", as_valkey, "threads", "list").code == 4
    assert "valkey://HOST:PORT/N" in ckpt("-s", as_valkey, "threads", "list").err
    fill_valkey(redis_url, "trip")
    for url in (redis_url, as_valkey):
        (found,) = ckpt("-s", url, "stores", "-o", "json").json
        assert found["layout"] == "valkey"
    fill_plain(redis_url, "trip", separator=":")
    several = ckpt("-s", as_valkey, "threads", "list")
    assert several.code == 2
    assert "valkey://" in several.err
    assert "layout=redis-hash-colon" in several.err
    for layout in ("valkey", "redis-hash-colon"):
        url = f"{as_valkey}?layout={layout}"
        (listed,) = ckpt("-s", url, "threads", "list", "-o", "json").json
        assert listed["checkpoints"] == 4
    assert ckpt("-s", f"{as_valkey}?layout=valkey", "threads", "delete", "trip", "--yes").code == 0
    assert ckpt("-s", as_valkey, "stores", "-o", "json").json[0]["layout"] == "redis-hash-colon"


def test_it_is_found_among_many_keys_of_another_layout(redis_url: str) -> None:
    with client(redis_url).pipeline() as pipe:
        for number in range(20_000):
            pipe.set(f"checkpoint:{number}", "x")
        pipe.execute()
    fill_valkey(redis_url, "trip")
    assert ckpt("-s", redis_url, "stores", "-o", "json").json[0]["layout"] == "valkey"


# Ids


def test_a_namespace_with_a_brace_is_told_by_the_checkpoint(redis_url: str) -> None:
    """The keys are those of thread `a}:b` too; only the JSON of the checkpoint names the thread."""
    from langgraph.checkpoint.base import empty_checkpoint

    saver = valkey_of(redis_url)
    config: Any = {"configurable": {"thread_id": "a", "checkpoint_ns": "b}:c"}}
    saver.put(config, one := empty_checkpoint(), {"source": "input", "step": -1}, {})
    place = {"configurable": {**config["configurable"], "checkpoint_id": one["id"]}}
    saver.put_writes(place, [("x", 1)], "task")
    with open_store(redis_url) as store:
        assert [found.thread_id for found in store.threads()] == ["a"]
        assert store.namespaces("a") == ["b}:c"]
        assert [found.key.checkpoint_ns for found in store.writes("a")] == ["b}:c"]
        assert store.thread("a}:b") is None
    assert ckpt("-s", redis_url, "threads", "delete", "a", "--yes").code == 0
    assert keys(redis_url) == {}


# The head


def test_the_head_is_what_was_stored_last(redis_url: str) -> None:
    """A checkpoint that is put again is in the list twice, and is the head."""
    fill_valkey(redis_url, "trip")
    saver = valkey_of(redis_url)
    history = ckpt("-s", redis_url, "history", "trip", "-o", "json").json
    second = history[1]["checkpoint_id"]
    config = config_of("trip")
    config["configurable"]["checkpoint_id"] = second
    found = saver.get_tuple(config)
    saver.put(found.parent_config, found.checkpoint, found.metadata, {})
    (listed,) = ckpt("-s", redis_url, "threads", "list", "-o", "json").json
    assert saver.get_tuple(config_of("trip")).checkpoint["id"] == second
    assert listed["head"] == second
    assert ckpt("-s", redis_url, "show", "trip", "-o", "json").json["checkpoint_id"] == second
    done = ckpt("-s", redis_url, "purge", "--keep-last", "1", "--yes")
    assert done.code == 0, done.err
    left = [one.checkpoint["id"] for one in saver.list(config_of("trip"))]
    assert set(left) == {history[0]["checkpoint_id"], second} or set(left) == {second}
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
        answer = ckpt("-s", redis_url, *words)
        assert "Traceback" not in answer.err
        answer.ends_cleanly(0, 1, 7)
    copied = ckpt("-s", redis_url, "copy", "trip", "--as", "new", "--yes")
    assert (copied.code, "so it cannot be copied" in copied.err) == (4, True), copied.err
    earlier = ckpt("-s", redis_url, "copy", "trip@step:0", "--as", "new", "--yes")
    assert earlier.code == 0, earlier.err
    assert items(redis_url, "new") == ["in trip"]
    step = ckpt("-s", redis_url, "rollback", "trip", "step:0", "--yes")
    assert step.code == 0, step.err
    assert items(redis_url, "trip") == ["in trip"]
    assert ckpt("-s", redis_url, "threads", "delete", "trip", "--yes").code == 0
    assert {one for one in keys(redis_url) if b"trip" in one} == set()
    assert items(redis_url, "other") == ["in other", "from a", "from b"]


def test_other_ids_without_a_checkpoint_are_left_out(redis_url: str) -> None:
    fill_valkey(redis_url, "trip")
    for place in (2, 3):
        client(redis_url).delete(name_of(redis_url, "checkpoint", place=place))
    assert len(ckpt("-s", redis_url, "history", "trip", "-o", "json").json) == 2
    before = dump(redis_url)
    assert ckpt("-s", redis_url, "rollback", "trip", "~1", "--yes").code == 0
    assert ckpt("-s", redis_url, "undo", "trip", "--yes").code == 0
    assert dump(redis_url) == before
    assert ckpt("-s", redis_url, "threads", "delete", "trip", "--yes").code == 0
    assert keys(redis_url) == {}


def test_without_its_list_a_thread_is_still_found_and_goes(redis_url: str) -> None:
    """As after a removal that was interrupted: its first step removes the lists."""
    fill_valkey(redis_url, "trip")
    client(redis_url).delete("thread:{trip}:")
    (listed,) = ckpt("-s", redis_url, "threads", "list", "-o", "json").json
    assert listed["checkpoints"] == 4
    assert ckpt("-s", redis_url, "threads", "delete", "trip", "--yes").code == 0
    assert keys(redis_url) == {}


# Times to live


def test_a_new_checkpoint_lives_as_long_as_its_list(redis_url: str) -> None:
    fill_valkey(redis_url, "trip", asks=True, ttl=7200)
    admin = client(redis_url)
    for name in admin.scan_iter():
        admin.pexpire(name, 2 * HOUR if name.startswith(b"thread:") else HOUR)
    before = dump(redis_url)
    shown = ckpt("-s", redis_url, "show", "trip", "-o", "json").json
    left = datetime.fromisoformat(shown["expires_at"]) - datetime.now(UTC)
    assert timedelta(minutes=59) < left <= timedelta(hours=1)
    back = ckpt("-s", redis_url, "rollback", "trip", "head", "--yes", "-o", "json")
    assert back.code == 0, back.err
    for kind in ("checkpoint", "thread"):
        name = name_of(redis_url, kind) if kind != "thread" else "thread:{trip}:"
        assert 1.9 * HOUR < admin.pttl(name) <= 2 * HOUR
    assert ckpt("-s", redis_url, "undo", "trip", "--yes").code == 0
    assert dump(redis_url) == before
    assert ckpt("-s", redis_url, "copy", "trip@head", "--as", "new", "--yes").code == 0
    own = [one for one in admin.scan_iter() if b"{new}" in one]
    assert {one.partition(b":")[0] for one in own} >= {b"checkpoint", b"thread", b"writes"}
    assert all(0 < admin.pttl(one) <= HOUR for one in own)
    assert items(redis_url, "new") == ["in trip", "from a"]
    assert ckpt("-s", redis_url, "undo", "new", "--yes").code == 0
    assert dump(redis_url) == before


# Contents


DEEP, NESTED = "[" * 50_000, "[" * 900 + "]" * 900
BROKEN: dict[str, Callable[[dict[str, Any]], str]] = {
    "nothing of JSON": lambda _: "\xff{",
    "half of it": lambda found: json.dumps(found)[:-40],
    "nested": lambda _: DEEP,
    "nested inside": lambda found: json.dumps({**found, "x": "@"}).replace('"@"', NESTED),
    "a list": lambda found: json.dumps([found]),
    "a number": lambda _: "7",
    "nothing in it": lambda _: "{}",
    "no base64": lambda found: json.dumps({**found, "checkpoint": "=%", "metadata": "ä"}),
    "wrong bytes": lambda found: json.dumps({**found, "checkpoint": "////", "metadata": "////"}),
    "other types": lambda found: json.dumps({one: {"a": [1]} for one in found}),
    "null": lambda found: json.dumps(dict.fromkeys(found)),
    "a huge number": lambda found: json.dumps({**found, "x": "@"}).replace('"@"', "9" * 5000),
    "a lone surrogate": lambda found: json.dumps({**found, "parent_checkpoint_id": "\ud800"}),
    "an unknown type": lambda found: json.dumps({**found, "type": "os.system"}),
    "a pickle": lambda found: json.dumps(
        {**found, "type": "pickle", "checkpoint": b64encode(b"cos\nsystem\n(S'x'\ntR.").decode()}
    ),
}
COMMANDS = [
    ["threads", "list", "--long", "--all"],
    ["show", "trip", "--writes", "--metadata"],
    ["show", "trip", "--tree"],
    ["history", "trip", "--all-ns"],
    ["du"],
    ["grep", "from"],
    ["interrupts"],
    ["replay", "trip", "--verify"],
    ["copy", "trip@head", "--as", "n", "--dry-run"],
    ["rollback", "trip", "head", "--dry-run"],
    ["purge", "--match", "trip", "--dry-run"],
    ["doctor"],
]
_SHARE = 4
"""Each kind of damage is shown by every fourth command, another one for each; with `-m nightly` by
all. All read a text by the same code."""


@pytest.mark.parametrize(
    "share", [_SHARE, pytest.param(1, marks=pytest.mark.nightly)], ids=["share", "all"]
)
@pytest.mark.parametrize("kind", BROKEN)
@pytest.mark.parametrize("what", ["checkpoint", "writes"])
def test_damaged_texts_are_shown_as_what_they_are(
    redis_url: str, what: str, kind: str, share: int
) -> None:
    fill_valkey(redis_url, "trip", "other", asks=True)
    name = name_of(redis_url, what)
    stored = json.loads(client(redis_url).get(name))
    text = BROKEN[kind](stored[0] if isinstance(stored, list) else stored)
    if isinstance(stored, list) and kind != "a number":
        text = f"[{text}, 7, null]"
    client(redis_url).set(name, text.encode("utf-8", "surrogatepass"))
    for words in COMMANDS[list(BROKEN).index(kind) % share :: share]:
        answer = ckpt("-s", redis_url, *words)
        answer.ends_cleanly(0, 1, 3, 4, 5, 7)
    assert ckpt("-s", redis_url, "show", "other").code == 0
    done = ckpt("-s", redis_url, "threads", "delete", "trip", "--yes")
    assert done.code == 0, done.err
    assert not [one for one in keys(redis_url) if b"trip" in one]


@pytest.mark.parametrize("what", ["checkpoint", "writes", "thread"])
def test_keys_of_other_types_are_none_of_its_keys(redis_url: str, what: str) -> None:
    fill_valkey(redis_url, "trip", "other")
    name = "thread:{trip}:" if what == "thread" else name_of(redis_url, what, place=1)
    client(redis_url).delete(name)
    client(redis_url).zadd(name, {"x": 1})
    for words in COMMANDS:
        answer = ckpt("-s", redis_url, *words)
        answer.ends_cleanly(0, 1, 3, 4, 5, 7)
    assert ckpt("-s", redis_url, "show", "other").code == 0


def test_a_text_of_another_saver_keeps_its_fields(redis_url: str) -> None:
    """Blanks and unknown fields do not matter."""
    fill_valkey(redis_url, "trip")
    for place in range(4):
        name = name_of(redis_url, "checkpoint", place=place)
        stored = json.loads(client(redis_url).get(name))
        client(redis_url).set(name, json.dumps({"thread_id": "trip", "added": 1, **stored}))
    shown = ckpt("-s", redis_url, "show", "trip", "-o", "json").json
    assert shown["values"]["items"] == ["in trip", "from a", "from b"]
    assert ckpt("-s", redis_url, "copy", "trip@head", "--as", "new", "--yes").code == 0
    assert json.loads(client(redis_url).get(name_of(redis_url, "checkpoint", "new")))["added"] == 1
    assert items(redis_url, "new") == ["in trip", "from a", "from b"]
