"""Tell in short what a step changed in the state."""

# Without `annotations` of `__future__`: a `NamedTuple` would compile each of these texts.
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from ckpt_backends.codec.values import Value
from ckpt_cli.core.conversation.messages import as_message, said
from ckpt_cli.core.values.equality import same

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
