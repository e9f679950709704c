"""Documents of MongoDB whose fields have wrong types, through every command."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pymongo
import pytest
from bson import Code, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp
from langgraph.checkpoint.mongodb import MongoDBSaver
from ormsgpack import packb

from tests.kit.command import ckpt
from tests.kit.harness.mongodb import RAW
from tests.kit.hostile.commands import EVERY_ROW, ON_THREAD, WHOLE, on
from tests.kit.hostile.corpus import ORDINARY_ID, TASK_ID, ordinary_body
from tests.kit.hostile.watched import check
from tests.kit.servers import Server, mongodb_database

pytestmark = pytest.mark.engines

METADATA = {"source": ["msgpack", packb("loop")], "step": ["msgpack", packb(1)], "parents": {}}
ODD: list[Any] = [
    *(None, True, 7, Int64(2**62), -2.5, math.inf, math.nan, "text", "$thread_id", "\0", ""),
    *(b"", b"\xff\x00\x1b[2J", [], [["msgpack", b"\xc1"]], {}, {"a": {"b": [1, {"c": b"\0"}]}}),
    *({"$where": "1", "a.b": 2, "": 3}, ["msgpack", b"\xc1"], ["json", b"{"], ["gone", 7]),
    *(ObjectId("0" * 24), Regex("a*"), Code("1"), Timestamp(1, 1), MinKey(), MaxKey()),
    *(Decimal128("1.5"), datetime(9999, 12, 31, tzinfo=UTC), "\x1b[31m\u202e"),
]
"""What MongoDB lets stand in any field."""
CHECKPOINT: dict[str, Any] = {
    **{"checkpoint_ns": "", "checkpoint_id": ORDINARY_ID, "parent_checkpoint_id": None},
    **{"type": "msgpack", "checkpoint": ordinary_body(ORDINARY_ID), "metadata": METADATA},
}
WRITE: dict[str, Any] = {
    **{"checkpoint_ns": "", "checkpoint_id": ORDINARY_ID, "task_id": TASK_ID, "idx": 0},
    **{"task_path": "~__pregel_pull, node", "channel": "answer", "type": "msgpack"},
    "value": packb("x"),
}
KAFLOW: dict[str, Any] = {
    **{"checkpoint_id": ORDINARY_ID, "parent_checkpoint_id": None, "username": "me"},
    **{"checkpoint_data": b"\x80\x04}.", "metadata": {"source": "loop", "step": 1}},
    **{"created_at": datetime(2026, 4, 7, tzinfo=UTC), "updated_at": datetime.now(UTC)},
}


@dataclass(frozen=True)
class Place:
    """A database and the threads in it."""

    url: str
    threads: list[str]

    def documents(self) -> object:
        """All that is in it, byte for byte, its indexes too."""
        with pymongo.MongoClient[Any](self.url) as client:
            found = client[self.url.rpartition("/")[2]]
            return {
                name: (
                    [one.raw for one in found.get_collection(name, RAW).find().sort("_id", 1)],
                    sorted(found[name].index_information()),
                )
                for name in found.list_collection_names()
            }


def fill(url: str, documents: dict[str, list[Any]]) -> None:
    name = url.rpartition("/")[2]
    with pymongo.MongoClient[Any](url) as client:
        if "checkpoint_writes" in documents:
            MongoDBSaver(client, name)
        for collection, rows in documents.items():
            client[name][collection].insert_many(rows)


def odd(name: str, like: dict[str, Any], others: dict[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """Each odd value in each field once, and each field missing; beside an ordinary document."""
    for field in like:
        for number, value in enumerate([*ODD, ...]):
            thread = f"odd {name} {field} {number}"
            document = {"thread_id": thread, **like, field: value}
            if value is ...:
                del document[field]
            yield thread, document, {"thread_id": thread, **others}


@pytest.fixture(scope="module")
def wrong(mongodb_server: Server) -> Iterator[Place]:
    found = list(odd("checkpoint", CHECKPOINT, WRITE))
    documents: dict[str, list[Any]] = {
        "checkpoints": [{"thread_id": "first", **CHECKPOINT}, *(one for _, one, _ in found)],
        "checkpoint_writes": [{"thread_id": "first", **WRITE}, *(other for _, _, other in found)],
    }
    for thread, one, other in odd("write", WRITE, CHECKPOINT):
        documents["checkpoint_writes"].append(one)
        documents["checkpoints"].append(other)
        found.append((thread, one, other))
    # Ids of threads that are no texts; of a list, the unique index takes each item for one.
    ids = [one for one in ODD if not isinstance(one, list) or not one]
    documents["checkpoints"] += [{"thread_id": one, **CHECKPOINT} for one in ids]
    with mongodb_database(mongodb_server) as url:
        fill(url, documents)
        yield Place(url, [thread for thread, _, _ in found])


@pytest.fixture(scope="module")
def wrong_kaflow(mongodb_server: Server) -> Iterator[Place]:
    found = list(odd("kaflow", KAFLOW, {}))
    rows = [{"thread_id": "first", **KAFLOW}, *(one for _, one, _ in found)]
    rows += [{"thread_id": one, **KAFLOW} for one in ODD]
    with mongodb_database(mongodb_server) as url:
        fill(url, {"checkpoints": rows})
        yield Place(url, [thread for thread, _, _ in found])


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["wrong", "wrong_kaflow"])
def test_every_document_goes_through_some_command(
    kind: str, request: pytest.FixtureRequest
) -> None:
    place: Place = request.getfixturevalue(kind)
    before = place.documents()
    for number, words in enumerate([*EVERY_ROW, *ON_THREAD]):
        for thread in place.threads[number % 10 :: 10]:
            check(ckpt("-s", place.url, *on(thread, words)))
    for words in WHOLE:
        check(ckpt("-s", place.url, *words))
    assert place.documents() == before


def test_documents_of_wrong_types_are_listed(wrong: Place) -> None:
    listed = check(ckpt("-s", wrong.url, "threads", "list", "--all", "-o", "json")).json
    assert {"first", *wrong.threads} - {row["thread_id"] for row in listed} == set()
    for thread in wrong.threads[::31]:
        check(ckpt("-s", wrong.url, "show", "--writes", "--", thread))
