"""What only langgraph-checkpoint-plainredis has: timelines, a registry, everything in texts, and
values under keys of their own that all branches share."""

from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer

from ckpt_backends.apps.plainredis import layout as plain_removal
from ckpt_backends.changes import MOVED
from ckpt_backends.open_for_writing import open_writable
from ckpt_backends.redis.engine import layout as thread_removal
from ckpt_backends.registry import open_store
from ckpt_backends.testing.official import drive
from ckpt_backends.testing.scenarios.catalog import SCENARIOS
from ckpt_backends.url import parse_url
from tests.engines.answers import check_damaged, succeeds
from tests.kit.agents.steps import config_of, graph_of
from tests.kit.command import ckpt, ids_of
from tests.kit.harness.redis import dump
from tests.kit.savers.redis_threads import client, fill_plainredis, keys, plainredis_of, removal_of

pytestmark = pytest.mark.engines

SEQ = b"lg:seq"


def held(url: str) -> dict[bytes, Any]:
    """All keys but the counter, which only grows."""
    return {name: value for name, value in keys(url).items() if name != SEQ}


def items(url: str, thread_id: str) -> list[str]:
    """What the official saver reads."""
    state = graph_of(plainredis_of(url)).get_state(config_of(thread_id))
    found: list[str] = state.values.get("items", [])
    return found


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
    assert ckpt("-s", redis_url, "threads", "delete", "a", "--yes").code == 0
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
    assert ckpt("-s", redis_url, "rollback", "trip", newest, "--yes").code == 0
    assert items(redis_url, "trip") == ["in trip", "from a", "from b"]


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
        assert ckpt("-s", redis_url, "threads", "delete", name, "--yes").code == 0
    assert keys(redis_url).keys() == {SEQ}


def test_what_comes_back_stands_before_what_is_stored_next(redis_url: str, tmp_path: Path) -> None:
    """Also in a server that never counted so far."""
    fill_plainredis(redis_url, "first", "trip")

    def mine() -> dict[bytes, Any]:
        return {name: value for name, value in held(redis_url).items() if b"trip" in name}

    before = mine()
    assert before
    assert ckpt("-s", redis_url, "export", "trip", "--to", tmp_path).code == 0
    client(redis_url).flushall()
    fill_plainredis(redis_url, "other")
    (bundle,) = tmp_path.iterdir()
    succeeds(redis_url, "import", bundle, "--yes")
    assert mine() == before
    fill_plainredis(redis_url, "trip")
    assert items(redis_url, "trip") == ["in trip", "from a", "from b"] * 2
    assert ckpt("-s", redis_url, "import", bundle, "--yes").code == 6


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
    assert ckpt("-s", redis_url, "threads", "list", "--long").code == 0
    before = dump(redis_url)
    assert ckpt("-s", redis_url, "rollback", "trip", "~0", "--yes").code == 4
    assert dump(redis_url) == before
    assert ckpt("-s", redis_url, "threads", "delete", "trip", "--yes").code == 0


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
    assert ckpt("-s", redis_url, "replay", "linear", "--verify").code == 1
    for _ in range(2):
        succeeds(redis_url, "replay", "linear", "--repair", "--yes")
        assert held(redis_url) == before
        client(redis_url).set(name, '{"t": "msgpack", "d": "kv8="}')
