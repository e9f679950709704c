"""What only MongoDB has: collections by shape, two generations of metadata, errors of a network."""

import re
from typing import Any

import pytest
from bson import ObjectId

from ckpt_backends.errors import SeveralLayouts, StoreChanged
from ckpt_backends.mongodb.engine.write import MongoRows
from ckpt_backends.mongodb.write import WritableMongoStore
from ckpt_backends.registry import open_store
from tests.engines.answers import COMMANDS, items_of, refuses, succeeds, threads_of
from tests.kit.agents.steps import config_of, graph_of, talk
from tests.kit.command import ckpt
from tests.kit.harness.kaflow import MongoDBCheckpointer
from tests.kit.harness.mongodb import Place, mongodb_place
from tests.kit.servers import start_guarded_mongodb, start_mongodb

SECRET = "hunter2-canary"
place = mongodb_place()


def test_several_layouts_are_all_offered_and_one_is_pinned(place: Place) -> None:
    place.fill("trip")
    place.fill("aio", saver=place.saver("checkpoints_aio", "checkpoint_writes_aio"))
    kaflow = MongoDBCheckpointer(place.url, place.name, "memory")
    talk(kaflow, "ka")
    kaflow.client.close()
    stores = {"checkpoints": "trip", "checkpoints_aio": "aio", "memory": "ka"}
    answer = ckpt("-s", place.url, "threads", "list", code=4)
    with pytest.raises(SeveralLayouts):
        open_store(place.url)
    offered = ckpt("-s", place.url, "stores", "-o", "json").json
    assert [one["layout"] for one in offered] == ["mongodb", "mongodb", "kaflow"]
    for name, thread in stores.items():
        assert re.search(rf"\?collection={name}['&]", answer.err)
        url = f"{place.url}?collection={name}"
        assert threads_of(url) == [thread]
        assert items_of(url, thread) == [f"in {thread}", "from a", "from b"]
    ckpt("-s", f"{place.url}?layout=kaflow", "show", "ka", code=0)
    pinned = f"{place.url}?collection=checkpoints&writes_collection=checkpoint_writes_aio"
    with open_store(pinned) as store:
        assert list(store.writes("trip")) == []
    ckpt("-s", f"{place.url}?collection=gone", "threads", "list", code=4)


def test_writes_are_paired_by_what_they_hold_before_names(place: Place) -> None:
    pairs = (("checkpoints", "of.it"), ("odd.name", "checkpoint_writes"))
    for pair in pairs:
        place.fill(pair[1], saver=place.saver(*pair))
    for name, writes in pairs:
        with open_store(f"{place.url}?collection={name}") as store:
            assert list(store.writes(writes))
            assert store.describe().tables == (f"{place.name}.{name}", f"{place.name}.{writes}")
    offered = ckpt("-s", place.url, "stores", "-o", "json").json
    assert [one["url"].partition("?")[2] for one in offered] == [
        f"collection={name}&writes_collection={writes}" for name, writes in pairs
    ]


def test_a_store_whose_writes_are_unsure_is_refused(place: Place) -> None:
    """Without the writes, an interrupted thread would look as if nothing waited."""
    place.fill("trip", saver=place.saver("agents", "first"))
    database, named = place.database, f"{place.url}?collection=agents"
    orphan = database["first"].find_one({}, {"_id": 0})
    assert orphan is not None
    for name in ("first", "second"):
        database[name].drop()
        database[name].insert_one({**orphan, "checkpoint_id": "gone"})
    says = "cannot tell which collection has the writes of 'agents'"
    for url in (place.url, named):
        assert "writes_collection=first'" in refuses(url, "threads", "list", says=says).err
    ckpt("-s", f"{named}&writes_collection=first", "threads", "list", code=0)
    refuses(f"{named}&writes_collection=x", "threads", "list", says="no collection 'x'")


def test_savers_of_both_languages_in_one_collection_are_named(place: Place) -> None:
    place.fill("trip")
    stored = place.database["checkpoints"].find_one()
    stored["_id"] = ObjectId("f" * 24)  # of one second, those of two clients have any order
    place.database["checkpoints"].insert_one(
        {**stored, "thread_id": "js", "checkpoint": b"{}", "metadata": b"{}", "type": "json"}
    )
    (found,) = ckpt("-s", place.url, "stores", "-o", "json").json
    assert found["saver"].startswith("LangGraph.js, @langchain/langgraph-checkpoint-mongodb and ")
    assert found["saver"].endswith(" langgraph-checkpoint-mongodb, in one collection")


@pytest.mark.engines
def test_a_copy_is_written_as_its_source_is(place: Place) -> None:
    place.fill("trip", "new")
    place.age({"thread_id": "trip"})
    place.fill("expiring", saver=place.saver(ttl=3600))
    for thread, kind in (("trip", bytes), ("new", list), ("expiring", list)):
        made = ckpt("-s", place.url, "rollback", thread, "~1", "--yes", "-o", "json").json
        stored = place.database["checkpoints"].find_one({"checkpoint_id": made["checkpoint_id"]})
        assert {type(one) for one in stored["metadata"].values()} == {kind, dict}
        assert ("created_at" in stored) == (thread == "expiring")
        assert ckpt("-s", place.url, "show", thread, "-o", "json").json["source"] == "fork"
    assert graph_of(place.saver()).get_state(config_of("new")).next == ("b",)


def forks(place: Place) -> int:
    found: int = place.database["checkpoints"].count_documents(
        {"metadata.forked_by": {"$exists": True}}
    )
    return found


def test_an_agent_that_goes_on_meanwhile(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.fill("trip")
    add = MongoRows.add

    def late(self: Any, parts: Any) -> None:
        add(self, parts)
        place.fill("trip")

    monkeypatch.setattr(MongoRows, "add", late)
    ckpt("-s", place.url, "rollback", "trip", "~1", "--yes", code=6)
    assert forks(place) == 0


def test_two_changes_of_a_thread_at_once(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.fill("trip")
    lock, second = WritableMongoStore._lock, list[Any]()

    def then_another(self: Any, thread_id: str, session: Any) -> None:
        lock(self, thread_id, session)
        if not second:
            second.append(True)
            second.append(ckpt("-s", place.url, "rollback", "trip", "~2", "--yes"))

    monkeypatch.setattr(WritableMongoStore, "_lock", then_another)
    ckpt("-s", place.url, "rollback", "trip", "~1", "--yes", code=0)
    assert second[1].code == StoreChanged.exit_code
    assert forks(place) == 1
    assert place.database["checkpoints"].count_documents({"_id": {"$type": "string"}}) == 0


@pytest.mark.engines
def test_a_standalone_server_takes_a_change_of_one_document() -> None:
    server = start_mongodb("--standalone")
    try:
        place = Place(server.at("agents"))
        place.fill("trip")
        assert "standalone" in succeeds(place.url, "rollback", "trip", "~1", "--yes").err
        assert graph_of(place.saver()).get_state(config_of("trip")).next == ("b",)
        ckpt("-s", place.url, "undo", "trip", "--yes", code=0)
        refuses(place.url, "copy", "trip@head", "--as", "copy", "--yes", says="no transactions")
        place.client.close()
    finally:
        server.stop()


@pytest.mark.engines
def test_a_wrong_password_and_a_user_that_may_only_read() -> None:
    server = start_guarded_mongodb("root", SECRET)
    try:
        root = Place(server.at("agents").replace("//", "//root:root@") + "?authSource=admin")
        root.name, root.database = "agents", root.client["agents"]
        root.fill("trip")
        url = server.at("agents").replace("//", f"//me:{SECRET}@") + "?authSource=admin"
        for words in COMMANDS:
            answer = succeeds(url, *words)
            assert SECRET.encode() not in answer.raw + answer.err.encode()
        for change in (["rollback", "trip", "~1"], ["threads", "delete", "trip"]):
            refuses(url, *change, "--yes", says="readWrite")
        url = url.replace(SECRET, f"{SECRET}x")
        assert SECRET not in refuses(url, "threads", "list", says="wrong user or password").err
        root.client.close()
    finally:
        server.stop()


def test_a_number_as_a_thread_id(place: Place) -> None:
    place.fill("42", "7")
    for name in ("checkpoints", "checkpoint_writes"):
        place.database[name].update_many({"thread_id": "42"}, {"$set": {"thread_id": 42}})
    for name in ("42", "7"):
        assert items_of(place.url, name) == [f"in {name}", "from a", "from b"]
    assert {*threads_of(place.url)} == {"42", "7"}
    before = list(place.database["checkpoints"].find().sort("_id", 1))
    for words in (["rollback", "42", "~1"], ["copy", "42@head", "--as", "copy"]):
        refused = refuses(place.url, *words, "--yes", says="thread '42' is stored under a number")
        assert refused.out == ""
        assert "hint: savers since 0.4 find only strings" in refused.err
    assert list(place.database["checkpoints"].find().sort("_id", 1)) == before
    ckpt("-s", place.url, "rollback", "7", "~1", "--yes", code=0)
