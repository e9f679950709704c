"""The catalogue of faults: how each is planted, and the row that `ckpt doctor` must name."""

from collections.abc import Callable, Set
from copy import deepcopy
from dataclasses import dataclass
from enum import Enum
from typing import Any

from langchain_core.messages import RemoveMessage
from langgraph.graph.message import REMOVE_ALL_MESSAGES

from ckpt_backends.model import NULL_TASK_ID
from tests.kit.planting.planters import Place, Planter, id_after, id_before

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
    follows: Set[str] = frozenset()
    """Further codes that the change causes, at whatever rows."""
    needs: Set[str] = frozenset()
    """`inner values`, where values are stored in bodies, or `spoilt values`, where one can be
    undecodable alone."""


FAULTS: list[PlantedFault] = []
Plant = Callable[[Planter[Any], str], Named]
PlantAt = Callable[[Planter[Any], Place], Named]


def fault(code: str, how: str, **options: Any) -> Callable[[Plant], Plant]:
    """Add a fault of a thread to the catalogue."""

    def register(plant: Plant) -> Plant:
        FAULTS.append(PlantedFault(code, how, plant, **options))
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


# Messages, as objects of LangChain or as the JSON of its constructors

_KINDS = {"ToolMessage": "tool", "HumanMessage": "human", "AIMessage": "ai"}


def kind_of(message: Any) -> str:
    """Return the kind of a message, such as `tool`."""
    if isinstance(message, dict):
        return _KINDS.get(message["id"][-1], "other")
    return str(message.type)


def reworded(message: Any) -> Any:
    """Return a message with another text."""
    if isinstance(message, dict):
        return {**message, "kwargs": {**message["kwargs"], "content": "changed by hand"}}
    return message.model_copy(update={"content": "changed by hand"})


def again(message: Any, number: int) -> Any:
    """Return a message once more: with another id, and with other ids of its calls or result."""

    def other(value: str | None) -> str:
        return f"{value}-{number}"

    fields = message["kwargs"] if isinstance(message, dict) else message.model_dump()
    new: dict[str, Any] = {"id": other(fields.get("id"))}
    if calls := fields.get("tool_calls"):
        new["tool_calls"] = [{**one, "id": other(one["id"])} for one in calls]
    if "tool_call_id" in fields:
        new["tool_call_id"] = other(fields["tool_call_id"])
    if isinstance(message, dict):
        return {**message, "kwargs": {**fields, **new}}
    return message.model_copy(update=new)


def emptying(message: Any) -> Any:
    """Return the `RemoveMessage` that empties a list, in the form of a message."""
    if isinstance(message, dict):
        fields = {"content": "", "id": REMOVE_ALL_MESSAGES}
        return {**message, "id": [*message["id"][:-1], "RemoveMessage"], "kwargs": fields}
    return RemoveMessage(REMOVE_ALL_MESSAGES)


class Mood(Enum):
    """A class of the application."""

    GOOD = "good"


# What one call does to one checkpoint

FORGET = damage(lambda rows, at: rows.remove_value(at, "messages"), "messages")
SPOIL = damage(lambda rows, at: rows.spoil_value(at, "messages"), "messages")
SPOIL_BODY = damage(lambda rows, at: rows.spoil_body(at))
SPOIL_METADATA = damage(lambda rows, at: rows.spoil_metadata(at))
ANSWER = damage(lambda rows, at: rows.put_writes(at, [("__resume__", "yes")], NULL_TASK_ID))
OWN_CLASS = damage(lambda rows, at: rows.put_writes(at, [("mood", Mood.GOOD)], TASK), "mood")
DIFFERS, LEFT = {"state-mismatch"}, {"value-orphaned", "index-stale"}
"""What follows if a value is changed by hand, and if a checkpoint is removed."""
fault_at("value-missing", "removed at the head", follows={"tool-result-orphaned"})(FORGET)
fault_at("value-unreadable", "bytes at the head", deep=False, needs={"spoilt values"})(SPOIL)
fault_at("value-unreadable", "bytes in the history", needs={"spoilt values"}, at=5)(SPOIL)
fault_at("state-mismatch", "a value removed", needs={"inner values"}, at=5)(FORGET)
for where, at, deep in (("at the head", 0, False), ("in the history", 5, True)):
    fault_at("body-unreadable", f"bytes {where}", deep=deep, at=at)(SPOIL_BODY)
    fault_at("body-unreadable", f"metadata {where}", deep=deep, at=at)(SPOIL_METADATA)
fault_at("type-blocked", "a class of the application", types=True)(OWN_CLASS)
fault_at("resume-stale", "an answer to no question", thread=WAITING, deep=False)(ANSWER)
fault_at("answer-unused", "an answer to a thread that asks nothing", deep=False)(ANSWER)
fault_at(
    "write-orphaned", "a checkpoint removed", deep=False, follows={"parent-missing", *LEFT}, at=6
)(damage(lambda rows, at: rows.remove(at)))


# Values and bodies


fault_at("value-unreadable", "bytes of a question", thread=ASKING)(
    lambda rows, at: Named(at, "__interrupt__", rows.spoil_write(at, "__interrupt__"))
)


@fault_at("value-unreadable", "bytes of a write", follows=DIFFERS, at=5)
def _write_unreadable(rows: Planter[Any], child: Place) -> Named:
    place = rows.writes_place(child)
    return Named(place, "messages", rows.spoil_write(place, "messages"))


@fault(
    "delta-unanchored",
    "the first checkpoints removed",
    thread=DELTA,
    deep=False,
    follows={"delta-unanchored", "parent-missing", "write-orphaned", *LEFT},
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


# The messages at the head, changed by hand


def edited(code: str, how: str, change: Callable[..., list[Any]], **options: Any) -> None:
    """Add a fault to the catalogue. The change gets the messages, and which are results."""

    def edit(rows: Planter[Any], at: Place) -> None:
        found = rows.value(at, "messages")
        tools = [n for n, one in enumerate(found) if kind_of(one) == "tool"]
        rows.set_value(at, "messages", change(found, tools))

    fault_at(code, how, **{"deep": False, "follows": DIFFERS, **options})(damage(edit, "messages"))


def called_again(found: list[Any], tools: list[int]) -> list[Any]:
    both, rest = found[tools[-1] - 1 : tools[-1] + 1], found[tools[-1] + 1 :]
    more = [again(one, number) for number in range(4) for one in both]
    return [*found[: tools[-1] + 1], *more, *rest]


edited(
    "state-mismatch",
    "a value changed",
    lambda found, _: [*found[:-1], reworded(found[-1])],
    deep=True,
    follows=frozenset(),
)
edited(
    "tool-call-unanswered",
    "a result removed",
    lambda found, tools: found[: tools[0]] + found[tools[0] + 1 :],
)
edited(
    "tool-result-orphaned",
    "a call removed",
    lambda found, tools: found[: tools[-1] - 1] + found[tools[-1] :],
)
edited("message-id-duplicate", "a message doubled", lambda found, _: [*found, deepcopy(found[-1])])
edited("tool-call-repeated", "a call made again", called_again)


@fault_at("type-dangerous", "a value at the head", deep=False, follows=DIFFERS)
def _dangerous_value(rows: Planter[Any], head: Place) -> Named:
    rows.set_value(head, "messages", [*rows.value(head, "messages"), rows.dangerous])
    return Named(head, "messages")


@fault_at("messages-emptied", "an update without messages", follows=DIFFERS)
def _messages_emptied(rows: Planter[Any], head: Place) -> Named:
    return Named(rows.put(head, id_after(head.checkpoint_id), "update", messages=[]), "messages")


# Serializers


@fault("plaintext-among-encrypted", "a plain write", thread=NEW)
def _plain_write(rows: Planter[Any], thread_id: str) -> Named:
    rows.put_encrypted(thread_id)
    head = rows.places(thread_id)[0]
    rows.put_writes(head, [("messages", [])], TASK)
    return Named(head, "messages", TASK)


# The line of checkpoints


@fault("step-uncommitted", "the head removed", deep=False, follows=LEFT)
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
    follows={"id-not-increasing", *DIFFERS},
)
def _child_behind(rows: Planter[Any], head: Place) -> Named:
    child = rows.put_behind(head, id_before(head.checkpoint_id))
    return Named(child.at(rows.parent(child) or ""))


@fault_at(
    "id-not-increasing",
    "a child with a smaller id",
    deep=False,
    follows={"head-not-newest", *DIFFERS},
)
def _smaller_id(rows: Planter[Any], head: Place) -> Named:
    return Named(rows.put_behind(head, id_before(head.checkpoint_id)))


fault_at("clock-ahead", "a head of tomorrow", deep=False)(
    lambda rows, head: Named(rows.put_ahead(head))
)


@fault("parent-missing", "a checkpoint removed", deep=False, follows={"write-orphaned", *LEFT})
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
    follows={"parent-missing", "write-orphaned", *LEFT},
)
def _root_removed(rows: Planter[Any], thread_id: str) -> Named:
    calls = [ns for ns in rows.namespaces(thread_id) if ns]
    first = min(calls, key=lambda ns: rows.ids(thread_id, ns)[0])
    caller = rows.caller(Place(thread_id, first, rows.ids(thread_id, first)[0]))
    rows.remove(Place(thread_id, "", caller))
    return Named(Place(thread_id, first, ""))
