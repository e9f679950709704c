"""Compute the differences between two states, channel by channel, and their JSON form."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ckpt_backends.codec import to_json
from ckpt_backends.codec.values import Value
from ckpt_cli.core.diff.list_diff import Cells
from ckpt_cli.core.diff.value_diff import Op, diff_values
from ckpt_cli.core.values.unwrap import item_count


@dataclass(frozen=True, slots=True)
class ChannelChange:
    """A channel that differs."""

    change: Literal["added", "removed", "changed"]
    before: Value
    """None if the channel was added."""
    after: Value
    """None if the channel was removed."""
    ops: tuple[Op, ...] = ()
    """The operations inside the value, for a changed channel."""


@dataclass(frozen=True, slots=True)
class Counts:
    """How much a channel changed. An item is one entry of the channel's list, dict or object."""

    added: int
    removed: int
    changed: int

    @property
    def total(self) -> int:
        return self.added + self.removed + self.changed


def diff_channels(
    before: Mapping[str, Value], after: Mapping[str, Value]
) -> dict[str, ChannelChange]:
    """Return the channels that differ, by name."""
    changes: dict[str, ChannelChange] = {}
    cells = Cells()
    for name in sorted(before.keys() | after.keys()):
        if name not in before:
            changes[name] = ChannelChange("added", None, after[name])
        elif name not in after:
            changes[name] = ChannelChange("removed", before[name], None)
        elif ops := diff_values(before[name], after[name], cells):
            changes[name] = ChannelChange("changed", before[name], after[name], tuple(ops))
    return changes


def count(change: ChannelChange) -> Counts:
    """Return the number of items that a change added, removed and changed."""
    added = removed = 0
    changed: set[str | int | None] = set()
    for op in change.ops:
        if len(op.path) == 1 and op.op == "add":
            added += 1
        elif len(op.path) == 1 and op.op == "remove":
            removed += 1
        else:
            changed.add(op.path[0] if op.path else None)
    return Counts(
        added=item_count(change.after) if change.change == "added" else added,
        removed=item_count(change.before) if change.change == "removed" else removed,
        changed=len(changed),
    )


def sizes(change: ChannelChange) -> tuple[int, int]:
    """Return the bytes of a channel before and after, as compact JSON; 0 if it does not exist."""
    return (
        0 if change.change == "added" else json_size(change.before),
        0 if change.change == "removed" else json_size(change.after),
    )


def op_records(ops: Iterable[Op]) -> list[dict[str, Any]]:
    """Return the JSON form of ops.

    A path is a JSON pointer over keys, fields and indexes of the value itself, without the wrappers
    of the JSON form (`$set`, `$args`, `$map`).
    """
    return [_op_record(op) for op in ops]


def change_record(change: ChannelChange) -> dict[str, Any]:
    """Return the JSON form of a channel's change; a side that does not exist is null."""
    return {
        "change": change.change,
        "before": to_json(change.before),
        "after": to_json(change.after),
        "ops": op_records(change.ops),
    }


def json_size(value: Value) -> int:
    """Return the number of bytes of a value as compact JSON."""
    text = json.dumps(to_json(value), ensure_ascii=False, separators=(",", ":"))
    return len(text.encode())


def pointer(path: Iterable[str | int]) -> str:
    """Return a path as a JSON pointer (RFC 6901)."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)


def _op_record(op: Op) -> dict[str, Any]:
    record: dict[str, Any] = {"op": op.op, "path": pointer(op.path)}
    if op.moved_from is not None:
        record["from"] = pointer((*op.path[:-1], op.moved_from))
    if op.id is not None:
        record["id"] = op.id
    if op.op in ("remove", "replace"):
        record["before"] = to_json(op.before)
    if op.op in ("add", "replace"):
        record["after"] = to_json(op.after)
    return record
