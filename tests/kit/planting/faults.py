"""The catalogue of faults: how each is planted, and the row that `ckpt doctor` must name."""

from collections.abc import Callable, Iterable
from copy import deepcopy
from dataclasses import dataclass
from enum import Enum
from typing import Any

from ckpt_backends.model import NULL_TASK_ID
from tests.kit.planting.base import Place, Planter, id_after, id_before
from tests.kit.planting.messages import again, emptying, kind_of, reworded

CHAT, ASKING, WAITING = "chat", "interrupt-alone", "breakpoint-before"
CALLING, DELTA = "subgraph", "delta-rarely"
REMEMBERING = "subgraph-stateful"
THREADS = frozenset({CHAT, ASKING, WAITING, CALLING, DELTA, REMEMBERING})
"""The scenarios of which copies are damaged."""
NEW = ""
"""In place of a scenario: the fault makes its own thread."""
TASK = "11111111-1111-6111-8111-111111111111"
"""A task that no graph has run."""


@dataclass(frozen=True, slots=True)
class Named:
    """What a finding must name; None if it names no such thing."""

    place: Place
    channel: str | None = None
    task_id: str | None = None
    in_depth: Place | None = None
    """The checkpoint that `--deep` names, if it is another."""


@dataclass(frozen=True, slots=True)
class PlantedFault:
    """One way in which a code comes about."""

    code: str
    how: str
    """What is changed, in a few words; unique within a code."""
    plant: Callable[[Planter[Any], str], Named]
    """Plants it into a thread, and returns what the finding must name."""
    thread: str = CHAT
    """The scenario of the thread."""
    deep: bool = True
    """Whether only `--deep` finds it."""
    types: bool = False
    """Whether only `--types` finds it."""
    follows: frozenset[str] = frozenset()
    """Further codes that the change causes, at whatever rows."""
    needs: frozenset[str] = frozenset()
    """`inner values`, where values are stored in bodies, or `spoilt values`, where one can be
    undecodable alone."""


FAULTS: list[PlantedFault] = []
Plant = Callable[[Planter[Any], str], Named]
PlantAt = Callable[[Planter[Any], Place], Named]


def fault(
    code: str,
    how: str,
    *,
    thread: str = CHAT,
    deep: bool = True,
    types: bool = False,
    follows: Iterable[str] = (),
    needs: Iterable[str] = (),
) -> Callable[[Plant], Plant]:
    """Add a fault of a thread to the catalogue."""

    def register(plant: Plant) -> Plant:
        FAULTS.append(
            PlantedFault(
                code, how, plant, thread, deep, types, frozenset(follows), frozenset(needs)
            )
        )
        return plant

    return register


def fault_at(code: str, how: str, *, at: int = 0, **options: Any) -> Callable[[PlantAt], PlantAt]:
    """Add a fault of a checkpoint, counted from the head, to the catalogue."""

    def register(plant: PlantAt) -> PlantAt:
        add = fault(code, how, **options)
        add(lambda rows, thread_id: plant(rows, rows.places(thread_id)[at]))
        return plant

    return register


def damage(act: Callable[[Planter[Any], Place], object], channel: str | None = None) -> PlantAt:
    """Return what changes a checkpoint, which the finding names, with the channel."""

    def plant(rows: Planter[Any], at: Place) -> Named:
        act(rows, at)
        return Named(at, channel)

    return plant


# What one call does to one checkpoint

FORGET = damage(lambda rows, at: rows.remove_value(at, "messages"), "messages")
SPOIL = damage(lambda rows, at: rows.spoil_value(at, "messages"), "messages")
SPOIL_BODY = damage(lambda rows, at: rows.spoil_body(at))
SPOIL_METADATA = damage(lambda rows, at: rows.spoil_metadata(at))
ANSWER = damage(lambda rows, at: rows.put_writes(at, [("__resume__", "yes")], NULL_TASK_ID))
GONE = {"parent-missing", "value-orphaned", "index-stale"}
"""What follows if a checkpoint is removed from the middle."""
fault_at("value-missing", "removed at the head", follows={"tool-result-orphaned"})(FORGET)
fault_at("value-unreadable", "bytes at the head", deep=False, needs={"spoilt values"})(SPOIL)
fault_at("value-unreadable", "bytes in the history", needs={"spoilt values"}, at=5)(SPOIL)
fault_at("state-mismatch", "a value removed", needs={"inner values"}, at=5)(FORGET)
for where, at, deep in (("at the head", 0, False), ("in the history", 5, True)):
    fault_at("body-unreadable", f"bytes {where}", deep=deep, at=at)(SPOIL_BODY)
    fault_at("body-unreadable", f"metadata {where}", deep=deep, at=at)(SPOIL_METADATA)
fault_at("resume-stale", "an answer to no question", thread=WAITING, deep=False)(ANSWER)
fault_at("answer-unused", "an answer to a thread that asks nothing", deep=False)(ANSWER)
fault_at("write-orphaned", "a checkpoint removed", deep=False, follows=GONE, at=6)(
    damage(lambda rows, at: rows.remove(at))
)


# Values and bodies


@fault_at("value-unreadable", "bytes of a question", thread=ASKING)
def _question_unreadable(rows: Planter[Any], head: Place) -> Named:
    return Named(head, "__interrupt__", rows.spoil_write(head, "__interrupt__"))


@fault_at("value-unreadable", "bytes of a write", follows={"state-mismatch"}, at=5)
def _write_unreadable(rows: Planter[Any], child: Place) -> Named:
    place = rows.writes_place(child)
    return Named(place, "messages", rows.spoil_write(place, "messages"))


@fault_at("state-mismatch", "a value changed")
def _value_changed(rows: Planter[Any], head: Place) -> Named:
    *others, last = rows.value(head, "messages")
    rows.set_value(head, "messages", [*others, reworded(last)])
    return Named(head, "messages")


@fault(
    "delta-unanchored",
    "the first checkpoints removed",
    thread=DELTA,
    deep=False,
    follows={
        "delta-unanchored",
        "parent-missing",
        "write-orphaned",
        "value-orphaned",
        "index-stale",
    },
)
def _anchor_removed(rows: Planter[Any], thread_id: str) -> Named:
    found = rows.places(thread_id)
    for place in found[8:]:
        rows.remove(place)
    return Named(found[0], "messages", in_depth=found[7])


@fault("state-by-library", "all messages removed", thread=DELTA, deep=False)
def _all_removed(rows: Planter[Any], thread_id: str) -> Named:
    head, _, answered, *_ = rows.places(thread_id)
    place = rows.writes_place(answered)
    rows.set_write(place, "messages", lambda found: [emptying(found[0]), *found])
    return Named(head, "messages")


@fault_at("type-dangerous", "a value at the head", deep=False, follows={"state-mismatch"})
def _dangerous_value(rows: Planter[Any], head: Place) -> Named:
    rows.set_value(head, "messages", [*rows.value(head, "messages"), rows.dangerous])
    return Named(head, "messages")


# Conversations: a row of the head, changed by hand


def _edit_messages(
    rows: Planter[Any], thread_id: str, change: Callable[[list[Any]], list[Any]]
) -> Named:
    head = rows.places(thread_id)[0]
    rows.set_value(head, "messages", change(rows.value(head, "messages")))
    return Named(head, "messages")


@fault("tool-call-unanswered", "a result removed", deep=False, follows={"state-mismatch"})
def _result_removed(rows: Planter[Any], thread_id: str) -> Named:
    def change(found: list[Any]) -> list[Any]:
        first = min(n for n, one in enumerate(found) if kind_of(one) == "tool")
        return found[:first] + found[first + 1 :]

    return _edit_messages(rows, thread_id, change)


@fault("tool-result-orphaned", "a call removed", deep=False, follows={"state-mismatch"})
def _call_removed(rows: Planter[Any], thread_id: str) -> Named:
    def change(found: list[Any]) -> list[Any]:
        last = max(n for n, one in enumerate(found) if kind_of(one) == "tool")
        return found[: last - 1] + found[last:]

    return _edit_messages(rows, thread_id, change)


@fault("message-id-duplicate", "a message doubled", deep=False, follows={"state-mismatch"})
def _message_doubled(rows: Planter[Any], thread_id: str) -> Named:
    return _edit_messages(rows, thread_id, lambda found: [*found, deepcopy(found[-1])])


@fault("tool-call-repeated", "a call made again", deep=False, follows={"state-mismatch"})
def _called_again(rows: Planter[Any], thread_id: str) -> Named:
    def change(found: list[Any]) -> list[Any]:
        result = max(n for n, one in enumerate(found) if kind_of(one) == "tool")
        both = found[result - 1 : result + 1]
        more = [again(one, number) for number in range(4) for one in both]
        return [*found[: result + 1], *more, *found[result + 1 :]]

    return _edit_messages(rows, thread_id, change)


@fault_at("messages-emptied", "an update without messages", follows={"state-mismatch"})
def _messages_emptied(rows: Planter[Any], head: Place) -> Named:
    child = rows.put(head, id_after(head.checkpoint_id), "update", messages=[])
    return Named(child, "messages")


# Serializers


@fault("plaintext-among-encrypted", "a plain write", thread=NEW)
def _plain_write(rows: Planter[Any], thread_id: str) -> Named:
    rows.put_encrypted(thread_id)
    head = rows.places(thread_id)[0]
    rows.put_writes(head, [("messages", [])], TASK)
    return Named(head, "messages", TASK)


class Mood(Enum):
    """A class of the application."""

    GOOD = "good"


@fault_at("type-blocked", "a class of the application", types=True)
def _own_class(rows: Planter[Any], head: Place) -> Named:
    rows.put_writes(head, [("mood", Mood.GOOD)], TASK)
    return Named(head, "mood")


# The line of checkpoints


@fault(
    "step-uncommitted", "the head removed", deep=False, follows={"index-stale", "value-orphaned"}
)
def _head_removed(rows: Planter[Any], thread_id: str) -> Named:
    head, before, *_ = rows.places(thread_id)
    rows.forget_head(head)
    return Named(before)


@fault("memory-of-abandoned-branch", "a new branch from the first checkpoint", thread=REMEMBERING)
def _branch_left(rows: Planter[Any], thread_id: str) -> Named:
    (ns,) = (one for one in rows.namespaces(thread_id) if one)
    memory = rows.places(thread_id, ns)[0]
    head, *_, first = rows.places(thread_id)
    rows.put(first, id_after(head.checkpoint_id), "update")
    return Named(memory)


@fault_at(
    "head-not-newest",
    "a child with a smaller id",
    deep=False,
    follows={"id-not-increasing", "state-mismatch"},
)
def _child_behind(rows: Planter[Any], head: Place) -> Named:
    child = rows.put_behind(head, id_before(head.checkpoint_id))
    return Named(child.at(rows.parent(child) or ""))


@fault_at(
    "id-not-increasing",
    "a child with a smaller id",
    deep=False,
    follows={"head-not-newest", "state-mismatch"},
)
def _smaller_id(rows: Planter[Any], head: Place) -> Named:
    return Named(rows.put_behind(head, id_before(head.checkpoint_id)))


@fault_at("clock-ahead", "a head of tomorrow", deep=False)
def _tomorrow(rows: Planter[Any], head: Place) -> Named:
    return Named(rows.put_ahead(head))


@fault(
    "parent-missing",
    "a checkpoint removed",
    deep=False,
    follows={"write-orphaned", "value-orphaned", "index-stale"},
)
def _parent_removed(rows: Planter[Any], thread_id: str) -> Named:
    found = rows.places(thread_id)
    rows.remove(found[6])
    return Named(found[5])


@fault_at("value-orphaned", "a version that no checkpoint names")
def _value_added(rows: Planter[Any], head: Place) -> Named:
    rows.add_value(head, "messages")
    return Named(head.at(""), "messages")


@fault(
    "namespace-orphaned",
    "the root of a subgraph call removed",
    thread=CALLING,
    follows={"parent-missing", "write-orphaned", "value-orphaned", "index-stale"},
)
def _root_removed(rows: Planter[Any], thread_id: str) -> Named:
    calls = [ns for ns in rows.namespaces(thread_id) if ns]
    first = min(calls, key=lambda ns: rows.ids(thread_id, ns)[0])
    caller = rows.caller(Place(thread_id, first, rows.ids(thread_id, first)[0]))
    rows.remove(Place(thread_id, "", caller))
    return Named(Place(thread_id, first, ""))
