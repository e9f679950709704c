"""What an event of `AgentCoreMemorySaver` holds, as rows and as records.

The payload of an event is a list of texts, each a JSON object:

    {"event_type": "checkpoint", "checkpoint_id", "checkpoint_data", "metadata",
     "parent_checkpoint_id", "thread_id", "checkpoint_ns", "snapshot_version", "chunk_event_ids"}
    {"event_type": "channel_data", "channel", "version", "value", "thread_id", "checkpoint_ns"}
    {"event_type": "writes", "checkpoint_id", "writes": [{"task_id", "channel", "value",
     "task_path"}, ...]}

`checkpoint_data`, `metadata` and `value` are objects `{"type", "data"}` with base64; the value of a
channel without one is `_empty`. Source: `checkpoint/agentcore/models.py`, `helpers.py` and
`snapshot.py` of langgraph-checkpoint-aws 1.2.6.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from hashlib import sha256
from typing import Any

from ckpt_backends.codec import decode
from ckpt_backends.model import CheckpointKey, Kind, Record, TypedBytes
from ckpt_backends.rows import Cell, ChangeValue, PlacedValue, Row, ValueKind
from ckpt_backends.transfer.form import CannotHold

VALUES, WRITES, CHECKPOINTS = "channel_data", "writes", "checkpoints"
KEY = ("thread_id", "checkpoint_ns", "checkpoint_id")
EMPTY, ABSENT = "empty", "_empty"
"""The type of a channel without a value, and what the saver stores for it."""
_EVENT = ("actor_id", "at")
COLUMNS = {
    VALUES: (*KEY[:2], "channel", "version", "type", "value", "actor_id"),
    WRITES: (*KEY, "task_id", "task_path", "idx", "channel", "type", "value", *_EVENT),
    CHECKPOINTS: (
        *(*KEY, "parent_checkpoint_id", "type", "checkpoint", "metadata_type", "metadata"),
        *("snapshot_version", *_EVENT),
    ),
}
"""`at` is the time of the event in microseconds since 1970; a value may be in several. A value that
cannot be read has its text in place of its bytes."""
SNAPSHOT = "snapshot-v1"


def session_of(thread_id: str, ns: str) -> str:
    """The session of a namespace: `session_id` of `CheckpointerConfig`."""
    return _hash(f"{thread_id}_{ns}") if ns else thread_id


def writes_session(key: CheckpointKey) -> str:
    """The session of a snapshot's pending writes: `writes_session_id` in `snapshot.py`."""
    own = _hash(f"{key.checkpoint_ns}\x1f{key.checkpoint_id}")
    return f"lgw-{_hash(key.thread_id)[:32]}-{own[:32]}"


def snapshot_metadata(checkpoint_id: str, kind: str) -> dict[str, Any]:
    """The metadata of an event of a snapshot: `_metadata` in `snapshot.py`."""
    found = {"lc_layout": SNAPSHOT, "lc_kind": kind, "lc_checkpoint_id": _hash(checkpoint_id)}
    return {name: {"stringValue": one} for name, one in found.items()}


def _hash(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def opened(blob: str) -> dict[str, Any]:
    """The object in a text; empty if the saver stored none there."""
    with suppress(ValueError, RecursionError):
        found = json.loads(blob)
        if isinstance(found, dict) and isinstance(found.get("event_type"), str):
            return found
    return {}


def place_of(fields: Mapping[str, Any]) -> tuple[str, str] | None:
    """The thread and the namespace that an object tells."""
    match fields:
        case {"thread_id": str(thread_id), "checkpoint_ns": str(ns)}:
            return thread_id, ns
    return None


def rows_in(fields: Mapping[str, Any], about: Mapping[str, Cell]) -> Iterator[Row]:
    """The rows of an object. Those of writes have no `idx`.

    `about` has the thread, the namespace, the actor and the time.
    """
    match fields:
        case {"event_type": "checkpoint", "checkpoint_id": str(own)}:
            body, metadata = (_typed(fields.get(one)) for one in ("checkpoint_data", "metadata"))
            parent = fields.get("parent_checkpoint_id")
            cells: dict[str, Cell] = {"checkpoint_id": own, "type": body[0], "checkpoint": body[1]}
            cells["parent_checkpoint_id"] = parent if isinstance(parent, str) else None
            cells |= {"metadata_type": metadata[0], "metadata": metadata[1]}
            if isinstance(version := fields.get("snapshot_version"), int):
                cells["snapshot_version"] = version
            yield Row(CHECKPOINTS, {**about, **cells})
        case {"event_type": "channel_data", "channel": str(channel), "version": str(version)}:
            found = fields.get("value")
            tag, data = (EMPTY, b"") if found == ABSENT else _typed(found)
            cells = {"channel": channel, "version": version, "type": tag, "value": data}
            place = {name: one for name, one in about.items() if name != "at"}
            yield Row(VALUES, {**place, **cells})
        case {"event_type": "writes", "checkpoint_id": str(own), "writes": list(writes)}:
            for one in writes:
                match one:
                    case {"task_id": str(task_id), "channel": str(channel)}:
                        path, (tag, data) = one.get("task_path"), _typed(one.get("value"))
                        path = path if isinstance(path, str) else ""
                        cells = {"checkpoint_id": own, "task_id": task_id, "task_path": path}
                        cells |= {"channel": channel, "type": tag, "value": data}
                        yield Row(WRITES, {**about, **cells})


def _typed(found: Any) -> tuple[str, bytes | str]:
    """The type and the bytes of a value; a text if there are no bytes."""
    match found:
        case {"type": str(tag), "data": str(text)}:
            try:
                return tag, b64decode(text, validate=True)
            except ValueError:
                return tag, text
    return "", json.dumps(found)


def typed(row: Row, name: str, tag: str = "type") -> TypedBytes:
    """A value of a row; with a `problem` if it cannot be read."""
    data, kind = row.cells.get(name), str(row.cells.get(tag, ""))
    if isinstance(data, bytes):
        return TypedBytes(kind, data)
    text = str(data).encode("utf-8", "surrogatepass")
    return TypedBytes(kind, text, problem="not in the form of AgentCoreMemorySaver")


def blob_of(row: Row, more: Mapping[str, Any] | None = None) -> str:
    """The text of a row that is no write. Raises `CannotHold`."""
    cells = row.cells
    place = {name: cells[name] for name in ("thread_id", "checkpoint_ns")}
    if row.table == VALUES:
        value = ABSENT if cells["type"] == EMPTY else _stored(row, "value")
        start = {"event_type": "channel_data", "channel": cells["channel"]}
        return json.dumps({**start, "version": cells["version"], "value": value, **place})
    fields: dict[str, Any] = {
        **{"event_type": "checkpoint", "checkpoint_id": cells["checkpoint_id"]},
        "checkpoint_data": _stored(row, "checkpoint"),
        "metadata": _stored(row, "metadata", "metadata_type"),
    }
    if parent := cells.get("parent_checkpoint_id"):
        fields["parent_checkpoint_id"] = parent
    if version := cells.get("snapshot_version"):
        place["snapshot_version"] = version
    return json.dumps({**fields, **place, "chunk_event_ids": [], **(more or {})})


def blob_of_writes(rows: Iterable[Row]) -> str:
    """The text of some writes of one checkpoint. Raises `CannotHold`."""
    found = list(rows)
    writes = [
        {
            **{name: row.cells[name] for name in ("task_id", "channel")},
            "value": _stored(row, "value"),
            "task_path": row.cells["task_path"],
        }
        for row in found
    ]
    own = found[0].cells["checkpoint_id"]
    return json.dumps({"event_type": "writes", "checkpoint_id": own, "writes": writes})


def _stored(row: Row, name: str, tag: str = "type") -> dict[str, str]:
    value = typed(row, name, tag)
    if value.problem:
        raise CannotHold(f"a row of '{row.table}' has no value that its saver stores")
    return {"type": value.type, "data": b64encode(value.data).decode()}


def row_of(record: Record, about: Mapping[str, Cell]) -> Row:
    """The row of a record. `about` has the actor, the time, and what marks a snapshot."""
    value, metadata = record.value, record.metadata
    if value.problem or value.part or metadata.part:
        raise CannotHold(f"a value cannot be written: {value.problem or 'encrypted'}")
    cells: dict[str, Cell] = {**record.key._asdict(), **about, "type": value.type}
    if record.kind is Kind.CHECKPOINT:
        cells |= {"parent_checkpoint_id": record.parent, "checkpoint": value.data}
        cells |= {"metadata_type": metadata.type, "metadata": metadata.data}
        return Row(CHECKPOINTS, cells)
    cells |= {"channel": record.channel, "value": value.data}
    if record.kind is Kind.WRITE:
        task = {name: getattr(record, name) for name in ("task_id", "task_path", "idx")}
        return Row(WRITES, {**cells, **task})
    del cells["checkpoint_id"], cells["at"]
    return Row(VALUES, {**cells, "version": record.version})


def versions_of(row: Row) -> dict[str, str] | None:
    """By channel, the version that a checkpoint names; None if the body does not tell."""
    return versions_in(typed(row, "checkpoint"))


def versions_in(data: TypedBytes) -> dict[str, str] | None:
    """By channel, the version that a body names; None if it does not tell."""
    body = decode(data)
    found = body.get("channel_versions") if isinstance(body, dict) else None
    if not isinstance(found, dict):
        return None
    return {one: str(version) for one, version in found.items() if isinstance(one, str)}


def records_of(layout: str, rows: Iterable[Row]) -> Iterator[Record]:  # noqa: ARG001 - one layout
    """The records that the rows of one thread hold. Raises `CannotHold`."""
    for row in rows:
        cells: Any = row.cells
        thread_id, ns = cells["thread_id"], cells["checkpoint_ns"]
        if row.table == VALUES:
            value = _sound(row, "value")
            yield Record.apart(thread_id, ns, cells["channel"], cells["version"], value)
            continue
        key = CheckpointKey(thread_id, ns, cells["checkpoint_id"])
        if row.table == WRITES:
            task = (cells["task_id"], cells["task_path"], cells["idx"], cells["channel"])
            yield Record.write(key, *task, _sound(row, "value"))
        else:
            values = _sound(row, "checkpoint"), _sound(row, "metadata", "metadata_type")
            yield Record.checkpoint(key, cells.get("parent_checkpoint_id"), *values)


def _sound(row: Row, name: str, tag: str = "type") -> TypedBytes:
    found = typed(row, name, tag)
    if found.problem:
        raise CannotHold(f"a value in '{row.table}' cannot be read: {found.problem}")
    return found


_KINDS = {
    VALUES: (("value", "type", ValueKind.VALUE),),
    WRITES: (("value", "type", ValueKind.WRITE),),
    CHECKPOINTS: (
        ("checkpoint", "type", ValueKind.BODY),
        ("metadata", "metadata_type", ValueKind.METADATA),
    ),
}


def edited_row(layout: str, row: Row, change: ChangeValue) -> Row:  # noqa: ARG001 - one layout
    """The row with the values that `change` returns. Raises `CannotHold`."""
    cells = dict(row.cells)
    place = "\0".join(str(cells.get(name)) for name in COLUMNS[row.table][:6])
    for name, tag, kind in _KINDS[row.table]:
        if cells[tag] == EMPTY and row.table == VALUES:
            continue
        stored = _sound(row, name, tag)
        made = change(PlacedValue(kind, stored, f"{place}\0{name}", str(cells.get("channel", ""))))
        cells[name], cells[tag] = made.data, made.type
    return row if cells == row.cells else Row(row.table, cells)
