"""Apply a diff, to check that it leads to the new value."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

from ckpt_backends.codec.values import Tagged, Value
from ckpt_cli.core.diff import Op


def patch(before: Value, ops: Sequence[Op]) -> Value:
    """Return the value that results from the ops of `diff_values`."""
    if not ops:
        return before
    if not ops[0].path:
        return ops[0].after
    if isinstance(before, Tagged):
        return Tagged(before.type, patch(before.payload, ops))
    if isinstance(before, dict):
        return _patch_dict(before, ops)
    if isinstance(before, list):
        return _patch_list(before, ops)
    raise ValueError("ops of another value")


def _patch_dict(before: dict[Value, Value], ops: Sequence[Op]) -> Value:
    after = dict(before)
    for key, inner in _by_head(ops).items():
        match inner:
            case [Op(op="remove", path=())]:
                del after[key]
            case [Op(op="add", path=()) as op]:
                after[key] = op.after
            case _:
                after[key] = patch(before[key], inner)
    return after


def _patch_list(before: list[Value], ops: Sequence[Op]) -> Value:
    here = [op for op in ops if len(op.path) == 1]
    added = {op.path[0]: op.after for op in here if op.op == "add"}
    moved = {op.path[0]: op.moved_from for op in here if op.op == "move"}
    removed = {op.path[0] for op in here if op.op == "remove"}
    leaving = removed | set(moved.values())
    staying = iter([item for i, item in enumerate(before) if i not in leaving])
    after: list[Value] = []
    for j in range(len(before) - len(removed) + len(added)):
        source = moved.get(j)
        if source is not None:
            after.append(before[source])
        else:
            after.append(added[j] if j in added else next(staying))
    inside = [op for op in ops if op.op == "replace" or len(op.path) > 1]
    for head, inner in _by_head(inside).items():
        after[int(head)] = patch(after[int(head)], inner)
    return after


def _by_head(ops: Iterable[Op]) -> dict[str | int, list[Op]]:
    groups: dict[str | int, list[Op]] = defaultdict(list)
    for op in ops:
        groups[op.path[0]].append(replace(op, path=op.path[1:]))
    return groups
