"""Changes the values in rows of JSON documents: what the savers of Python and JavaScript share."""

from __future__ import annotations

import json
from collections.abc import Mapping

from ckpt_backends.changes.rows import Row
from ckpt_backends.erasing.stored import EraseStored, PlacedValue, ValueKind
from ckpt_backends.model import TypedBytes
from ckpt_backends.redis.engine.document_parts import StoredDocument
from ckpt_backends.redis.engine.json_members import joined


def edited_member(
    found: StoredDocument, name: str, tag: str, kind: ValueKind, erase: EraseStored
) -> str | None:
    """The new JSON of a member that is JSON itself; None if nothing changes."""
    if name not in found.members:
        return None
    stored = TypedBytes(tag, found.raw(name))
    channel = found.text("channel") if kind in (ValueKind.VALUE, ValueKind.WRITE) else ""
    made = erase(PlacedValue(kind, stored, f"{found.name}\0{name}", channel))
    return None if made is stored else made.data.decode("utf-8", "surrogatepass")


def edited_text(
    found: StoredDocument, name: str, tag: str, kind: ValueKind, erase: EraseStored
) -> str | None:
    """The new member that is a text with JSON in it; None if nothing changes."""
    stored = TypedBytes(tag, found.text(name).encode("utf-8", "surrogatepass"))
    made = erase(PlacedValue(kind, stored, f"{found.name}\0{name}"))
    return None if made is stored else json.dumps(made.data.decode("utf-8", "surrogatepass"))


def with_members(row: Row, found: StoredDocument, changed: Mapping[str, str | None]) -> Row:
    """The row with other members; the same row if none is given."""
    new = {name: text for name, text in changed.items() if text is not None}
    if not new:
        return row
    return Row(row.table, {**row.cells, "value": joined({**found.members, **new})})
