"""What only AgentCoreValkeySaver has: actors, and values that nobody reads."""

from base64 import b64decode
from re import findall
from typing import Any

import pytest
from langgraph_checkpoint_aws import AgentCoreValkeySaver
from valkey import Valkey

from tests.kit.agents.steps import graph_of
from tests.kit.command import ckpt
from tests.kit.savers.redis import dump
from tests.kit.savers.redis_threads import client, fill_valkey

pytestmark = pytest.mark.engines


def config_of(thread_id: str, actor: str) -> Any:
    return {"configurable": {"thread_id": thread_id, "actor_id": actor}}


def run(
    url: str, thread_id: str = "trip", actor: str = "ann", word: str = "in", **options: Any
) -> Any:
    """Run a graph with the official saver. Returns the graph."""
    saver = AgentCoreValkeySaver(Valkey.from_url(url.replace("redis://", "valkey://")), **options)
    graph = graph_of(saver)
    graph.invoke({"items": [word]}, config_of(thread_id, actor))
    return graph


def threads(url: str) -> dict[str, int]:
    listed = ckpt("-s", url, "threads", "list", "-o", "json").json
    return {one["thread_id"]: one["checkpoints"] for one in listed}


def listed(thread_id: str, actor: str) -> str:
    return f"agentcore:session:{thread_id}:{actor}:checkpoints"


def test_it_is_found_also_beside_valkey_saver(redis_url: str) -> None:
    run(redis_url)
    (found,) = ckpt("-s", redis_url, "stores", "-o", "json").json
    assert found["layout"] == "valkey-agentcore"
    fill_valkey(redis_url, "other")
    several = ckpt("-s", redis_url, "threads", "list")
    assert (several.code, "layout=valkey-agentcore" in several.err) == (2, True)
    assert threads(f"{redis_url}?layout=valkey-agentcore") == {"trip": 4}


def test_a_thread_of_two_actors_needs_the_name_of_one(redis_url: str) -> None:
    graph = run(redis_url, word="of ann")
    run(redis_url, actor="bob:b", word="of bob")
    refused = ckpt("-s", redis_url, "threads", "list")
    assert refused.code == 4
    assert "belongs to several actors" in refused.err
    assert "?actor=NAME" in refused.err
    of_bob = f"{redis_url}?actor=bob%3Ab"
    before = {name: one for name, one in dump(redis_url).items() if b":ann:" in name}
    shown = ckpt("-s", of_bob, "show", "trip", "-o", "json").json
    assert shown["values"]["items"][0] == "of bob"
    assert ckpt("-s", of_bob, "rollback", "trip", "--steps", "1", "--yes").code == 0
    assert graph.get_state(config_of("trip", "bob:b")).next == ("b",)
    assert graph.get_state(config_of("trip", "ann")).next == ()
    assert ckpt("-s", of_bob, "threads", "delete", "trip", "--yes").code == 0
    assert {name: one for name, one in dump(redis_url).items() if name} == before


def test_a_key_that_may_be_of_two_threads_is_of_that_in_its_text(redis_url: str) -> None:
    run(redis_url, "a", "b:c")
    run(redis_url, "a:b:d", "c")
    assert threads(redis_url) == {"a": 4, "a:b:d": 4}
    assert ckpt("-s", redis_url, "threads", "delete", "a", "--yes").code == 0
    assert threads(redis_url) == {"a:b:d": 4}


def test_a_new_checkpoint_expires_with_the_list(redis_url: str) -> None:
    graph = run(redis_url, ttl=3600)
    assert ckpt("-s", redis_url, "rollback", "trip", "--steps", "1", "--yes").code == 0
    assert graph.get_state(config_of("trip", "ann")).next == ("b",)
    assert all(3500 < client(redis_url).ttl(one) <= 3600 for one in dump(redis_url) if one)
    # The channels' values expire, too; ckpt adds none.
    (own,) = client(redis_url).lrange(listed("trip", "ann"), 0, 0)
    assert not [one for one in dump(redis_url) if b":channel:" in one and one.endswith(own)]


def test_a_head_that_expired_is_what_the_saver_finds_no_thread_by(redis_url: str) -> None:
    graph = run(redis_url)
    (own,) = client(redis_url).lrange(listed("trip", "ann"), 0, 0)
    client(redis_url).delete(f"agentcore:checkpoint:trip:ann::{own.decode()}")
    assert graph.get_state(config_of("trip", "ann")).values == {}
    (found,) = ckpt("-s", redis_url, "doctor", "trip", "-o", "json").json["findings"][:1]
    assert found["code"] == "index-stale"
    client(redis_url).execute_command("LREM", listed("trip", "ann"), 0, own)
    assert graph.get_state(config_of("trip", "ann")).values["items"][:2] == ["in", "from a"]


def test_an_erased_value_is_in_no_key(redis_url: str) -> None:
    run(redis_url, word="secret-4711")
    assert any(b"channel" in one for one in dump(redis_url))
    assert ckpt("-s", redis_url, "erase", "--value", "trip:items[0]", "--yes").code == 0
    for text in map(repr, dump(redis_url).values()):
        for part in findall(r'"data":"([^"]*)"', text):
            assert b"secret-4711" not in b64decode(part)
