"""Removing on MongoDB: others that write meanwhile, what a broken run left, standalone servers."""

import json
from collections.abc import Callable, Iterator
from functools import partial, partialmethod
from itertools import count
from pathlib import Path
from typing import Any, cast

import bson
import pymongo
import pytest
from bson import ObjectId
from bson.raw_bson import RawBSONDocument
from langgraph.graph import StateGraph
from langgraph.types import interrupt
from pymongo.client_session import ClientSession
from pymongo.collection import Collection

from ckpt_backends.errors import StoreChanged, Unreadable, Unsupported
from ckpt_backends.mongodb.engine import write as removing
from ckpt_backends.open_for_writing import open_writable
from ckpt_backends.registry import open_store
from ckpt_backends.rows import Row
from ckpt_backends.url import parse_url
from tests.kit.agents.steps import State, config_of, graph_of
from tests.kit.command import CommandResult, ckpt
from tests.kit.harness.mongodb import Place as MongoPlace
from tests.kit.harness.mongodb import mongodb_place
from tests.kit.servers import start_mongodb

pytestmark = pytest.mark.engines

TABLES = ("checkpoints", "checkpoint_writes")


class Place(MongoPlace):
    """A database of the official saver."""

    def documents(self) -> dict[str, list[tuple[str, bytes]]]:
        """Every document of every thread, as it is stored."""
        found: dict[str, list[tuple[str, bytes]]] = {}
        for table in TABLES:
            options = self.database.codec_options.with_options(document_class=RawBSONDocument)
            for one in self.database.get_collection(table, options).find():
                found.setdefault(one["thread_id"], []).append((table, one.raw))
        return {thread: sorted(rows) for thread, rows in found.items()}

    def count(self, thread_id: object) -> list[int]:
        match = {"thread_id": thread_id}
        return [self.database[table].count_documents(match) for table in TABLES]

    def delete(self, *threads: str, url: str = "") -> CommandResult:
        return ckpt("-s", url or self.url, "threads", "delete", *threads, "--yes")


place = mongodb_place(Place)


def served(*words: str) -> Iterator[Place]:
    """Start a server, and yield a database of it."""
    server = start_mongodb(*words)
    found = Place(server.at("agents"))
    yield found
    found.client.close()
    server.stop()


@pytest.fixture(scope="module")
def alone() -> Iterator[Place]:
    """A server without transactions."""
    yield from served("--standalone")


@pytest.fixture
def of_its_own() -> Iterator[Place]:
    """A server on which transactions of others can be ended."""
    yield from served("--log-level", "ERROR")


def before_delete(patch: pytest.MonkeyPatch, number: int, act: Callable[[], object]) -> None:
    """Do something before the call with this number of what deletes."""
    delete, numbers = removing.MongoRows._delete, count(1)

    def first(self: Any, *words: Any) -> int:
        if next(numbers) == number:
            act()
        return delete(self, *words)

    patch.setattr(removing.MongoRows, "_delete", first)


@pytest.mark.parametrize("call", [1, 2])
def test_what_an_agent_adds_meanwhile_stays_with_all_before_it(
    place: Place, monkeypatch: pytest.MonkeyPatch, call: int
) -> None:
    place.fill("trip", "other")
    before_delete(monkeypatch, call, lambda: place.fill("trip"))
    answer = place.delete("trip", "other", "-o", "json")
    assert answer.code == 7, answer.err
    assert "not deleted: trip changed meanwhile" in answer.err
    found = json.loads(answer.out)
    assert [one["thread_id"] for one in found["threads"]] == ["other"]
    assert [one["thread_id"] for one in found["skipped"]] == ["trip"]
    assert "changed since" in found["skipped"][0]["reason"]
    assert place.count("other") == [0, 0]
    assert len(graph_of(place.saver()).get_state(config_of("trip")).values["items"]) == 6
    assert len(list(place.saver().list(config_of("trip")))) == 8


def test_an_unanswered_commit_may_be_done(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.fill("a")
    commit = ClientSession.commit_transaction

    def lost(self: Any) -> None:
        commit(self)
        labels = ["UnknownTransactionCommitResult"]
        raise pymongo.errors.AutoReconnect("connection closed", {"errorLabels": labels})

    monkeypatch.setattr(ClientSession, "commit_transaction", lost)
    answer = place.delete("a")
    assert answer.code == 4
    assert "it is unknown whether anything was written" in answer.err
    assert "nothing was" not in answer.err
    assert place.documents() == {}


def test_a_url_that_prefers_secondaries_removes_by_the_primary(place: Place) -> None:
    place.fill("a", "b")
    url = f"{place.url}?readPreference=secondaryPreferred&readConcernLevel=majority"
    assert place.delete("a", url=url).code == 0
    assert place.documents().keys() == {"b"}


def test_a_transaction_that_the_server_ended_leaves_all_as_it_was(
    of_its_own: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = of_its_own
    place.fill("a")
    before = place.documents()

    end = partial(place.client.admin.command, "killAllSessions", [])
    monkeypatch.setattr(removing, "_SECONDS", -1)
    with monkeypatch.context() as patched:
        before_delete(patched, 2, end)
        refused = place.delete("a")
    assert refused.code == 4
    assert "the server aborted the transaction" in refused.err
    assert "transactionLifetimeLimitSeconds" in refused.err.partition("hint: ")[2]
    assert place.documents() == before
    before_delete(monkeypatch, 2, end)
    monkeypatch.setattr(removing, "_SECONDS", 5)
    assert place.delete("a").code == 0
    assert place.documents() == {}


def test_a_lock_of_others_is_waited_for(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(removing, "_SECONDS", 0.2)
    place.fill("a")
    before = place.documents()
    with place.client.start_session() as session:
        session.start_transaction()
        place.database["checkpoints"].update_many({}, {"$set": {"type": "held"}}, session=session)
        refused = place.delete("a")
        session.abort_transaction()
    assert (refused.code, "lock" in refused.err, "hint: " in refused.err) == (4, True, True)
    assert place.documents() == before
    assert place.delete("a").code == 0
    assert place.documents() == {}


def test_a_collation_lets_no_neighbour_go(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    collation = {"locale": "en", "strength": 1}
    for table in TABLES:
        place.database.create_collection(table, collation=collation)
    # The server in the place of MongoDB takes a command without a collation by bytes.
    for name in ("find", "aggregate", "delete_many"):
        asked = partialmethod(getattr(Collection, name), collation=collation)
        monkeypatch.setattr(Collection, name, asked)
    place.fill("User")
    user = place.documents()["User"]
    for table in TABLES:
        copies = [
            {**one, "thread_id": "us\u00ebr", "checkpoint_id": f"{at}"}
            for at, one in enumerate(place.database[table].find({}, {"_id": 0}))
        ]
        place.database[table].insert_many(copies)
    assert place.delete("us\u00ebr").code == 0
    assert place.documents() == {"User": user}
    assert place.delete("user").code == 3
    assert place.documents() == {"User": user}


@pytest.mark.parametrize("kind", ["place", "alone"])
def test_nothing_is_put_back_over_what_is_there(request: pytest.FixtureRequest, kind: str) -> None:
    place: Place = request.getfixturevalue(kind)
    place.fill("trip")
    with open_store(place.url) as store:
        rows = list(store.rows("trip"))
    document = bson.decode(cast(bytes, rows[-1].cells["bson"]))
    ours = place.documents()
    match = {"thread_id": "trip", "checkpoint_id": {"$ne": document["checkpoint_id"]}}
    for table in TABLES:
        place.database[table].delete_many(match)
    left = place.documents()
    with open_writable(parse_url(place.url)) as writable:
        for fields in ({"type": "json"}, {"_id": ObjectId()}):
            other = Row(rows[-1].table, {"bson": bson.encode({**document, **fields})})
            with pytest.raises(StoreChanged, match="different contents"):
                writable.restore(iter([*rows[:-1], other]))
            assert place.documents() == left
        for broken in (b"", b"\x05\0\0\0", b"no document at all", b"\x05\0\0\0\0"):
            with pytest.raises(Unreadable, match="not a MongoDB document"):
                writable.restore(iter([*rows, Row("checkpoints", {"bson": broken})]))
            assert place.documents() == left
        with pytest.raises(Unsupported, match="no collection for 'blobs'"):
            writable.restore(iter([*rows, Row("blobs", {"bson": b""})]))
        assert place.documents() == left
        done = writable.restore(iter(rows))
        assert (done.added > 0, done.there > 0, done.added + done.there) == (True, True, len(rows))
        assert place.documents() == ours
    place.saver().delete_thread("trip")


def test_a_standalone_server_is_purged_and_filled_again(alone: Place, tmp_path: Path) -> None:
    alone.fill("a", "b", "c")
    before = alone.documents()
    assert alone.delete("a", "--archive", str(tmp_path)).code == 0
    assert alone.documents() == {one: before[one] for one in "bc"}
    ckpt("-s", alone.url, "import", *tmp_path.iterdir(), "--yes", code=0)
    assert alone.documents() == before
    pruned = ckpt("-s", alone.url, "purge", "--keep-last", "1", "--yes", "-o", "json")
    assert pruned.json["removed"]["rows"]["checkpoints"] == 9
    for one in "abc":
        state = graph_of(alone.saver()).get_state(config_of(one))
        assert state.values["items"] == [f"in {one}", "from a", "from b"]
        alone.saver().delete_thread(one)


class Killed(BaseException):
    """Here a run ends that is killed."""


def kill() -> None:
    raise Killed


@pytest.mark.parametrize("asks", [False, True])
@pytest.mark.parametrize("call", [1, 2, 3, 4])
def test_a_broken_run_on_a_standalone_server_is_ended_by_the_next(
    alone: Place, monkeypatch: pytest.MonkeyPatch, call: int, asks: bool
) -> None:
    """It leaves the head of the root to the end."""
    inner: Any = StateGraph(State)
    inner.add_node("ask", lambda state: {"items": [interrupt("which?")]})
    inner.add_edge("__start__", "ask")
    first = inner.compile() if asks else None
    graph_of(alone.saver(), first).invoke({"items": ["in"]}, config_of("trip"))
    head = alone.saver().get_tuple(config_of("trip"))
    words = ["-s", alone.url, "purge", "--match", "trip", "--include-interrupted", "--yes"]
    with monkeypatch.context() as patched:
        before_delete(patched, call, kill)
        with pytest.raises(Killed):
            ckpt(*words)
    left = alone.saver().get_tuple(config_of("trip"))
    assert left is not None
    assert left.config == head.config
    (listed,) = ckpt("-s", alone.url, "threads", "list", "-o", "json").json
    assert call == 4 or listed["status"] == ("interrupted" if asks else "done")
    assert ckpt(*words, "--include-pending", "-o", "json").json["removed"]["threads"] == 1
    assert alone.documents() == {}


def test_without_transactions_additions_stay(alone: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    alone.fill("trip")
    before_delete(monkeypatch, 1, lambda: alone.fill("trip"))
    assert alone.delete("trip").code == 0
    state = graph_of(alone.saver()).get_state(config_of("trip"))
    assert (len(state.values["items"]), state.next) == (6, ())
    alone.saver().delete_thread("trip")


def test_without_its_writes_no_thread_goes(place: Place) -> None:
    place.fill("a")
    place.database["checkpoint_writes"].rename("unlike")
    place.database["unlike"].drop_indexes()
    place.database["unlike"].update_many({}, {"$unset": {"idx": 1}})
    refused = place.delete("a")
    assert (refused.code, "?writes_collection=" in refused.err) == (4, True)
    assert "no collection of writes found" in ckpt("-s", place.url, "show", "a").err
    assert place.database["checkpoints"].count_documents({}) == 4


def test_no_vacuum_is_told_beside_what_went(place: Place) -> None:
    place.fill("a")
    done = ckpt("-s", place.url, "purge", "--match", "a", "--vacuum", "--yes", "-o", "json")
    assert (done.code, json.loads(done.out)["removed"]["threads"]) == (7, 1)
    assert "cannot reclaim disk space" in done.err
    assert "`compact`" in json.loads(done.err)["hint"]
    assert place.documents() == {}
