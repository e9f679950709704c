"""Merge writes into a channel whose reducer is not stored.

The reducer is told, or guessed from the look of the values, as the libraries that people use write
them; then the result is always marked as assumed. The merging itself is that of `reducers`.
"""

# Without `annotations` of `__future__`: a `NamedTuple` would compile each of these texts.
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from types import MappingProxyType
from typing import NamedTuple

from ckpt_backends.codec.values import Tagged, Value
from ckpt_backends.errors import UsageError
from ckpt_cli.core.replay.add_messages import are_message_likes, clears_all, converted, settled
from ckpt_cli.core.replay.reducers import (
    ABSENT,
    REDUCERS,
    Held,
    is_override,
    overwrite,
)
from ckpt_cli.core.values.equality import same

_BEFORE, _NEWEST = "1.2.23", "1.2.24"
"""From the second on, `REMOVE_ALL_MESSAGES` empties a DeltaChannel of messages."""
JAVASCRIPT = "javascript"
"""In place of a release: `messagesDeltaReducer` of LangGraph.js always let it empty the list."""
_SET = "builtins.set"
_EMPTY: Mapping[str, Value] = {
    "dict_merge": {},
    "dict_patch": {},
    "set_union": Tagged(_SET, []),
}
"""What a DeltaChannel holds after `Overwrite(None)`, by its reducer; otherwise an empty list."""


class Rules(NamedTuple):
    """How values that are not stored are rebuilt, as far as the user told it."""

    reducers: Mapping[str, str] = MappingProxyType({})
    """Maps a channel to its reducer, also as `NODE/CHANNEL` for the subgraph that a node calls."""
    library: str = ""
    """The release of LangGraph whose state is wanted; empty for the newest, `JAVASCRIPT` for any of
    LangGraph.js.
    """

    @property
    def clears(self) -> bool:
        """Whether that release lets `REMOVE_ALL_MESSAGES` empty a DeltaChannel."""
        if self.library in {"", JAVASCRIPT}:
            return True
        return _numbers(self.library) >= _numbers(_NEWEST)

    def told(self, graph: str, channel: str) -> str:
        """Return the reducer that was told for a channel of a graph; empty if none was."""
        label = f"{graph}/{channel}" if graph else channel
        name = self.reducers.get(label, self.reducers.get(channel, ""))
        return name if name in REDUCERS else ""

    def merge(
        self, graph: str, channel: str, base: Value, writes: Sequence[Value], *, delta: bool
    ) -> tuple[Value, str]:
        """Merge writes into a channel of a graph as `fold` does, with the reducer that was told.

        Returns the value and how the reducer is known, such as `assumed append`.
        """
        told = self.told(graph, channel)
        value, name = fold(base, writes, told, delta=delta, clears=self.clears)
        return value, f"{name}, as told" if name == told else f"assumed {name}"


NO_RULES = Rules()


def known_release(text: str) -> str:
    """Return the number of a release of LangGraph. Raises `UsageError` for any other text."""
    if re.fullmatch(r"\d{1,4}(\.\d{1,4}){1,2}", text) is None:
        raise UsageError(
            f"'{text}' is not a release of LangGraph", hint="give its number, such as 1.2.22"
        )
    return text


def _numbers(release: str) -> tuple[int, ...]:
    return tuple(map(int, release.split(".")))


def fold(
    base: Value,
    writes: Sequence[Value],
    told: str = "",
    *,
    delta: bool = False,
    clears: bool = True,
) -> tuple[Value, str]:
    """Merge writes, oldest first, into a base (None if there is none); return (value, reducer
    name).

    The last `Overwrite` among the writes replaces everything before it. `told` names the reducer,
    if it is known. `delta` is whether it is a DeltaChannel, `clears` whether `REMOVE_ALL_MESSAGES`
    empties it. Source: `DeltaChannel.replay_writes` in `langgraph/channels/delta.py`.
    """
    held: Held = ABSENT if base is None else base
    start, is_emptied = 0, False
    for i, write in enumerate(writes):
        found, replacement = overwrite(write)
        if found:
            held, start, is_emptied = replacement, i + 1, replacement is None
    rest = writes[start:]
    guesses = _guesses(base, writes)
    for name in chain((told,), guesses) if told else guesses:
        before = _EMPTY.get(name, []) if delta and is_emptied else held
        if name == "add_messages" and rest and not delta:
            before = before if before is ABSENT else converted(before)
            rest = [*map(converted, rest)]
        # Of the writes of many steps, each is the last value in its turn.
        batches = [[one] for one in rest] if name == "last_value" else [rest] if rest else []
        updates = [(batch, None) for batch in batches]
        for merged in REDUCERS[name].results_of(before, updates, clears if delta else None):
            return (None if merged is ABSENT else settled(merged)), name
    raise AssertionError("last_value takes any value")


class OtherReading(NamedTuple):
    """Another release of LangGraph reads other messages out of the same rows."""

    release: str
    """The release whose state is shown."""
    items: int
    """The number of messages that it reads."""
    other: str
    """The nearest release that reads others."""
    other_items: int

    @property
    def told(self) -> str:
        """What the user is told of a rebuilt value, after how it was rebuilt."""
        number = f"{self.other_items} message{'' if self.other_items == 1 else 's'}"
        if self.release == _NEWEST:
            return f"; LangGraph {self.other} and earlier read {number}"
        side = "later" if self.other == _NEWEST else "earlier"
        return f" as by LangGraph {self.release}; {self.other} and {side} read {number}"


def other_reading(
    rules: Rules, graph: str, channel: str, value: Value, base: Value, writes: Sequence[Value]
) -> OtherReading | None:
    """Return which release reads other messages than `value`; None if all read the same.

    `base` and `writes` are what the rules made `value` of, for a DeltaChannel.
    """
    if rules.library == JAVASCRIPT or not clears_all(writes):
        return None
    told = rules.told(graph, channel)
    other, name = fold(base, writes, told, delta=True, clears=not rules.clears)
    if name != "add_messages" or same(value, other):
        return None
    counts = [len(one) if isinstance(one, list) else 0 for one in (value, other)]
    release = rules.library or _NEWEST
    return OtherReading(release, counts[0], _BEFORE if rules.clears else _NEWEST, counts[1])


def one_step(writes: Sequence[Value]) -> Sequence[Value]:
    """Return those of the writes of one step that count: an `Overwrite` counts alone."""
    return next(([one] for one in writes if overwrite(one)[0]), writes)


def _guesses(base: Value, writes: Sequence[Value]) -> Iterator[str]:
    """Yield the reducers that may merge such values, the likeliest first; the last one takes any
    value.
    """
    read = [base]
    for write in writes:
        is_whole, replacement = overwrite(write)
        read.append(replacement if is_whole else write)
    plain = [value for value in read if value is not None]
    if any(map(is_override, plain)) and any(
        isinstance(one.get("value") if is_override(one) else one, list) for one in plain
    ):
        yield "override"
    items = [item for value in plain for item in (value if isinstance(value, list) else [value])]
    if items and are_message_likes(items):
        yield "add_messages"
    if any(isinstance(value, list) for value in plain):
        yield "append"
    if plain and all(isinstance(value, dict) for value in plain):
        if _are_patches(base, writes):
            yield "dict_patch"
        yield "dict_merge"
    if plain and all(isinstance(value, Tagged) and value.type == _SET for value in plain):
        yield "set_union"
    yield "last_value"


def _are_patches(base: Value, writes: Sequence[Value]) -> bool:
    """Return whether a None in these dicts removes a key, as in the `files` of Deep Agents.

    Their keys are absolute paths, and their values dicts with the key `content`. A base that holds
    None shows that it is a value like any other.
    """
    written = [write for write in writes if isinstance(write, dict)]
    held = base if isinstance(base, dict) else {}
    if None in held.values() or not any(None in write.values() for write in written):
        return False
    keys = [key for one in (held, *written) for key in one]
    values = [value for one in (held, *written) for value in one.values() if value is not None]
    if all(isinstance(key, str) and key.startswith("/") for key in keys):
        return True
    return bool(values) and all(isinstance(one, dict) and "content" in one for one in values)
