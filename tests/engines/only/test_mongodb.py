"""What only MongoDB has: collections by shape, two generations of metadata, errors of a network."""

import functools
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pymongo
import pytest
from bson import ObjectId
from pymongo.monitoring import CommandListener

from ckpt_backends.errors import SeveralLayouts, StoreChanged, UnknownLayout
from ckpt_backends.mongodb.engine.connect import MongoConnection, connect
from ckpt_backends.registry import open_store
from ckpt_backends.url import parse_url
from tests.engines.commands import COMMANDS
from tests.kit.agents.steps import config_of, graph_of, talk
from tests.kit.command import ckpt
from tests.kit.savers.kaflow import MongoDBCheckpointer
from tests.kit.savers.mongodb import Place
from tests.kit.servers import Server, mongodb_database, start_guarded_mongodb, start_mongodb

SECRET = "hunter2-canary"


@pytest.fixture
def place(mongodb_server: Server) -> Iterator[Place]:
    with mongodb_database(mongodb_server) as url:
        found = Place(url)
        yield found
        found.client.close()


def items(url: str, thread_id: str = "trip") -> Any:
    return ckpt("-s", url, "show", thread_id, "-o", "json").json["values"]["items"]


@pytest.mark.engines
def test_collections_are_found_by_shape_whatever_their_names(place: Place) -> None:
    place.fill("trip", saver=place.saver("odd name", "of.it"))
    for words in COMMANDS:
        answer = ckpt("-s", place.url, *words)
        assert answer.code == 0, (words, answer.err)
    assert items(place.url) == ["in trip", "from a", "from b"]
    (found,) = ckpt("-s", place.url, "stores", "-o", "json").json
    assert found["layout"] == "mongodb"
    assert found["tables"] == [f"{place.name}.odd name", f"{place.name}.of.it"]


def test_several_layouts_are_all_offered_and_one_is_pinned(place: Place) -> None:
    place.fill("trip")
    place.fill("aio", saver=place.saver("checkpoints_aio", "checkpoint_writes_aio"))
    kaflow = MongoDBCheckpointer(place.url, place.name, "memory")
    talk(kaflow, "ka")
    kaflow.client.close()
    answer = ckpt("-s", place.url, "threads", "list")
    assert answer.code == 4
    for name in ("checkpoints", "checkpoints_aio", "memory"):
        assert re.search(rf"\?collection={name}['&]", answer.err)
    with pytest.raises(SeveralLayouts):
        open_store(place.url)
    offered = ckpt("-s", place.url, "stores", "-o", "json").json
    assert [one["layout"] for one in offered] == ["mongodb", "mongodb", "kaflow"]
    for name, thread in (("checkpoints", "trip"), ("checkpoints_aio", "aio"), ("memory", "ka")):
        url = f"{place.url}?collection={name}"
        listed = ckpt("-s", url, "threads", "list", "-o", "json").json
        assert [row["thread_id"] for row in listed] == [thread]
        assert items(url, thread) == [f"in {thread}", "from a", "from b"]
    assert ckpt("-s", f"{place.url}?layout=kaflow", "show", "ka").code == 0
    pinned = f"{place.url}?collection=checkpoints&writes_collection=checkpoint_writes_aio"
    with open_store(pinned) as store:
        assert list(store.writes("trip")) == []


def test_writes_are_paired_by_what_they_hold_before_names(place: Place) -> None:
    place.fill("one", saver=place.saver("checkpoints", "odd"))
    place.fill("two", saver=place.saver("agents", "checkpoint_writes"))
    for name, thread, writes in (
        ("checkpoints", "one", "odd"),
        ("agents", "two", "checkpoint_writes"),
    ):
        with open_store(f"{place.url}?collection={name}") as store:
            assert list(store.writes(thread))
            assert f"{place.name}.{writes}" in store.describe().tables
    offered = ckpt("-s", place.url, "stores", "-o", "json").json
    assert [one["url"].partition("?")[2] for one in offered] == [
        "collection=agents&writes_collection=checkpoint_writes",
        "collection=checkpoints&writes_collection=odd",
    ]


def test_a_store_whose_writes_are_unsure_is_refused(place: Place) -> None:
    """Without the writes, an interrupted thread would look as if nothing waited."""
    place.fill("trip", saver=place.saver("agents", "first"))
    database = place.database
    orphan = database["first"].find_one({}, {"_id": 0})
    assert orphan is not None
    for name in ("first", "second"):
        database[name].drop()
        database[name].insert_one({**orphan, "checkpoint_id": "gone"})
    for url in (place.url, f"{place.url}?collection=agents"):
        refused = ckpt("-s", url, "threads", "list")
        assert refused.code == 4
        assert "cannot tell which collection has the writes of 'agents'" in refused.err
        assert "writes_collection=first'" in refused.err
    pinned = f"{place.url}?collection=agents&writes_collection=first"
    assert ckpt("-s", pinned, "threads", "list").code == 0
    wrong = ckpt("-s", f"{place.url}?collection=agents&writes_collection=x", "threads", "list")
    assert (wrong.code, "no collection 'x'" in wrong.err) == (4, True)


class Sent(CommandListener):
    """The commands that a client sends."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def started(self, event: Any) -> None:
        self.names.add(event.command_name)

    def succeeded(self, event: Any) -> None:
        """Nothing."""

    def failed(self, event: Any) -> None:
        """Nothing."""


READING = {"aggregate", "getMore", "killCursors", "listCollections", "listIndexes", "collStats"}
ASKING = {"hello", "buildinfo", "abortTransaction", "endSessions"}


def test_commands_that_look_send_nothing_that_writes(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.fill("trip")
    sent = Sent()
    client: Any = pymongo.MongoClient
    watched = functools.partial(client, event_listeners=[sent])
    monkeypatch.setattr("ckpt_backends.mongodb.engine.connect.MongoClient", watched)
    for words in COMMANDS:
        if "--jobs" not in words:  # those would be other processes
            assert ckpt("-s", place.url, *words).code == 0, words
    assert {"aggregate", "listCollections"} <= sent.names
    assert sent.names <= READING | ASKING
    assert ckpt("-s", place.url, "rollback", "trip", "~1", "--yes").code == 0
    assert "insert" in sent.names


def fields_of(stage: Any) -> set[str]:
    """The fields of documents that a stage names."""
    if isinstance(stage, dict):
        return set().union(*(fields_of(one) for one in stage.values()), set())
    if isinstance(stage, list):
        return set().union(*map(fields_of, stage), set())
    named = isinstance(stage, str) and stage.startswith("$")
    return {stage.removeprefix("$")} if named else set()


def test_a_listing_is_one_aggregation_over_the_fields_of_the_savers_index(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.fill("trip")
    asked: list[Any] = []
    aggregate = MongoConnection.aggregate

    def recorded(self: Any, collection: str, pipeline: Any, **options: Any) -> Any:
        asked.append((collection, pipeline, options.get("hint")))
        return aggregate(self, collection, pipeline, **options)

    with open_store(place.url) as store:
        monkeypatch.setattr(MongoConnection, "aggregate", recorded)
        assert [one.thread_id for one in store.threads(limit=5)] == ["trip"]
    ((collection, stages, hint),) = asked
    assert collection == "checkpoints"
    keys = [key for key, _ in place.database["checkpoints"].index_information()[hint]["key"]]
    assert fields_of(stages[0]) == set(keys) == {"thread_id", "checkpoint_ns", "checkpoint_id"}
    # What the later stages name was made by the first.
    made = {"_id", *stages[0]["$group"]}
    assert {name.partition(".")[0] for name in fields_of(stages[1])} <= made
    names = [next(iter(stage)) for stage in stages]
    assert names == ["$group", "$group", "$match", "$sort", "$limit"]


def test_what_is_no_store_is_told_with_what_was_found(place: Place) -> None:
    with pytest.raises(UnknownLayout, match="is empty"):
        open_store(place.url)
    place.fill("trip")
    assert ckpt("-s", f"{place.url}?collection=gone", "threads", "list").code == 4
    assert "it holds 'mongodb'" in ckpt("-s", f"{place.url}?layout=kaflow", "stores").err


def test_both_generations_of_metadata_read_where_the_saver_fails(place: Place) -> None:
    place.fill("trip", "new")
    before = ckpt("-s", place.url, "history", "trip", "-o", "json").json
    place.age({"thread_id": "trip"})
    assert ckpt("-s", place.url, "history", "trip", "-o", "json").json == before
    with pytest.raises(ValueError, match="too many values to unpack"):
        place.saver().get_tuple(config_of("trip"))
    (found,) = ckpt("-s", place.url, "stores", "-o", "json").json
    assert "no release reads both" in found["saver"]
    assert place.saver().get_tuple(config_of("new")) is not None


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
    for thread, kind in (("trip", bytes), ("new", list)):
        made = ckpt("-s", place.url, "rollback", thread, "~1", "--yes", "-o", "json").json
        stored = place.database["checkpoints"].find_one({"checkpoint_id": made["checkpoint_id"]})
        assert {type(one) for one in stored["metadata"].values()} == {kind, dict}
        assert ckpt("-s", place.url, "show", thread, "-o", "json").json["source"] == "fork"
    assert graph_of(place.saver()).get_state(config_of("new")).next == ("b",)


def test_documents_that_expire_get_copies_that_expire(place: Place) -> None:
    place.fill("trip", saver=place.saver(ttl=3600))
    made = ckpt("-s", place.url, "rollback", "trip", "~1", "--yes", "-o", "json").json
    stored = place.database["checkpoints"].find_one({"checkpoint_id": made["checkpoint_id"]})
    assert "created_at" in stored


@pytest.mark.engines
def test_parallel_writes_of_a_delta_channel_come_in_order(place: Place) -> None:
    from ckpt_backends.testing.official import drive
    from ckpt_backends.testing.scenarios.catalog import SCENARIOS

    scenario, differ = SCENARIOS["delta-rarely"], list[bool]()
    # The server finds them in the order of the tasks' ids, which is the right one now and then.
    while not any(differ) and len(differ) < 8:
        place.saver().delete_thread("delta-rarely")
        drive(place.saver(), scenario)
        values = ckpt("-s", place.url, "show", "delta-rarely", "-o", "json").json["values"]
        assert values["items"] == values["items_plain"]  # which LangGraph itself put together
        theirs = scenario.build(place.saver()).get_state(config_of("delta-rarely")).values
        assert sorted(theirs["items"]) == sorted(values["items"])
        differ.append(theirs["items"] != theirs["items_plain"])
    assert any(differ)


def test_a_collection_with_a_collation_of_its_own(place: Place) -> None:
    for name in ("checkpoints", "checkpoint_writes"):
        place.database.create_collection(name, collation={"locale": "en", "strength": 1})
    place.fill("Trip")
    with open_store(place.url) as store:
        assert store.thread("Trip") is not None
        assert store.thread("trip") is None
        assert list(store.checkpoints("trip")) == []


def test_a_number_as_a_thread_id(place: Place) -> None:
    place.fill("42", "7")
    for name in ("checkpoints", "checkpoint_writes"):
        place.database[name].update_many({"thread_id": "42"}, {"$set": {"thread_id": 42}})
    for name in ("42", "7"):
        assert items(place.url, name) == [f"in {name}", "from a", "from b"]
    listed = ckpt("-s", place.url, "threads", "list", "-o", "json").json
    assert {row["thread_id"] for row in listed} == {"42", "7"}
    before = list(place.database["checkpoints"].find().sort("_id", 1))
    for words in (["rollback", "42", "~1"], ["copy", "42@head", "--as", "copy"]):
        refused = ckpt("-s", place.url, *words, "--yes")
        assert (refused.code, refused.out) == (4, "")
        assert "thread '42' is stored under a number" in refused.err
        assert "hint: savers since 0.4 find only strings" in refused.err
    assert list(place.database["checkpoints"].find().sort("_id", 1)) == before
    assert ckpt("-s", place.url, "rollback", "7", "~1", "--yes").code == 0


@pytest.mark.nightly
def test_hostile_documents_do_not_end_a_listing(place: Place) -> None:
    place.fill("trip", "other")
    checkpoints = place.database["checkpoints"]
    for change in (
        {"metadata": "text", "checkpoint": 3, "type": None},
        {"metadata": {"a": [1, {"b": b"\x00"}], "$where": "x"}, "checkpoint": b"\xff"},
        {"metadata": {"source": ["msgpack", b"\xc1"]}, "parent_checkpoint_id": 5},
    ):
        checkpoints.update_many({"thread_id": "trip"}, {"$set": change})
        for words in COMMANDS:
            answer = ckpt("-s", place.url, *words)
            found = {1, 7} if words[0] == "doctor" else set()
            answer.ends_cleanly(0, 3, 4, *found)
        assert items(place.url, "other") == ["in other", "from a", "from b"]


def test_an_agent_that_goes_on_meanwhile(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    from ckpt_backends.mongodb.engine.write import MongoRows

    place.fill("trip")
    add = MongoRows.add

    def late(self: Any, parts: Any) -> None:
        add(self, parts)
        place.fill("trip")

    monkeypatch.setattr(MongoRows, "add", late)
    answer = ckpt("-s", place.url, "rollback", "trip", "~1", "--yes")
    assert answer.code == 6
    forks = {"metadata.forked_by": {"$exists": True}}
    assert place.database["checkpoints"].count_documents(forks) == 0


def test_two_changes_of_a_thread_at_once(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    from ckpt_backends.mongodb.write import WritableMongoStore

    place.fill("trip")
    lock, second = WritableMongoStore._lock, list[Any]()

    def then_another(self: Any, thread_id: str, session: Any) -> None:
        lock(self, thread_id, session)
        if not second:
            second.append(True)
            second.append(ckpt("-s", place.url, "rollback", "trip", "~2", "--yes"))

    monkeypatch.setattr(WritableMongoStore, "_lock", then_another)
    assert ckpt("-s", place.url, "rollback", "trip", "~1", "--yes").code == 0
    assert second[1].code == StoreChanged.exit_code
    forks = {"metadata.forked_by": {"$exists": True}}
    assert place.database["checkpoints"].count_documents(forks) == 1
    assert place.database["checkpoints"].count_documents({"_id": {"$type": "string"}}) == 0


@pytest.mark.engines
def test_a_standalone_server_takes_a_change_of_one_document() -> None:
    server = start_mongodb("--standalone")
    try:
        place = Place(server.at("agents"))
        place.fill("trip")
        answer = ckpt("-s", place.url, "rollback", "trip", "~1", "--yes")
        assert answer.code == 0, answer.err
        assert "standalone" in answer.err
        assert graph_of(place.saver()).get_state(config_of("trip")).next == ("b",)
        assert ckpt("-s", place.url, "undo", "trip", "--yes").code == 0
        refused = ckpt("-s", place.url, "copy", "trip@head", "--as", "copy", "--yes")
        assert refused.code == 4
        assert "no transactions" in refused.err
        place.client.close()
    finally:
        server.stop()


def with_password(url: str, query: str = "") -> str:
    parts = urlsplit(url)
    return parts._replace(netloc=f"me:{SECRET}@{parts.netloc}", query=query).geturl()


@pytest.mark.engines
def test_a_wrong_password_and_a_user_that_may_only_read() -> None:
    server = start_guarded_mongodb("root", SECRET)
    try:
        root = Place(server.at("agents").replace("//", "//root:root@") + "?authSource=admin")
        root.name, root.database = "agents", root.client["agents"]
        root.fill("trip")
        url = with_password(server.at("agents"), "authSource=admin")
        for words in COMMANDS:
            answer = ckpt("-s", url, *words)
            assert answer.code == 0, (words, answer.err)
            assert SECRET.encode() not in answer.raw + answer.err.encode()
        for change in (["rollback", "trip", "~1"], ["threads", "delete", "trip"]):
            refused = ckpt("-s", url, *change, "--yes")
            assert (refused.code, "readWrite" in refused.err) == (4, True), refused.err
        wrong = ckpt("-s", url.replace(SECRET, SECRET + "x"), "threads", "list")
        assert wrong.code == 4
        assert "wrong user or password" in wrong.err
        assert SECRET not in wrong.err
        root.client.close()
    finally:
        server.stop()


def test_a_secret_is_in_no_output_of_a_store_that_opens(place: Place) -> None:
    place.fill("trip")
    url = f"{place.url}?appName={SECRET}"
    with open_store(url) as store:
        assert SECRET not in store.describe().url
    connection = connect(parse_url(url))
    connection.close()
