"""Stores whose savers were given prefixes: each is read with all of its writes, or not at all."""

import re
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from langgraph.checkpoint.redis import RedisSaver, ShallowRedisSaver

from tests.engines.answers import refuses, threads_of
from tests.kit.agents.steps import config_of, talk
from tests.kit.cases import cases
from tests.kit.command import ckpt, later
from tests.kit.plugin import redis_of_its_own
from tests.kit.savers.redis_threads import client, fill_plainredis, keys


@contextmanager
def saver(url: str, prefix: str, writes: str, kind: Any = RedisSaver) -> Iterator[Any]:
    options = {"checkpoint_prefix": prefix, "checkpoint_write_prefix": writes}
    with kind.from_conn_string(url, **options) as made:
        made.setup()
        yield made


def fill(url: str, prefix: str, writes: str, *threads: str, kind: Any = RedisSaver) -> None:
    with saver(url, prefix, writes, kind) as made:
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
    fill(redis_stack_url, prefix, writes, "trip")
    for query in ("", f"?prefix={prefix}", f"?prefix={prefix}&write_prefix={writes}"):
        check(f"{redis_stack_url}{query}", "trip")
    check(f"{redis_stack_url}?layout=redis", "trip")


@cases("has_search", True, False, ids=["indexes", "keys"])
def test_the_stores_of_a_server_are_named_each_whole(
    redis_stack_url: str, has_search: bool
) -> None:
    fill(redis_stack_url, "agenta", "agenta_write", "same", "one")
    fill(redis_stack_url, "agentb", "written", "same", "two")
    fill(redis_stack_url, "checkpoint", "checkpoint_write", "same")
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
    fill(redis_stack_url, "agentc", "cw", "full")
    for prefix, writes in (("agenta", "zz"), ("agentb", "aa")):
        fill(redis_stack_url, prefix, writes, "same", kind=ShallowRedisSaver)
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
    fill(redis_stack_url, "agenta", "first", "one")
    fill(redis_stack_url, "agenta", "second", "two")
    says = "cannot tell which prefix the writes of 'agenta' have"
    for url in (redis_stack_url, f"{redis_stack_url}?prefix=agenta"):
        refused = refuses(url, "threads", "list", says=says, code=2)
        assert [dict(parse_qsl(urlsplit(one).query)) for one in named(refused.err)] == [
            {"prefix": "agenta", "write_prefix": one} for one in ("first", "second")
        ]


@pytest.mark.parametrize("is_old", [False, True])
def test_what_is_added_is_found_and_goes_alone(redis_stack_url: str, is_old: bool) -> None:
    fill(redis_stack_url, "checkpoint", "checkpoint_write", "trip")
    before = keys(redis_stack_url)
    url = f"{redis_stack_url}?prefix=agenta"
    with saver(redis_stack_url, "agenta", "aw") as made:
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
    assert ckpt("-s", url, "threads", "delete", "trip", "--yes").code == 0
    assert keys(redis_stack_url).items() <= before.items()
    assert before.keys() - keys(redis_stack_url).keys() <= {b"checkpoint_latest:trip:__empty__"}


def test_the_prefixes_of_plainredis_are_named(redis_url: str) -> None:
    fill_plainredis(redis_url, "trip", prefix="my:app:")
    fill_plainredis(redis_url, "other", prefix="your:app")
    mine, yours = named(ckpt("-s", redis_url, "threads", "list").err)
    assert (threads_of(mine), threads_of(yours)) == (["trip"], ["other"])
    assert ckpt("-s", yours, "threads", "delete", "other", "--yes").code == 0
    # The only one that is left needs no name.
    assert threads_of(redis_url) == ["trip"]


def test_a_prefix_that_is_not_there_and_a_user_with_rights_to_its_keys(
    redis_stack_url: str,
) -> None:
    fill(redis_stack_url, "agenta", "agenta_write", "trip")
    for query in ("prefix=agent", "prefix=agent&layout=redis", "prefix=agenta&write_prefix=x"):
        missing = ckpt("-s", f"{redis_stack_url}?{query}", "threads", "list")
        assert missing.code == 4
        (url,) = named(missing.err)
        check(url, "trip")
    fill(redis_stack_url, "agentb", "agentb_write", "other")
    rights = "+@read +@connection +info +json.get +json.mget +json.type +json.debug"
    told = f"ACL SETUSER limited on >secret ~agenta* ~write_keys_zset:* {rights}"
    client(redis_stack_url).execute_command(*told.split())
    url = redis_stack_url.replace("redis://", "redis://limited:secret@")
    check(f"{url}?prefix=agenta", "trip")
