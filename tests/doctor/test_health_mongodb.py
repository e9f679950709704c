"""Faults of what only layouts on MongoDB have: indexes, expiry, and a limit for documents."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from bson import Binary

from ckpt_backends.errors import StoreUnavailable
from ckpt_backends.model import Fault
from ckpt_backends.mongodb.engine.store import unused_space
from ckpt_backends.registry import open_store
from tests.doctor.running_fixes import run_mongodb
from tests.kit.command import FIXTURES, ckpt
from tests.kit.savers.kaflow import MongoDBCheckpointer
from tests.kit.savers.mongodb import Place
from tests.kit.servers import Server, mongodb_database
from tests.kit.stores import restore_documents, restore_javascript_documents

HOUR = 3600


@pytest.fixture
def place(mongodb_server: Server) -> Iterator[Place]:
    with mongodb_database(mongodb_server) as url:
        made = Place(url)
        yield made
        made.client.close()


def found(place: Place) -> list[Fault]:
    """All faults of a store."""
    with open_store(place.url) as store:
        every = list(store.faults())
        for thread_id in store.suspect_threads():
            every += store.thread_faults(thread_id)
    return every


def suspects(place: Place) -> set[str]:
    with open_store(place.url) as store:
        every = list(store.suspect_threads())
    assert len(set(every)) == len(every)
    return set(every)


def drop_index(place: Place, collection: str, *fields: str) -> None:
    for name, about in place.database[collection].index_information().items():
        if tuple(field for field, _ in about["key"]) == fields:
            place.database[collection].drop_index(name)
            return
    raise AssertionError(f"no index on {fields}")


def checkpoints(place: Place, thread_id: str) -> list[Any]:
    """The documents of a thread's checkpoints, the newest first."""
    rows = place.database["checkpoints"].find({"thread_id": thread_id})
    return sorted(rows, key=lambda one: str(one["checkpoint_id"]), reverse=True)


def test_a_missing_index_is_named_with_the_statement_that_creates_it(place: Place) -> None:
    place.fill("trip")
    assert found(place) == []
    key = ("thread_id", "checkpoint_ns", "checkpoint_id")
    drop_index(place, "checkpoints", *key)
    drop_index(place, "checkpoint_writes", *key, "task_id", "idx")
    faults = found(place)
    assert [one.code for one in faults] == ["index-missing"] * 2
    for one in faults:
        run_mongodb(place.database, one.fix)
    assert found(place) == []
    place.saver()  # the saver finds its indexes, or else MongoDB would refuse other options


def test_threads_whose_keys_contradict_each_other_are_suspect(place: Place) -> None:
    saver = place.saver()
    place.fill("sound", "hole", "orphan", "late", "alone", "4711", saver=saver)
    assert suspects(place) == set()
    table, writes = place.database["checkpoints"], place.database["checkpoint_writes"]
    table.delete_one({"_id": checkpoints(place, "hole")[1]["_id"]})
    table.update_many({"thread_id": "orphan"}, {"$set": {"parent_checkpoint_id": None}})
    table.delete_one({"_id": checkpoints(place, "orphan")[1]["_id"]})
    late = {"parent_checkpoint_id": checkpoints(place, "late")[0]["checkpoint_id"]}
    table.update_one({"_id": checkpoints(place, "late")[1]["_id"]}, {"$set": late})
    table.delete_many({"thread_id": "alone"})
    # A release before 0.4 stored such a thread id as a number.
    table.update_many({"thread_id": "4711"}, {"$set": {"thread_id": 4711}})
    assert suspects(place) == {"hole", "orphan", "late", "alone", "4711"}
    writes.update_many({"thread_id": "4711"}, {"$set": {"thread_id": 4711}})
    assert suspects(place) == {"hole", "orphan", "late", "alone"}


@pytest.mark.engines
def test_documents_that_expire_beside_others_are_named(place: Place) -> None:
    saver = place.saver(ttl=HOUR)
    place.fill("one", "all", "sound", saver=saver)
    assert found(place) == []
    table, writes = place.database["checkpoints"], place.database["checkpoint_writes"]
    some = checkpoints(place, "one")[1]
    table.update_one({"_id": some["_id"]}, {"$unset": {"created_at": 1}})
    for collection in (table, writes):
        collection.update_many({"thread_id": "all"}, {"$unset": {"created_at": 1}})
    (fault,) = found(place)
    assert (fault.code, fault.thread_id) == ("ttl-partial", "one")
    assert (fault.checkpoint_ns, fault.checkpoint_id) == ("", some["checkpoint_id"])
    writes.drop_index("created_at_1")
    (fault,) = found(place)
    assert (fault.code, fault.thread_id) == ("index-missing", None)
    run_mongodb(place.database, fault.fix)
    assert writes.index_information()["created_at_1"]["expireAfterSeconds"] == HOUR


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [None, HOUR])
def test_nothing_is_wrong_after_what_ckpt_does(
    place: Place, seconds: int | None, tmp_path: Path
) -> None:
    place.fill("trip", "pruned", "archived", saver=place.saver(ttl=seconds))
    for words in (
        ["rollback", "trip", "~1"],
        ["copy", "trip@head", "--as", "copy"],
        ["undo", "trip"],
        ["purge", "--keep-last", "2", "--match", "pruned"],
        ["threads", "delete", "archived", "--archive", str(tmp_path)],
        ["import", str(tmp_path)],
    ):
        done = ckpt("-s", place.url, *words, "--yes")
        assert done.code == 0, (words, done.err)
        assert found(place) == [], words


@pytest.mark.engines
def test_writes_that_expire_after_their_checkpoint_are_no_fault(place: Place) -> None:
    place.fill("trip", saver=place.saver(ttl=HOUR))
    some = checkpoints(place, "trip")[1]
    with open_store(place.url) as store:
        (expiry,) = store.expiries("trip", "", [some["checkpoint_id"], "none"])
        assert expiry.at == some["created_at"].replace(tzinfo=UTC) + timedelta(seconds=HOUR)
        assert expiry.writes_at is not None
        assert list(store.expiries("trip", "", [])) == []
    place.database["checkpoints"].delete_one({"_id": some["_id"]})
    answer = ckpt("-s", place.url, "doctor", "--grace", "0s", "-o", "json").json
    assert "write-orphaned" not in {one["code"] for one in answer["findings"]}
    place.fill("lasting")
    place.database["checkpoints"].delete_one({"_id": checkpoints(place, "lasting")[1]["_id"]})
    answer = ckpt("-s", place.url, "doctor", "lasting", "--grace", "0s", "-o", "json").json
    assert "write-orphaned" in {one["code"] for one in answer["findings"]}


@pytest.mark.engines
def test_documents_of_langgraph_js_that_expire_beside_others(place: Place) -> None:
    restore_javascript_documents(FIXTURES / "js-1.7.3" / "mongodb.bson.gz", place.url, {"linear"})
    for name in ("checkpoints", "checkpoint_writes"):
        collection = place.database[name]
        collection.update_many({}, {"$set": {"upserted_at": datetime.now(UTC)}})
        collection.create_index("upserted_at", expireAfterSeconds=HOUR)
    assert found(place) == []
    some = checkpoints(place, "linear")[1]
    place.database["checkpoints"].update_one({"_id": some["_id"]}, {"$unset": {"upserted_at": 1}})
    (fault,) = found(place)
    assert (fault.code, fault.thread_id) == ("ttl-partial", "linear")
    assert (fault.checkpoint_ns, fault.checkpoint_id) == ("", some["checkpoint_id"])


@pytest.mark.engines
@pytest.mark.parametrize("field", ["checkpoint", "checkpoint_data"])
def test_a_document_near_the_limit_is_named(place: Place, field: str) -> None:
    saver = place.saver() if field == "checkpoint" else MongoDBCheckpointer(place.url, place.name)
    place.fill("trip", "other", saver=saver)
    some = checkpoints(place, "trip")[1]
    body = {"$set": {field: Binary(bytes(13 << 20))}}
    place.database["checkpoints"].update_one({"_id": some["_id"]}, body)
    (fault,) = found(place)
    assert (fault.code, fault.thread_id) == ("document-near-limit", "trip")
    assert (fault.checkpoint_ns, fault.checkpoint_id) == ("", some["checkpoint_id"])
    assert "13.0 MiB" in fault.detail


@pytest.mark.slow
def test_the_first_release_created_no_indexes(place: Place) -> None:
    restore_documents(FIXTURES / "mongodb" / "lg-0.2.70" / "store.bson.gz", place.url)
    assert place.database["checkpoints"].index_information().keys() == {"_id_"}
    assert found(place) == []
    place.fill("new")
    assert found(place) == []
    place.database["checkpoints"].drop_indexes()
    assert [one.code for one in found(place)] == ["index-missing"]


@pytest.mark.slow
def test_an_index_of_langgraph_js_is_missing_only_beside_another(place: Place) -> None:
    restore_javascript_documents(FIXTURES / "js-1.7.3" / "mongodb.bson.gz", place.url)
    assert found(place) == []
    place.database["checkpoint_writes"].drop_index("thread_ns_checkpoint_task_idx")
    (fault,) = found(place)
    assert fault.code == "index-missing"
    run_mongodb(place.database, fault.fix)
    assert found(place) == []
    # An application need not call `setup`, which creates them.
    place.database["checkpoint_writes"].drop_index("thread_ns_checkpoint_task_idx")
    place.database["checkpoints"].drop_index("thread_ns_checkpoint_idx")
    assert found(place) == []


@pytest.mark.engines
def test_an_index_of_kaflow_is_missing(place: Place) -> None:
    place.fill("user@x_1_2_3", saver=MongoDBCheckpointer(place.url, place.name))
    assert found(place) == []
    drop_index(place, "checkpoints", "created_at")
    (fault,) = found(place)
    assert fault.code == "index-missing"
    run_mongodb(place.database, fault.fix)
    assert found(place) == []


class _Statistics:
    """A connection that only knows the statistics of collections."""

    def command(self, name: str, collection: str) -> dict[str, int]:
        assert name == "collStats"
        if collection == "secret":
            raise StoreUnavailable("not authorized")
        free = {"full": 65 << 20, "small": 63 << 20, "half": 200 << 20}[collection]
        return {"storageSize": 400 << 20, "freeStorageSize": free}


def test_unused_space_counts_only_if_it_is_much() -> None:
    connection: Any = _Statistics()
    (fault,) = unused_space(connection, ["full", "small", "secret", "half"])
    assert fault.code == "space-free"
    assert fault.detail.startswith("200 of 400 MiB of collection 'half' are unused; db.runCommand")
    assert fault.fix == ""  # it may have no effect
