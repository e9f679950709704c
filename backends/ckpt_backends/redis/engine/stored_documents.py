"""The rows of JSON documents: what the savers of Python and JavaScript share. Imports no driver."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from ckpt_backends.codec.json import members, skip_space, unique
from ckpt_backends.model import CheckpointKey, TypedBytes
from ckpt_backends.redis.engine.keyspace import CHECKPOINT, meant_ns
from ckpt_backends.rows import ChangeValue, PlacedValue, Row, ValueKind
from ckpt_backends.transfer.form import CannotHold

WRITE = "checkpoint_write"
"""The kind of the keys of writes."""


_SCANNER = json.JSONDecoder()


def members_of(document: str) -> dict[str, str]:
    """By name, the texts of the members of an object. Raises ValueError for any other text."""
    found, _ = members(
        document, skip_space(document, 0), lambda _, at: _SCANNER.raw_decode(document, at)[1]
    )
    return unique([(one.key, document[one.value : one.end]) for one in found])


def joined(members: Mapping[str, str]) -> str:
    """The text of an object with these members."""
    inside = ", ".join(
        f"{json.dumps(name, ensure_ascii=False)}: {text}" for name, text in members.items()
    )
    return "{" + inside + "}"


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
        if row.table in (WRITE, CHECKPOINT):
            found = StoredDocument(row)
            ns, own = meant_ns(found.text("checkpoint_ns")), found.text("checkpoint_id")
            known, some = newest.get(ns, ("", []))
            if row.table == WRITE:
                if own > known:
                    newest[ns] = own, [row]
                elif own == known:
                    some.append(row)
                continue
            if own == known:
                yield from some
        yield row


def place_of(found: StoredDocument, thread_id: str) -> CheckpointKey:
    """The checkpoint that a document names. `thread_id` is the meant one."""
    ns = meant_ns(found.text("checkpoint_ns"))
    return CheckpointKey(thread_id, ns, found.text("checkpoint_id"))


# Changes the values in rows of JSON documents: what the savers of Python and JavaScript share.


def edited_member(
    found: StoredDocument, name: str, tag: str, kind: ValueKind, change: ChangeValue
) -> str | None:
    """The new JSON of a member that is JSON itself; None if nothing changes."""
    if name not in found.members:
        return None
    stored = TypedBytes(tag, found.raw(name))
    channel = found.text("channel") if kind in (ValueKind.VALUE, ValueKind.WRITE) else ""
    made = change(PlacedValue(kind, stored, f"{found.name}\0{name}", channel))
    return None if made is stored else made.data.decode("utf-8", "surrogatepass")


def edited_text(
    found: StoredDocument, name: str, tag: str, kind: ValueKind, change: ChangeValue
) -> str | None:
    """The new member that is a text with JSON in it; None if nothing changes."""
    stored = TypedBytes(tag, found.text(name).encode("utf-8", "surrogatepass"))
    made = change(PlacedValue(kind, stored, f"{found.name}\0{name}"))
    return None if made is stored else json.dumps(made.data.decode("utf-8", "surrogatepass"))


def with_members(row: Row, found: StoredDocument, changed: Mapping[str, str | None]) -> Row:
    """The row with other members; the same row if none is given."""
    new = {name: text for name, text in changed.items() if text is not None}
    if not new:
        return row
    return Row(row.table, {**row.cells, "value": joined({**found.members, **new})})
