"""What only LangGraph.js stores in Redis and MongoDB: values apart, shapes of its own."""

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pymongo
import pytest
from langgraph.checkpoint.base.id import uuid6

from ckpt_backends.codec import to_json
from ckpt_backends.redis.javascript import documents
from ckpt_backends.redis.javascript.documents import JavaScriptPlan, JavaScriptRemoval
from ckpt_backends.registry import open_store
from ckpt_cli.reading.states import read_state
from ckpt_cli.reading.thread import ThreadReader
from tests.engines.answers import refuses, succeeds, threads_of
from tests.kit.command import FIXTURES, ckpt
from tests.kit.savers.redis_threads import client, fill, keys
from tests.kit.stores import restore_javascript_documents, restore_javascript_keys

pytestmark = pytest.mark.engines

FOLDER = FIXTURES / "js-1.7.3"
SAME = "chat"
"""A thread that both languages know."""


@pytest.fixture
def url(redis_stack_url: str) -> str:
    """What the full saver stored in a Redis."""
    restore_javascript_keys(FOLDER / "redis.jsonl.gz", redis_stack_url)
    return redis_stack_url


@pytest.fixture
def database(mongodb_url: str) -> Iterator[Any]:
    restore_javascript_documents(FOLDER / "mongodb.bson.gz", mongodb_url)
    with pymongo.MongoClient[Any](mongodb_url) as opened:
        yield opened.get_default_database()


def states(url: str, thread_id: str) -> dict[str, Any]:
    """The state at each checkpoint of a thread's root."""
    with open_store(url) as store:
        reader = ThreadReader(store, thread_id)
        return {
            one.key.checkpoint_id: {
                name: to_json(value) for name, value in read_state(reader, one).values.items()
            }
            for one in reader.moments("", values=True, state=True)
        }


def blobs(url: str, thread_id: str) -> set[bytes]:
    return set(client(url).scan_iter(f"checkpoint_blob:{thread_id}:*", count=1000))


def test_documents_of_both_languages_are_told_apart_one_by_one(url: str) -> None:
    connected, mine = client(url), f":{SAME}:".encode()
    for name in connected.scan_iter("checkpoint*", count=1000):
        if mine not in name:
            connected.delete(name)  # The layouts are told by a sample.
    of_javascript = keys(url)
    fill(url, SAME)
    refuses(url, "threads", "list", says="redis, redis-js", code=2)
    ours, theirs = f"{url}?layout=redis", f"{url}?layout=redis-js"
    assert threads_of(ours) == [SAME]
    with open_store(ours) as python, open_store(theirs) as javascript:
        known = {one.key for one in javascript.checkpoints(SAME)}
        assert known.isdisjoint(one.key for one in python.checkpoints(SAME))
        assert {one.key for one in javascript.writes(SAME)} <= known
        assert python.size(SAME).blobs == 0
        assert javascript.size(SAME).blobs == len(blobs(url, SAME))
    ckpt("-s", theirs, "rollback", SAME, "~3", "--yes", code=0)
    ckpt("-s", theirs, "undo", SAME, "--yes", code=0)
    ckpt("-s", ours, "threads", "delete", SAME, "--yes", code=0)
    assert of_javascript.items() <= keys(url).items()
    fill(url, SAME)
    before = keys(url)
    ckpt("-s", theirs, "threads", "delete", SAME, "--yes", code=0)
    assert blobs(url, SAME) == set()
    assert before.keys() - keys(url) == {name for name in of_javascript if mine in name}


def test_gc_waits_for_checkpoints_of_new_values(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """And collects those of no checkpoint, and no others."""
    known = blobs(url, SAME)
    documents_of, new, lost = client(url).json(), str(uuid6()), str(uuid6())

    def store_checkpoint(seconds: float) -> None:
        (old,) = documents_of.get("checkpoint:linear::1f1e670a-23dc-69c0-ffff-c647d2fd7542", "$")
        named = {"thread_id": "new", "checkpoint_id": new}
        body = {**old["checkpoint"], "id": new, "channel_versions": {"items": 1}}
        documents_of.set(f"checkpoint:new::{new}", "$", {**old, **named, "checkpoint": body})
        assert seconds == 60
        monkeypatch.setattr(documents, "_STORING", timedelta())

    monkeypatch.setattr(documents, "_STORING", timedelta(minutes=1))
    monkeypatch.setattr("ckpt_backends.redis.javascript.documents.time.sleep", store_checkpoint)
    value = {"checkpoint_ns": "__empty__", "channel": "items", "version": "1", "value": []}
    for thread_id, checkpoint_id in {"new": new, "other": lost}.items():
        own = {**value, "thread_id": thread_id, "checkpoint_id": checkpoint_id}
        documents_of.set(f"checkpoint_blob:{thread_id}::items:1", "$", own)
    gc = ("gc", "--scope", "blobs", "--grace", "0s", "--yes", "-o", "json")
    assert ckpt("-s", url, *gc).json["removed"]["rows"] == {"checkpoint_blob": 1}
    assert (len(blobs(url, "new")), blobs(url, "other")) == (1, set())
    assert blobs(url, SAME) == known


def test_a_thread_id_that_the_saver_refuses_is_not_made(url: str) -> None:
    says = "LangGraph.js rejects the thread id"
    for name in ("a*", "a[b]", "a\\b", "why?"):
        assert refuses(url, "copy", "linear", "--as", name, "--yes", says=says).out == ""


@pytest.mark.parametrize("thread_id", [SAME, "delta-often"])
def test_what_stays_after_pruning_has_its_values(url: str, thread_id: str) -> None:
    before, all_blobs = states(url, thread_id), blobs(url, thread_id)
    words = ["purge", "--match", thread_id, "--keep-last", "3", "--yes", "-o", "json"]
    done = ckpt("-s", url, *words).json
    after = states(url, thread_id)
    assert 0 < len(after) < len(before)
    assert after == {name: before[name] for name in after}
    gone = len(all_blobs) - len(blobs(url, thread_id))
    assert done["removed"]["rows"]["checkpoint_blob"] == gone > 0


def test_a_value_stored_anew_is_no_old_one(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Versions of two branches are the same numbers; the saver stores values first."""
    connected = client(url)
    known = blobs(url, SAME)
    anew: list[bytes] = []
    official = JavaScriptRemoval._run_last

    def meanwhile(self: Any, removal: Any, rows: Any) -> None:
        anew.append(self.keys.blobs[removal.inside.blobs[0]])
        stored = json.dumps("1fffffff-0000-6000-8000-000000000000")
        connected.execute_command("JSON.SET", anew[0], "$.checkpoint_id", stored)
        official(self, removal, rows)

    monkeypatch.setattr(JavaScriptRemoval, "_run_last", meanwhile)
    ckpt("-s", url, "purge", "--match", SAME, "--keep-last", "3", "--yes", code=0)
    left = blobs(url, SAME)
    assert anew[0] in left
    assert left < known


def test_nothing_is_added_behind_a_touched_head(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No key names a head, but its tasks' writes change the head itself."""
    connected = client(url)
    head = max(connected.scan_iter("checkpoint:linear::*", count=1000))
    official = JavaScriptPlan.check

    def meanwhile(self: Any) -> None:
        official(self)
        connected.execute_command("JSON.SET", head, "$.has_writes", '"true"')

    monkeypatch.setattr(JavaScriptPlan, "check", meanwhile)
    before = len(keys(url))
    ckpt("-s", url, "rollback", "linear", "~2", "--yes", code=6)
    assert len(keys(url)) == before


def test_a_copy_expires_with_what_it_is_made_of(url: str) -> None:
    connected = client(url)
    for name in connected.scan_iter(f"*:{SAME}:*", count=1000):
        connected.expire(name, 5000)
    back = ckpt("-s", url, "rollback", SAME, "~3", "--yes", "-o", "json").json
    succeeds(url, "copy", SAME, "--as", "copy", "--yes")
    names = [f"checkpoint:{SAME}::{back['checkpoint_id']}", *connected.scan_iter("*:copy:*")]
    assert len(names) > 10
    assert all(0 < connected.ttl(name) <= 5000 for name in names)


def test_a_copy_in_mongodb_has_the_shape_of_its_source(database: Any, mongodb_url: str) -> None:
    thread, newest = "with-metadata", {"checkpoint_id": -1}

    def made(*words: str) -> dict[str, Any]:
        told = succeeds(mongodb_url, *words, "--yes", "-o", "json").json
        return {"checkpoint_id": told["checkpoint_id"]}

    source = database.checkpoints.find_one({"thread_id": thread}, sort=newest)
    copy = database.checkpoints.find_one(made("rollback", thread, "~1"))
    types = [{name: type(value) for name, value in one.items()} for one in (copy, source)]
    assert types[0] == types[1]
    assert copy["metadata_search"] == json.loads(copy["metadata"])
    assert copy["metadata_search"]["source"] == "fork"
    assert copy in database.checkpoints.find({"metadata_search.source": "fork"})
    (write,) = database.checkpoint_writes.find(
        made("fork", thread, "~1", "--set", 'items=["more"]')
    )
    assert write.keys() == database.checkpoint_writes.find_one({"thread_id": thread}).keys()
    # Before 1.3.4, and without timestamps.
    database.checkpoints.update_many({}, {"$unset": {"metadata_search": 1, "upserted_at": 1}})
    copy = database.checkpoints.find_one(made("rollback", SAME, "~1"))
    assert copy.keys() & {"metadata_search", "upserted_at", "created_at"} == set()
    # An empty database is told by the saver's index.
    database.checkpoints.delete_many({})
    database.checkpoint_writes.delete_many({})
    (found,) = ckpt("-s", mongodb_url, "stores", "-o", "json").json
    assert found["layout"] == "mongodb-js"
    assert threads_of(mongodb_url) == []


def test_archives_go_into_both(url: str, database: Any, mongodb_url: str, tmp_path: Path) -> None:
    for place in (url, mongodb_url):
        archive = tmp_path / place.partition(":")[0]
        succeeds(place, "threads", "delete", SAME, "--archive", archive, "--yes")
    assert database.checkpoints.count_documents({"thread_id": SAME}) == 0
    for place in (mongodb_url, url):
        succeeds(place, "import", tmp_path / "redis", "--yes")
    assert states(mongodb_url, SAME) == states(url, SAME) != {}


ODD = {
    "channel_values": {"a": 1},
    "channel_versions": {"a": 1, "b": None, "c": [], "d:e": 2, "f": 3},
}
HOSTILE: dict[str, Any] = {
    "no-body": {},
    "text-body": {"checkpoint": "text"},
    "odd-parts": {"checkpoint": {"v": 4, "channel_values": [1], "channel_versions": "x"}},
    "odd-versions": {"checkpoint": {"v": 4, **ODD}, "metadata": None, "parent_checkpoint_id": ""},
    "odd-metadata": {"checkpoint": {"v": 4}, "metadata": "text"},
}


def test_hostile_documents_end_no_command(redis_stack_url: str) -> None:
    connected, url = client(redis_stack_url), redis_stack_url
    own = "1f1e66bb-af12-6110-bfff-8cf6a3c1e419"
    unwritten = {"parent_checkpoint_id": None, "has_writes": "true"}
    for name, parts in HOSTILE.items():
        place = {"thread_id": name, "checkpoint_ns": "__empty__", "checkpoint_id": own}
        write = {**place, "checkpoint_ns": "", "task_id": "t", "channel": "x", "global_idx": "1st"}
        for key, document in {
            f"checkpoint:{name}::{own}": {**place, **unwritten, **parts},
            f"checkpoint_blob:{name}::d:e:2": {**place, "value": 1},
            f"checkpoint_blob:{name}::f:3": {
                **place,
                "channel": "f",
                "version": "3",
                "type": "json",
            },
            f"checkpoint_write:{name}::{own}:t:0": write,
            f"checkpoint_write:{name}::{own}:t:1": {"idx": []},
        }.items():
            connected.json().set(key, "$", document)
    listed = ckpt("-s", url, "threads", "list", "--long", "-o", "json").json
    assert {one["thread_id"] for one in listed} == set(HOSTILE)
    for name in HOSTILE:
        for words in (
            *(["show", name, "--writes", "--metadata"], ["show", name, "--raw"], ["history", name]),
            *(["du", name], ["replay", name], ["rollback", name, "head", "--dry-run"]),
            *(["copy", name, "--as", "n", "--yes"], ["gc", "--scope", "all", "--dry-run"]),
        ):
            ckpt("-s", url, *words).ends_cleanly(0, 3, 4, 5)
        for thread in (name, "n"):
            ckpt("-s", url, "threads", "delete", thread, "--yes")
        assert not list(connected.scan_iter(f"checkpoint:{name}:*", count=1000)), name
    assert not list(connected.scan_iter("checkpoint:*", count=1000))
