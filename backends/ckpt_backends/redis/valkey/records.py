"""Reads and writes the JSON texts of ValkeySaver.

A checkpoint is an object, the writes of a checkpoint are one list of objects:

    {"thread_id", "checkpoint_id", "parent_checkpoint_id", "type", "checkpoint", "metadata"}
    [{"task_id", "idx", "channel", "type", "value"}, ...]

`checkpoint`, `metadata` and `value` are base64: of the serializer's bytes, of which `type` is the
type, and of JSON in `metadata`, which is never encrypted. Source: `_serialize_checkpoint_data` and
`_serialize_writes_data` in `checkpoint/valkey/base.py` of langgraph-checkpoint-aws 1.2.6. The saver
loads nothing if a text is not JSON.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode
from binascii import Error
from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Any, NamedTuple

from ckpt_backends.errors import Unsupported
from ckpt_backends.model import CheckpointKey, Record, TypedBytes
from ckpt_backends.redis.engine.keyspace import CHECKPOINT, raw, text
from ckpt_backends.rows import Cell, ChangeValue, PlacedValue, Row, ValueKind, elements
from ckpt_backends.transfer.form import CannotHold

UNKNOWN = "?"
"""The channel of a write that cannot be read."""
START_BYTES = 512
"""The ids and the type of a checkpoint are within this many bytes, in addition to its thread id."""
ESCAPED = 6
"""A byte of an id takes at most this many bytes in JSON."""
_TEXT = rb'"(?:[^"\\]|\\.)*"'
_START = re.compile(
    rb'\{"thread_id":(%b),"checkpoint_id":%b,"parent_checkpoint_id":(null|%b),"type":(%b),'
    % (_TEXT, _TEXT, _TEXT, _TEXT),
    re.DOTALL,
)
FORM = "not in the form of ValkeySaver"


class CheckpointStart(NamedTuple):
    """The ids and the type that a checkpoint's text contains; None if they cannot be read."""

    thread_id: str | None
    parent: str | None
    tag: str | None
    length: int = 0
    """Bytes of the text that are no values, if a good part of it is none."""


class CheckpointText(NamedTuple):
    """The contents of a checkpoint's key."""

    start: CheckpointStart
    body: TypedBytes
    metadata: TypedBytes
    fields: Mapping[str, Any]
    """The JSON object as stored; empty if the text is not JSON."""


class WriteRecord(NamedTuple):
    """One element of a list of writes."""

    task_id: str
    idx: int
    channel: str
    value: TypedBytes
    length: int
    """Length of the stored text of the value."""
    fields: Any
    """The element as stored."""
    task_path: str = ""


def start_of(text: bytes) -> CheckpointStart | None:
    """What a checkpoint's text begins with; None if it has another form than the saver's."""
    found = _START.match(text)
    if found is None:
        return None
    try:
        thread_id, parent, tag = (json.loads(one) for one in found.groups())
    except ValueError:
        return None
    return CheckpointStart(thread_id, parent or None, tag)


def stored_checkpoint(text: bytes) -> CheckpointText:
    """A checkpoint; with a `problem` in the parts that cannot be read."""
    fields = _json(text)
    if not isinstance(fields, dict):
        broken = TypedBytes("", text, problem=FORM)
        return CheckpointText(CheckpointStart(None, None, None), broken, broken, {})
    tag = _str(fields.get("type"))
    start = CheckpointStart(
        _str(fields.get("thread_id")), _str(fields.get("parent_checkpoint_id")) or None, tag
    )
    body = from_base64(tag, fields.get("checkpoint"))
    # The saver reads an empty text as an empty object.
    metadata = from_base64("json", fields.get("metadata"))
    if not metadata.data and not metadata.problem:
        metadata = TypedBytes("json", b"{}")
    return CheckpointText(start, body, metadata, fields)


def stored_writes(text: bytes) -> list[WriteRecord]:
    """The writes of a checkpoint in the order of arrival. One that cannot be read has no task."""
    found = _json(text)
    if not isinstance(found, list):
        return [_unreadable(text, None)]
    return [_write(one) for one in found]


def _write(one: Any) -> WriteRecord:
    match one:
        case {"task_id": str(task_id), "idx": int(idx), "channel": str(channel), **rest}:
            value = rest.get("value")
            length = len(value) if isinstance(value, str) else 0
            return WriteRecord(
                task_id, idx, channel, from_base64(_str(rest.get("type")), value), length, one
            )
    return _unreadable(_shown(one), one)


def _unreadable(text: bytes, fields: Any) -> WriteRecord:
    return WriteRecord("", 0, UNKNOWN, TypedBytes("", text, problem=FORM), len(text), fields)


def _json(text: bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _shown(found: Any) -> bytes:
    try:
        return json.dumps(found).encode()
    except RecursionError:
        return b""


def _str(found: Any) -> str | None:
    return found if isinstance(found, str) else None


def from_base64(tag: str | None, found: Any) -> TypedBytes:
    """A value from its base64; with a `problem` if it is none."""
    if tag is None or not isinstance(found, str):
        return TypedBytes(tag or "", _shown(found), problem=FORM)
    try:
        return TypedBytes(tag, b64decode(found, validate=True))
    except (ValueError, Error):
        return TypedBytes(tag, found.encode("utf-8", "surrogatepass"), problem="not valid base64")


# What the saver would store


def checkpoint_text(
    fields: Mapping[str, Any], body: TypedBytes | None, metadata: TypedBytes | None
) -> bytes:
    """A checkpoint with these fields, and with another body or other metadata unless None.

    Raises `Unsupported` if the metadata are not JSON.
    """
    parts = dict(fields)
    if body is not None:
        parts |= {"type": body.type, "checkpoint": b64encode(body.data).decode()}
    if metadata is not None:
        if metadata.type != "json":
            raise Unsupported(f"cannot write metadata of type '{metadata.type}' here")
        parts["metadata"] = b64encode(metadata.data).decode()
    return _dumped(parts)


def new_checkpoint(record: Record) -> bytes:
    """A new checkpoint."""
    fields = {
        "thread_id": record.key.thread_id,
        "checkpoint_id": record.key.checkpoint_id,
        "parent_checkpoint_id": record.parent,
    }
    return checkpoint_text(fields, record.value, record.metadata)


def write_fields(record: Record) -> dict[str, Any]:
    """A write as an element of the list."""
    return {
        "task_id": record.task_id,
        "idx": record.idx,
        "channel": record.channel,
        **value_fields(record.value),
    }


def value_fields(value: TypedBytes) -> dict[str, str]:
    """The fields of a write's value."""
    return {"type": value.type, "value": b64encode(value.data).decode()}


def writes_text(elements: Iterable[Any]) -> bytes:
    """A list of writes."""
    return _dumped(list(elements))


def _dumped(value: Any) -> bytes:
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:  # a lone surrogate
        return json.dumps(value, separators=(",", ":")).encode()


# The names of the keys of ValkeySaver. Needs no driver.


WRITES, THREADS = "writes", "thread"
"""The kinds of the keys of writes and of lists, and their beginnings."""


def key_of(name: bytes, thread_id: str | None) -> CheckpointKey | None:
    """The checkpoint of a key `KIND:{THREAD}:NS:ID`; None if it has another form.

    `thread_id` is what the checkpoint says. It is used if the key can be read that way; otherwise
    the thread ends at the last `}:`, since namespaces do not contain it.
    """
    place, colon, own = text(name.partition(b"{")[2]).rpartition(":")
    if not colon:
        return None
    if thread_id is not None and place.startswith(f"{thread_id}}}:"):
        return CheckpointKey(thread_id, place[len(thread_id) + 2 :], own)
    thread, mark, ns = place.rpartition("}:")
    return CheckpointKey(thread, ns, own) if mark else None


# The records of a thread in the keys of ValkeySaver. Needs no server and no driver.


_MEMBERS = frozenset({"task_id", "idx", "channel", "type", "value"})
_FIELDS = frozenset(
    {"thread_id", "checkpoint_id", "parent_checkpoint_id", "type", "checkpoint", "metadata"}
)


def records_of(layout: str, rows: Iterable[Row]) -> Iterator[Record]:
    """The records that the rows of some threads hold. Raises `CannotHold` and `Unsupported`.

    Other layouts order checkpoints by their ids. So the lists must have this order, too.
    """
    if layout != "valkey":
        from ckpt_backends.redis.valkey import agentcore_records

        yield from agentcore_records.records_of(rows)
        return
    ids: dict[tuple[str, str], list[str]] = {}
    """By thread and namespace, the ids of the checkpoints that exist."""
    lists: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        name = str(row.cells["key"])
        match row.table:
            case "checkpoint":
                part = _checkpoint(name, row.cells)
                at = part.key.thread_id, part.key.checkpoint_ns
                ids.setdefault(at, []).append(part.key.checkpoint_id)
                yield part
            case "writes":
                yield from _writes(name, row.cells)
            case "thread":
                # A list has the form of a key without the id.
                key = _key(f"{name}:", None)
                at = key.thread_id, key.checkpoint_ns
                lists[at] = [text(_cell_bytes(one)) for one in elements(row.cells)]
            case _:
                raise Unsupported(f"a row of the unknown kind '{row.table}'")
    for at, listed in lists.items():
        check_order(listed, ids.get(at, []))


def _checkpoint(name: str, cells: Mapping[str, Cell]) -> Record:
    stored = stored_checkpoint(_cell_bytes(cells["value"]))
    key = _key(name, stored.start.thread_id)
    where = f"checkpoint '{key.checkpoint_id}'"
    check_fields(where, stored.body.problem or stored.metadata.problem, stored.fields, _FIELDS)
    return Record.checkpoint(key, stored.start.parent, stored.body, stored.metadata, expiry(cells))


def _writes(name: str, cells: Mapping[str, Cell]) -> Iterator[Record]:
    key = _key(name, None)
    for one in stored_writes(_cell_bytes(cells["value"])):
        where = f"the write to '{one.channel}' at checkpoint '{key.checkpoint_id}'"
        check_fields(where, one.value.problem, one.fields, _MEMBERS)
        yield Record.write(key, one.task_id, "", one.idx, one.channel, one.value, expiry(cells))


def check_fields(where: str, problem: str, found: Mapping[str, object], known: Set[str]) -> None:
    if problem:
        raise CannotHold(f"{where} cannot be read: {problem}")
    if more := sorted(found.keys() - known):
        raise CannotHold(f"{where} has '{more[0]}', which its saver does not store")


def check_order(listed: list[str], ids: list[str]) -> None:
    """Raise `CannotHold` if the saver orders checkpoints in another way than by their ids."""
    there = set(ids)
    if listed and there and listed[0] not in there:
        raise CannotHold(
            f"checkpoint '{listed[0]}' has expired, but the saver loads it as the head"
        )
    known = [one for one in dict.fromkeys(listed) if one in there]
    others = sorted(there.difference(known), reverse=True)
    if [*known, *others] != sorted(there, reverse=True):
        raise CannotHold("its checkpoints were not stored in the order of their ids")


def _key(name: str, thread_id: str | None) -> CheckpointKey:
    found = key_of(raw(name), thread_id)
    if found is None:
        raise Unsupported(f"'{name}' is no key of ValkeySaver")
    return found


def expiry(cells: Mapping[str, Cell]) -> int | None:
    at = cells.get("expires_at")
    return at if isinstance(at, int) else None


def _cell_bytes(cell: Cell) -> bytes:
    return cell if isinstance(cell, bytes) else str(cell).encode()


# Changes the values in the texts of ValkeySaver.


def edited_row(layout: str, row: Row, change: ChangeValue) -> Row:
    """The row with the values that `change` returns; the same row if they are equal.

    Raises `CannotHold` for a text that cannot be read.
    """
    if layout != "valkey":
        from ckpt_backends.redis.valkey import agentcore_records

        return agentcore_records.edited_row(row, change)
    edits = {CHECKPOINT: _edit_checkpoint, WRITES: _edit_writes}
    if row.table not in edits:
        return row
    made = edits[row.table](str(row.cells["key"]), _cell_bytes(row.cells["value"]), change)
    return row if made is None else Row(row.table, {**row.cells, "value": made})


def _edit_checkpoint(name: str, text: bytes, change: ChangeValue) -> bytes | None:
    found = stored_checkpoint(text)
    problem = found.body.problem or found.metadata.problem
    body = changed(PlacedValue(ValueKind.BODY, found.body, f"{name}\0body"), problem, change)
    place = f"{name}\0metadata"
    metadata = changed(PlacedValue(ValueKind.METADATA, found.metadata, place), problem, change)
    return checkpoint_text(found.fields, body, metadata) if body or metadata else None


def _edit_writes(name: str, text: bytes, change: ChangeValue) -> bytes | None:
    found = stored_writes(text)
    made: list[Any] = []
    for one in found:
        place = f"{name}\0{one.task_id}\0{one.idx}"
        value = PlacedValue(ValueKind.WRITE, one.value, place, one.channel)
        new = changed(value, one.value.problem, change)
        made.append({**one.fields, **value_fields(new)} if new else one.fields)
    return None if made == [one.fields for one in found] else writes_text(made)


def changed(one: PlacedValue, problem: str, change: ChangeValue) -> TypedBytes | None:
    """What a value becomes; None if it stays. Raises `CannotHold` if it has a problem."""
    if problem:
        name, _, _ = one.place.partition("\0")
        raise CannotHold(f"the key '{name}' cannot be read: {problem}")
    made = change(one)
    return None if made is one.value else made
