"""Removing and putting back in Redis: no key is left, none of another thread goes, none is lost."""

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ckpt_backends.errors import Unsupported
from ckpt_backends.open_for_writing import open_writable
from ckpt_backends.redis.engine import layout as purge_lock
from ckpt_backends.redis.engine import write as restoring
from ckpt_backends.redis.engine.connection import RedisConnection
from ckpt_backends.redis.engine.layout import LOCK, RedisLayout
from ckpt_backends.registry import open_store
from ckpt_backends.testing.official import drive
from ckpt_backends.testing.scenarios.catalog import SCENARIOS
from ckpt_backends.url import parse_url
from tests.engines.answers import refuses, succeeds, threads_of
from tests.kit.command import ROOT, ckpt
from tests.kit.savers.redis import SeeingRedisSaver
from tests.kit.savers.redis_threads import (
    FILLS,
    client,
    fill,
    fill_plain,
    fill_shallow,
    keys,
    removal_of,
)

GC = ["gc", "--scope", "writes", "--grace", "0s", "--yes", "-o", "json"]


def test_what_an_unstored_checkpoint_leaves_goes_too(redis_stack_url: str) -> None:
    """A listing counts it, since it goes by names."""
    fill(redis_stack_url, "trip", "other")
    admin = client(redis_stack_url)
    place = "trip:__empty__:1ef00000-0000-6000-8000-000000000000"
    admin.json().set(f"checkpoint:{place}", "$", {"has_writes": True})
    thread_id, checkpoint_ns, checkpoint_id = place.split(":")
    of = {"thread_id": thread_id, "checkpoint_ns": checkpoint_ns, "checkpoint_id": checkpoint_id}
    write = {**of, "task_id": "t", "task_path": "", "idx": 0, "channel": "x", "type": "null"}
    write["blob"] = ""
    admin.json().set(f"checkpoint_write:{place}:t:0", "$", write)
    admin.zadd(f"write_keys_zset:{place}", {f"checkpoint_write:{place}:t:0": 0})
    admin.zadd("write_keys_zset:trip::1ef00000-0000-6000-8000-000000000000", {"as in 0.1.0": 0})
    done = ckpt("-s", redis_stack_url, "purge", "--match", "trip", "--yes", "-o", "json").json
    assert (done["removed"]["threads"], done["skipped"]) == (1, [])
    assert not [name for name in keys(redis_stack_url) if b"trip" in name]
    assert ckpt("-s", redis_stack_url, "show", "other").code == 0


def test_writes_that_a_shallow_saver_left_go(redis_stack_url: str) -> None:
    """Its list of them, which no checkpoint has of its own, is of those that stay."""
    fill_shallow(redis_stack_url, "trip", "other", asks=True)
    words = ["-s", redis_stack_url, *GC]
    shown = ckpt("-s", redis_stack_url, "show", "trip", "--writes", "-o", "json").json
    done = ckpt(*words).json
    assert {one["thread_id"] for one in done["threads"]} == {"trip", "other"}
    again = ckpt("-s", redis_stack_url, "show", "trip", "--writes", "-o", "json").json
    assert again == shown
    assert shown["writes"] != []
    left = keys(redis_stack_url)
    listed, _ = left[b"write_registry:trip:__empty__:shallow"]
    names = {name for name in left if name.startswith(b"checkpoint_write:trip:")}
    assert {name for name, _ in listed} == names
    assert ckpt(*words).json["threads"] == []


def test_a_pointer_goes_with_the_last_checkpoint_of_its_namespace(redis_stack_url: str) -> None:
    """Calls of subgraphs, whose caller is gone: heads of their namespaces."""
    with SeeingRedisSaver.from_conn_string(redis_stack_url) as saver:
        saver.setup()
        drive(saver, SCENARIOS["interrupt-nested"])
    admin, name = client(redis_stack_url), b"checkpoint:interrupt-nested:__empty__:"
    calls = {one for one in keys(redis_stack_url) if b"__empty__" not in one}
    assert {one.split(b":")[0] for one in calls} >= {b"checkpoint", b"checkpoint_latest"}
    admin.delete(*(one for one in keys(redis_stack_url) if one.startswith(name)))
    words = ["gc", "--scope", "calls", "--grace", "0s", "--yes", "-o", "json"]
    assert len(ckpt("-s", redis_stack_url, *words).json["threads"]) == 1
    assert not calls & keys(redis_stack_url).keys()


@pytest.mark.engines
def test_another_purge_is_waited_for_and_then_refused(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill_plain(redis_url, "trip", "other")
    before, admin = keys(redis_url), client(redis_url)
    words = ["-s", redis_url, "threads", "delete", "trip", "--yes"]
    admin.set(LOCK, "another run", px=60_000)
    assert set(threads_of(redis_url)) == {"trip", "other"}
    with monkeypatch.context() as patch:
        patch.setattr(purge_lock, "_PATIENCE", 0.2)
        refused = ckpt(*words)
    assert (refused.code, "another purge" in refused.err) == (5, True)
    assert "hint: " in refused.err
    assert admin.get(LOCK) == b"another run"
    admin.delete(LOCK)
    assert keys(redis_url) == before
    admin.set(LOCK, "a run that was killed", px=300)
    assert ckpt(*words).code == 0
    assert admin.get(LOCK) is None


@pytest.mark.parametrize("is_gone", [False, True], ids=["runs out", "gone"])
def test_a_lock_is_extended_while_it_is_held_and_taken_again_if_it_went(
    redis_stack_url: str, monkeypatch: pytest.MonkeyPatch, is_gone: bool
) -> None:
    """It goes after a pause that was longer than it lives."""
    fill(redis_stack_url, "trip", "other")
    removals = [removal_of(redis_stack_url, name) for name in ("trip", "other")]
    monkeypatch.setattr(purge_lock, "_KEPT", 0.0)
    admin, happened, left = client(redis_stack_url), list[object](), list[int]()
    named, keep = RedisLayout.named_in, purge_lock.PurgeLock.keep

    def seen(owning: RedisLayout, owned: Any) -> list[set[bytes]]:
        found = named(owning, owned)
        if not happened:
            happened.append(admin.delete(LOCK) if is_gone else admin.pexpire(LOCK, 900))
        return found

    def look(lock: purge_lock.PurgeLock) -> None:
        keep(lock)
        left.append(admin.pttl(LOCK))

    monkeypatch.setattr(RedisLayout, "named_in", seen)
    monkeypatch.setattr(purge_lock.PurgeLock, "keep", look)
    admin.config_resetstat()
    with open_writable(parse_url(redis_stack_url)) as writable:
        assert [one.skipped for one in writable.remove(removals)] == ["", ""]
    assert happened == [1]
    assert len(left) > 1
    assert min(left) > 900
    assert admin.info("commandstats")["cmdstat_set"]["calls"] == 1 + is_gone
    assert admin.get(LOCK) is None


def test_the_lock_of_another_run_is_not_released(redis_url: str) -> None:
    """It took the lock when that of this run had run out."""
    admin, url = client(redis_url), parse_url(redis_url)
    lock = purge_lock.PurgeLock(admin, url)
    lock.take()
    admin.delete(LOCK)
    purge_lock.PurgeLock(admin, url).take()
    others = admin.get(LOCK)
    lock.release()
    assert admin.get(LOCK) == others


def test_what_has_expired_since_is_left_out_and_said(
    redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill_plain(redis_url, "trip", "stays", seconds=3600)
    admin, before = client(redis_url), keys(redis_url)
    short = sorted(name for name in before if name.startswith(b"writes$trip"))[:2]
    for name in short:
        admin.pexpire(name, 600_000)
    words: list[str | Path] = ["threads", "delete", "trip", "--archive", tmp_path, "--yes"]
    assert ckpt("-s", redis_url, *words).code == 0
    later = int(time.time() * 1000) + 1_200_000  # Between the two times to live.
    monkeypatch.setattr(restoring, "time_now", lambda _: later)
    (bundle,) = tmp_path.iterdir()
    done = ckpt("-s", redis_url, "import", bundle, "--yes", "-o", "json")
    assert done.code == 7
    assert "2 rows left out" in done.err
    assert "bundles still hold them" in done.err
    (told,) = json.loads(done.out)
    assert told["expired"] == 2 == told["rows"] - told["added"]
    assert keys(redis_url) == {name: held for name, held in before.items() if name not in short}


def test_a_server_before_redis_7_tells_them_too(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has no PEXPIRETIME."""
    fill_plain(redis_url, "trip", seconds=3600)
    asked = RedisConnection.ask_all

    def older(connection: RedisConnection, commands: Any, *rest: Any) -> Iterator[Any]:
        listed = list(commands)
        answers = asked(connection, listed, *rest)
        return (
            None if command[0] == "PEXPIRETIME" else answer
            for command, answer in zip(listed, answers, strict=True)
        )

    monkeypatch.setattr(RedisConnection, "ask_all", older)
    with open_store(redis_url) as store:
        cells: list[Any] = [row.cells for row in store.rows("trip")]
    told = {str(one["key"]).encode(): one["expires_at"] for one in cells}
    for name in keys(redis_url):
        at = client(redis_url).execute_command("PEXPIRETIME", name)
        assert abs(told[name] - at) < 60_000


def test_nothing_is_vacuumed(redis_url: str) -> None:
    fill_plain(redis_url, "trip", "other")
    with open_writable(parse_url(redis_url)) as writable, pytest.raises(Unsupported) as refused:
        writable.vacuum()
    assert "MEMORY PURGE" in str(refused.value.hint)
    done = ckpt("-s", redis_url, "purge", "--match", "trip", "--vacuum", "--yes", "-o", "json")
    assert json.loads(done.out)["removed"]["threads"] == 1
    assert (done.code, "by itself" in done.err) == (7, True)


@pytest.mark.parametrize("rights", [["+@read", "+info"], ["+@read", "+info", "+set", "+get"]])
def test_a_user_without_rights_is_told_what_it_needs(redis_url: str, rights: list[str]) -> None:
    fill_plain(redis_url, "trip")
    before, admin = keys(redis_url), client(redis_url)
    admin.execute_command("ACL", "SETUSER", "reader", "on", ">pw", "~*", "+@connection", *rights)
    url = redis_url.replace("redis://", "redis://reader:pw@")
    refused = refuses(url, "threads", "delete", "trip", "--yes", says="permission denied")
    assert "hint: " in refused.err
    assert {name: held for name, held in keys(redis_url).items() if name != LOCK} == before
    assert admin.get(LOCK) is None or admin.pttl(LOCK) > 0


@pytest.mark.parametrize("layout", ["redis", "redis-hash"])
def test_the_rights_of_the_docs_are_enough(
    redis_stack_url: str, layout: str, tmp_path: Path
) -> None:
    FILLS[layout](redis_stack_url, "trip", "stays")
    before = keys(redis_stack_url)
    text = (ROOT / "docs" / "purge.md").read_text().partition("A user of Redis needs")[2]
    rights = re.findall(r"\+[@a-z.]+", text.partition("\n\n")[0])
    assert {"+unlink", "+json.set"} <= set(rights)
    rights += ["+@read", "+@connection", "+info", "+json.get", "+json.mget", "+json.type"]
    client(redis_stack_url).execute_command(
        *("ACL", "SETUSER", "keeper", "on", ">pw", "~*", *rights, "+json.debug")
    )
    url = redis_stack_url.replace("redis://", "redis://keeper:pw@")
    succeeds(url, "threads", "delete", "trip", "--archive", tmp_path, "--yes")
    (bundle,) = tmp_path.iterdir()
    succeeds(url, "import", bundle, "--yes")
    assert keys(redis_stack_url) == before
