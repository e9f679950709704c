"""MongoDB databases."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, ClassVar

import pymongo
from bson.codec_options import CodecOptions
from bson.errors import InvalidDocument
from bson.raw_bson import RawBSONDocument

from tests.conformance.benches.bench import Bench, Refusal
from tests.mongodb import in_order
from tests.servers import Server, mongodb_database

RAW = CodecOptions(RawBSONDocument)


class MongoBench(Bench):
    """langgraph-checkpoint-mongodb on a separate database."""

    name: ClassVar[str] = "mongodb"
    server: ClassVar[str | None] = "mongodb"
    refused: ClassVar[frozenset[str]] = frozenset({"zoo-bytes"})
    """The saver passes a bytearray to the driver, which accepts only bytes."""
    refusal: ClassVar[Refusal] = InvalidDocument

    def __init__(self, folder: Path, server: Server | None) -> None:
        assert server is not None
        self._stack = ExitStack()
        self._url = self._stack.enter_context(mongodb_database(server))

    @property
    def url(self) -> str:
        return self._url

    @contextmanager
    def saver(self) -> Iterator[Any]:
        from langgraph.checkpoint.mongodb import MongoDBSaver

        with MongoDBSaver.from_conn_string(self._url, self._name) as saver:
            yield saver

    def truthful(self, saver: Any) -> Any:
        return in_order(saver)

    def forget(self, saver: Any, thread_id: str) -> None:
        saver.delete_thread(thread_id)

    def fingerprint(self) -> object:
        with pymongo.MongoClient[Any](self._url) as client:
            found = client[self._name]
            return {
                name: (
                    [one.raw for one in found.get_collection(name, RAW).find().sort("_id", 1)],
                    sorted(found[name].index_information()),
                )
                for name in found.list_collection_names()
            }

    @property
    def _name(self) -> str:
        return self._url.rpartition("/")[2]

    def close(self) -> None:
        self._stack.close()
