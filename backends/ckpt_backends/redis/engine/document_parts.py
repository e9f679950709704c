"""The parts of a thread in rows of JSON documents: what the savers of Python and JavaScript share.

Needs no server and no driver, because the rows may come from an archive.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator
from typing import Any

from ckpt_backends.changes.rows import Row
from ckpt_backends.model import CheckpointKey
from ckpt_backends.redis.engine.document_fields import meant_ns
from ckpt_backends.redis.engine.json_members import members_of
from ckpt_backends.redis.engine.keyspace import CHECKPOINT
from ckpt_backends.transfer.errors import CannotHold

WRITE = "checkpoint_write"
"""The kind of the keys of writes."""


class StoredDocument:
    """The document of one row, with the exact text of each member."""

    def __init__(self, row: Row) -> None:
        self.name = str(row.cells["key"])
        at = row.cells.get("expires_at")
        self.expires_at = at if isinstance(at, int) else None
        try:
            self.members = members_of(str(row.cells["value"]))
        except (ValueError, RecursionError) as error:
            raise CannotHold(f"the document '{self.name}' cannot be read: {error}") from None

    def get(self, name: str) -> Any:
        """A member; None if there is none."""
        return json.loads(self.members[name]) if name in self.members else None

    def text(self, name: str) -> str:
        """A text; `''` if there is none."""
        found = self.get(name)
        return found if isinstance(found, str) else ""

    def raw(self, name: str) -> bytes:
        """The JSON of a member. Raises `CannotHold` if there is none."""
        if name not in self.members:
            raise CannotHold(f"the document '{self.name}' has no '{name}'")
        return self.members[name].encode("utf-8", "surrogatepass")

    def check_members(self, known: Collection[str]) -> None:
        """Raise `CannotHold` for a member that no saver stores, because no target has a place."""
        for name in self.members:
            if name not in known:
                raise CannotHold(f"the document '{self.name}' has an unknown field '{name}'")


def rows_of_heads(rows: Iterable[Row]) -> Iterator[Row]:
    """The rows of a layout without history, whose writes of overwritten checkpoints stay.

    Leaves out all writes but those of the checkpoint in each namespace. Keeps the writes of one
    checkpoint of each namespace in memory.
    """
    newest: dict[str, tuple[str, list[Row]]] = {}
    for row in rows:
        if row.table == WRITE:
            found = StoredDocument(row)
            ns, own = meant_ns(found.text("checkpoint_ns")), found.text("checkpoint_id")
            known, some = newest.get(ns, ("", []))
            if own > known:
                newest[ns] = own, [row]
            elif own == known:
                some.append(row)
            continue
        if row.table == CHECKPOINT:
            found = StoredDocument(row)
            ns, own = meant_ns(found.text("checkpoint_ns")), found.text("checkpoint_id")
            known, some = newest.pop(ns, ("", []))
            if own == known:
                yield from some
        yield row


def place_of(found: StoredDocument, thread_id: str) -> CheckpointKey:
    """The checkpoint that a document names. `thread_id` is the meant one."""
    ns = meant_ns(found.text("checkpoint_ns"))
    return CheckpointKey(thread_id, ns, found.text("checkpoint_id"))
