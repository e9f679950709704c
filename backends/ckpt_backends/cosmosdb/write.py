"""Changes containers of Azure Cosmos DB."""

from __future__ import annotations

import json

from ckpt_backends.changes import BACKUPS, Remaining, Remains
from ckpt_backends.cosmosdb.records import OLDER, is_older, item_of, path_of
from ckpt_backends.cosmosdb.store import CosmosStore
from ckpt_backends.model import Progress, Record, silent
from ckpt_backends.objects.records import row_of
from ckpt_backends.objects.write import WritableObjectStore
from ckpt_backends.protocol import WritableStore
from ckpt_backends.rows import Row
from ckpt_backends.url import StoreUrl

_FEED = Remaining("change feed", "with all versions and deletes, it has what was changed here")


class WritableCosmosStore(WritableObjectStore):
    """A container, opened for changing."""

    def object_of(self, row: Row) -> tuple[str, bytes]:
        return path_of(row.cells), json.dumps(item_of(row)).encode()

    def row_of(self, record: Record) -> Row:
        row = row_of(record)
        # A thread stays in the form that its saver finds.
        if any(is_older(one.path) for one in self._reading.listed(record.key.thread_id).writes):
            return Row(row.table, {**row.cells, OLDER: 1})
        return row

    def erase_remains(self, *, rewrite: bool = False, progress: Progress = silent) -> Remains:  # noqa: ARG002
        return Remains(places=(_FEED, BACKUPS))


def open_writable(url: StoreUrl) -> WritableStore:
    """Open for changing. Raises what `open_store` raises."""
    return WritableCosmosStore(CosmosStore(url))
