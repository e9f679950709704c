"""Several savers in one database: what belongs to one of them is no orphan of another."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import redis
from langgraph.checkpoint.redis import RedisSaver, ShallowRedisSaver

from tests.kit.agents.asking import ask, config, on_mongodb, resumes, waits
from tests.kit.command import FIXTURES, ckpt
from tests.kit.harness.redis import dump
from tests.kit.stores import restore_keys

AGENT_B = {"checkpoint_prefix": "agentb"}
GC = ("gc", "--scope", "all", "--grace", "0s", "-o", "json")


@contextmanager
def on_redis(url: str, kind: Any = RedisSaver, **options: str) -> Iterator[Any]:
    with kind.from_conn_string(url, **options) as saver:
        saver.setup()
        yield saver


def live_keys(url: str, thread: str, at: str) -> set[bytes]:
    """The keys of the writes of one checkpoint."""
    with redis.Redis.from_url(url) as client:
        return set(client.keys(f"*:{thread}:*{at}:*"))


def head_of(saver: Any, thread: str) -> str:
    found = saver.get_tuple(config(thread))
    assert found is not None
    return str(found.checkpoint["id"])


def test_a_full_and_a_shallow_saver_leave_each_other_alone(redis_stack_url: str) -> None:
    full_url, shallow_url = (f"{redis_stack_url}?layout=redis{one}" for one in ("", "-shallow"))
    with on_redis(redis_stack_url) as full, on_redis(redis_stack_url, ShallowRedisSaver) as shallow:
        ask(full, "full", "same")
        ask(shallow, "shallow", "same")
        at = {one: head_of(full, one) for one in ("full", "same")}
        live = set.union(*(live_keys(redis_stack_url, *one) for one in at.items()))
        heads = {one: head_of(shallow, one) for one in ("shallow", "same")}
        mine = set.union(*(live_keys(redis_stack_url, *one) for one in heads.items()))
        assert live
        assert mine
        # A real orphan of each, so that there is something to remove.
        with redis.Redis.from_url(redis_stack_url) as client:
            place = "lost:__empty__:1ef00000-0000-6000-8000-000000000000"
            names = ("thread_id", "checkpoint_ns", "checkpoint_id")
            write = dict(zip(names, place.split(":"), strict=True))
            write |= {"task_id": "t", "task_path": "", "channel": "x", "type": "json", "blob": "1"}
            client.json().set(f"checkpoint_write:{place}:t:0", "$", {**write, "idx": 0})
        before = dump(redis_stack_url)
        planned = ckpt("-s", full_url, *GC, "--dry-run").json["threads"]
        assert [one["thread_id"] for one in planned] == ["lost"]
        for url in (full_url, shallow_url):
            found = ckpt("-s", url, "doctor", "--grace", "0s", "-o", "json").json["findings"]
            orphans = {one["thread_id"] for one in found if one["code"] == "write-orphaned"}
            assert orphans <= {"lost"}
            ckpt("-s", url, *GC, "--yes", code=0)
        gone = before.keys() - dump(redis_stack_url).keys()
        assert b"checkpoint_write:lost:__empty__:1ef00000-0000-6000-8000-000000000000:t:0" in gone
        assert gone.isdisjoint(live | mine)
        assert waits(shallow, "shallow")
        ckpt("-s", full_url, "threads", "delete", "shallow", "--yes", code=3)
        ckpt("-s", shallow_url, "threads", "delete", "full", "--yes", code=3)
        ckpt("-s", full_url, "threads", "delete", "same", "--yes", code=0)
        assert waits(shallow, "same")
        assert resumes(shallow, "same")
        assert resumes(full, "full")
        assert resumes(shallow, "shallow")


@pytest.mark.engines
def test_a_removal_keeps_what_the_full_saver_needs(redis_stack_url: str) -> None:
    url = f"{redis_stack_url}?layout=redis-shallow"
    with on_redis(redis_stack_url) as full, on_redis(redis_stack_url, ShallowRedisSaver) as shallow:
        ask(full, "same")
        ask(shallow, "same")
        live = live_keys(redis_stack_url, "same", head_of(full, "same"))
        ask(full, "another")
        done = ckpt("-s", url, "erase", "--match", "*[er]", "--yes", "-o", "json")
        # An erasure tells that the person's threads are in the other store, too.
        places = json.loads(done.out)["places"]
        left = [one["items"] for one in places if "another store of" in one["reason"]]
        assert (done.code, left) == (7, [2]), done.err
        assert live <= dump(redis_stack_url).keys()
        assert shallow.get_tuple(config("same")) is None
        assert resumes(full, "same")


@pytest.mark.engines
def test_threads_of_the_first_release_stay_whole_beside_later_ones(redis_stack_url: str) -> None:
    """Release 0.0 stores a checkpoint under its parent's id; a question waits in a subgraph."""
    waiting = {"interrupt-nested", "interrupt-alone"}
    restore_keys(FIXTURES / "redis" / "lg-0.4.10" / "store.jsonl.gz", redis_stack_url, waiting)
    with on_redis(redis_stack_url) as saver:
        ask(saver, "new")
        before = dump(redis_stack_url)
        listed = ckpt("-s", redis_stack_url, "threads", "list", "-o", "json").json
        assert {one["thread_id"] for one in listed} == {"new", *waiting}
        assert ckpt("-s", redis_stack_url, *GC, "--yes").json["threads"] == []
        deep = ckpt("-s", redis_stack_url, "doctor", "--deep", "--grace", "0s", "-o", "json")
        codes = {one["code"] for one in deep.json["findings"]}
        assert codes.isdisjoint({"write-orphaned", "namespace-orphaned"})
        assert dump(redis_stack_url) == before


@pytest.mark.engines
def test_a_user_who_may_not_read_the_other_checkpoints_removes_none(redis_stack_url: str) -> None:
    with on_redis(redis_stack_url) as one, on_redis(redis_stack_url, **AGENT_B) as other:
        ask(one, "one")
        ask(other, "other")
        before = dump(redis_stack_url)
        with redis.Redis.from_url(redis_stack_url) as client:
            keys = "~agentb* ~checkpoint_write:* ~write_keys_zset:* ~ckpt:purge-lock"
            client.execute_command(*f"ACL SETUSER limited on >secret {keys} +@all".split())
        url = redis_stack_url.replace("redis://", "redis://limited:secret@")
        url += "?layout=redis&prefix=agentb&write_prefix=checkpoint_write"
        assert ckpt("-s", url, *GC, "--yes", code=0).json["threads"] == []
        assert dump(redis_stack_url) == before
        assert resumes(one, "one")


@pytest.mark.engines
def test_savers_with_one_collection_of_writes_leave_each_other_alone(mongodb_url: str) -> None:
    """Without a name for it, both have the default collection of writes."""
    one, other = (on_mongodb(mongodb_url, name) for name in ("checkpoints_a", "checkpoints_b"))
    ask(one, "one", "same")
    ask(other, "other", "same")
    a, b = (
        f"{mongodb_url}?collection=checkpoints_{name}&writes_collection=checkpoint_writes"
        for name in ("a", "b")
    )
    for url in (a, b):
        assert ckpt("-s", url, *GC, "--yes").json["threads"] == []
        found = ckpt("-s", url, "doctor", "--grace", "0s", "-o", "json").json["findings"]
        assert [one for one in found if one["severity"] != "info"] == []
    ckpt("-s", a, "threads", "delete", "other", "--yes", code=3)
    done = ckpt("-s", a, "threads", "delete", "same", "--yes", "-o", "json").json
    assert done["removed"]["rows"] == {"checkpoints": 2, "checkpoint_writes": 2}
    assert waits(other, "same")
    assert resumes(other, "same")
    assert resumes(other, "other")
    assert ckpt("-s", b, "erase", "same", "--yes").code in {0, 7}
    assert resumes(one, "one")
    for saver in (one, other):
        saver.client.close()
