"""Compute the difference of two values as operations that turn one into the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, cast

from ckpt_backends.codec.values import Tagged, Value
from ckpt_cli.core.conversation.messages import as_message
from ckpt_cli.core.diff.list_diff import (
    Cells,
    Pairs,
    by_identity,
    common_subsequence,
    in_order,
    pair_gaps,
)
from ckpt_cli.core.values.equality import Numbers, is_set, same_start

Path: TypeAlias = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Op:
    """One difference between two values.

    Each op is independent of the others. The last index of a removed item refers to the list
    before; all other indexes refer to the list after. Members of a set have an index too.
    """

    op: Literal["add", "remove", "replace", "move"]
    path: Path
    before: Value = None
    """The old value, for `remove` and `replace`."""
    after: Value = None
    """The new value, for `add` and `replace`."""
    id: str | None = None
    """Id of the message at this place, or around it."""
    moved_from: int | None = None
    """Index in the list before; for `move`."""


def diff_values(before: Value, after: Value, cells: Cells | None = None) -> list[Op]:
    """Return the operations that turn one value into the other; empty exactly if they are equal.

    Pass the same `cells` to all comparisons that belong to one answer.
    """
    numbers = _Numbers(cells or Cells())
    if isinstance(before, list) and isinstance(after, list):
        # Most channels that grow are long lists of which only the end is new.
        start = same_start(before, after)
        if start == len(before) == len(after):
            return []
        return list(_diff_lists(before, after, (), numbers, start))
    return list(_diff(before, after, (), numbers))


class _Numbers(Numbers):
    """Numbers the values of one comparison, and holds the remaining budget for comparing lists."""

    def __init__(self, cells: Cells) -> None:
        super().__init__()
        self.cells = cells


def _diff(before: Value, after: Value, path: Path, numbers: _Numbers) -> Iterator[Op]:
    if numbers(before) == numbers(after):
        return
    inner_before, inner_after = before, after
    if isinstance(before, Tagged) and isinstance(after, Tagged) and before.type == after.type:
        inner_before, inner_after = before.payload, after.payload
    if isinstance(inner_before, dict) and isinstance(inner_after, dict):
        if _plain_keys(inner_before) and _plain_keys(inner_after):
            yield from _diff_dicts(inner_before, inner_after, path, numbers)
            return
    elif isinstance(inner_before, list) and isinstance(inner_after, list):
        if is_set(before):
            yield from _diff_sets(inner_before, inner_after, path, numbers)
        else:
            yield from _diff_lists(inner_before, inner_after, path, numbers)
        return
    yield Op("replace", path, before, after)


def _diff_dicts(
    before: dict[Value, Value], after: dict[Value, Value], path: Path, numbers: _Numbers
) -> Iterator[Op]:
    for key, value in before.items():
        place = (*path, cast("str | int", key))
        if key in after:
            yield from _diff(value, after[key], place, numbers)
        else:
            yield Op("remove", place, before=value)
    for key, value in after.items():
        if key not in before:
            yield Op("add", (*path, cast("str | int", key)), after=value)


def _diff_sets(
    before: list[Value], after: list[Value], path: Path, numbers: _Numbers
) -> Iterator[Op]:
    gone = Counter(map(numbers, before)) - Counter(map(numbers, after))
    new = Counter(map(numbers, after)) - Counter(map(numbers, before))
    for i in _take(map(numbers, before), gone):
        yield Op("remove", (*path, i), before=before[i])
    for j in _take(map(numbers, after), new):
        yield Op("add", (*path, j), after=after[j])


def _diff_lists(
    before: list[Value], after: list[Value], path: Path, numbers: _Numbers, start: int = 0
) -> Iterator[Op]:
    """Compare two lists of which the first `start` items are equal."""
    ids_before, ids_after = _message_ids(before), _message_ids(after)
    if any(ids_before) or any(ids_after):
        pairs = _pairs_by_id(before, after, ids_before, ids_after, numbers, start)
    else:
        pairs = _pairs_by_place(before, after, numbers, start)
    kept = dict(pairs)
    sources = {j: i for i, j in pairs}
    i = j = start
    # Go from one item that kept its place to the next, as a person would compare two lists.
    for next_i, next_j in [*in_order(pairs), (len(before), len(after))]:
        for k in range(i, next_i):
            if k not in kept:
                yield Op("remove", (*path, k), before=before[k], id=ids_before[k])
        for k in range(j, min(next_j + 1, len(after))):
            source = sources.get(k)
            if source is None:
                yield Op("add", (*path, k), after=after[k], id=ids_after[k])
                continue
            if k != next_j:
                yield Op("move", (*path, k), id=ids_after[k], moved_from=source)
            for op in _diff(before[source], after[k], (*path, k), numbers):
                yield op if op.id else replace(op, id=ids_after[k])
        i, j = next_i + 1, next_j + 1


def _pairs_by_place(
    before: list[Value], after: list[Value], numbers: _Numbers, start: int
) -> Pairs:
    old, new = [*map(numbers, before[start:])], [*map(numbers, after[start:])]
    pairs = pair_gaps(common_subsequence(old, new, numbers.cells), len(old), len(new))
    return [(start + i, start + j) for i, j in pairs]


def _pairs_by_id(
    before: list[Value],
    after: list[Value],
    ids_before: Sequence[str | None],
    ids_after: Sequence[str | None],
    numbers: _Numbers,
    start: int,
) -> Pairs:
    # An id can occur again after the equal items, so it is looked for in all of them.
    pairs = [pair for pair in by_identity(ids_before, ids_after) if pair[0] >= start]
    paired_before, paired_after = {i for i, _ in pairs}, {j for _, j in pairs}
    rest_before = [i for i in range(start, len(before)) if i not in paired_before]
    rest_after = [j for j in range(start, len(after)) if j not in paired_after]
    equal = common_subsequence(
        [numbers(before[i]) for i in rest_before],
        [numbers(after[j]) for j in rest_after],
        numbers.cells,
    )
    return sorted(pairs + [(rest_before[i], rest_after[j]) for i, j in equal])


def _message_ids(items: list[Value]) -> list[str | None]:
    """Return the ids of a list of messages; only None if the list holds anything else."""
    ids = []
    for item in items:
        message = as_message(item)
        if message is None:
            return [None] * len(items)
        ids.append(message.id)
    return ids


def _plain_keys(value: dict[Value, Value]) -> bool:
    return all(type(key) in (str, int) for key in value)


def _take(numbers: Iterable[int], wanted: Counter[int]) -> Iterator[int]:
    """Yield the positions of the first items of each number, up to its wanted count."""
    for position, number in enumerate(numbers):
        if wanted[number] > 0:
            wanted[number] -= 1
            yield position
