"""Collections of KaFlow, in databases of their own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any, ClassVar

from tests.conformance.benches.bench import Refusal
from tests.conformance.benches.mongodb import MongoBench
from tests.kaflow import InTime, MongoDBCheckpointer


class KaflowBench(MongoBench):
    """KaFlow's saver, which stores no writes and knows no namespaces."""

    name: ClassVar[str] = "kaflow"
    has_writes: ClassVar[bool] = False
    pickled: ClassVar[bool] = True
    refused: ClassVar[frozenset[str]] = frozenset(
        # `list` has no `filter`, so that there is no history to choose from.
        {"fork-invoke", "fork-update", "fork-update-open", "fork-copy", "fork-chat"}
        # Of two questions, the one that is to be answered is not stored.
        | {"interrupt-one-answered", "interrupt-sends"}
    )
    refusal: ClassVar[Refusal] = (TypeError, IndexError)
    mangled: ClassVar[frozenset[str]] = frozenset(
        # Checkpoints of a subgraph are stored as the thread's own.
        {"interrupt-subgraph", "interrupt-nested", "interrupt-nested-answered"}
        | {"subgraph", "subgraph-error", "subgraph-stateful", "subgraph-stateful-node"}
        | {"subgraph-twice", "breakpoint-subgraph", "breakpoint-subgraph-passed"}
        | {"fork-subgraph", "with-metadata-subgraph"}
        | {"durability-exit-asking"}
        # The name of a lone function is told by what it writes.
        | {"functional-asking"}
        # What a DeltaChannel takes in is stored as writes only.
        | {"delta-often", "delta-rarely", "delta-reset", "delta-removed", "delta-stopped"}
        | {"delta-fork-often", "delta-fork-rarely", "delta-exit", "delta-exit-rarely"}
        # Other parts are pickled than the truth tells: a named tuple has no names of fields, a
        # deque has its length, an address is a number.
        | {"zoo-namedtuple", "zoo-sets", "zoo-path-regex"}
    )

    @contextmanager
    def saver(self) -> Iterator[Any]:
        saver = MongoDBCheckpointer(self._url, self._name)
        yield saver
        saver.client.close()

    def truthful(self, saver: Any) -> Any:
        return InTime(saver)

    def times(self, thread_id: str) -> tuple[datetime, datetime] | None:
        with self.saver() as saver:
            found = [one["created_at"] for one in saver.collection.find({"thread_id": thread_id})]
        return min(found), max(found)
