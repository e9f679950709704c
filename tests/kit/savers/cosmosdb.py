"""The official saver with complete reading; it writes as the original."""

from collections.abc import Sequence
from typing import Any

from langchain_azure_cosmosdb import CosmosDBSaverSync

from tests.kit.harness.listing import EveryNamespace

_Saver: Any = CosmosDBSaverSync
"""Typed where it is installed; a subclass is checked alike everywhere."""


class SeeingSaver(EveryNamespace, _Saver):  # type: ignore[misc]
    """The official saver, whose `list` returns all namespaces if none is asked for."""

    @property
    def cosmos_serde(self) -> Any:
        self._in_base64.serde = self.serde
        return self._in_base64

    @cosmos_serde.setter
    def cosmos_serde(self, value: Any) -> None:
        self._in_base64 = value

    def namespaces(self, config: Any) -> Sequence[str]:
        found = self.container.query_items(
            "SELECT VALUE c.partition_key FROM c WHERE STARTSWITH(c.partition_key, @start)",
            parameters=[
                {"name": "@start", "value": f"checkpoint${config['configurable']['thread_id']}$"}
            ],
            enable_cross_partition_query=True,
        )
        return sorted({one.split("$")[2] for one in found})
