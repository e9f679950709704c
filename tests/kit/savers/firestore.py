"""The official saver with complete reading; it writes as the original."""

from collections.abc import Iterator, Sequence
from typing import Any

from langgraph_checkpoint_firestore import FirestoreSaver

_Saver: Any = FirestoreSaver
"""Typed where it is installed; a subclass is checked alike everywhere."""


class SeeingSaver(_Saver):  # type: ignore[misc]
    """The official saver, whose `list` returns all namespaces if none is asked for, and writes in
    the order in which LangGraph applies them.

    The original sorts writes by their numbers as texts, over all tasks, so that those of parallel
    tasks, and the tenth of one task, reach a DeltaChannel too early.
    """

    @property
    def serializer(self) -> Any:
        """What has the serializer that it uses."""
        return self.firestore_serde

    def get_tuple(self, config: Any) -> Any:
        return self._in_order(super().get_tuple(config))

    def list(self, config: Any, **options: Any) -> Iterator[Any]:
        asked = config["configurable"]
        for ns in [asked["checkpoint_ns"]] if "checkpoint_ns" in asked else self.namespaces(config):
            found = super().list({"configurable": {**asked, "checkpoint_ns": ns}}, **options)
            yield from map(self._in_order, found)

    def namespaces(self, config: Any) -> Sequence[str]:
        start = f"{config['configurable']['thread_id']}_"
        partitions = self.checkpoints_collection.list_documents()
        return sorted(one.id[len(start) :] for one in partitions if one.id.startswith(start))

    def _in_order(self, found: Any) -> Any:
        if found is None or not found.pending_writes:
            return found
        thread_id, ns, own = (
            found.config["configurable"][name]
            for name in ("thread_id", "checkpoint_ns", "checkpoint_id")
        )
        partition = self.checkpoints_collection.document(f"{thread_id}_{ns}")
        place = partition.collection("checkpoints").document(own).collection("writes")
        stored = sorted(
            (one.to_dict() for one in place.stream()),
            key=lambda one: (one["task_path"], one["task_id"], one["idx"]),
        )
        load = self.firestore_serde.loads_typed
        writes = [
            (one["task_id"], one["channel"], load((one["type"], one["value"]))) for one in stored
        ]
        return found._replace(pending_writes=writes)
