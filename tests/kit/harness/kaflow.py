"""Collections of KaFlow, in separate databases.

KaFlow's saver, rewritten from its tutorial (yangkun19921001/kaflow-py).

Only for tests: like KaFlow, it loads pickles.
"""

import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from functools import cached_property
from typing import Any, ClassVar

from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from pymongo import ASCENDING, DESCENDING, MongoClient

from ckpt_backends.testing.harness import Refusal
from tests.kit.harness.mongodb import MongoHarness

CHINA = timezone(timedelta(hours=8))


class MongoDBCheckpointer(BaseCheckpointSaver[int]):
    """Stores and finds the same documents as KaFlow's class of this name."""

    def __init__(self, url: str, database: str, collection: str = "checkpoints") -> None:
        super().__init__()
        self.client: Any = MongoClient(url, tz_aware=True, tzinfo=CHINA)
        self.collection: Any = self.client[database][collection]
        self.collection.create_index([("thread_id", ASCENDING), ("checkpoint_id", DESCENDING)])
        self.collection.create_index([("created_at", DESCENDING)])
        self.collection.create_index([("username", ASCENDING), ("created_at", DESCENDING)])

    def get_tuple(self, config: Any) -> CheckpointTuple | None:
        asked = config["configurable"]
        query = {"thread_id": asked["thread_id"]}
        if asked.get("checkpoint_id"):
            query["checkpoint_id"] = asked["checkpoint_id"]
        found = self.collection.find_one(query, sort=[("created_at", -1)])
        return None if found is None else self._tuple(config, found)

    def list(  # type: ignore[override]  # KaFlow's has no `filter` either
        self, config: Any, *, limit: int | None = None, before: Any = None
    ) -> Iterator[CheckpointTuple]:
        query = {"thread_id": config["configurable"]["thread_id"]}
        cursor = self.collection.find(query).sort("created_at", -1)
        for found in cursor.limit(limit) if limit else cursor:
            yield self._tuple(config, found)

    def _tuple(self, config: Any, found: Any) -> CheckpointTuple:
        parent = found.get("parent_checkpoint_id")
        place = {"thread_id": found["thread_id"], "checkpoint_id": parent}
        return CheckpointTuple(
            config=config,
            checkpoint=pickle.loads(found["checkpoint_data"]),
            metadata=found.get("metadata", {}),
            parent_config={"configurable": place} if parent else None,
        )

    def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        asked = config["configurable"]
        now = datetime.now(CHINA)
        document = {
            "thread_id": asked["thread_id"],
            "checkpoint_id": checkpoint["id"],
            "parent_checkpoint_id": asked.get("checkpoint_id"),
            "checkpoint_data": pickle.dumps(checkpoint),
            "metadata": dict(metadata) if metadata else {},
            "username": username(asked["thread_id"]),
            "created_at": now,
            "updated_at": now,
        }
        place = {"thread_id": asked["thread_id"], "checkpoint_id": checkpoint["id"]}
        self.collection.update_one(place, {"$set": document}, upsert=True)
        return {"configurable": place}

    def put_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
        """Do nothing, as in KaFlow."""

    def delete_thread(self, thread_id: str) -> None:
        self.collection.delete_many({"thread_id": thread_id})


class InTime(MongoDBCheckpointer):
    """The saver with what LangGraph needs to read a history: each checkpoint has its own address.

    KaFlow's saver returns the caller's address, has no `filter`, returns checkpoints of the same
    millisecond in any order, and has no parent for the first checkpoint of a run. Here the parent
    is the checkpoint before it in time.
    """

    def __init__(self, saver: MongoDBCheckpointer) -> None:
        BaseCheckpointSaver.__init__(self)
        self.client, self.collection = saver.client, saver.collection

    def get_tuple(self, config: Any) -> CheckpointTuple | None:
        asked = config["configurable"].get("checkpoint_id")
        found = self.list(config)
        return next((one for one in found if asked in {None, one.checkpoint["id"]}), None)

    def list(self, config: Any, **asked: Any) -> Iterator[CheckpointTuple]:
        thread_id = config["configurable"]["thread_id"]
        order = {"created_at": -1, "checkpoint_id": -1}
        found = list(self.collection.find({"thread_id": thread_id}).sort(order))
        older = [*(one["checkpoint_id"] for one in found[1:]), None]
        for one, last in zip(found, older, strict=False):
            parent = one["parent_checkpoint_id"] or last
            at = _address(thread_id, one["checkpoint_id"])
            if (asked.get("filter") or {}).items() <= one["metadata"].items():
                whole = self._tuple(at, {**one, "parent_checkpoint_id": None})
                yield whole._replace(parent_config=_address(thread_id, parent) if parent else None)


def _address(thread_id: str, checkpoint_id: str) -> Any:
    place = {"thread_id": thread_id, "checkpoint_ns": "", "checkpoint_id": checkpoint_id}
    return {"configurable": place}


def username(thread_id: str) -> str | None:
    """Return the user in `user_uuid_config`."""
    parts = thread_id.split("_")
    return parts[0] if len(parts) >= 3 else None


def thread_list(saver: MongoDBCheckpointer, user: str | None = None) -> list[dict[str, Any]]:
    """Return KaFlow's `get_thread_list`, without its pages."""
    stages: list[Any] = [
        *([{"$match": {"username": user}}] if user else []),
        {"$sort": {"thread_id": 1, "created_at": 1}},
        {
            "$group": {
                "_id": "$thread_id",
                "username": {"$first": "$username"},
                "last_updated": {"$max": "$updated_at"},
                "message_count": {"$sum": 1},
                "latest": {"$last": "$checkpoint_data"},
            }
        },
        {"$sort": {"last_updated": -1}},
    ]
    return [
        {
            "thread_id": found["_id"],
            "username": found["username"],
            "checkpoints": found["message_count"],
            "first_message": _first(pickle.loads(found["latest"])),
        }
        for found in saver.collection.aggregate(stages)
    ]


def _first(checkpoint: Any) -> str | None:
    for message in checkpoint["channel_values"].get("messages", []):
        if message.type == "human":
            return str(message.content)
    return None


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
