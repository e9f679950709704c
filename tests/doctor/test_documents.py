"""Faults of what only layouts with documents or items have: indexes, expiry, and limits."""

import shlex
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ckpt_backends.errors import StoreUnavailable
from ckpt_backends.mongodb.engine.store import unused_space
from ckpt_backends.registry import open_store
from tests.doctor.asking import faults_of_all, run_mongodb
from tests.kit.agents.steps import config_of, graph_of
from tests.kit.command import FIXTURES, ckpt, ids_of
from tests.kit.harness.dynamodb import DynamoDbHarness, entry
from tests.kit.harness.mongodb import Place, mongodb_place
from tests.kit.servers import Server
from tests.kit.stores import restore_javascript_documents

HOUR = 3600
place = mongodb_place()


def checkpoints(place: Place, thread_id: str) -> list[Any]:
    """The documents of a thread's checkpoints, the newest first."""
    rows = place.database["checkpoints"].find({"thread_id": thread_id})
    return sorted(rows, key=lambda one: str(one["checkpoint_id"]), reverse=True)


def test_a_thread_id_that_an_old_release_stored_as_a_number_is_suspect(place: Place) -> None:
    place.fill("sound", "4711")
    with open_store(place.url) as store:
        assert list(store.suspect_threads()) == []
    number = {"$set": {"thread_id": 4711}}
    place.database["checkpoints"].update_many({"thread_id": "4711"}, number)
    with open_store(place.url) as store:
        assert list(store.suspect_threads()) == ["4711"]
    place.database["checkpoint_writes"].update_many({"thread_id": "4711"}, number)
    with open_store(place.url) as store:
        assert list(store.suspect_threads()) == []


@pytest.mark.engines
def test_documents_that_expire_beside_others(place: Place) -> None:
    place.fill("one", "all", "sound", saver=place.saver(ttl=HOUR))
    assert faults_of_all(place.url) == []
    table, writes = place.database["checkpoints"], place.database["checkpoint_writes"]
    some = checkpoints(place, "one")[1]
    table.update_one({"_id": some["_id"]}, {"$unset": {"created_at": 1}})
    for collection in (table, writes):
        collection.update_many({"thread_id": "all"}, {"$unset": {"created_at": 1}})
    (fault,) = faults_of_all(place.url)
    assert (fault.code, fault.thread_id) == ("ttl-partial", "one")
    assert (fault.checkpoint_ns, fault.checkpoint_id) == ("", some["checkpoint_id"])
    writes.drop_index("created_at_1")
    (fault,) = faults_of_all(place.url)
    assert (fault.code, fault.thread_id) == ("index-missing", None)
    run_mongodb(place.database, fault.fix)
    assert writes.index_information()["created_at_1"]["expireAfterSeconds"] == HOUR


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
def test_documents_of_langgraph_js_that_expire(place: Place) -> None:
    restore_javascript_documents(FIXTURES / "js-1.7.3" / "mongodb.bson.gz", place.url, {"linear"})
    for name in ("checkpoints", "checkpoint_writes"):
        collection = place.database[name]
        collection.update_many({}, {"$set": {"upserted_at": datetime.now(UTC)}})
        collection.create_index("upserted_at", expireAfterSeconds=HOUR)
    assert faults_of_all(place.url) == []
    some = checkpoints(place, "linear")[1]
    place.database["checkpoints"].update_one({"_id": some["_id"]}, {"$unset": {"upserted_at": 1}})
    (fault,) = faults_of_all(place.url)
    assert (fault.code, fault.thread_id) == ("ttl-partial", "linear")
    assert (fault.checkpoint_ns, fault.checkpoint_id) == ("", some["checkpoint_id"])


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


@pytest.fixture
def table(dynamodb_server: Server, tmp_path: Path) -> Iterator[DynamoDbHarness]:
    """An empty table."""
    with DynamoDbHarness(tmp_path, dynamodb_server) as made:
        yield made


@pytest.mark.engines
def test_items_that_stay(table: DynamoDbHarness) -> None:
    graph_of(table.kept_saver).invoke({"items": ["in"]}, config_of("trip"))
    assert faults_of_all(table.url) == []
    table.ttl = 3600
    with table.saver() as saver:
        graph_of(saver).invoke({"items": ["in"]}, config_of("expiring"))
    (fault,) = faults_of_all(table.url)
    assert (fault.code, fault.thread_id) == ("ttl-partial", None)
    words = shlex.split(fault.fix)
    assert words[:3] == ["aws", "dynamodb", "update-time-to-live"]
    assert words[words.index("--table-name") + 1] == table.table
    table.client.update_time_to_live(
        TableName=table.table, TimeToLiveSpecification={"Enabled": True, "AttributeName": "ttl"}
    )
    assert faults_of_all(table.url) == []
    own = ids_of(table.url, "trip")[1]
    expires: Any = {":t": {"N": "4102444800"}}
    table.client.update_item(
        TableName=table.table,
        Key=entry(own),
        UpdateExpression="SET #ttl = :t",
        ExpressionAttributeNames={"#ttl": "ttl"},
        ExpressionAttributeValues=expires,
    )
    (fault,) = faults_of_all(table.url)
    assert (fault.code, fault.thread_id) == ("ttl-partial", "trip")
    assert (fault.checkpoint_ns, fault.checkpoint_id) == ("", own)
