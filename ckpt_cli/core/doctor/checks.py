"""The checks of `ckpt doctor` that need no store: each takes rows or states and yields findings."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import Enum, auto

from ckpt_backends.codec import decode
from ckpt_backends.codec.values import Cut, Opaque, Tagged, Value, items_of
from ckpt_backends.encryption import CHANGED, DAMAGED, WRONG_KEY
from ckpt_backends.model import (
    NULL_TASK_ID,
    Checkpoint,
    CheckpointKey,
    Status,
    Write,
    ticks_of,
    time_of,
)
from ckpt_cli.core import conversation
from ckpt_cli.core.doctor.findings import Finding, Severity
from ckpt_cli.core.reducers import overwrite
from ckpt_cli.core.replay import Replayed
from ckpt_cli.core.resume import StoredAnswer, Unsaved, used_answers
from ckpt_cli.core.state import NOT_STORED, RESUME, Body, Version, delta_channels
from ckpt_cli.core.tasks import Step, conditions_of, is_uncommitted
from ckpt_cli.core.values import same

_UNIQUE = re.compile(r"(\d{32})\.\d+(?:\.\d+|e-\d+)", re.ASCII)
"""`00000000000000000000000000000003.0.382645557190603`. Old savers end it with a hash of the value,
which two branches may share."""


def known_versions(body: Body) -> set[tuple[str, Version]]:
    """Return the channels and versions that a checkpoint has, or that its nodes have seen."""
    known = {*body.versions.items()}
    for seen in body.seen.values():
        known.update(seen.items())
    return known


def new_versions(body: Body) -> Iterator[tuple[str, Version]]:
    """Yield the channels and versions that a checkpoint itself wrote.

    They have the greatest number. A checkpoint that knows one of them is a descendant. One that
    knows none may be one, too.
    """
    numbers = {
        (channel, version): found[1]
        for channel, version in body.versions.items()
        if isinstance(version, str) and (found := _UNIQUE.fullmatch(version))
    }
    most = max(numbers.values(), default="")
    return (one for one, number in numbers.items() if number == most)


# Check a conversation: calls without results, results without calls, and ids that repeat.
#
# `core/conversation/pairing.py` says which calls count as answered.


_MERGED_BY_ID = "messages"
"""The channel of `MessagesState`, which `add_messages` merges by the ids of messages."""
_LONGEST = 80
"""Maximum number of characters of a name or id in a text."""


def message_findings(
    key: CheckpointKey,
    channel: str,
    items: Sequence[Value],
    others: conversation.Counterparts,
    *,
    names: bool = True,
) -> Iterator[Finding]:
    """Yield what is wrong with the conversation in a channel of a checkpoint.

    Texts contain the names of tools and the ids of calls and messages only with `names`.
    """

    def finding(code: str, detail: str) -> Finding:
        return Finding.at(key, code, detail, channel)

    found = conversation.pair(items, others)
    for number, one in enumerate((*found.unanswered, *found.final), 1):
        tool = _tool(one) if names else f"a tool (unanswered call {number})"
        text, severity = f"message {one.index} calls {tool}, and no message after it has the", None
        if number > len(found.unanswered):
            # Some applications carry out such calls, and send the result as the next input.
            text = f"the last message calls {tool}, and nothing that runs next has the"
            severity = Severity.INFO
        elif one.form is conversation.CallForm.FUNCTION:
            severity = Severity.WARNING  # Google's API refuses it, others may not.
        unanswered = finding("tool-call-unanswered", f"{text} result")
        # A result of these would be a picture or a file.
        has_fix = one.form is not conversation.CallForm.DEVICE
        yield replace(unanswered, own_severity=severity, has_fix=has_fix)
    for index in found.orphaned:
        yield finding("tool-result-orphaned", _orphan_text(items, index, names=names))
    for first, index, message_id in conversation.duplicates(items):
        if channel != _MERGED_BY_ID and same(items[first], items[index]):
            continue  # A list that only grows, such as a transcript, may hold a message twice.
        yield finding(
            "message-id-duplicate",
            f"messages {first} and {index} have the same id"
            + (f" ({_short(message_id)})" if names else ""),
        )


def _tool(one: conversation.CallPlace) -> str:
    of = "" if one.form is conversation.CallForm.FUNCTION else f" ({_short(one.id)})"
    return f"'{_short(one.call.name)}'{of}"


def _orphan_text(items: Sequence[Value], index: int, *, names: bool) -> str:
    message = conversation.as_message(items[index])
    fields = {} if message is None else message.fields
    name, call_id = fields.get("name"), fields.get("tool_call_id")
    of = f" of '{_short(name)}'" if names and isinstance(name, str) and name else ""
    which = f" ({_short(call_id)})" if names and isinstance(call_id, str) else ""
    return f"message {index} is a result{of}{which}, and no message before it makes the call"


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


_ENCRYPTED = "encrypted"
"""All reasons why a value stays encrypted begin with this word."""
_FOREIGN = "unknown type"
"""The reason if no official serializer has the type of a value."""
_ABSENT = " is missing"
"""End of the reason if a layout stores a value in several rows, and one of them is not stored."""
_ELSEWHERE = "payload is in "
"""Start of the reason if a value is in another store, which this run does not open."""
_NOT_READ = "not read"
"""End of the reason why a value was left in the store: it is too long."""


_REPLACED = "[unable to serialize, circular reference is too complex to analyze]"
"""What LangGraph.js stores in the place of a value that JSON cannot hold, such as one with a BigInt
(`stringify` in `serde/utils/fast-safe-stringify` of @langchain/langgraph-checkpoint)."""


def is_replaced(value: Value) -> bool:
    """Return whether a value is the error text of LangGraph.js's serializer."""
    return isinstance(value, str) and value == _REPLACED


def holds_replaced(value: Value) -> bool:
    """Return whether a list of messages goes on from that text: a reducer made it a message."""
    messages = map(conversation.as_message, value if isinstance(value, list) else ())
    return any(one is not None and is_replaced(one.content) for one in messages)


class Readability(Enum):
    """Whether a stored value can be decoded, or why not."""

    READABLE = auto()
    DAMAGED = auto()
    CLOSED = auto()
    """It is encrypted, and there is no key or no library to decrypt it."""
    REFUSED = auto()
    """It is encrypted, and does not open with the key: either is wrong."""
    UNREAD = auto()
    """It is too long to read, or in a store that is not open."""
    FOREIGN = auto()
    """No official serializer has its type. An application may have a serializer of its own."""
    LEFT_OUT = auto()
    """The layout does not store it."""


def readability(value: Value) -> Readability:
    """Return whether a value could be decoded."""
    if not isinstance(value, Opaque):
        return Readability.READABLE
    reason = value.reason
    if reason.startswith(DAMAGED):
        return Readability.DAMAGED
    if reason.startswith(_ENCRYPTED):
        return Readability.REFUSED if reason in {WRONG_KEY, CHANGED} else Readability.CLOSED
    if reason.endswith(_NOT_READ) or reason.startswith(_ELSEWHERE):
        return Readability.UNREAD
    if reason.startswith((_FOREIGN, NOT_STORED)):
        return Readability.FOREIGN if reason == _FOREIGN else Readability.LEFT_OUT
    return Readability.DAMAGED


def is_damaged(value: Value) -> bool:
    """Return whether a decoded value shows that its stored bytes are damaged."""
    return readability(value) is Readability.DAMAGED


def is_encrypted(value: Value) -> bool:
    """Return whether a value stays encrypted, because its key is not known."""
    return readability(value) in {Readability.CLOSED, Readability.REFUSED}


def is_absent(value: Value) -> bool:
    """Return whether a part of a value is not stored; its saver may store it a moment later."""
    return isinstance(value, Opaque) and value.reason.endswith(_ABSENT)


# Find DeltaChannels whose value cannot be rebuilt.
#
# Between two snapshots, the value of a DeltaChannel is the last snapshot and the writes since
# then.


def unstored_deltas(body: Body, metadata: Mapping[str, Value]) -> set[str]:
    """Return the DeltaChannels with a value that a checkpoint does not store itself."""
    named = delta_channels(metadata)
    return {name for name in named if name in body.versions and name not in body.values}


def supersteps(metadata: Mapping[str, Value], channel: str) -> int | None:
    """Return the number of supersteps since the last snapshot of a channel; None if unknown."""
    counters = _counters(metadata, channel)
    return counters[1] if counters else None


def _counters(metadata: Mapping[str, Value], channel: str) -> tuple[int, int] | None:
    """Return the numbers of updates and supersteps since the last snapshot; None if unknown."""
    counters = metadata.get("counters_since_delta_snapshot")
    counter = counters.get(channel) if isinstance(counters, dict) else None
    match counter:
        case [int(updates), int(number)] if updates >= 0 and number >= 0:
            return updates, number
    return None


def without_writes(
    metadata: Mapping[str, Value], before: Mapping[str, Value], written: Collection[str]
) -> set[str]:
    """Return the DeltaChannels that a step updated, although no write to them is stored.

    `before` is the metadata of the parent, and `written` the channels of its writes. LangGraph
    counts the updates of each DeltaChannel since its last snapshot.
    """
    found = set()
    for channel in delta_channels(metadata):
        after, earlier = _counters(metadata, channel), _counters(before, channel) or (0, 0)
        if after and after[0] > earlier[0] and channel not in written:
            found.add(channel)
    return found


def unanchored(
    channels: Collection[str], metadata: Mapping[str, Value], ancestors: Iterable[Collection[str]]
) -> set[str]:
    """Return the channels whose last snapshot is lost.

    `channels` are DeltaChannels that a checkpoint with this metadata does not store, and
    `ancestors` the channels that each of its ancestors stores, nearest first, down to one whose
    parent is missing. A channel with no snapshot in all supersteps that were counted was empty
    before them.
    """
    left = set(channels)
    number = 0
    for stored in ancestors:
        left.difference_update(stored)
        if not left:
            return left
        number += 1
    return {one for one in left if (count := supersteps(metadata, one)) is None or count > number}


def without_past(channel: str, first_id: str, checkpoint_id: str) -> str:
    """Return why a DeltaChannel cannot be rebuilt at a checkpoint, or at one that follows it."""
    first = "it" if first_id == checkpoint_id else f"its first ancestor {first_id}"
    return f"{first} has a value of '{channel}', but neither a snapshot of it nor a parent"


def without_snapshot(channel: str, parent_id: str) -> str:
    """Return the same, if a parent is not stored: that of the checkpoint or of an ancestor."""
    return f"the last snapshot of '{channel}' is gone, with {parent_id} or an ancestor of it"


# Follow DeltaChannels from each checkpoint to its children, to find those that cannot be rebuilt.
#
# The value of a DeltaChannel is its last snapshot and all writes since. If a checkpoint between
# them was deleted, its writes are lost.


class DeltaChains:
    """The DeltaChannels of one namespace. Checkpoints are told parents first."""

    def __init__(self) -> None:
        self._lost: dict[str, frozenset[str]] = {}
        """By checkpoint, the channels that cannot be rebuilt; left out if there are none."""

    def lost_at(
        self,
        checkpoint_id: str,
        parent_id: str | None,
        unset: Collection[str],
        *,
        is_cut: bool,
        unwritten: Collection[str] = (),
    ) -> frozenset[str]:
        """Return the DeltaChannels that can be rebuilt at the parent, but not at this checkpoint.

        `unset` are its DeltaChannels with a version and without a stored value. `is_cut` means that
        it has no parent, or one that is not stored. `unwritten` are channels of which the writes
        of the step before it are lost.
        """
        before = self._lost.get(parent_id or "", frozenset())
        lost = frozenset(unset) if is_cut else before.union(unwritten).intersection(unset)
        if lost:
            self._lost[checkpoint_id] = lost
        return lost - before


def are_messages(value: Value) -> bool:
    """Return whether a value is a list of one message or more."""
    items = items_of(value)
    return bool(items) and all(conversation.as_message(item) is not None for item in items or ())


def may_remove(writes: Iterable[Value]) -> bool:
    """Return whether one of these writes may empty a list of messages.

    A write that only adds messages cannot; any other might, such as an empty list for a channel
    without a reducer.
    """
    return not all(map(_adds, writes))


def _adds(write: Value) -> bool:
    if overwrite(write)[0]:
        return False
    items = items_of(write)
    found = [conversation.as_message(item) for item in ([write] if items is None else items)]
    return bool(found) and all(one is not None and one.role != "remove" for one in found)


def step_findings(
    key: CheckpointKey, step: Step, writes: Sequence[Write], unsaved: Callable[[], Unsaved]
) -> Iterator[Finding]:
    """Yield what is wrong with the step after a head that no agent is working on.

    `unsaved` returns what tells that the next checkpoint cannot be stored.
    """
    if is_uncommitted(step):
        nodes = ", ".join(sorted({f"'{task.node}'" for task in step.tasks}))
        text, found = f"{nodes} finished, and no checkpoint followed", unsaved()
        if found.is_proven:
            text += f"; it could not be saved{found.times}"
            text += f": {found.cause}" if found.cause else ""
        yield Finding.at(key, "step-uncommitted", text)
    yield from stale_resumes(key, step, writes)


def stale_resumes(key: CheckpointKey, step: Step, writes: Sequence[Write]) -> Iterator[Finding]:
    """Yield the answers that LangGraph would give to a question that they were not meant for.

    `Command(resume=...)` stores its answer for the null task, and `invoke(None)` gives it to the
    next question that a task asks. The answer stays there after a task has used it: then it is also
    in the task's own list of answers (langgraph issue 8837).
    """
    answers = _callers_answers(writes)
    if not answers:
        return
    asking = [run for run in step.runs if any(one.is_open for one in run.questions)]
    for run in asking:
        if any(same(one, answer) for one in used_answers(run.writes) for answer in answers):
            node = f"'{run.node}'" if run.node is not None else "a task"
            what = f"{node} has used the stored answer; invoke(None) would use it once more"
            yield Finding.at(key, "resume-stale", what, task_id=run.id)
    if not step.questions and conditions_of(step) == (Status.PENDING,):
        what = "an answer is stored, but no task asked; the next question would get it"
        yield Finding.at(key, "resume-stale", what)


def unused_answer(
    key: CheckpointKey, step: Step, writes: Sequence[Write], becomes: StoredAnswer | None
) -> Iterator[Finding]:
    """Yield the answer that the caller gave last, if no task will use it.

    `becomes` is what `stored_answer` says of the questions that wait. Without a next node nothing
    asks, and a new input drops what is stored with the head (`_first` in
    `langgraph/pregel/_loop.py`).
    """
    if not _callers_answers(writes):
        return
    if becomes == "unused":
        asking = sorted(
            {f"'{run.node}'" for run in step.tasks if run.questions and not run.finished}
        )
        nodes = ", ".join(asking) or "a task"
        what = f"{nodes} has an earlier answer, which is used first"
        yield Finding.at(key, "answer-unused", what)
    elif step.next == () and not step.assumed:
        yield Finding.at(key, "answer-unused", "nothing is next, so no task asks for it")


def _callers_answers(writes: Iterable[Write]) -> list[Value]:
    """Return the answers that the caller gave, as far as they can be read."""
    found = (
        decode(one.value)
        for one in writes
        if one.task_id == NULL_TASK_ID and one.channel == RESUME and one.value is not None
    )
    return [one for one in found if not isinstance(one, Opaque)]


_DAY, _HOUR, _MINUTE = 86_400, 3_600, 60


@dataclass(slots=True)
class WritesOfOne:
    """The writes that name one checkpoint."""

    number: int = 0
    tasks: set[str] = field(default_factory=set)
    """At most two task ids: more are not needed."""
    at: datetime | None = None
    """When the last was stored, in layouts that store this time."""

    def add(self, task_id: str, at: datetime | None) -> None:
        """Count a write."""
        self.number += 1
        if len(self.tasks) < 2:
            self.tasks.add(task_id)
        if at is not None and (self.at is None or at > self.at):
            self.at = at


def lineage_findings(
    checkpoints: Sequence[Checkpoint],
    missing: Mapping[str, WritesOfOne],
    elsewhere: Container[str] = (),
) -> Iterator[Finding]:
    """Yield what is wrong with the parents in a namespace of a layout that keeps a history.

    `checkpoints` are all checkpoints of the namespace in the order of the store, the head first.
    `missing` are the checkpoints that are not stored although their writes are; `elsewhere` are the
    ids in all namespaces of the thread.
    """
    places = {one.key.checkpoint_id: place for place, one in enumerate(checkpoints)}
    for place, one in enumerate(checkpoints):
        own, parent = one.key.checkpoint_id, one.parent_checkpoint_id
        # Subgraphs of LangGraph 0.2 may be their own parent, or have one in another namespace.
        if parent is None or parent == own:
            continue
        if parent not in places:
            if parent not in elsewhere:
                yield _parent_missing(one, parent, missing.get(parent))
            continue
        if places[parent] == 0:
            text = f"the saver loads this checkpoint, and not {own}, which follows it"
            yield Finding.at(checkpoints[0].key, "head-not-newest", text)
        # A layout that orders by the time of storing may list a smaller id as newer.
        if places[parent] < place and _is_smaller(own, parent):
            text = f"its id is smaller than that of {parent}"
            yield Finding.at(one.key, "id-not-increasing", text)


def ahead_finding(head: Checkpoint, now: datetime, tolerance: timedelta) -> Finding | None:
    """Return the finding if the head of a namespace is dated after `now`, by more than
    `tolerance`.
    """
    at = head.at or time_of(head.key.checkpoint_id)
    if at is None or at - now <= tolerance:
        return None
    return Finding.at(head.key, "clock-ahead", f"it is dated {_roughly(at - now)} after now")


def orphan_finding(key: CheckpointKey, writes: WritesOfOne) -> Finding:
    """Return the finding for the writes of a checkpoint that is not stored."""
    (task_id,) = writes.tasks if len(writes.tasks) == 1 else (None,)
    number = "1 write names" if writes.number == 1 else f"{writes.number} writes name"
    text = f"{number} this checkpoint, which is not stored"
    return Finding.at(key, "write-orphaned", text, task_id=task_id)


def is_orphaned(
    checkpoint_id: str, writes: WritesOfOne, head: Checkpoint | None, before: datetime
) -> bool:
    """Return whether no running agent can still store the checkpoint of these writes.

    Savers commit the checkpoints of a namespace in order, so none that is older than the head will
    follow. Any other may follow until `before`.
    """
    if head is not None and _is_older(checkpoint_id, writes, head):
        return True
    at = writes.at or time_of(checkpoint_id)
    return at is not None and at < before


def _is_older(checkpoint_id: str, writes: WritesOfOne, head: Checkpoint) -> bool:
    if head.at is not None:
        return writes.at is not None and writes.at < head.at
    return _is_smaller(checkpoint_id, head.key.checkpoint_id, only_times=True)


def _is_smaller(one: str, other: str, *, only_times: bool = False) -> bool:
    """Return whether an id sorts before another, by the times in both if they have any.

    LangGraph.js counts milliseconds, so a checkpoint and its parent may have the same time.
    """
    ticks, others = ticks_of(one), ticks_of(other)
    if ticks is None or others is None:
        return not only_times and one < other
    return ticks < others


def _parent_missing(one: Checkpoint, parent: str, writes: WritesOfOne | None) -> Finding:
    text = f"its parent {parent} is not stored"
    if writes is None:  # A prune leaves this.
        return Finding.at(one.key, "parent-missing", text, own_severity=Severity.INFO)
    left = "1 of its writes is" if writes.number == 1 else f"{writes.number} of its writes are"
    return Finding.at(one.key, "parent-missing", f"{text}, but {left}")


def _roughly(span: timedelta) -> str:
    seconds = int(span.total_seconds())
    for unit, name in ((_DAY, "days"), (_HOUR, "hours"), (_MINUTE, "minutes")):
        if seconds >= 2 * unit:
            return f"{seconds // unit} {name}"
    return f"{seconds} seconds"


_EXT_CODES = 8
"""LangGraph's ext types of msgpack have the codes from 0 to 7; a newer release may add some."""
_BROKEN = frozenset(f"ext:{code}" for code in range(_EXT_CODES))


def is_broken_inside(value: object) -> bool:
    """Return whether a part of a decoded value could not be read."""
    todo: list[object] = [value]
    seen: set[int] = set()
    while todo:
        item = todo.pop()
        if isinstance(item, Opaque):
            return True
        if isinstance(item, Tagged):
            if item.type in _BROKEN:
                return True
            todo.append(item.payload)
        elif isinstance(item, Cut):
            todo.append(item.kept)
        elif isinstance(item, list | dict) and id(item) not in seen:
            seen.add(id(item))
            todo += item if isinstance(item, list) else item.values()
    return False


_MANY = 5
_CALLS = ("tool_call", "tool_use", "function_call", "server_tool", "mcp_call")
"""What the type of a content block contains that calls a tool: `tool_use` and `server_tool_use` of
Anthropic, `function_call`, `custom_tool_call` and `mcp_call` of OpenAI's Responses, `tool_call`
and `server_tool_call` of LangChain."""
_RESULTS = ("_result", "_output")
_INNER = ("toolUse", "functionCall", "function_call")
"""Keys of blocks without a type that hold the call: of Bedrock and of Google."""
_IDS = ("call_id", "toolUseId", "id")
"""Keys of a call's id. In OpenAI's Responses, `id` is that of the block."""
_ARGS = ("args", "arguments", "input")

Call = tuple[str, str]
"""A tool's name, and its arguments as a text that is equal for equal arguments."""


def repeated_calls(
    key: CheckpointKey, channel: str, items: Sequence[Value], *, names: bool = True
) -> Iterator[Finding]:
    """Yield each tool of a conversation with a call that is repeated, and how often.

    Texts contain the names of tools only with `names`, and never the arguments.
    """
    calls = Counter(call for item in items for call in calls_of(conversation.as_message(item)))
    told: set[str] = set()
    for (name, _), number in calls.most_common():
        if number < _MANY or name in told:
            continue
        told.add(name)
        tool = f"'{_short(name)}'" if names else f"a tool (number {len(told)})"
        text = f"{tool} was called {number} times with the same arguments"
        yield Finding.at(key, "tool-call-repeated", text, channel)


def calls_of(message: conversation.Message | None) -> Iterator[Call]:
    """Yield the tool calls of a message, each once, in whatever form its provider has them.

    LangChain repeats in `tool_calls` what stands in the content.
    """
    if message is None or message.role not in conversation.MODEL_ROLES:
        return
    ids: set[Value] = set()
    known: set[Call] = set()
    for one in message.tool_calls:
        call = one.name, _canonical(one.args)
        if one.id is None or one.id not in ids:
            yield call
        ids.add(one.id)
        known.add(call)
    for block in _blocks(message):
        name = block.get("name")
        if not isinstance(name, str):
            continue
        call = name, _canonical(next((block[one] for one in _ARGS if one in block), None))
        own = {block[one] for one in _IDS if isinstance(block.get(one), str)}
        # A form without ids may repeat one that has them, such as `function_call`.
        if not own & ids and (own or call not in known):
            yield call
        ids |= own
        known.add(call)


def _blocks(message: conversation.Message) -> Iterator[dict[Value, Value]]:
    """Yield what calls a tool in the content, and OpenAI's old `function_call` beside it."""
    for one in conversation.content_blocks(message):
        kind = one.get("type")
        if isinstance(kind, str):
            if any(part in kind for part in _CALLS) and not kind.endswith(_RESULTS):
                yield one
        else:
            yield from (held for key in _INNER if isinstance(held := one.get(key), dict))
    extra = message.fields.get("additional_kwargs")
    old = extra.get("function_call") if isinstance(extra, dict) else None
    if isinstance(old, dict):
        yield old


def _canonical(args: Value) -> str:
    """Return a text that is equal for equal arguments, parsed or not."""
    if isinstance(args, str) and (text := args.strip()):
        try:
            args = json.loads(text)
        except (ValueError, RecursionError):
            return text
    if not args:
        return "{}"
    try:
        return json.dumps(args, sort_keys=True, default=repr)
    except (TypeError, ValueError, RecursionError):
        return repr(args)


def mismatch_findings(found: Replayed) -> Iterator[Finding]:
    """Yield what is not as the tasks wrote it, in a thread that was judged."""
    for one in found.mismatches:
        check, code, text = one.check, "state-mismatch", one.reason
        if check.lost and not check.missing:
            code, text = "value-missing", f"version {check.version} is not stored"
        elif check.shared is not None:
            code, of = "branches-share-value", f"checkpoint {check.shared} of another branch"
            text = f"version {check.version} holds what {of} wrote"
        key = CheckpointKey(found.thread_id, one.transition.checkpoint_ns, one.transition.child)
        version = None if code == "state-mismatch" else check.version
        yield Finding.at(key, code, text, check.channel, version=version)
