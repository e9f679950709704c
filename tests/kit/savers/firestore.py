"""The official saver with complete reading; it writes as the original."""

from collections.abc import Iterator, Sequence
from typing import Any

from google.cloud.firestore_v1.base_query import FieldFilter
from langgraph_checkpoint_firestore import FirestoreSaver

from tests.kit.harness.listing import EveryNamespace

_Saver: Any = FirestoreSaver
"""Typed where it is installed; a subclass is checked alike everywhere."""


class SeeingSaver(EveryNamespace, _Saver):  # type: ignore[misc]
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
        return map(self._in_order, super().list(config, **options))

    def namespaces(self, config: Any) -> Sequence[str]:
        thread_id = config["configurable"]["thread_id"]
        keys = (one["checkpoint_key"] for _, one in self.documents("checkpoints", thread_id))
        places = (str(one).split("/")[1:3] for one in keys)
        return sorted({ns for own, ns in places if own == thread_id})

    def documents(
        self, group: str, thread_id: str | None = None
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        """The documents of all collections of this name, or those of a thread and of those whose
        ids begin like it, each with its path.

        The emulator takes much longer to list the partitions.
        """
        found = self.client.collection_group(group)
        if thread_id is not None:
            for operator, after in ((">=", "_"), ("<", "`")):
                place = self.checkpoints_collection.document(f"{thread_id}{after}")
                found = found.where(filter=FieldFilter("__name__", operator, place))
        for one in found.stream():
            yield one.reference.path, one.to_dict()

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
