"""What differs between two values, two states, or a checkpoint and its parent."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, TypeAlias, cast

from ckpt_backends.codec import to_json
from ckpt_backends.codec.values import Cut, Tagged, Value
from ckpt_cli.core.conversation import as_message, said
from ckpt_cli.core.state import Body
from ckpt_cli.core.values import Numbers, is_set, item_count, same, same_start

Pairs: TypeAlias = list[tuple[int, int]]
"""Positions (before, after), ordered by the position before."""

MAX_CELLS = 400_000
"""Largest table that is filled for one pair of lists (takes about a tenth of a second)."""


@dataclass(slots=True)
class Cells:
    """Remaining size of all tables of one comparison together: a value can contain many lists."""

    left: int = 5 * MAX_CELLS


def common_subsequence(before: Sequence[int], after: Sequence[int], cells: Cells) -> Pairs:
    """Return the positions of a longest common subsequence; of long lists only common ends."""
    start = 0
    while start < min(len(before), len(after)) and before[start] == after[start]:
        start += 1
    end = 0
    while end < min(len(before), len(after)) - start and before[-1 - end] == after[-1 - end]:
        end += 1
    rows, columns = len(before) - start - end, len(after) - start - end
    middle: Pairs = []
    if 0 < rows * columns <= min(MAX_CELLS, cells.left):
        cells.left -= rows * columns
        inner = _longest(before[start : start + rows], after[start : start + columns])
        middle = [(start + i, start + j) for i, j in inner]
    head = [(k, k) for k in range(start)]
    tail = [(start + rows + k, start + columns + k) for k in range(end)]
    return head + middle + tail


def by_identity(before: Sequence[str | None], after: Sequence[str | None]) -> Pairs:
    """Return the positions of items with an id that occurs once on each side, in any order."""
    once = _once(before) & _once(after)
    places = {ident: j for j, ident in enumerate(after) if ident in once}
    return [(i, places[ident]) for i, ident in enumerate(before) if ident in places]


def in_order(pairs: Pairs) -> Pairs:
    """Return the largest set of pairs that keep their order; the other pairs have moved."""
    tails: list[int] = []
    ends: list[int] = []
    previous: list[int] = []
    for index, (_, j) in enumerate(pairs):
        length = bisect_left(tails, j)
        previous.append(ends[length - 1] if length else -1)
        tails[length : length + 1] = [j]
        ends[length : length + 1] = [index]
    chosen: Pairs = []
    index = ends[-1] if ends else -1
    while index >= 0:
        chosen.append(pairs[index])
        index = previous[index]
    return chosen[::-1]


def pair_gaps(pairs: Pairs, rows: int, columns: int) -> Pairs:
    """Return the pairs, plus pairs of items at the same position in the gaps between them."""
    filled: Pairs = []
    i = j = 0
    for next_i, next_j in [*pairs, (rows, columns)]:
        filled += zip(range(i, next_i), range(j, next_j), strict=False)
        filled.append((next_i, next_j))
        i, j = next_i + 1, next_j + 1
    return filled[:-1]


def _longest(before: Sequence[int], after: Sequence[int]) -> Pairs:
    lengths = [[0] * (len(after) + 1)]
    for item in reversed(before):
        below = lengths[-1]
        row = [0] * (len(after) + 1)
        for j in range(len(after) - 1, -1, -1):
            row[j] = below[j + 1] + 1 if item == after[j] else max(below[j], row[j + 1])
        lengths.append(row)
    lengths.reverse()
    pairs: Pairs = []
    i = j = 0
    while i < len(before) and j < len(after):
        if before[i] == after[j]:
            pairs.append((i, j))
            i, j = i + 1, j + 1
        elif lengths[i + 1][j] >= lengths[i][j + 1]:
            i += 1
        else:
            j += 1
    return pairs


def _once(idents: Sequence[str | None]) -> set[str]:
    return {ident for ident, n in Counter(idents).items() if n == 1 and ident is not None}


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


def json_size(value: Value) -> int:
    """Return the number of bytes of a value as compact JSON."""
    text = json.dumps(to_json(value), ensure_ascii=False, separators=(",", ":"))
    return len(text.encode())


def pointer(path: Iterable[str | int]) -> str:
    """Return a path as a JSON pointer (RFC 6901)."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)


def op_record(op: Op) -> dict[str, Any]:
    """Return an op as JSON.

    A path is a JSON pointer over keys, fields and indexes of the value itself, without the wrappers
    of the JSON form (`$set`, `$args`, `$map`).
    """
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


_ABSENT = Cut(None, 0, "absent")
_COMPARED = 64 * 1024
"""Maximum stored bytes of a value that is read to be compared."""


def changed(channel: str, before: Body | None, after: Body) -> bool | None:
    """Return whether the value of a channel changed; None if values decide that were not read.

    An equal version means an equal value. Nodes often write a value that was there before: with
    another version, the values are compared, unless they are long. `before` is None at a checkpoint
    without a stored parent: there, all channels that it has are new.
    """
    version, value = after.versions.get(channel), after.values.get(channel, _ABSENT)
    if before is None:
        return version is not None or value is not _ABSENT
    earlier, old = before.versions.get(channel), before.values.get(channel, _ABSENT)
    if version is not None and version == earlier:
        return False
    if old is _ABSENT or value is _ABSENT:
        # Without both values, as of a DeltaChannel between two snapshots, the versions decide.
        return old is not value or version != earlier
    if isinstance(old, Cut) and isinstance(value, Cut):
        return None if old.size == value.size <= _COMPARED else True
    return not same(old, value)


_LONGEST_PLAIN = 200
"""Characters of a text that is told as it is."""


class StepChanges(NamedTuple):
    """The channels that a step changed."""

    channels: tuple[str, ...]
    """In the order of their names."""
    added: Mapping[str, Sequence[Value]]
    """For each of these that is a list and only grew, the new items; at least one."""
    turned: Mapping[str, Sequence[Value]] = {}
    """For each of these with plain values: the one before, if it had one, and the one after."""
    grown: Mapping[str, int] = {}
    """For lists of which the new items are not known: how many items they have more."""


class BriefState(NamedTuple):
    """What is remembered of a state to tell what the next step changed in it."""

    plain: Mapping[str, Value]
    """Values that are short."""
    lengths: Mapping[str, int]
    """The number of items in each list."""
    channels: Collection[str] = ()
    """All channels that have a value, also if it is not known."""


class ShortChange(NamedTuple):
    """What a step changed in one channel, in texts of one line each."""

    name: str
    added: int = 0
    """Number of items that were added to the list."""
    last: str | None = None
    """The last of these, if they are messages."""
    before: str | None = None
    after: str | None = None
    """The value, if it is plain."""


def step_changes(
    changed: Collection[str], before: Mapping[str, Value], after: Mapping[str, Value]
) -> StepChanges:
    """Return what a step changed; `changed` are the channels that it wrote.

    `before` and `after` have their values; one that is left out is not known, or did not exist.
    """
    added = {}
    for name in sorted(changed):
        items = _added(before.get(name, []), after.get(name))
        if items:
            added[name] = items
    return StepChanges(tuple(sorted(changed)), added, _turned(changed, before, after))


def written_changes(
    changed: Collection[str],
    before: BriefState,
    after: BriefState,
    written: Mapping[str, Sequence[Value]],
) -> StepChanges:
    """Return the same from what a step wrote, without the lists that this was merged into.

    `written` has the values that are known, by channel. Of these, only messages are told: other
    values may be merged in any way.
    """
    added, grown = {}, {}
    for name in sorted(changed):
        more = _grown(name, before, after)
        messages = _messages(written.get(name, ()))
        if more is not None:
            # A node may have written the whole list again.
            messages = messages[-more:] if 0 < more <= len(messages) else []
        if messages:
            added[name] = messages
        elif more is not None and more > 0:
            grown[name] = more
    turned = _turned(
        {name for name in changed if name in before.plain or name not in before.channels},
        before.plain,
        after.plain,
    )
    same_now = before.plain.keys() & after.plain.keys() - turned.keys()
    same_now |= {
        name
        for name, values in written.items()
        if _grown(name, before, after) == 0 and all(value == [] for value in values)
    }
    names = tuple(name for name in sorted(changed) if name not in same_now)
    return StepChanges(names, added, turned, grown)


def brief_state(values: Mapping[str, Value], channels: Collection[str]) -> BriefState:
    """Return what is remembered of a state with these channels, of which some have known values."""
    return BriefState(
        {name: value for name, value in values.items() if _is_plain(value)},
        {name: len(value) for name, value in values.items() if isinstance(value, list)},
        channels,
    )


def short_changes(found: StepChanges, say: Callable[[Value], str]) -> tuple[ShortChange, ...]:
    """Return changes as texts, messages first; `say` formats a value on one line."""
    texts = [_text(name, found, say) for name in found.channels]
    return tuple(sorted(texts, key=lambda one: (one.last is None, one.name)))


def _text(name: str, found: StepChanges, say: Callable[[Value], str]) -> ShortChange:
    if items := found.added.get(name):
        is_message = all(as_message(item) is not None for item in items)
        return ShortChange(name, len(items), say(items[-1]) if is_message else None)
    if more := found.grown.get(name):
        return ShortChange(name, more)
    if values := found.turned.get(name):
        before = say(values[0]) if len(values) > 1 else None
        return ShortChange(name, before=before, after=say(values[-1]))
    return ShortChange(name)


def _added(before: Value, after: Value) -> list[Value]:
    """Return the items that were appended to a list; none if anything else changed too."""
    if not isinstance(before, list) or not isinstance(after, list) or len(after) < len(before):
        return []
    return after[len(before) :] if same(before, after[: len(before)]) else []


def _turned(
    changed: Collection[str], before: Mapping[str, Value], after: Mapping[str, Value]
) -> dict[str, Sequence[Value]]:
    """Return the plain values that differ."""
    found: dict[str, Sequence[Value]] = {}
    for name in sorted(changed):
        if name not in after or not _is_plain(after[name]):
            continue
        if name not in before:
            found[name] = (after[name],)
        elif _is_plain(before[name]) and not same(before[name], after[name]):
            found[name] = (before[name], after[name])
    return found


def _is_plain(value: Value) -> bool:
    if isinstance(value, str):
        return len(value) <= _LONGEST_PLAIN
    return value is None or isinstance(value, bool | int | float)


def _grown(name: str, before: BriefState, after: BriefState) -> int | None:
    """Return how many items a list has more; None if that is not known."""
    if name not in after.lengths:
        return None
    if name not in before.lengths and name in before.channels:
        return None
    return after.lengths[name] - before.lengths.get(name, 0)


def _messages(written: Sequence[Value]) -> list[Value]:
    """Return the messages among written values, each alone or in a list."""
    items: list[Value] = []
    for value in map(said, written):
        items += value if isinstance(value, list) else [value]
    found = [(item, as_message(item)) for item in items]
    return [item for item, message in found if message is not None and message.role != "remove"]
