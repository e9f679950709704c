"""What a replay reports: verdicts of channels, and where they differ."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from ckpt_backends.changes.change import Change
from ckpt_backends.codec.values import Cut, Tagged, Value
from ckpt_cli.core.conversation import as_message
from ckpt_cli.core.elimination import (
    Check,
    Judgement,
    Pool,
    ReducerTally,
    Verdict,
    differences_of,
    is_contradictory,
    judge_thread,
    may_differ,
    verdict_of,
)
from ckpt_cli.core.forking import CheckpointPlan
from ckpt_cli.core.lineage import namespace_kind
from ckpt_cli.core.reducers import ABSENT, Held, Pending, is_empty
from ckpt_cli.core.reducers import held_fits as fits
from ckpt_cli.core.state import PREVIOUS
from ckpt_cli.core.values import is_set, same

if TYPE_CHECKING:
    from ckpt_cli.core.elimination import Differences


Place = tuple[str, str]
"""(graph, channel): the graph is the `namespace_kind` of its namespaces, `''` for the root."""


_BUILT_IN: Mapping[str, str] = {PREVIOUS: "last_value"}
"""Reducers of channels that LangGraph itself creates."""


class Transition(NamedTuple):
    """A checkpoint, and how each of its channels follows from its parent."""

    checkpoint_ns: str
    parent: str | None
    """None for the first checkpoint."""
    child: str
    step: int | None
    source: str | None
    checks: Sequence[Check]
    """Channels that were written to, or that changed."""
    kept: Sequence[str] = ()
    """Channels that nothing was written to, and that are unchanged."""


@dataclass(slots=True)
class Replayed:
    """One thread, replayed but not judged yet."""

    thread_id: str
    transitions: list[Transition] = field(default_factory=list)
    tallies: dict[Place, ReducerTally] = field(default_factory=dict)

    @property
    def is_contradictory(self) -> bool:
        """Whether a channel of the thread can only be judged with the results of other threads."""
        return any(is_contradictory(tally.masks) for tally in self.tallies.values())

    def for_pool(self) -> Replayed:
        """Return only what other threads are judged by."""
        return Replayed(self.thread_id, [], {key: one.copy() for key, one in self.tallies.items()})

    def part(self, checkpoint_ns: str, ids: Collection[str] | None) -> Replayed:
        """Return only the transitions of a namespace, or of some of its checkpoints.

        Their reducers are still judged by the whole thread.
        """
        chosen = [
            one
            for one in self.transitions
            if one.checkpoint_ns == checkpoint_ns and (ids is None or one.child in ids)
        ]
        return Replayed(self.thread_id, chosen, self.tallies)

    def add_to(self, pool: Pool) -> None:
        """Add the results of this thread to the pool."""
        for (_, channel), tally in self.tallies.items():
            pool.add(channel, tally.masks)


class FailedCheck(NamedTuple):
    """A channel of a transition that does not follow from its writes, or cannot be verified."""

    transition: Transition
    channel: str
    verdict: Verdict
    reason: str
    differences: Differences | None = None
    """Where the stored value differs, if the verdict is a mismatch."""


class ChannelReport(NamedTuple):
    """What is known about one channel of one graph."""

    judgement: Judgement
    verdicts: Mapping[Verdict, int]


class ReplayReport(NamedTuple):
    """The result of replaying a thread."""

    thread_id: str
    verdicts: Mapping[Verdict, int]
    """Number of transitions by the worst verdict among their channels."""
    channels: Mapping[Place, ChannelReport]
    findings: tuple[FailedCheck, ...]
    assumed: int
    """Number of channel transitions that match only in an order of tasks that is not stored."""

    @property
    def transitions(self) -> int:
        return sum(self.verdicts.values())


def label(place: Place) -> str:
    """Return the name of a channel; in a subgraph, it follows the node that calls the subgraph."""
    graph, channel = place
    return f"{graph}/{channel}" if graph else channel


def judged(found: Replayed, pool: Pool, chosen: Mapping[str, str]) -> dict[Place, Judgement]:
    """Judge the reducers of a thread's channels. `chosen` names reducers by label or by channel."""
    judgements: dict[Place, Judgement] = {}
    for place, tally in sorted(found.tallies.items()):
        told = chosen.get(label(place), chosen.get(place[1], _BUILT_IN.get(place[1])))
        one = judge_thread(tally.masks, pool.known(place[1], tally.masks), told)
        judgements[place] = one._replace(differs=may_differ(tally.checks, one))
    return judgements


def verdicts(
    transition: Transition, judgements: Mapping[Place, Judgement]
) -> Iterator[tuple[Check, Verdict, str]]:
    """Yield each channel that was checked in a transition, with its verdict and the reason."""
    graph = namespace_kind(transition.checkpoint_ns)
    for check in transition.checks:
        yield check, *verdict_of(check, judgements[graph, check.channel])


def judge_all(
    threads: Iterable[Replayed], chosen: Mapping[str, str]
) -> Iterator[tuple[Replayed, dict[Place, Judgement]]]:
    """Yield each thread with the reducers of its channels.

    Threads keep their order, except those that contradict themselves: these come last and are
    judged by the results of all threads.
    """
    pool = Pool()
    waiting: list[Replayed] = []
    for found in threads:
        found.add_to(pool)
        if found.is_contradictory:
            waiting.append(found)
        else:
            yield found, judged(found, pool, chosen)
    for found in waiting:
        yield found, judged(found, pool, chosen)


def report(found: Replayed, judgements: Mapping[Place, Judgement]) -> ReplayReport:
    """Count the verdicts of a thread and collect its findings."""
    totals: Counter[Verdict] = Counter()
    counts: dict[Place, Counter[Verdict]] = {}
    findings: list[FailedCheck] = []
    assumed = 0
    for transition in found.transitions:
        worst = Verdict.MATCH
        graph = namespace_kind(transition.checkpoint_ns)
        for name in transition.kept:
            counts.setdefault((graph, name), Counter())[Verdict.MATCH] += 1
        for check, verdict, reason in verdicts(transition, judgements):
            counts.setdefault((graph, check.channel), Counter())[verdict] += 1
            if verdict is Verdict.MATCH:
                assumed += bool(check.assumed & judgements[graph, check.channel].mask)
                continue
            differs = differences_of(check, judgements[graph, check.channel])
            findings.append(FailedCheck(transition, check.channel, verdict, reason, differs))
            worst = verdict if worst is not Verdict.MISMATCH else worst
        totals[worst] += 1
    channels = {
        place: ChannelReport(one, dict(counts[place]))
        for place, one in judgements.items()
        if place in counts
    }
    return ReplayReport(found.thread_id, dict(totals), channels, tuple(findings), assumed)


# Find out what may have made a value that does not follow from its writes.
#
# An application's own reducer may drop, reorder, cut or count what it merges, and so differ from
# the known reducer that explained all steps before. It does not invent texts. Code that changes a
# value in place, while LangGraph saves it in the background, leaves what later steps write in an
# earlier row. And a message is not always loaded as it was stored.


_MADE_AT_MERGE = frozenset({"id", "type", "role", "status"})
"""Fields of messages that `add_messages` fills."""
_DEEPEST = 20
"""Levels of a value in which messages are looked for."""
_IMMUTABLE = (str, int, float, bytes, type(None), type(ABSENT))


def has_foreign_text(value: Value, sources: Iterable[Value]) -> bool:
    """Return whether a value contains a text that is neither in its sources nor a part of one."""
    known: set[str] = set()
    for source in sources:
        known.update(_texts(source))
    return any(
        text not in known and not any(text in longer for longer in known) for text in _texts(value)
    )


def is_cut(expected: Held, stored: Held) -> bool:
    """Return whether a value is the expected one without some parts.

    That is a list without some items, a set without some members, a part of a text, or a dict
    without keys to which None was written.
    """
    if isinstance(expected, Tagged) and isinstance(stored, Tagged) and is_set(expected):
        expected, stored = expected.payload, stored.payload
    if isinstance(expected, list) and isinstance(stored, list):
        rest = iter(expected)
        return all(any(same(item, other) for other in rest) for item in stored)
    if isinstance(expected, dict) and isinstance(stored, dict):
        return stored.keys() <= expected.keys() and all(
            same(value, stored[key]) if key in stored else value is None
            for key, value in expected.items()
        )
    return isinstance(expected, str) and isinstance(stored, str) and stored in expected


def is_edited(base: Held, expected: Held, stored: Held) -> bool:
    """Return whether a list or dict differs only in items that were in it before."""
    if isinstance(base, list) and isinstance(expected, list) and isinstance(stored, list):
        old = len(base)
        return old > 0 and len(expected) >= old and fits(expected[old:], stored[old:])
    if isinstance(base, dict) and isinstance(expected, dict) and isinstance(stored, dict):
        new = [
            key for key, value in expected.items() if key not in base or not same(base[key], value)
        ]
        return bool(base) and all(key in stored and same(expected[key], stored[key]) for key in new)
    return False


def is_beyond(reducer: str, base: Held, expected: Held, stored: Held) -> bool:
    """Return whether no writes at all lead a reducer from the value before to the stored one.

    Then it was another function that merged them. If some would, the row of a write may have been
    changed. A `RemoveMessage` is left out, since what it removes is compared before.
    """
    if is_empty(stored) and not is_empty(base):
        return reducer in _KEEPING
    match reducer, base, stored:
        case ("append", list(), list()):
            return not same(base, stored[: len(base)])
        case ("add_messages" | "add_messages_1.2.23", list(), list()):
            old = [_identity(one) for one in base]
            return old != [_identity(one) for one in stored[: len(old)]]
        case ("dict_merge" | "dict_patch", dict(), dict()):
            is_lost = reducer == "dict_merge" and not base.keys() <= stored.keys()
            return is_lost or _has_merged(base, expected, stored)
        case ("set_union", Tagged(_, list() as old), Tagged(_, list() as new)):
            return not all(any(same(one, other) for other in new) for one in old)
        case ("sum", int() | float(), int() | float()) if isinstance(expected, int | float):
            return (stored - base) * (expected - base) < 0
        case ("concat", str(), str()):
            return not stored.startswith(base)
    return False


_KEEPING = frozenset(
    {"append", "add_messages", "add_messages_1.2.23", "dict_merge", "set_union", "sum", "concat"}
)
"""Reducers that never leave an empty value after another one, but for an `Overwrite`."""


def _identity(value: Value) -> Value:
    """Return what a message keeps while it is changed in place, or any other value."""
    message = as_message(value)
    return value if message is None or message.id is None else message.id


def _has_merged(base: Mapping[Value, Value], expected: Held, stored: Mapping[Value, Value]) -> bool:
    """Return whether a key holds parts of its value before and of what was written, and no more."""
    if not isinstance(expected, dict):
        return False
    for key, value in stored.items():
        if key not in base or key not in expected or same(value, expected[key]):
            continue
        parts, old, new = (set(_parts(one)) for one in (value, base[key], expected[key]))
        if parts <= old | new and old <= parts and new <= parts:
            return True
    return False


def is_tidied(expected: Held, stored: Held) -> bool:
    """Return whether a value is the expected one as code of an application often leaves it.

    That is a list without its oldest items; a text that is cut, or in another case or spacing; an
    object with more or fewer fields, since another release of its class has stored it.
    """
    if isinstance(expected, list) and isinstance(stored, list) and 0 < len(stored) < len(expected):
        return fits(expected[-len(stored) :], stored)
    if isinstance(expected, str) and isinstance(stored, str):
        return bool(stored) and (stored in expected or _letters(expected) == _letters(stored))
    return expected is not ABSENT and stored is not ABSENT and _is_alike(expected, stored)


def _letters(text: str) -> str:
    return "".join(text.split()).casefold()


def _is_alike(expected: Value, stored: Value, depth: int = 0) -> bool:
    """Return whether two values differ only in which fields their objects have."""
    if depth > _DEEPEST or same(expected, stored):
        return depth <= _DEEPEST
    match expected, stored:
        case (list(), list()):
            return len(expected) == len(stored) and all(
                _is_alike(one, other, depth + 1)
                for one, other in zip(expected, stored, strict=True)
            )
        case (dict(), dict()):
            return expected.keys() == stored.keys() and all(
                _is_alike(value, stored[key], depth + 1) for key, value in expected.items()
            )
        case (Tagged(kind, dict() as old), Tagged(other, dict() as new)) if kind == other:
            both = old.keys() & new.keys()
            return bool(both) and all(_is_alike(old[key], new[key], depth + 1) for key in both)
        case (Tagged(kind, old), Tagged(other, new)) if kind == other:
            return _is_alike(old, new, depth + 1)
    return False


def is_shortened(base: Held, stored: Held) -> bool:
    """Return whether a list lost its last items."""
    if not (isinstance(base, list) and isinstance(stored, list) and len(stored) < len(base)):
        return False
    return same(base[: len(stored)], stored)


def is_changeable(value: Held) -> bool:
    """Return whether code can change such a value in place."""
    return not isinstance(value, _IMMUTABLE)


def out_of_place(stored: Held, wrote: Iterable[Value], sources: Iterable[Held]) -> set[str] | None:
    """Return the texts by which a value differs from what it was made of.

    These are texts of the value that none of its sources has, and written ones that are not in it.
    The set is empty if the value differs only by its numbers. Returns None if a change in place
    cannot explain it: if the value is missing, or has all the same parts.
    """
    written = list(wrote)
    if not is_changeable(stored):
        return None
    parts = set(_parts(stored))
    known = {part for one in (*written, *sources) for part in _parts(one)}
    odd = (parts - known) | ({part for one in written for part in _parts(one)} - parts)
    return {part for part in odd if isinstance(part, str)} if odd else None


def texts_of(values: Iterable[Value]) -> set[str]:
    """Return all texts in some values, with the keys of dicts."""
    return {part for value in values for part in _parts(value) if isinstance(part, str)}


def as_loaded(value: Held) -> Held:
    """Return a value with its messages in one form, however they were stored and loaded.

    LangChain brings tool calls into its own form when a message is made, and so when it is loaded
    (`_backwards_compat_tool_calls` in `langchain_core/messages/ai.py`, `coerce_args` in `tool.py`).
    A node that assigns them to a message stores them as they are. Newer releases also add fields
    with their defaults. Returns the same object if it holds no message.
    """
    return ABSENT if value is ABSENT else loaded_value(value)


def loaded_value(value: Value, depth: int = 0) -> Value:
    """Return the same for a value that is there."""
    if depth > _DEEPEST:
        return value
    if isinstance(value, Pending):
        return Pending(value.type, loaded_value(value.payload, depth))
    if isinstance(value, Tagged):
        fields = value.payload
        if isinstance(fields, dict) and "content" in fields and "Message" in value.type:
            return Tagged(value.type, _message_fields(fields))
        inner = loaded_value(value.payload, depth + 1)
        return value if inner is value.payload else Tagged(value.type, inner)
    if isinstance(value, list):
        items = [loaded_value(item, depth + 1) for item in value]
        is_kept = all(one is other for one, other in zip(items, value, strict=True))
        return value if is_kept else items
    if isinstance(value, dict):
        found = {key: loaded_value(item, depth + 1) for key, item in value.items()}
        return value if all(found[key] is item for key, item in value.items()) else found
    return value


def _message_fields(fields: Mapping[Value, Value]) -> dict[Value, Value]:
    """Return the fields of a message without empty ones, its tool calls in LangChain's form."""
    found = dict(fields)
    extra = found.get("additional_kwargs")
    raw = extra.get("tool_calls") if isinstance(extra, dict) else None
    if isinstance(raw, list) and not any(found.get(name) for name in _CALLS):
        found.update(_parsed_calls(raw))
    for name, kind in _CALLS.items():
        calls = found.get(name)
        if isinstance(calls, list) and all(isinstance(call, dict) for call in calls):
            blank = _BLANK if name == "invalid_tool_calls" else {}
            found[name] = [{**blank, **_without_kind(call), "type": kind} for call in calls]
    if "tool_call_id" in found:
        found |= {name: _as_text(found.get(name)) for name in ("tool_call_id", "content")}
    return {name: value for name, value in found.items() if value not in _EMPTY}


_CALLS = {
    "tool_calls": "tool_call",
    "invalid_tool_calls": "invalid_tool_call",
    "tool_call_chunks": "tool_call_chunk",
}
_BLANK: Mapping[Value, Value] = {"name": None, "args": None, "id": None, "error": None}
_EMPTY: tuple[Value, ...] = (None, False, [], {})


def _without_kind(call: Value) -> dict[Value, Value]:
    fields = call if isinstance(call, dict) else {}
    return {name: value for name, value in fields.items() if name not in {"type", "extras"}}


def _as_text(value: Value) -> Value:
    return str(value) if isinstance(value, int | float) else value


def _parsed_calls(raw: list[Value]) -> dict[Value, Value]:
    """Parse the calls that a provider's API returned, as `default_tool_parser` does."""
    good: list[Value] = []
    bad: list[Value] = []
    for call in raw:
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(call, dict) or not isinstance(function, dict):
            continue
        shared: dict[Value, Value] = {"name": function.get("name"), "id": call.get("id")}
        text = function.get("arguments")
        try:
            good.append({**shared, "args": json.loads(str(text)) or {}})
        except ValueError:
            bad.append({**shared, "args": text})
    return {"tool_calls": good, "invalid_tool_calls": bad}


def _texts(root: Value) -> Iterator[str]:
    """Yield the texts of a value, without what `add_messages` fills in."""
    return (part for part in _parts(root, _MADE_AT_MERGE) if isinstance(part, str))


def _parts(root: Held, left_out: frozenset[str] = frozenset()) -> Iterator[str | int | float]:
    """Yield the texts, keys and numbers of a value, without some fields of objects."""
    todo: list[Held] = [root]
    while todo:
        item = todo.pop()
        if isinstance(item, str | int | float):
            yield item
        elif isinstance(item, list):
            todo += item
        elif isinstance(item, dict):
            todo += item.keys()
            todo += item.values()
        elif isinstance(item, Tagged) and isinstance(item.payload, dict):
            todo += (part for name, part in item.payload.items() if name not in left_out)
        elif isinstance(item, Tagged):
            todo.append(item.payload)
        elif isinstance(item, Cut):
            todo.append(item.kept)


@dataclass(frozen=True, slots=True)
class DamagedValue:
    """The value of a channel at one version, and the first checkpoint that refers to it."""

    checkpoint_ns: str
    checkpoint_id: str
    step: int | None
    channel: str
    version: str


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """A value that the repair restores."""

    place: DamagedValue
    reducers: tuple[str, ...]
    """All reducers that explain the channel; they produce the same value."""
    evidence: int
    value: Value
    bytes: int
    replaces: bool
    """Whether an unreadable value is stored there now."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A value that is missing or unreadable and cannot be restored."""

    place: DamagedValue
    reason: str


@dataclass(frozen=True, slots=True)
class Repair:
    """The whole plan."""

    thread_id: str
    rebuilt: tuple[Rebuilt, ...]
    refused: tuple[Refusal, ...]
    change: Change
    plan: CheckpointPlan | None = None
    """The copy of the head that gets the values; None in layouts that store values apart."""
