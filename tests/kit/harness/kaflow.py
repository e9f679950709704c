"""Collections of KaFlow, in separate databases."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import cached_property
from typing import Any, ClassVar

from ckpt_backends.testing.harness import Refusal
from tests.kit.harness.mongodb import MongoHarness
from tests.kit.savers.kaflow import InTime, MongoDBCheckpointer


class KaflowHarness(MongoHarness):
    """KaFlow's saver, which stores no writes and has no namespaces."""

    name: ClassVar[str] = "kaflow"
    has_writes: ClassVar[bool] = False
    stores_pickles: ClassVar[bool] = True
    failing_scenarios: ClassVar[frozenset[str]] = frozenset(
        # `list` has no `filter`, so there is no history to choose from.
        {"fork-invoke", "fork-update", "fork-update-open", "fork-copy", "fork-chat"}
        # Of two questions, the one to be answered is not stored.
        | {"interrupt-one-answered", "interrupt-sends"}
    )
    scenario_errors: ClassVar[Refusal] = (TypeError, IndexError)
    skipped_scenarios: ClassVar[frozenset[str]] = frozenset(
        # Checkpoints of a subgraph are stored as those of the thread.
        {"interrupt-subgraph", "interrupt-nested", "interrupt-nested-answered"}
        | {"subgraph", "subgraph-error", "subgraph-stateful", "subgraph-stateful-node"}
        | {"subgraph-twice", "breakpoint-subgraph", "breakpoint-subgraph-passed"}
        | {"fork-subgraph", "with-metadata-subgraph"}
        | {"durability-exit-asking"}
        # The name of a single function is only known from its writes.
        | {"functional-asking"}
        # What a DeltaChannel receives is stored only as writes.
        | {"delta-often", "delta-rarely", "delta-reset", "delta-removed", "delta-stopped"}
        | {"delta-fork-often", "delta-fork-rarely", "delta-exit", "delta-exit-rarely"}
        # Some values are pickled differently from the truth: a named tuple has no field names, a
        # deque has its length, an address is a number.
        | {"zoo-namedtuple", "zoo-sets", "zoo-path-regex"}
    )

    @contextmanager
    def saver(self) -> Iterator[Any]:
        saver = MongoDBCheckpointer(self.url, self._name)
        yield saver
        saver.client.close()

    @cached_property
    def kept_saver(self) -> Any:
        return self.stack.enter_context(self.saver())

    def corrected_saver(self, saver: Any) -> Any:
        return InTime(saver)

    def times(self, thread_id: str) -> tuple[datetime, datetime] | None:
        with self.saver() as saver:
            found = [one["created_at"] for one in saver.collection.find({"thread_id": thread_id})]
        return min(found), max(found)
