"""The parts of a thread in the keys of ValkeySaver. Needs no server and no driver."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from ckpt_backends.changes.rows import Cell, Row, elements
from ckpt_backends.errors import Unsupported
from ckpt_backends.model import CheckpointKey
from ckpt_backends.redis.engine.keyspace import raw, text
from ckpt_backends.redis.valkey.key_names import key_of
from ckpt_backends.redis.valkey.stored_values import stored_checkpoint, stored_writes
from ckpt_backends.transfer.errors import CannotHold
from ckpt_backends.transfer.parts import CheckpointPart, Part, WritePart

_MEMBERS = frozenset({"task_id", "idx", "channel", "type", "value"})
_FIELDS = frozenset(
    {"thread_id", "checkpoint_id", "parent_checkpoint_id", "type", "checkpoint", "metadata"}
)


def parts_of(layout: str, rows: Iterable[Row]) -> Iterator[Part]:  # noqa: ARG001 - one layout
    """The parts that the rows of some threads hold. Raises `CannotHold` and `Unsupported`.

    Other layouts order checkpoints by their ids. So the lists must have this order, too.
    """
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
                lists[at] = [text(_bytes(one)) for one in elements(row.cells)]
            case _:
                raise Unsupported(f"a row of the unknown kind '{row.table}'")
    for at, listed in lists.items():
        _check_order(listed, ids.get(at, []))


def _checkpoint(name: str, cells: Mapping[str, Cell]) -> CheckpointPart:
    stored = stored_checkpoint(_bytes(cells["value"]))
    key = _key(name, stored.start.thread_id)
    where = f"checkpoint '{key.checkpoint_id}'"
    if problem := stored.body.problem or stored.metadata.problem:
        raise CannotHold(f"{where} cannot be read: {problem}")
    _check_members(stored.fields, _FIELDS, where)
    return CheckpointPart(key, stored.start.parent, stored.body, stored.metadata, _expiry(cells))


def _writes(name: str, cells: Mapping[str, Cell]) -> Iterator[WritePart]:
    key = _key(name, None)
    for one in stored_writes(_bytes(cells["value"])):
        where = f"the write to '{one.channel}' at checkpoint '{key.checkpoint_id}'"
        if one.value.problem:
            raise CannotHold(f"{where} cannot be read: {one.value.problem}")
        _check_members(one.fields, _MEMBERS, where)
        yield WritePart(key, one.task_id, "", one.idx, one.channel, one.value, _expiry(cells))


def _check_members(found: Mapping[str, object], known: frozenset[str], where: str) -> None:
    if more := sorted(found.keys() - known):
        raise CannotHold(f"{where} has '{more[0]}', which its saver does not store")


def _check_order(listed: list[str], ids: list[str]) -> None:
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


def _expiry(cells: Mapping[str, Cell]) -> int | None:
    at = cells.get("expires_at")
    return at if isinstance(at, int) else None


def _bytes(cell: Cell) -> bytes:
    return cell if isinstance(cell, bytes) else str(cell).encode()
