"""Removing and putting back in Redis: no key is left, none of another thread goes, none is lost."""

import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.redis import RedisSaver

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
from tests.kit.agents.steps import config_of, graph_of, talk
from tests.kit.command import ROOT, ckpt, later
from tests.kit.savers.redis import SeeingRedisSaver, dump
from tests.kit.savers.redis_threads import (
    FILLS,
    ODD,
    client,
    fill,
    fill_plain,
    fill_shallow,
    keys,
    removal_of,
)

GC = ["gc", "--scope", "writes", "--grace", "0s", "--yes", "-o", "json"]


@pytest.fixture(params=["redis", "redis-hash", *later("redis-shallow", "redis-hash-colon")])
def layout(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


# Which keys go


def test_no_index_is_needed(redis_stack_url: str) -> None:
    fill(redis_stack_url, *ODD)
    admin = client(redis_stack_url)
    for name in admin.execute_command("FT._LIST"):
        admin.execute_command("FT.DROPINDEX", name)
    before = keys(redis_stack_url)
    words = ["purge", "--match", "a*", "--protect", "a,b", "--yes", "-o", "json"]
    done = ckpt("-s", redis_stack_url, *words)
    gone = {one["thread_id"] for one in done.json["threads"]}
    assert gone == {one for one in ODD if one.startswith("a")} - {"a,b"}
    left = keys(redis_stack_url)
    assert left == {name: before[name] for name in left}
    assert {one.split(b":")[1] for one in left} == {b"a,b", b"A"}
    assert len(left) * len(ODD) == len(before) * 2


def test_what_an_unstored_checkpoint_leaves_goes_too(redis_stack_url: str) -> None:
    """A listing counts it, since it goes by names."""
    fill(redis_stack_url, "trip", "other")
    admin = client(redis_stack_url)
    place = "trip:__empty__:1ef00000-0000-6000-8000-000000000000"
    admin.json().set(f"checkpoint:{place}", "$", {"has_writes": True})
    write = {
        "thread_id": "trip",
        "checkpoint_ns": "__empty__",
        "checkpoint_id": place.rsplit(":", maxsplit=1)[-1],
        **{"task_id": "t", "task_path": "", "idx": 0, "channel": "x", "type": "null", "blob": ""},
    }
    admin.json().set(f"checkpoint_write:{place}:t:0", "$", write)
    admin.zadd(f"write_keys_zset:{place}", {f"checkpoint_write:{place}:t:0": 0})
    admin.zadd("write_keys_zset:trip::1ef00000-0000-6000-8000-000000000000", {"as in 0.1.0": 0})
    done = ckpt("-s", redis_stack_url, "purge", "--match", "trip", "--yes", "-o", "json").json
    assert (done["removed"]["threads"], done["skipped"]) == (1, [])
    assert not [name for name in keys(redis_stack_url) if b"trip" in name]
    assert ckpt("-s", redis_stack_url, "show", "other").code == 0


def test_a_saver_with_a_prefix_of_its_own_loses_its_thread_only(redis_stack_url: str) -> None:
    own: Any = {"checkpoint_prefix": "app", "checkpoint_write_prefix": "app_write"}
    fill(redis_stack_url, "trip")
    before = keys(redis_stack_url)
    with RedisSaver.from_conn_string(redis_stack_url, **own) as saver:
        saver.setup()
        talk(saver, "trip")
    url = f"{redis_stack_url}?prefix=app&write_prefix=app_write"
    assert ckpt("-s", url, "threads", "delete", "trip", "--yes").code == 0
    assert keys(redis_stack_url) == before
    # Before 0.5 the pointer began as that of any other saver.
    with RedisSaver.from_conn_string(redis_stack_url, **own) as saver:
        saver.setup()
        talk(saver, "old")
    admin = client(redis_stack_url)
    admin.rename("app_latest:old:__empty__", "checkpoint_latest:old:__empty__")
    assert ckpt("-s", url, "threads", "delete", "old", "--yes").code == 0
    assert keys(redis_stack_url) == before


@pytest.mark.parametrize("layout", ["redis", "redis-hash", "redis-hash-colon"], indirect=True)
def test_writes_of_no_checkpoint_go_and_the_rest_stays(redis_stack_url: str, layout: str) -> None:
    FILLS[layout](redis_stack_url, "trip", "other")
    words = ["-s", redis_stack_url, *GC]
    assert ckpt(*words).json["threads"] == []
    with open_store(redis_stack_url) as store:
        lost = next(store.writes("trip")).key.checkpoint_id.encode()
    of_lost = {name for name in keys(redis_stack_url) if lost in name}
    client(redis_stack_url).delete(
        *(name for name in of_lost if name.startswith((b"checkpoint:", b"checkpoint$")))
    )
    before = keys(redis_stack_url)
    (done,) = ckpt(*words).json["threads"]
    assert (done["thread_id"], done["checkpoints"]) == ("trip", 0)
    assert done["writes"] > 0
    assert before.keys() - keys(redis_stack_url).keys() == before.keys() & of_lost
    assert ckpt(*words).json["threads"] == []


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


# An agent at work


class Meanwhile:
    """Something that happens once, in the middle of a removal."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, what: Callable[[], None]) -> None:
        self.happened = False
        named = RedisLayout.named_in

        def seen(owning: RedisLayout, owned: Any) -> list[set[bytes]]:
            found = named(owning, owned)
            if not self.happened:
                self.happened = True
                what()
            return found

        monkeypatch.setattr(RedisLayout, "named_in", seen)


# The lock


@pytest.mark.engines
def test_another_purge_is_waited_for_and_then_refused(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill_plain(redis_url, "trip", "other")
    before, admin = keys(redis_url), client(redis_url)
    words = ["-s", redis_url, "threads", "delete", "trip", "--yes"]
    admin.set(LOCK, "another run", px=60_000)
    listed = ckpt("-s", redis_url, "threads", "list", "-o", "json").json
    assert {one["thread_id"] for one in listed} == {"trip", "other"}
    with monkeypatch.context() as patch:
        patch.setattr(purge_lock, "_PATIENCE", 0.2)
        refused = ckpt(*words)
    assert (refused.code, "another purge" in refused.err, "hint: " in refused.err) == (
        5,
        True,
        True,
    )
    assert admin.get(LOCK) == b"another run"
    admin.delete(LOCK)
    assert keys(redis_url) == before
    admin.set(LOCK, "a run that was killed", px=300)
    assert ckpt(*words).code == 0
    assert admin.get(LOCK) is None


def test_a_lock_that_went_in_the_middle_is_taken_again(
    redis_stack_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a pause that was longer than it lives."""
    fill(redis_stack_url, "trip", "other")
    removals = [removal_of(redis_stack_url, name) for name in ("trip", "other")]
    monkeypatch.setattr(purge_lock, "_KEPT", 0.0)
    admin = client(redis_stack_url)
    meanwhile = Meanwhile(monkeypatch, lambda: admin.delete(LOCK))
    admin.config_resetstat()
    with open_writable(parse_url(redis_stack_url)) as writable:
        done = writable.remove(removals)
    assert [one.skipped for one in done] == ["", ""]
    assert meanwhile.happened
    assert admin.info("commandstats")["cmdstat_set"]["calls"] == 2
    assert admin.get(LOCK) is None


def test_a_lock_is_extended_while_it_is_held(
    redis_stack_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(redis_stack_url, "trip", "other")
    removals = [removal_of(redis_stack_url, name) for name in ("trip", "other")]
    monkeypatch.setattr(purge_lock, "_KEPT", 0.0)
    admin = client(redis_stack_url)
    left: list[int] = []

    def run_out() -> None:
        admin.pexpire(LOCK, 900)

    def look(lock: purge_lock.PurgeLock) -> None:
        keep(lock)
        left.append(admin.pttl(LOCK))

    keep = purge_lock.PurgeLock.keep
    monkeypatch.setattr(purge_lock.PurgeLock, "keep", look)
    meanwhile = Meanwhile(monkeypatch, run_out)
    with open_writable(parse_url(redis_stack_url)) as writable:
        assert [one.skipped for one in writable.remove(removals)] == ["", ""]
    assert meanwhile.happened
    assert len(left) > 1
    assert min(left) > 900


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


def test_small_threads_share_a_transaction_and_a_scan(redis_url: str) -> None:
    names = ("a", "b", "c")
    fill_plain(redis_url, *names)
    removals = [removal_of(redis_url, name) for name in names]
    admin = client(redis_url)
    with open_writable(parse_url(redis_url)) as writable:
        admin.config_resetstat()
        done = writable.remove(removals)
    assert [one.skipped for one in done] == ["", "", ""]
    assert [one.rows["writes"] for one in done] == [one.writes for one in removals]
    calls = {
        name: admin.info("commandstats")[f"cmdstat_{name}"]["calls"] for name in ("exec", "scan")
    }
    # The other transaction releases the lock.
    assert calls == {"exec": 2, "scan": 1}
    assert keys(redis_url) == {}


# Times to live


def _expiries(url: str) -> dict[bytes, int]:
    admin = client(url)
    return {name: admin.execute_command("PEXPIRETIME", name) for name in keys(url)}


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
        told = {
            str(row.cells["key"]).encode(): row.cells["expires_at"] for row in store.rows("trip")
        }
    for name, at in _expiries(redis_url).items():
        found = told[name]
        assert isinstance(found, int)
        assert abs(found - at) < 60_000


# Putting back


def test_a_bundle_of_another_layout_is_refused(redis_stack_url: str, tmp_path: Path) -> None:
    fill(redis_stack_url, "trip")
    assert ckpt("-s", redis_stack_url, "export", "trip", "--to", tmp_path).code == 0
    (bundle,) = tmp_path.iterdir()
    url = f"{redis_stack_url}?layout=redis-hash"
    refused = ckpt("-s", url, "import", bundle, "--yes")
    assert (refused.code, "a store of the same layout" in refused.err) == (5, True)


def test_the_saver_goes_on_in_an_emptied_store_that_was_filled_again(
    redis_stack_url: str, tmp_path: Path
) -> None:
    """Its index takes the documents up by itself."""
    fill(redis_stack_url, "trip", asks=True)
    words: list[str | Path] = ["threads", "delete", "trip", "--archive", tmp_path, "--yes"]
    assert ckpt("-s", redis_stack_url, *words).code == 0
    (bundle,) = tmp_path.iterdir()
    url = f"{redis_stack_url}?layout=redis"
    assert ckpt("-s", url, "import", bundle, "--yes").code == 0
    with RedisSaver.from_conn_string(redis_stack_url) as saver:
        saver.setup()
        assert len(list(saver.list(config_of("trip")))) == 3
        assert graph_of(saver, asks=True).get_state(config_of("trip")).next == ("b",)


# What is refused


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
    refused = ckpt("-s", url, "threads", "delete", "trip", "--yes")
    assert refused.code == 4
    assert "permission denied" in refused.err
    assert "hint: " in refused.err
    assert {name: held for name, held in keys(redis_url).items() if name != LOCK} == before
    assert admin.get(LOCK) is None or admin.pttl(LOCK) > 0


@pytest.mark.parametrize("layout", ["redis", "redis-hash"], indirect=True)
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
    delete = ckpt("-s", url, "threads", "delete", "trip", "--archive", tmp_path, "--yes")
    assert delete.code == 0, delete.err
    (bundle,) = tmp_path.iterdir()
    back = ckpt("-s", url, "import", bundle, "--yes")
    assert back.code == 0, back.err
    assert keys(redis_stack_url) == before


def test_a_reader_needs_no_other_rights_to_export(redis_stack_url: str, tmp_path: Path) -> None:
    fill(redis_stack_url, "trip")
    before = dump(redis_stack_url)
    rights = ["+@read", "+@connection", "+info", "+json.get", "+json.mget", "+json.type"]
    client(redis_stack_url).execute_command(
        *("ACL", "SETUSER", "reader", "on", ">pw", "~*", *rights, "+json.debug", "-@write")
    )
    url = redis_stack_url.replace("redis://", "redis://reader:pw@")
    done = ckpt("-s", url, "export", "trip", "--to", tmp_path, "-o", "json")
    assert done.code == 0, done.err
    assert done.json[0]["rows"] == len(before) - 1
    assert dump(redis_stack_url) == before


def test_a_row_tells_all_of_a_key(redis_stack_url: str) -> None:
    fill(redis_stack_url, "trip", ttl={"default_ttl": 60})
    with open_store(redis_stack_url) as store:
        rows = list(store.rows("trip"))
    kinds = ["checkpoint_write", "write_keys_zset", "checkpoint", "checkpoint_latest"]
    assert list(dict.fromkeys(row.table for row in rows)) == kinds
    held = keys(redis_stack_url)
    assert {str(row.cells["key"]).encode() for row in rows} == held.keys()
    for row in rows:
        contents, expires_at = held[str(row.cells["key"]).encode()]
        assert row.cells["expires_at"] == expires_at
        assert isinstance(expires_at, int)
        assert expires_at > 1_700_000_000_000
        if row.table == "write_keys_zset":
            cells = {f".{name.decode()}": score for name, score in contents}
            assert {key: float(str(row.cells[key])) for key in cells} == cells
        else:
            value = row.cells["value"]
            assert (value.encode() if isinstance(value, str) else value) == contents
