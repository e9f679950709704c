"""The official saver with complete reading; it writes as the original."""

from collections.abc import Sequence
from typing import Any

from langgraph_checkpoint_objectstorage import ObjectStorageSaver, envelope, keys

from tests.kit.harness.listing import EveryNamespace

_Saver: Any = ObjectStorageSaver
"""Typed where it is installed; a subclass is checked alike everywhere."""


class SeeingSaver(EveryNamespace, _Saver):  # type: ignore[misc]
    """The official saver, whose `list` returns all namespaces if none is asked for."""

    @property
    def serde(self) -> Any:
        return vars(envelope)["_serde"]

    @serde.setter
    def serde(self, value: Any) -> None:
        vars(envelope)["_serde"] = value

    def namespaces(self, config: Any) -> Sequence[str]:
        thread_id = config["configurable"]["thread_id"]
        if not keys.is_safe_segment(thread_id):
            return []
        found = self.fs.find(f"{self.root}/{thread_id}")
        parts = (one[len(self.root) + 1 :].split("/")[1:-1] for one in found)
        return sorted({one[0] if len(one) in {2, 4} else "" for one in parts})
