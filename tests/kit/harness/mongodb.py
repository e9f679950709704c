"""MongoDB databases."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import pymongo
from bson.codec_options import CodecOptions
from bson.errors import InvalidDocument
from bson.raw_bson import RawBSONDocument

from ckpt_backends.testing.harness import Harness, Refusal, StoredRows, TestServer
from tests.kit.savers.mongodb import in_order
from tests.kit.servers import Server, mongodb_database

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
