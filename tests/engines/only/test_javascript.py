"""What only LangGraph.js stores in Redis and MongoDB: values apart, shapes of its own."""

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pymongo
import pytest
from langgraph.checkpoint.base.id import uuid6

from ckpt_backends.redis.javascript import documents
from ckpt_backends.redis.javascript.documents import JavaScriptPlan, JavaScriptRemoval
from ckpt_backends.registry import open_store
from tests.engines.answers import refuses, succeeds, threads_of
from tests.kit.command import FIXTURES, ckpt, ids_of
from tests.kit.savers.redis import dump
from tests.kit.savers.redis_threads import client, fill
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
    return {
        one: ckpt("-s", url, "show", "--at", one, "-o", "json", "--", thread_id).json["values"]
        for one in ids_of(url, thread_id)
    }


def blobs(url: str, thread_id: str) -> set[bytes]:
    return set(client(url).scan_iter(f"checkpoint_blob:{thread_id}:*", count=1000))


def test_documents_of_both_languages_are_told_apart_one_by_one(url: str) -> None:
    connected = client(url)
    for name in connected.scan_iter("checkpoint*", count=1000):
        if f":{SAME}:".encode() not in name:
            connected.delete(name)  # The layouts are told by a sample.
    of_javascript = dump(url)
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
    assert ckpt("-s", theirs, "rollback", SAME, "~3", "--yes").code == 0
    assert ckpt("-s", theirs, "undo", SAME, "--yes").code == 0
    assert ckpt("-s", ours, "threads", "delete", SAME, "--yes").code == 0
    left = dump(url)
    assert {name: left.get(name) for name in of_javascript if name} == {
        name: held for name, held in of_javascript.items() if name
    }
    fill(url, SAME)
    before = dump(url)
    assert ckpt("-s", theirs, "threads", "delete", SAME, "--yes").code == 0
    assert blobs(url, SAME) == set()
    gone = before.keys() - dump(url).keys()
    assert gone == {name for name in of_javascript if f":{SAME}:".encode() in name}


def test_gc_waits_for_the_checkpoints_of_young_values(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And collects those of no checkpoint, and no others."""
    known = blobs(url, SAME)
    connected, new, lost = client(url), str(uuid6()), str(uuid6())

    def store_checkpoint(seconds: float) -> None:
        (old,) = connected.json().get(
            "checkpoint:linear::1f1e670a-23dc-69c0-ffff-c647d2fd7542", "$"
        )
        named = {"thread_id": "new", "checkpoint_id": new}
        body = {**old["checkpoint"], "id": new, "channel_versions": {"items": 1}}
        connected.json().set(f"checkpoint:new::{new}", "$", {**old, **named, "checkpoint": body})
        assert seconds == 60
        monkeypatch.setattr(documents, "_STORING", timedelta())

    monkeypatch.setattr(documents, "_STORING", timedelta(minutes=1))
    monkeypatch.setattr("ckpt_backends.redis.javascript.documents.time.sleep", store_checkpoint)
    value = {"checkpoint_ns": "__empty__", "channel": "items", "version": "1", "value": []}
    for thread_id, checkpoint_id in {"new": new, "other": lost}.items():
        own = {**value, "thread_id": thread_id, "checkpoint_id": checkpoint_id}
        connected.json().set(f"checkpoint_blob:{thread_id}::items:1", "$", own)
    gc = ("gc", "--scope", "blobs", "--grace", "0s", "--yes", "-o", "json")
    assert ckpt("-s", url, *gc).json["removed"]["rows"] == {"checkpoint_blob": 1}
    assert (len(blobs(url, "new")), blobs(url, "other")) == (1, set())
    assert blobs(url, SAME) == known


def test_a_thread_id_that_the_saver_refuses_is_not_made(url: str) -> None:
    for name in ("a*", "a[b]", "a\\b", "why?"):
        refused = ckpt("-s", url, "copy", "linear", "--as", name, "--yes")
        assert (refused.code, refused.out) == (4, "")
        assert "LangGraph.js rejects the thread id" in refused.err


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


def test_a_value_that_was_stored_anew_is_not_taken_for_an_old_one(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    assert ckpt("-s", url, "purge", "--match", SAME, "--keep-last", "3", "--yes").code == 0
    left = blobs(url, SAME)
    assert anew[0] in left
    assert left < known


def test_nothing_is_added_behind_a_head_that_the_saver_touches(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No key names a head, but its tasks' writes change the head itself."""
    connected = client(url)
    head = max(connected.scan_iter("checkpoint:linear::*", count=1000))
    official = JavaScriptPlan.check

    def meanwhile(self: Any) -> None:
        official(self)
        connected.execute_command("JSON.SET", head, "$.has_writes", '"true"')

    monkeypatch.setattr(JavaScriptPlan, "check", meanwhile)
    before = len(dump(url))
    assert ckpt("-s", url, "rollback", "linear", "~2", "--yes").code == 6
    assert len(dump(url)) == before


def test_a_copy_expires_with_what_it_is_made_of(url: str) -> None:
    connected = client(url)
    for name in connected.scan_iter(f"*:{SAME}:*", count=1000):
        connected.expire(name, 5000)
    back = ckpt("-s", url, "rollback", SAME, "~3", "--yes", "-o", "json").json
    copied = ckpt("-s", url, "copy", SAME, "--as", "copy", "--yes")
    assert copied.code == 0
    names = [f"checkpoint:{SAME}::{back['checkpoint_id']}", *connected.scan_iter("*:copy:*")]
    assert len(names) > 10
    assert all(0 < connected.ttl(name) <= 5000 for name in names)


def test_a_copy_in_mongodb_has_the_shape_of_its_source(database: Any, mongodb_url: str) -> None:
    source = database.checkpoints.find_one(
        {"thread_id": "with-metadata"}, sort={"checkpoint_id": -1}
    )
    words = ["rollback", "with-metadata", "~1", "--yes", "-o", "json"]
    made = ckpt("-s", mongodb_url, *words).json
    copy = database.checkpoints.find_one({"checkpoint_id": made["checkpoint_id"]})
    assert copy.keys() == source.keys()
    assert {name: type(value) for name, value in copy.items()} == {
        name: type(value) for name, value in source.items()
    }
    assert copy["metadata_search"] == json.loads(copy["metadata"])
    assert copy["metadata_search"]["source"] == "fork"
    found = database.checkpoints.find({"metadata_search.source": "fork"})
    assert made["checkpoint_id"] in {one["checkpoint_id"] for one in found}
    writes = ["fork", "with-metadata", "~1", "--set", 'items=["more"]', "--yes", "-o", "json"]
    made = ckpt("-s", mongodb_url, *writes).json
    (write,) = database.checkpoint_writes.find({"checkpoint_id": made["checkpoint_id"]})
    other = database.checkpoint_writes.find_one({"thread_id": "with-metadata"})
    assert write.keys() == other.keys()
    # Before 1.3.4, and without timestamps.
    database.checkpoints.update_many({}, {"$unset": {"metadata_search": 1, "upserted_at": 1}})
    made = ckpt("-s", mongodb_url, "rollback", SAME, "~1", "--yes", "-o", "json").json
    copy = database.checkpoints.find_one({"checkpoint_id": made["checkpoint_id"]})
    assert copy.keys() & {"metadata_search", "upserted_at", "created_at"} == set()


def test_an_empty_database_is_told_by_the_saver_s_index(database: Any, mongodb_url: str) -> None:
    database.checkpoints.delete_many({})
    database.checkpoint_writes.delete_many({})
    (found,) = ckpt("-s", mongodb_url, "stores", "-o", "json").json
    assert found["layout"] == "mongodb-js"
    assert ckpt("-s", mongodb_url, "threads", "list", "-o", "json").json == []


def test_an_archive_goes_back_into_either_layout(
    url: str, database: Any, mongodb_url: str, tmp_path: Path
) -> None:
    for place in (url, mongodb_url):
        archive = tmp_path / place.partition(":")[0]
        succeeds(place, "threads", "delete", SAME, "--archive", archive, "--yes")
    assert database.checkpoints.count_documents({"thread_id": SAME}) == 0
    for place in (mongodb_url, url):
        assert ckpt("-s", place, "import", tmp_path / "redis", "--yes").code == 0
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
    connected = client(redis_stack_url)
    own = "1f1e66bb-af12-6110-bfff-8cf6a3c1e419"
    for name, parts in HOSTILE.items():
        place = {"thread_id": name, "checkpoint_ns": "__empty__", "checkpoint_id": own}
        document = {**place, "parent_checkpoint_id": None, "has_writes": "true", **parts}
        connected.json().set(f"checkpoint:{name}::{own}", "$", document)
        connected.json().set(f"checkpoint_blob:{name}::d:e:2", "$", {**place, "value": 1})
        blob = {**place, "channel": "f", "version": "3", "type": "json"}
        connected.json().set(f"checkpoint_blob:{name}::f:3", "$", blob)
        write = {**place, "checkpoint_ns": "", "task_id": "t", "channel": "x", "global_idx": "1st"}
        connected.json().set(f"checkpoint_write:{name}::{own}:t:0", "$", write)
        connected.json().set(f"checkpoint_write:{name}::{own}:t:1", "$", {"idx": []})
    listed = ckpt("-s", redis_stack_url, "threads", "list", "--long", "-o", "json").json
    assert {one["thread_id"] for one in listed} == set(HOSTILE)
    for name in HOSTILE:
        for words in (
            *(["show", name, "--writes", "--metadata"], ["show", name, "--raw"], ["history", name]),
            *(["du", name], ["replay", name], ["rollback", name, "head", "--dry-run"]),
            *(["copy", name, "--as", "n", "--yes"], ["gc", "--scope", "all", "--dry-run"]),
        ):
            ckpt("-s", redis_stack_url, *words).ends_cleanly(0, 3, 4, 5)
        for thread in (name, "n"):
            ckpt("-s", redis_stack_url, "threads", "delete", thread, "--yes")
        assert not list(connected.scan_iter(f"checkpoint:{name}:*", count=1000)), name
    assert not list(connected.scan_iter("checkpoint:*", count=1000))
