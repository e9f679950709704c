"""`ckpt copy` to and from MongoDB: what is stored, in one go or by way of staged documents."""

import json
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Timer
from typing import Any

import pytest
from bson import ObjectId
from pymongo.collection import Collection
from pymongo.errors import OperationFailure

from ckpt_backends.errors import Refused, StoreChanged, Unsupported
from ckpt_backends.model import Kind, Record, TypedBytes, time_of
from ckpt_backends.mongodb.engine import write as receiving
from ckpt_backends.mongodb.engine.store import staged_id
from ckpt_backends.open_for_writing import create_store, open_writable
from ckpt_backends.registry import open_store
from ckpt_backends.rows import Restored
from ckpt_backends.transfer.copying import Arrival, record_key, records_of_rows
from ckpt_backends.transfer.form import CannotHold, Language
from ckpt_backends.url import parse_url
from tests.copy.round_trip import newest_of, receive, stored_records
from tests.kit.agents.steps import config_of, graph_of
from tests.kit.cases import cases
from tests.kit.command import FIXTURES, ckpt
from tests.kit.harness.kaflow import MongoDBCheckpointer
from tests.kit.harness.mongodb import Place, mongodb_place
from tests.kit.servers import start_mongodb
from tests.kit.stores import restore_javascript_documents

TABLES = ("checkpoints", "checkpoint_writes")
JS = FIXTURES / "js-1.7.3" / "mongodb.bson.gz"
place, empty = mongodb_place(), mongodb_place()


@pytest.fixture
def target(empty: Place) -> Place:
    create(empty.url)
    return empty


@pytest.fixture(scope="module")
def alone() -> Iterator[Place]:
    """A new store on a server without transactions."""
    server = start_mongodb("--standalone")
    found = Place(server.at("agents"))
    create(found.url)
    yield found
    found.client.close()
    server.stop()


def create(url: str, language: Language = Language.PYTHON) -> None:
    create_store(parse_url(url), language)


def records_of(url: str, threads: Sequence[str]) -> dict[str, list[Record]]:
    with open_store(url) as store:
        return {name: stored_records(store, name) for name in threads}


def parts(url: str, thread_id: str) -> list[Record]:
    return records_of(url, [thread_id])[thread_id]


def move(source: str, target: str, *threads: str) -> None:
    """Add threads to another store, and compare what is there."""
    moved = records_of(source, threads)
    receive(target, *(Arrival(name, iter(found)) for name, found in moved.items()))
    for name, found in records_of(target, threads).items():
        assert sorted(found, key=record_key) == sorted(moved[name], key=record_key)


def documents(place: Place) -> list[Any]:
    return [one for name in TABLES for one in place.database[name].find().sort("_id", 1)]


def indexes(place: Place) -> Any:
    return {
        name: sorted(place.database[name].list_indexes(), key=str)
        for name in sorted(place.database.list_collection_names())
    }


def history(place: Place, thread_id: str) -> list[Any]:
    return list(graph_of(place.saver()).get_state_history(config_of(thread_id)))


def test_a_new_store_is_as_the_saver_sets_it_up(place: Place, target: Place) -> None:
    place.saver()
    before = indexes(target)
    assert before == indexes(place)
    create(target.url)
    target.saver()
    assert indexes(target) == before
    with open_store(target.url) as store:
        assert store.describe().layout == "mongodb"
    with pytest.raises(Refused, match="holds the layout 'mongodb'"):
        create(target.url, Language.JAVASCRIPT)


def test_a_new_store_of_langgraph_js_has_its_indexes(empty: Place, place: Place) -> None:
    restore_javascript_documents(JS, place.url, {"linear"})
    create(empty.url, Language.JAVASCRIPT)
    assert indexes(empty) == indexes(place)
    with open_store(empty.url) as store:
        assert store.describe().layout == "mongodb-js"


def test_a_new_store_has_the_collections_of_its_url_and_none_beside_others(empty: Place) -> None:
    url = f"{empty.url}?collection=mine&writes_collection=mine_writes"
    empty.database["customers"].insert_one({"name": "anna"})
    with pytest.raises(Refused, match="collections such as 'customers'"):
        create(url)
    assert empty.database.list_collection_names() == ["customers"]
    empty.database.drop_collection("customers")
    create(url)
    assert sorted(empty.database.list_collection_names()) == ["mine", "mine_writes"]
    with open_store(url) as store:
        assert store.describe().layout == "mongodb"


def test_a_thread_is_stored_as_the_saver_stores_it(place: Place, target: Place) -> None:
    place.fill("trip", "other")
    move(place.url, target.url, "trip", "other")
    first, stored, given = documents(target), documents(target), documents(place)
    for one in (*stored, *given):
        assert isinstance(one.pop("_id"), ObjectId)
    assert sorted(map(in_any_order, stored)) == sorted(map(in_any_order, given))
    assert history(target, "trip") == history(place, "trip")
    # The same thread becomes the same documents.
    ckpt("-s", target.url, "threads", "delete", "trip", "--yes", code=0)
    move(place.url, target.url, "trip")
    assert documents(target) == first
    again = graph_of(target.saver()).invoke({"items": ["more"]}, config_of("trip"))
    assert again["items"] == ["in trip", "from a", "from b", "more", "from a", "from b"]


def in_any_order(document: Any) -> str:
    return str(sorted(document.items()))


def test_an_old_release_could_not_read_what_is_copied(place: Place, target: Place) -> None:
    target.fill("trip")
    place.fill("old")
    place.age({})
    newest = target.database["checkpoints"].find_one()
    assert newest is not None
    for older in ([], [{**newest, "_id": ObjectId(bytes(12))}]):
        for one in older:
            place.database["checkpoints"].insert_one(one)
        before = documents(place)
        with pytest.raises(Unsupported, match=r"before 0\.2\.2"):
            receive(place.url, Arrival("trip", parts(target.url, "trip")))
        assert documents(place) == before


def test_documents_expire_as_if_the_saver_had_stored_them(place: Place, target: Place) -> None:
    place.fill("trip")
    target.saver(ttl=3600)
    move(place.url, target.url, "trip")
    for one in documents(target):
        made_at = time_of(one["checkpoint_id"])
        assert made_at is not None
        assert abs(one["created_at"].replace(tzinfo=UTC) - made_at) < timedelta(milliseconds=1)


def test_a_document_is_found_without_a_unique_index(place: Place, empty: Place) -> None:
    restore_javascript_documents(JS, place.url, {"linear"})
    create(empty.url, Language.JAVASCRIPT)
    move(place.url, empty.url, "linear")
    checkpoints = empty.database["checkpoints"]
    first = checkpoints.find_one()
    assert first is not None
    checkpoints.delete_one({"_id": first["_id"]})
    checkpoints.insert_one({**first, "_id": ObjectId()})
    before = documents(empty)
    given = [one for one in parts(place.url, "linear") if one.kind is Kind.CHECKPOINT]
    same = [one for one in given if one.key.checkpoint_id == first["checkpoint_id"]]
    with pytest.raises(StoreChanged, match="exists"):
        receive(empty.url, Arrival("linear", same, {"": newest_of(given)}))
    assert documents(empty) == before


def test_what_a_document_cannot_hold_is_named(place: Place, target: Place) -> None:
    place.fill("trip", "42")
    given, numbered = parts(place.url, "trip"), parts(place.url, "42")
    at = next(n for n, one in enumerate(given) if one.kind is Kind.CHECKPOINT)
    given[at] = large = given[at]._replace(value=TypedBytes("msgpack", b"\0" * (17 << 20)))
    with pytest.raises(CannotHold, match=rf"{large.key.checkpoint_id}' takes 17\.0 MiB"):
        receive(target.url, Arrival("trip", given))
    assert documents(target) == []
    target.fill("42")
    for name in TABLES:
        target.database[name].update_many({}, {"$set": {"thread_id": 42}})
    with pytest.raises(CannotHold, match="thread '42' is stored under a number"):
        receive(target.url, Arrival("42", numbered))
    place.database["checkpoints"].update_many({}, {"$set": {"tenant": 7}})
    with pytest.raises(CannotHold, match="'tenant'"):
        parts(place.url, "trip")


def watch(monkeypatch: pytest.MonkeyPatch, place: Place) -> list[str]:
    """Return the threads that are turned; just before, nothing may be stored under their ids."""
    turned: list[str] = []
    turn = receiving.Receiver._turn

    def watched(receiver: Any, listed: Any, session: Any) -> None:
        for one in listed:
            assert rows_of(place, one) == 0
        turned.extend(listed)
        turn(receiver, listed, session)

    monkeypatch.setattr(receiving.Receiver, "_turn", watched)
    return turned


def rows_of(place: Place, thread_id: str) -> int:
    found = [place.database[name].count_documents({"thread_id": thread_id}) for name in TABLES]
    return sum(found)


@pytest.mark.parametrize("kind", ["target", "alone"])
def test_a_large_thread_or_archive_appears_at_once(
    kind: str, place: Place, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server without transactions takes each thread for a large one."""
    there: Place = request.getfixturevalue(kind)
    place.fill("trip", "other")
    if kind == "target":
        monkeypatch.setattr(receiving, "_AT_ONCE", 1000)
        monkeypatch.setattr(receiving, "_PER_COMMAND", 1000)
    turned, update, order = watch(monkeypatch, there), Collection.update_many, list[Any]()

    def updated(self: Any, match: Any, *given: Any, **named: Any) -> Any:
        order.append((self.name, match.get("checkpoint_ns")))
        return update(self, match, *given, **named)

    monkeypatch.setattr(Collection, "update_many", updated)
    move(place.url, there.url, "trip", "other")
    assert sorted(turned) == ["other", "trip"]
    # A saver finds a thread by the checkpoints of the root.
    writes, subgraphs, root = ("checkpoint_writes", None), {"$ne": ""}, ""
    assert order == [writes, ("checkpoints", subgraphs), ("checkpoints", root)] * 2
    assert history(there, "trip") == history(place, "trip")
    present = sorted(map(repr, documents(there)))
    with open_store(there.url) as store:
        rows = list(store.rows("trip"))
    ckpt("-s", there.url, "threads", "delete", "trip", "--yes", code=0)
    with open_writable(parse_url(there.url)) as writable:
        assert writable.restore(rows) == Restored(len(rows), 0)
        assert turned[2:] == ["trip"]
        assert sorted(map(repr, documents(there))) == present
        monkeypatch.undo()
        assert writable.restore(rows) == Restored(0, len(rows))
    place.fill("trip")
    known = parts(there.url, "trip")
    new = [one for one in parts(place.url, "trip") if one not in known]
    rollback = ("-s", there.url, "rollback", "trip", "~1", "--yes")
    if kind == "target":
        at_first(monkeypatch, "_insert", lambda _: ckpt(*rollback, code=StoreChanged.exit_code))
    receive(there.url, Arrival("trip", new, {"": newest_of(known)}))
    assert history(there, "trip") == history(place, "trip")


def test_a_thread_too_large_for_a_transaction(
    place: Place, target: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.fill("trip")
    monkeypatch.setattr(receiving, "_AT_ONCE", 1000)
    turn = receiving.Receiver._turn

    def refused(self: Any, listed: Any, session: Any) -> None:
        turn(self, listed, session)
        if session is not None:
            raise OperationFailure("too large", 388)

    monkeypatch.setattr(receiving.Receiver, "_turn", refused)
    move(place.url, target.url, "trip")
    assert history(target, "trip") == history(place, "trip")


@pytest.fixture
def given(place: Place) -> list[Record]:
    place.fill("trip")
    return parts(place.url, "trip")


def at_first(monkeypatch: pytest.MonkeyPatch, name: str, act: Callable[[Any], object]) -> None:
    """Do something before the first call of a step of a receiver."""
    step = getattr(receiving.Receiver, name)

    def late(self: Any, *words: Any) -> None:
        monkeypatch.setattr(receiving.Receiver, name, step)
        act(self)
        step(self, *words)

    monkeypatch.setattr(receiving.Receiver, name, late)


@pytest.mark.parametrize("kind", ["target", "alone"])
def test_what_another_run_removed_on_its_way_makes_no_part_of_a_thread(
    given: list[Record], kind: str, request: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    there: Place = request.getfixturevalue(kind)

    def remove(receiver: Any) -> None:
        there.database["checkpoints"].delete_one({"thread_id": staged_id(receiver._run, "trip")})

    there.saver().delete_thread("trip")
    monkeypatch.setattr(receiving, "_AT_ONCE", 1000)
    at_first(monkeypatch, "_publish", remove)
    with pytest.raises(StoreChanged):
        receive(there.url, Arrival("trip", given))
    assert rows_of(there, "trip") == 0


def stage(target: Place, given: list[Record]) -> None:
    """Leave what a copy leaves that is killed before it turns its documents."""

    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(receiving, "_AT_ONCE", 1000)
        patch.setattr(receiving, "remove_staged", lambda *_: None)
        patch.setattr(receiving.Receiver, "_publish", killed)
        with pytest.raises(KeyboardInterrupt):
            receive(target.url, Arrival("trip", given))


def test_a_killed_copy_leaves_no_thread(place: Place, target: Place, given: list[Record]) -> None:
    target.fill("other")
    before = documents(target)
    stage(target, given)
    assert len(documents(target)) > len(before)
    with open_store(target.url) as store:
        assert [one.thread_id for one in store.threads()] == ["other"]
        assert [one.thread_id for one in store.threads(limit=1)] == ["other"]
        assert {one.thread_id for one in store.usage()} == {"other"}
        assert (list(store.suspect_threads()), list(store.rows("trip"))) == ([], [])
    for words in ("doctor", "gc --scope all --yes", "threads list --long", "stores"):
        ckpt("-s", target.url, *words.split(), code=0)
    assert target.saver().get_tuple(config_of("trip")) is None
    move(place.url, target.url, "trip")
    assert history(target, "trip") == history(place, "trip")
    assert {one["thread_id"] for one in documents(target)} == {"trip", "other"}


def test_what_a_killed_copy_leaves_goes_with_its_thread_or_after_an_hour(
    target: Place, given: list[Record]
) -> None:
    stage(target, given)
    target.fill("trip", "other")
    hour_ago = ObjectId.from_datetime(datetime.now(UTC) - timedelta(hours=1, seconds=5))
    old, young = staged_id(hour_ago, "third"), staged_id(ObjectId(), "third")
    for one in (old, young):
        key = {"thread_id": one, "checkpoint_ns": "", "checkpoint_id": "1"}
        target.database["checkpoints"].insert_one(key)
    ckpt("-s", target.url, "threads", "delete", "trip", "--yes", code=0)
    left = [one["thread_id"] for one in documents(target)]
    assert {one for one in left if isinstance(one, str)} == {"other"}
    assert [one for one in left if not isinstance(one, str)] == [young]


def test_a_killed_transaction_is_awaited(place: Place, target: Place, given: list[Record]) -> None:
    with target.client.start_session() as session:
        session.start_transaction()
        key = next(one.key for one in given if one.kind is Kind.CHECKPOINT)
        own = {name: getattr(key, name) for name in ("thread_id", "checkpoint_ns", "checkpoint_id")}
        target.database["checkpoints"].insert_one(own, session=session)
        ending = Timer(1.0, session.abort_transaction)
        ending.start()
        receive(target.url, Arrival("trip", given))
        ending.join()
    assert history(target, "trip") == history(place, "trip")


@cases("kind size", ("target", 1000), ("target", 16 << 20), ("alone", 16 << 20))
def test_an_agent_that_starts_the_thread_meanwhile(
    given: list[Record], kind: str, size: int, request: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    there: Place = request.getfixturevalue(kind)
    there.saver().delete_thread("trip")
    insert = receiving.Receiver._insert

    def late(self: Any, some: Any, session: Any) -> None:
        insert(self, some, session)
        there.fill("trip")

    monkeypatch.setattr(receiving.Receiver, "_insert", late)
    monkeypatch.setattr(receiving, "_AT_ONCE", size)
    with pytest.raises(StoreChanged):
        receive(there.url, Arrival("trip", given))
    stored = {one["checkpoint_id"] for one in documents(there) if one["thread_id"] == "trip"}
    assert len(stored) == 4
    assert not stored & {one.key.checkpoint_id for one in given if one.kind is Kind.CHECKPOINT}


KAFLOW = "anna_4f0c_agent"


def test_what_no_other_layout_holds_of_kaflow_is_named(place: Place, tmp_path: Path) -> None:
    saver = MongoDBCheckpointer(place.url, place.name)
    place.fill(KAFLOW, KAFLOW, saver=saver)
    saver.client.close()
    with open_store(place.url) as store:
        rows = list(store.rows(KAFLOW))
    assert len(list(records_of_rows("kaflow", rows))) > 6
    with pytest.raises(CannotHold, match="older than the one before it"):
        list(records_of_rows("kaflow", reversed(rows)))
    checkpoints = place.database["checkpoints"]
    newest = checkpoints.find_one({}, sort=[("created_at", -1)])["created_at"]
    oldest = checkpoints.find_one({}, sort=[("created_at", 1)])
    for change, why in (
        ({"username": "bert"}, "its user 'bert' is not part of the thread id"),
        ({"metadata.at": newest}, "not plain JSON"),
        (
            {"created_at": newest + timedelta(seconds=1)},
            rf"newest checkpoint '{oldest['checkpoint_id']}' has",
        ),
    ):
        checkpoints.replace_one({"_id": oldest["_id"]}, oldest)
        checkpoints.update_one({"_id": oldest["_id"]}, {"$set": change})
        with pytest.raises(CannotHold, match=why):
            parts(place.url, KAFLOW)
    more = ("--to", tmp_path / "new.db", "--create", "--yes", "-o", "json")
    (skipped,) = json.loads(ckpt("-s", place.url, "copy", KAFLOW, *more, code=4).out)["skipped"]
    assert "which other layouts would load" in skipped["reason"]
