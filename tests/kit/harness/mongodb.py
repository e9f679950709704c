"""MongoDB databases.

The official MongoDB saver, with its reading faults corrected, and databases that it fills.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import pymongo
import pytest
from bson.codec_options import CodecOptions
from bson.errors import InvalidDocument
from bson.raw_bson import RawBSONDocument
from langgraph.checkpoint.mongodb import MongoDBSaver

from ckpt_backends.testing.harness import Harness, Refusal, StoredRows, TestServer
from tests.kit.agents.steps import talk
from tests.kit.servers import Server, mongodb_database


class InOrder:
    """A collection that returns writes in the order in which LangGraph applies them."""

    def __init__(self, collection: Any) -> None:
        self._collection = collection

    def find(self, *words: Any) -> Any:
        return self._collection.find(*words).sort({"task_path": 1, "task_id": 1, "idx": 1})

    def __getattr__(self, name: str) -> Any:
        return getattr(self._collection, name)


def in_order(saver: Any) -> Any:
    """Return the saver with writes by task paths; the official one lets the server order them."""
    found = copy(saver)
    found.writes_collection = InOrder(saver.writes_collection)
    return found


class Place:
    def __init__(self, url: str) -> None:
        self.url = url
        self.name = url.rpartition("/")[2].partition("?")[0]
        self.client: Any = pymongo.MongoClient(url)
        self.database: Any = self.client[self.name]

    def saver(self, *names: str, **options: Any) -> Any:
        made: Any = MongoDBSaver
        return made(self.client, self.name, *names, **options)

    def fill(self, *threads: str, saver: Any = None) -> None:
        talk(saver or self.saver(), *threads)

    def age(self, match: Any) -> None:
        """Rewrite metadata as releases 0.1 to 0.2.1 stored it: leaves are JSON texts."""
        saver = self.saver()

        def old(value: Any) -> Any:
            if isinstance(value, dict):
                return {name: old(one) for name, one in value.items()}
            return json.dumps(saver.serde.loads_typed(value)).encode()

        for one in self.database["checkpoints"].find(match):
            change = {"$set": {"metadata": old(one["metadata"])}}
            self.database["checkpoints"].update_one({"_id": one["_id"]}, change)


def mongodb_place(kind: Any = Place) -> Any:
    """A fixture of an empty database on the server of the run."""

    @pytest.fixture
    def place(mongodb_server: Server) -> Iterator[Any]:
        with mongodb_database(mongodb_server) as url:
            found = kind(url)
            yield found
            found.client.close()

    return place


RAW = CodecOptions(RawBSONDocument)


class MongoHarness(Harness):
    """langgraph-checkpoint-mongodb on a separate database."""

    TABLES = ("checkpoints", "checkpoint_writes")
    name: ClassVar[str] = "mongodb"
    server: ClassVar[str | None] = "mongodb"
    failing_scenarios: ClassVar[frozenset[str]] = frozenset({"zoo-bytes"})
    """The saver passes a bytearray to the driver, which accepts only bytes."""
    scenario_errors: ClassVar[Refusal] = InvalidDocument

    def create(self, folder: Path, server: TestServer | None) -> str:
        assert isinstance(server, Server)
        return self.stack.enter_context(mongodb_database(server))

    @cached_property
    def client(self) -> Any:
        return self.stack.enter_context(pymongo.MongoClient[Any](self.url))

    @property
    def database(self) -> Any:
        return self.client[self._name]

    @cached_property
    def kept_saver(self) -> Any:
        return in_order(self.stack.enter_context(self.saver()))

    @contextmanager
    def saver(self) -> Iterator[Any]:
        from langgraph.checkpoint.mongodb import MongoDBSaver

        with MongoDBSaver.from_conn_string(self.url, self._name) as saver:
            yield saver

    def corrected_saver(self, saver: Any) -> Any:
        return in_order(saver)

    def fingerprint(self) -> object:
        with pymongo.MongoClient[Any](self.url) as client:
            found = client[self._name]
            return {
                name: (
                    [it.raw for it in found.get_collection(name, RAW).find().sort("_id", 1)],
                    sorted(found[name].index_information()),
                )
                for name in found.list_collection_names()
            }

    @property
    def _name(self) -> str:
        return self.url.rpartition("/")[2]

    def rows(self, thread_id: str) -> StoredRows:
        return {
            table: sorted(
                tuple(
                    repr(row[name]) for name in sorted(row, key=lambda it: (it == "metadata", it))
                )
                for row in self.database[table].find({"thread_id": thread_id}, self._kept())
            )
            for table in self.TABLES
        }

    def copy(self, thread_id: str, new_id: str, until: str = "~") -> None:
        for table in self.TABLES:
            found = self.database[table].find(
                {"thread_id": thread_id, "checkpoint_id": {"$lte": until}}, self._kept()
            )
            copies = [{**row, "thread_id": new_id} for row in found]
            if copies:
                self.database[table].insert_many(copies)

    def forget(self, thread_id: str) -> None:
        self.kept_saver.delete_thread(thread_id)

    @staticmethod
    def _kept() -> dict[str, int]:
        return {"_id": 0, "thread_id": 0}
