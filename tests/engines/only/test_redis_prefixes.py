"""Stores whose savers were given prefixes: each is read with all of its writes, or not at all."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, TypedDict
from urllib.parse import parse_qsl, urlsplit

import pytest
import redis
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.redis import RedisSaver, ShallowRedisSaver
from langgraph.graph import StateGraph
from langgraph.types import interrupt

from tests.kit.command import FIXTURES, ckpt, later
from tests.kit.plugin import redis_of_its_own
from tests.kit.savers.redis_threads import client, fill_plainredis
from tests.kit.stores import restore_javascript_keys


def append(values: list[str], writes: list[list[str]]) -> list[str]:
    return values + [one for some in writes for one in some]


class State(TypedDict):
    """A list of which only writes are stored."""

    items: Annotated[list[str], DeltaChannel(append, list)]


def ask(saver: Any, *threads: str) -> None:
    """Run a graph that stops at a question."""
    builder = StateGraph(State)
    builder.add_node("a", lambda state: {"items": ["from a"]})
    builder.add_node("b", lambda state: {"items": [interrupt("sure?")]})
    builder.add_edge("__start__", "a")
    builder.add_edge("a", "b")
    for thread in threads:
        config: Any = {"configurable": {"thread_id": thread}}
        asked = builder.compile(checkpointer=saver).invoke(
            {"items": [f"in {thread}"]}, config, durability="sync"
        )
        assert "__interrupt__" in asked


@contextmanager
def saver(url: str, prefix: str, writes: str, kind: Any = RedisSaver) -> Iterator[Any]:
    options = {"checkpoint_prefix": prefix, "checkpoint_write_prefix": writes}
    with kind.from_conn_string(url, **options) as made:
        made.setup()
        yield made


def fill(url: str, prefix: str, writes: str, *threads: str, kind: Any = RedisSaver) -> None:
    with saver(url, prefix, writes, kind) as made:
        ask(made, *threads)


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


@pytest.fixture(params=[True, False], ids=["indexes", "keys"])
def read_url(request: pytest.FixtureRequest, redis_stack_url: str) -> Iterator[str]:
    """Three stores in a Redis that has the search module, or a copy of its keys in one without."""
    fill(redis_stack_url, "agenta", "agenta_write", "same", "one")
    fill(redis_stack_url, "agentb", "written", "same", "two")
    fill(redis_stack_url, "checkpoint", "checkpoint_write", "same")
    if request.param:
        yield redis_stack_url
        return
    with redis_of_its_own(modules=True, search=False) as bare:
        source, target = client(redis_stack_url), client(bare.url)
        for name in source.scan_iter(count=1000):
            target.restore(name, 0, source.dump(name))
        yield bare.url


PAIRS = [
    ("agenta", "agenta_write"),
    ("agenta", "anything"),
    ("app:agent", "app:writes"),
    ("checkpoint", "other"),
    ("other", "checkpoint_write"),
    ("checkpoint:v2", "checkpoint_write:v2"),
]


@pytest.mark.parametrize("pair", [*PAIRS[:2], *later(*PAIRS[2:])], ids="-".join)
def test_the_only_store_is_found_with_its_writes(
    redis_stack_url: str, pair: tuple[str, str]
) -> None:
    prefix, writes = pair
    fill(redis_stack_url, prefix, writes, "trip")
    check(redis_stack_url, "trip")
    check(f"{redis_stack_url}?prefix={prefix}", "trip")
    check(f"{redis_stack_url}?prefix={prefix}&write_prefix={writes}", "trip")
    check(f"{redis_stack_url}?layout=redis", "trip")


def test_the_stores_of_one_server_are_named_and_each_is_whole(read_url: str) -> None:
    refused = ckpt("-s", read_url, "threads", "list")
    assert refused.code == 2
    assert "holds 3 stores" in refused.err
    assert [dict(parse_qsl(urlsplit(one).query)) for one in named(refused.err)] == [
        {"prefix": "checkpoint", "write_prefix": "checkpoint_write"},
        {"prefix": "agenta", "write_prefix": "agenta_write"},
        {"prefix": "agentb", "write_prefix": "written"},
    ]
    usual, one, two = named(refused.err)
    check(one, "same", "one")
    check(two, "same", "two")
    check(usual, "same")
    for prefix, thread in (("agenta", "one"), ("agentb", "two")):
        check(f"{read_url}?prefix={prefix}", "same", thread)
    check(f"{read_url}?prefix=checkpoint", "same")
    stores = ckpt("-s", read_url, "stores", "-o", "json").json
    assert [one["url"] for one in stores] == named(refused.err)
    assert {one["layout"] for one in stores} == {"redis"}


def test_shallow_stores_that_share_a_list_of_writes_are_told_apart(redis_stack_url: str) -> None:
    for prefix, writes in (("agenta", "zz"), ("agentb", "aa")):
        fill(redis_stack_url, prefix, writes, "same", kind=ShallowRedisSaver)
    for prefix, writes in (("agenta", "zz"), ("agentb", "aa")):
        url = f"{redis_stack_url}?prefix={prefix}"
        (thread,) = ckpt("-s", url, "threads", "list", "-o", "json").json
        assert thread["status"] == "interrupted"
        where = ckpt("-s", url, "show", "same", "--where").out
        assert f'"{writes}:same:' in where
    stores = ckpt("-s", redis_stack_url, "stores", "-o", "json").json
    assert [one["layout"] for one in stores] == ["redis-shallow", "redis-shallow"]


def test_a_full_and_a_shallow_store_are_told_apart(redis_stack_url: str) -> None:
    fill(redis_stack_url, "agenta", "aw", "full")
    fill(redis_stack_url, "agentb", "bw", "shallow", kind=ShallowRedisSaver)
    refused = ckpt("-s", redis_stack_url, "threads", "list")
    assert refused.code == 2
    full, shallow = named(refused.err)
    check(full, "full")
    (thread,) = ckpt("-s", shallow, "threads", "list", "-o", "json").json
    assert (thread["thread_id"], thread["status"]) == ("shallow", "interrupted")


def test_writes_under_two_prefixes_are_refused(redis_stack_url: str) -> None:
    """Whichever were taken, the others would be missing."""
    fill(redis_stack_url, "agenta", "first", "one")
    fill(redis_stack_url, "agenta", "second", "two")
    for url in (redis_stack_url, f"{redis_stack_url}?prefix=agenta"):
        refused = ckpt("-s", url, "threads", "list")
        assert refused.code == 2
        assert "cannot tell which prefix the writes of 'agenta' have" in refused.err
        assert [dict(parse_qsl(urlsplit(one).query)) for one in named(refused.err)] == [
            {"prefix": "agenta", "write_prefix": one} for one in ("first", "second")
        ]


def test_a_prefix_that_is_not_there_is_refused_with_those_that_are(redis_stack_url: str) -> None:
    fill(redis_stack_url, "agenta", "agenta_write", "trip")
    for query in ("prefix=agent", "prefix=agent&layout=redis"):
        missing = ckpt("-s", f"{redis_stack_url}?{query}", "threads", "list")
        assert missing.code == 4
        (url,) = named(missing.err)
        check(url, "trip")
    wrong = ckpt("-s", f"{redis_stack_url}?prefix=agenta&write_prefix=x", "threads", "list")
    assert wrong.code == 4
    (url,) = named(wrong.err)
    check(url, "trip")


def test_the_store_of_a_user_with_rights_to_its_keys_alone(redis_stack_url: str) -> None:
    fill(redis_stack_url, "agenta", "agenta_write", "trip")
    fill(redis_stack_url, "agentb", "agentb_write", "other")
    with redis.Redis.from_url(redis_stack_url) as admin:
        rights = "+@read +@connection +info +json.get +json.mget +json.type +json.debug"
        keys = "~agenta* ~write_keys_zset:*"
        told = f"ACL SETUSER limited on >secret {keys} {rights}".split()
        admin.execute_command(*told)
    url = redis_stack_url.replace("redis://", "redis://limited:secret@")
    check(f"{url}?prefix=agenta", "trip")


def test_what_is_added_lands_where_the_saver_looks(redis_stack_url: str) -> None:
    with saver(redis_stack_url, "agenta", "aw") as made:
        ask(made, "trip")
        back = ckpt("-s", redis_stack_url, "rollback", "trip", "~1", "--yes", "-o", "json").json
        head = made.get_tuple({"configurable": {"thread_id": "trip", "checkpoint_ns": ""}})
        assert head is not None
        assert head.checkpoint["id"] == back["checkpoint_id"]
        assert ckpt("-s", redis_stack_url, "threads", "delete", "trip", "--yes").code == 0
    assert not list(client(redis_stack_url).scan_iter())


def test_the_prefixes_of_plainredis_are_named(redis_url: str) -> None:
    fill_plainredis(redis_url, "trip", prefix="my:app:")
    listed = ckpt("-s", redis_url, "threads", "list", "-o", "json").json
    assert [one["thread_id"] for one in listed] == ["trip"]
    fill_plainredis(redis_url, "other", prefix="your:app")
    refused = ckpt("-s", redis_url, "threads", "list")
    assert refused.code == 2
    mine, yours = named(refused.err)
    for url, thread in ((mine, "trip"), (yours, "other")):
        listed = ckpt("-s", url, "threads", "list", "-o", "json").json
        assert [one["thread_id"] for one in listed] == [thread]


@pytest.mark.nightly
def test_javascript_beside_a_store_with_a_prefix(redis_stack_url: str) -> None:
    """LangGraph.js takes no prefix."""
    restore_javascript_keys(FIXTURES / "js-1.7.3" / "redis.jsonl.gz", redis_stack_url)
    fill(redis_stack_url, "agenta", "agenta_write", "trip")
    refused = ckpt("-s", redis_stack_url, "threads", "list")
    assert refused.code == 2
    python, javascript = named(refused.err)
    assert "layout=redis-js" in javascript
    check(python, "trip")
    check(f"{redis_stack_url}?prefix=agenta", "trip")
    assert ckpt("-s", javascript, "threads", "list", "-o", "json").json
