"""Reads and writes the JSON texts of AgentCoreValkeySaver. Needs no server and no driver.

A checkpoint is an object, and each write is one:

    {"checkpoint_id", "session_id", "actor_id", "thread_id", "checkpoint_ns",
     "parent_checkpoint_id", "checkpoint_data", "metadata", "created_at"}
    {"checkpoint_id", "task_id", "channel", "value", "task_path", "created_at"}

`checkpoint_data`, `metadata` and `value` are objects `{"type", "data"}`, the serializer's type and
its bytes as base64. What changed in a checkpoint's channels is stored once more, as objects
`{"channel", "version", "value", "checkpoint_id", "created_at"}` that the saver never reads. Source:
`checkpoint/valkey/agentcore/models.py` and `saver.py` of langgraph-checkpoint-aws 1.2.6.
"""

from __future__ import annotations

import json
import re
import time
from base64 import b64encode
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from hashlib import sha256
from typing import Any, NamedTuple

from ckpt_backends.errors import Unsupported
from ckpt_backends.model import CheckpointKey, Record, TypedBytes
from ckpt_backends.redis.engine.keyspace import CHECKPOINT, MEMBER, raw
from ckpt_backends.redis.valkey.records import (
    FORM,
    UNKNOWN,
    CheckpointStart,
    CheckpointText,
    WriteRecord,
    changed,
    check_fields,
    check_order,
    expiry,
    from_base64,
)
from ckpt_backends.rows import Cell, ChangeValue, PlacedValue, Row, ValueKind, elements

WRITES, THREADS, CHANNELS = "writes", "thread", "channel"
"""The kinds of the keys of writes, of lists of checkpoints, and of what the saver never reads."""
START = "agentcore"
_TEXT = rb'"(?:[^"\\]|\\.)*"'
_BEGINS = re.compile(
    rb'\{"checkpoint_id":%b,"session_id":%b,"actor_id":(%b),"thread_id":(%b),"checkpoint_ns":(%b),'
    rb'"parent_checkpoint_id":(null|%b),"checkpoint_data":\{"type":(%b),'
    % (_TEXT, _TEXT, _TEXT, _TEXT, _TEXT, _TEXT, _TEXT),
    re.DOTALL,
)
_FIELDS = frozenset(
    {"checkpoint_id", "session_id", "actor_id", "thread_id", "checkpoint_ns"}
    | {"parent_checkpoint_id", "checkpoint_data", "metadata", "created_at"}
)
_MEMBERS = frozenset({"checkpoint_id", "task_id", "channel", "value", "task_path", "created_at"})


class ActorSpace(NamedTuple):
    """A namespace of a thread of an actor: what all keys of it begin with."""

    thread_id: str
    actor: str
    checkpoint_ns: str

    @property
    def session(self) -> str:
        """Its session id: `session_id` in `checkpoint/agentcore/models.py`."""
        if not self.checkpoint_ns:
            return self.thread_id
        return sha256(raw(f"{self.thread_id}_{self.checkpoint_ns}")).hexdigest()

    def name(self, kind: str, *rest: str) -> bytes:
        """The key of this kind."""
        return raw(":".join((START, kind, self.session, self.actor, self.checkpoint_ns, *rest)))

    @property
    def list_name(self) -> bytes:
        """The key of the list of its checkpoints."""
        return raw(f"{START}:session:{self.session}:{self.actor}:checkpoints")


class Start(NamedTuple):
    """What a checkpoint's text begins with."""

    space: ActorSpace
    start: CheckpointStart


def start_of(text: bytes) -> Start | None:
    """What a checkpoint's text says of its place; None if it says none."""
    fields: list[Any] | None = None
    length = 0
    with suppress(ValueError, RecursionError):
        if found := _BEGINS.match(text):
            fields, length = [json.loads(one) for one in found.groups()], found.end()
        elif isinstance(whole := json.loads(text), dict):
            data = whole.get("checkpoint_data")
            names = ("actor_id", "thread_id", "checkpoint_ns", "parent_checkpoint_id")
            fields = [*map(whole.get, names), data.get("type") if isinstance(data, dict) else ""]
    match fields:
        case [str(actor), str(thread_id), str(ns), str() | None as parent, tag]:
            kind = tag if isinstance(tag, str) else ""
            start = CheckpointStart(thread_id, parent or None, kind, length)
            return Start(ActorSpace(thread_id, actor, ns), start)
    return None


def stored_checkpoint(text: bytes) -> CheckpointText:
    """A checkpoint; with a `problem` in the parts that cannot be read."""
    fields, found = _object(text), start_of(text)
    start = CheckpointStart(None, None, None) if found is None else found.start
    body, metadata = (_typed(fields.get(one), text) for one in ("checkpoint_data", "metadata"))
    return CheckpointText(start, body, metadata, fields)


def stored_writes(texts: Iterable[bytes]) -> Iterator[WriteRecord]:
    """The writes of a checkpoint in the order of arrival, those of each task counted from 0.

    The saver stores no `idx`. One that cannot be read has no task.
    """
    numbers: Counter[str] = Counter()
    for text in texts:
        fields = _object(text)
        value = _typed(fields.get("value"), text)
        match fields:
            case {"task_id": str(task_id), "channel": str(channel)}:
                idx = numbers[task_id]
                numbers[task_id] += 1
                path = fields.get("task_path")
                path = path if isinstance(path, str) else ""
                length = 4 * -(-len(value.data) // 3)
                yield WriteRecord(task_id, idx, channel, value, length, fields, path)
            case _:
                problem = TypedBytes("", text, problem=FORM)
                yield WriteRecord("", 0, UNKNOWN, problem, len(text), None)


def _object(text: bytes) -> dict[str, Any]:
    with suppress(ValueError, RecursionError):
        if isinstance(found := json.loads(text), dict):
            return found
    return {}


def _typed(found: Any, text: bytes) -> TypedBytes:
    match found:
        case {"type": str(tag), "data": data}:
            return from_base64(tag, data)
    return TypedBytes("", text, problem=FORM)


def _value(value: TypedBytes) -> dict[str, str]:
    return {"type": value.type, "data": b64encode(value.data).decode()}


def dumped(fields: Mapping[str, Any]) -> bytes:
    """An object as the saver stores it."""
    return raw(json.dumps(fields, ensure_ascii=False, separators=(",", ":")))


def checkpoint_text(
    fields: Mapping[str, Any],
    space: ActorSpace,
    body: TypedBytes | None,
    metadata: TypedBytes | None,
) -> bytes:
    """A checkpoint with these fields in this place, and with other values unless None."""
    made = {**fields, "session_id": space.session, **_placed(space)}
    if body is not None:
        made["checkpoint_data"] = _value(body)
    if metadata is not None:
        made["metadata"] = _value(metadata)
    return dumped(made)


def _placed(space: ActorSpace) -> dict[str, str]:
    return {
        "actor_id": space.actor,
        "thread_id": space.thread_id,
        "checkpoint_ns": space.checkpoint_ns,
    }


def new_checkpoint(record: Record, space: ActorSpace) -> bytes:
    """A new checkpoint, with its members in the order of the saver."""
    fields = {
        **{"checkpoint_id": record.key.checkpoint_id, "session_id": "", **_placed(space)},
        "parent_checkpoint_id": record.parent,
        **{"checkpoint_data": {}, "metadata": {}, "created_at": time.time()},
    }
    return checkpoint_text(fields, space, record.value, record.metadata)


def write_fields(record: Record) -> dict[str, Any]:
    """A new write."""
    return {
        "checkpoint_id": record.key.checkpoint_id,
        "task_id": record.task_id,
        "channel": record.channel,
        "value": _value(record.value),
        "task_path": record.task_path,
        "created_at": time.time(),
    }


# The records of a thread in the keys of the saver, and changes of their values.


def records_of(rows: Iterable[Row]) -> Iterator[Record]:
    """The records that the rows of one thread hold, writes before checkpoints.

    Raises `CannotHold` and `Unsupported`.
    """
    spaces: dict[str, ActorSpace] = {}
    checkpoints: list[Record] = []
    ids: dict[str, list[str]] = {}
    lists: dict[str, list[str]] = {}
    writes: list[Row] = []
    for row in rows:
        name = str(row.cells["key"])
        match row.table:
            case "checkpoint":
                record = _checkpoint(name, row.cells, spaces)
                place = spaces[name.rpartition(":")[0]].list_name
                ids.setdefault(place.decode(), []).append(record.key.checkpoint_id)
                checkpoints.append(record)
            case "writes":
                writes.append(row)  # the keys of checkpoints, which come later, tell whose they are
            case "thread":
                lists[name] = [_bytes(one).decode() for one in elements(row.cells)]
            case "channel":
                pass  # the checkpoint has the same value
            case _:
                raise Unsupported(f"a row of the unknown kind '{row.table}'")
    for row in writes:
        yield from _writes(str(row.cells["key"]), row.cells, spaces)
    yield from checkpoints
    for name, listed in lists.items():
        check_order(listed, ids.get(name, []))


def _checkpoint(name: str, cells: Mapping[str, Cell], spaces: dict[str, ActorSpace]) -> Record:
    text = _bytes(cells["value"])
    found, stored = start_of(text), stored_checkpoint(text)
    place, _, own = name.rpartition(":")
    if found is None or found.space.name(CHECKPOINT) != raw(place):
        raise Unsupported(f"'{name}' is no key of AgentCoreValkeySaver")
    spaces[place] = found.space
    where = f"checkpoint '{own}'"
    check_fields(where, stored.body.problem or stored.metadata.problem, stored.fields, _FIELDS)
    key = CheckpointKey(found.space.thread_id, found.space.checkpoint_ns, own)
    return Record.checkpoint(key, found.start.parent, stored.body, stored.metadata, expiry(cells))


def _writes(
    name: str, cells: Mapping[str, Cell], spaces: Mapping[str, ActorSpace]
) -> Iterator[Record]:
    place, _, own = name.replace(f"{START}:{WRITES}:", f"{START}:{CHECKPOINT}:", 1).rpartition(":")
    if (space := spaces.get(place)) is None:
        raise Unsupported(f"nothing tells the thread of the writes '{name}'")
    key = CheckpointKey(space.thread_id, space.checkpoint_ns, own)
    for one in stored_writes(map(_bytes, elements(cells))):
        where = f"the write to '{one.channel}' at checkpoint '{own}'"
        check_fields(where, one.value.problem, one.fields or {}, _MEMBERS)
        task = one.task_id, one.task_path, one.idx, one.channel
        yield Record.write(key, *task, one.value, expiry(cells))


def _bytes(cell: Cell) -> bytes:
    return cell if isinstance(cell, bytes) else str(cell).encode()


def edited_row(row: Row, change: ChangeValue) -> Row:
    """The row with the values that `change` returns. Raises `CannotHold` for what is unreadable."""
    name, cells = str(row.cells["key"]), dict(row.cells)
    if row.table == THREADS:
        return row
    for cell in [one for one in cells if one == "value" or one.startswith(MEMBER)]:
        kinds = {"value": ValueKind.WRITE}
        if row.table == CHECKPOINT:
            kinds = {"checkpoint_data": ValueKind.BODY, "metadata": ValueKind.METADATA}
        text = _bytes(cells[cell])
        fields = _object(text)
        for field, kind in kinds.items():
            typed, channel = _typed(fields.get(field), text), str(fields.get("channel", ""))
            placed = PlacedValue(kind, typed, f"{name}\0{cell}\0{field}", channel)
            if made := changed(placed, typed.problem, change):
                fields[field] = _value(made)
                cells[cell] = dumped(fields)
    return row if cells == row.cells else Row(row.table, cells)
