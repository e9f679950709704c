"""A thread as a test: what each task was given and did, in the form that `ckpt_cli.testing` reads.

Nothing here runs or imports a graph. The form is described in `docs/tests.md`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from ckpt_backends.codec import to_json
from ckpt_backends.codec.values import Cut, Opaque, Tagged, Value
from ckpt_cli.core import state
from ckpt_cli.core.tasks import CONTROL, Task
from ckpt_cli.core.values import Path, fields_of

if TYPE_CHECKING:
    from ckpt_backends.model import Write
    from ckpt_cli.core.secrets import Scanner

FORMAT = 1
"""Value of the key `ckpt_test`, which says how `ckpt_cli.testing` has to read a file."""
MESSAGES = "langchain_core.messages."
_NO_WRITES = "__no_writes__"
_BRANCH, _JOIN = "branch:to:", "join:"


Fields: TypeAlias = "dict[Value, Value]"
"""Keys of a record, which are texts."""


class LeftOut(NamedTuple):
    """A task, or the whole thread, of which no test is written."""

    what: str
    reason: str


@dataclass(slots=True)
class TaskRecord:
    """A task as a test of its node, or only as the answers of models and tools in it."""

    name: str
    """Unique in its thread, such as `agent, step 1`."""
    node: str
    graph: str
    """The nodes that call its subgraph, `outer|inner`; `''` for the root graph."""
    step: int | None
    given: Fields = field(default_factory=dict)
    """The keys `state`, `sent` of a Send, `input` of an entrypoint, and `memory`: namespace to
    state of each stateful subgraph that it calls."""
    asks: list[Fields] = field(default_factory=list)
    """What people were asked: the keys `question`, if it is stored, and `answer`, if they gave one.
    """
    error: str | None = None
    """With what it failed; None if it did not."""
    output: TaskOutput | None = None
    """None if it did not finish."""
    calls: list[str] = field(default_factory=list)
    """Ids of the tool calls that have to be carried out: these tools returned a Command."""
    inside: list[str] = field(default_factory=list)
    """Names of the tasks that it called, in subgraphs and as `@task`, in their order."""
    is_tested: bool = False
    checkpoint_id: str = ""
    """The checkpoint of whose next step it is a task."""

    def value(self) -> Fields:
        """Return the task as it is written."""
        found: Fields = {"name": self.name, "node": self.node}
        if self.graph:
            found["graph"] = self.graph
        if self.step is not None:
            found["step"] = self.step
        found |= self.given
        if self.asks:
            found["asks"] = [*self.asks]
        if self.error is not None:
            found["error"] = self.error
        if self.output is not None:
            found["writes"] = self.output.spelled
            if self.output.next is not None:
                found["next"] = [*self.output.next]
        if self.calls:
            found["calls"] = [*self.calls]
        if self.inside:
            found["inside"] = [*self.inside]
        return found


class TaskOutput(NamedTuple):
    """What a task wrote."""

    writes: Sequence[Fields]
    """Channel to value; several if a task wrote to one channel several times."""
    next: Sequence[Value] | None
    """Nodes, joins, and `{"node", "arg"}` for Sends; None if an older format does not tell."""

    @property
    def spelled(self) -> Value:
        """The writes as they are written: one object, or a list."""
        found: list[Value] = [dict(one) for one in self.writes]
        return found[0] if len(found) == 1 else found


@dataclass(slots=True)
class TurnRecord:
    """An input, and what followed until the next one."""

    given: Value
    steps: int = 0
    failures: int = 0
    """Tasks that failed and passed when they were run again."""
    asks: list[Fields] = field(default_factory=list)


@dataclass(slots=True)
class WholeThreadRecord:
    """A thread as one test, from its inputs, or the last of them, to its end."""

    before: Fields | None = None
    """The state before the first input; None if that began the thread."""
    turns: list[TurnRecord] = field(default_factory=list)
    steps: list[str] | None = field(default_factory=list)
    """The nodes of each step; None if not all steps are stored."""
    state: Fields = field(default_factory=dict)
    questions: list[Value] = field(default_factory=list)
    failed: bool = False
    """Whether it ends with a task that failed."""
    stopped: list[str] = field(default_factory=list)
    """The nodes that have not run at its end, though nothing is asked."""

    def value(self) -> Fields:
        """Return the test as it is written."""
        turns: list[Value] = []
        for one in self.turns:
            turn: Fields = {"input": one.given, "steps": one.steps}
            if one.failures:
                turn["failures"] = one.failures
            if one.asks:
                turn["asks"] = [*one.asks]
            turns.append(turn)
        found: Fields = {} if self.before is None else {"before": dict(self.before)}
        found["turns"] = turns
        if self.steps is not None:
            found["steps"] = [*self.steps]
        found["state"] = dict(self.state)
        if self.questions:
            found["questions"] = [*self.questions]
        if self.stopped:
            found["stopped"] = [*self.stopped]
        return {**found, "failed": True} if self.failed else found


@dataclass(slots=True)
class ThreadRecord:
    """A thread as tests."""

    thread_id: str
    checkpoint_id: str
    """Its head."""
    at: datetime | None
    """When that was saved."""
    title: str
    """What a person said first; `''` if that is not known."""
    metadata: Fields
    """What its runs were given as `configurable` or `metadata`."""
    tasks: list[TaskRecord]
    whole: WholeThreadRecord | None
    left_out: list[LeftOut]

    def value(self) -> Fields:
        """Return what is written, with the messages in place."""
        found: Fields = {"thread": self.thread_id, "checkpoint": self.checkpoint_id}
        if self.at is not None:
            found["saved"] = self.at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        if self.title:
            found["title"] = self.title
        if self.metadata:
            found["metadata"] = dict(self.metadata)
        if self.whole is not None:
            found["test"] = self.whole.value()
        return {**found, "tasks": [one.value() for one in self.tasks]}

    def behind(self, checkpoint_id: str) -> ThreadRecord:
        """Return only the tests of tasks behind a checkpoint."""
        known = {one.name: one for one in self.tasks}
        wanted = [one.name for one in self.tasks if one.checkpoint_id == checkpoint_id]
        needed = list(wanted)
        for name in needed:
            needed += known[name].inside
        tasks = [
            replace(one, is_tested=one.is_tested and one.name in wanted)
            for one in self.tasks
            if one.name in needed
        ]
        left_out = [one for one in self.left_out if one.what in wanted]
        return replace(self, tasks=tasks, whole=None, left_out=left_out)

    @property
    def tested(self) -> list[TaskRecord]:
        """The tasks of which a test is written."""
        return [one for one in self.tasks if one.is_tested]


def output_of(task: Task, body: state.Body, read: Callable[[Write], Value]) -> TaskOutput:
    """Return what a finished task wrote. `body` is that of its checkpoint."""
    writes: list[Fields] = [{}]
    following: list[Value] | None = [] if body.names_edges and body.v >= 4 else None
    for write in sorted(task.writes, key=lambda one: one.idx):
        channel = write.channel
        if channel in CONTROL or channel == _NO_WRITES:
            continue
        if channel == state.SENDS:
            if following is not None:
                following.append(sent(read(write)))
        elif channel.startswith((_BRANCH, _JOIN)):
            if following is not None:
                following.append(channel.removeprefix(_BRANCH))
        elif channel == "__return__" or (
            state.is_state(channel, body) and (body.names_edges or channel != task.node)
        ):
            if channel in writes[-1]:
                writes.append({})
            writes[-1][channel] = read(write)
    return TaskOutput(writes, following)


def sent(packet: Value) -> Value:
    """Return a Send as `{"node", "arg"}`."""
    payload = packet.payload if isinstance(packet, Tagged) else packet
    if isinstance(payload, list) and len(payload) >= 2:
        return {"node": payload[0], "arg": payload[1]}
    fields = fields_of(packet)
    return {"node": fields.get("node"), "arg": fields.get("arg", fields.get("args"))}


def unread_part(value: Value) -> str:
    """Return why a part of a value cannot be written; `''` if all of it can."""
    todo = [value]
    while todo:
        one = todo.pop()
        if isinstance(one, Opaque):
            return "a value cannot be read"
        if isinstance(one, Cut):
            return "a value is too large"
        if isinstance(one, Tagged):
            if one.type.startswith("ext:"):
                return "a value cannot be read"
            todo.append(one.payload)
        elif isinstance(one, dict):
            todo += (*one.keys(), *one.values())
        elif isinstance(one, list):
            todo += one
    return ""


def tools_to_call(task: TaskRecord, inside: Iterable[TaskRecord]) -> list[str]:
    """Return the tool calls of a task whose tools have to be called, not only answered.

    A tool that asks a person has to ask again. The message of a tool that returned a Command is a
    part of what it did: it also chose a node, or changed other channels. In a subgraph, such a
    command ends the task of the tool without any output, and the message is among the writes of
    the node that called the subgraph. A tool that called an agent does so again, whose models and
    tools are answered.
    """
    if task.output is None:
        return []
    results = set(_results(task.output.spelled))
    is_tool_node = bool(results) and not any(
        one.startswith(f"{MESSAGES}ai.") for one in _types(task.output.spelled)
    )
    if inner := list(inside):
        answered = {one for each in inner if each.output for one in _results(each.output.spelled)}
        asked = {one for each in inner if each.output for one in _called(each.output.spelled)}
        called = results if len(results) == 1 and is_tool_node else results & asked
        return sorted(called - answered)
    if task.asks:
        return sorted(results)  # a tool asked
    names = {name for one in task.output.writes for name in one}
    chosen = [one for one in task.output.next or () if isinstance(one, str)]
    more = len(names) > 1 or len(task.output.writes) > 1 or len(chosen) > 1
    return sorted(results) if is_tool_node and more else []


def _objects(value: Value) -> Iterator[Tagged]:
    todo = [value]
    while todo:
        one = todo.pop()
        if isinstance(one, Tagged):
            yield one
            todo.append(one.payload)
        elif isinstance(one, dict):
            todo += one.values()
        elif isinstance(one, list):
            todo += one


def _types(value: Value) -> Iterator[str]:
    return (one.type for one in _objects(value))


def _results(value: Value) -> Iterator[str]:
    """Yield the ids of the calls that tool messages in a value answer."""
    for one in _objects(value):
        found = fields_of(one).get("tool_call_id") if one.type.startswith(MESSAGES) else None
        if isinstance(found, str):
            yield found


def _called(value: Value) -> Iterator[str]:
    """Yield the ids of the tool calls in messages of a value."""
    for one in _objects(value):
        calls = fields_of(one).get("tool_calls") if one.type.startswith(MESSAGES) else None
        for call in calls if isinstance(calls, list) else ():
            found = fields_of(call).get("id")
            if isinstance(found, str):
                yield found


# The form.


def spelled(record: Fields) -> dict[str, Any]:
    """Return what is written, as JSON: each message once, under `messages`."""
    table = _Messages()
    # In the order in which they came, which the tasks tell best.
    first: Fields = {"tasks": table.without(record["tasks"])}
    form = to_json({key: first.get(key, table.without(one)) for key, one in record.items()})
    assert isinstance(form, dict)  # noqa: S101 - keys of a record are texts
    made = {key: _with_names(one) for key, one in form.items()}
    head: dict[str, Any] = {"ckpt_test": FORMAT}
    head |= {key: made.pop(key) for key in _HEAD if key in made}
    return {**head, "messages": table.messages, **made}


_NAME = "ckpt.message"
"""Type of the `Tagged` that stands for a message; its payload is the name."""


def _with_names(form: Any) -> Any:
    """Return a form in which messages are `$message`, and lists of them `$messages`."""
    if isinstance(form, list):
        items = [_with_names(one) for one in form]
        if items and all(isinstance(one, dict) and one.keys() == {"$message"} for one in items):
            return {"$messages": " ".join(one["$message"] for one in items)}
        return items
    if not isinstance(form, dict):
        return form
    if form.get("$type") == _NAME:
        return {"$message": form["$value"]}
    return {key: _with_names(one) for key, one in form.items()}


class _Messages:
    """The messages of a record, by the names `m1`, `m2` and so on."""

    def __init__(self) -> None:
        self.messages: dict[str, Any] = {}
        self._names: dict[str, str] = {}
        self._without_id: dict[str, str] = {}
        self._known: dict[int, tuple[Tagged, str]] = {}

    def without(self, value: Value) -> Value:
        """Return a value with the names of its messages in their places."""
        match value:
            case list():
                return [self.without(one) for one in value]
            case dict():
                return {key: self.without(one) for key, one in value.items()}
            case Tagged() if value.type.startswith(MESSAGES) and isinstance(value.payload, dict):
                known = self._known.get(id(value))
                if known is None:
                    told = to_json(self.without(value.payload))
                    assert isinstance(told, dict)  # noqa: S101 - its keys are fields
                    name = self._name(_message(value.type, _with_names(told)))
                    known = self._known[id(value)] = value, name
                return Tagged(_NAME, known[1])
            case Tagged():
                return Tagged(value.type, self.without(value.payload))
        return value

    def _name(self, message: dict[str, Any]) -> str:
        """Return the name of a message. The state gives an id to one that was written without."""
        text, bare = repr(message), _told(message)
        if text in self._names:
            return self._names[text]
        if "id" in message and bare in self._without_id:
            name = self._without_id.pop(bare)
            del self._names[repr(self.messages[name])]
        else:
            name = f"m{len(self.messages) + 1}"
            if "id" not in message:
                self._without_id[bare] = name
        self._names[text] = name
        self.messages[name] = message
        return name


def with_prompts(form: Mapping[str, Any], notes: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is written together with the prompts that tests noted.

    `notes` has the prompts of each test by its task, or `thread`: lists of messages without ids,
    as `ckpt_cli.testing` spells them.
    """
    messages = dict(form["messages"])
    names = {_told(one): name for name, one in reversed(messages.items())}
    asked: dict[str, Any] = {}
    for test, prompts in notes.items():
        spelled_prompts = []
        for prompt in prompts:
            used = []
            for one in prompt:
                text = _told(one)
                if text not in names:
                    names[text] = f"p{len(messages) + 1}"
                    messages[names[text]] = one
                used.append(names[text])
            spelled_prompts.append({"$messages": " ".join(used)})
        if spelled_prompts:
            asked[test] = spelled_prompts
    found = {**form, "messages": messages}
    return {**found, "asked": asked} if asked else found


def _told(message: Mapping[str, Any]) -> str:
    """Return what a message says, without its id, as a text to compare it by."""
    fields = {key: one for key, one in message.items() if key != "id" and one not in _EMPTY}
    return json.dumps({"content": "", **fields}, sort_keys=True)


_HEAD = ("thread", "checkpoint", "saved", "title")
_EMPTY: tuple[Any, ...] = (None, [], {}, False)
_TYPES = {"AIMessage": "ai", "HumanMessage": "human", "SystemMessage": "system"}
_TYPES |= {"ToolMessage": "tool", "FunctionMessage": "function", "ChatMessage": "chat"}
_TYPES |= {"RemoveMessage": "remove"}


def _message(kind: str, told: dict[str, Any]) -> dict[str, Any]:
    """Return a message with its type first, without what is empty."""
    name = kind.rpartition(".")[2]
    stored = told.get("type")
    form = {"type": stored if isinstance(stored, str) else _TYPES.get(name, name)}
    form["content"] = told.get("content", "")
    rest = {key: one for key, one in told.items() if key not in ("$type", "type", "content")}
    return {**form, **{key: one for key, one in rest.items() if one not in _EMPTY}}


# What must not be written.


class SecretInTest(NamedTuple):
    """A credential in what would be written."""

    kind: str
    path: Path


def secrets_in(record: Fields, scanner: Scanner) -> list[SecretInTest]:
    """Return the credentials in a record, each at the first of its places."""
    found: dict[tuple[str, str], SecretInTest] = {}
    for one in scanner.parts({"tasks": record["tasks"], **record}):  # their names tell most
        found.setdefault((one.kind, one.text), SecretInTest(one.kind, one.path))
    return [*found.values()]


def without_secrets(record: Fields, scanner: Scanner) -> Fields:
    """Return a record with a marker in place of each credential: the same wherever it stands."""
    marks: dict[str, str] = {}
    numbers: Counter[str] = Counter()
    for one in scanner.parts(record):
        if one.text not in marks:
            numbers[one.kind] += 1
            marks[one.text] = f"<{one.kind} {numbers[one.kind]}>"
    ordered = sorted(marks, key=len, reverse=True)

    def masked(text: str) -> str:
        for secret in ordered:
            text = text.replace(secret, marks[secret])
        return text

    found = mapped(record, masked)
    assert isinstance(found, dict)  # noqa: S101 - as it was before
    return found


_STRUCTURE = "name node graph inside thread checkpoint saved step steps failures failed stopped"
_KEPT = frozenset(_STRUCTURE.split())
"""Keys of a record whose texts are names of nodes, ids and times, which `--redact` shows."""
_BY_CHANNEL = ("state", "writes", "before", "metadata")


def redacted(record: Fields) -> Fields:
    """Return a record with a placeholder for each text and number: the same for the same one.

    Kept are names of nodes, channels and metadata, classes, the types of messages, and what has no
    more than a bit: null, true, false, 0, 1 and the empty text.
    """
    return _Redaction(record).parts(record)


class _Redaction:
    """The placeholders of one record."""

    def __init__(self, record: Fields) -> None:
        self._seen: dict[tuple[type, object], Value] = {}
        self._texts, self._numbers = count(1), count(2)
        self._channels = {*_channels(record)}

    def parts(self, value: Value) -> Fields:
        """Return a part of the record's own structure."""
        return {key: self._part(str(key), one) for key, one in fields_of(value).items()}

    def _part(self, key: str, value: Value) -> Value:
        if key in _KEPT:
            return value
        if key == "next" and isinstance(value, list):
            return [one if isinstance(one, str) else self.parts(one) for one in value]
        if key in ("tasks", "turns", "asks") and isinstance(value, list):
            return [self.parts(one) for one in value]
        if key in ("test", "memory") or (key in _BY_CHANNEL and isinstance(value, dict)):
            inside = fields_of(value)
            if key == "test":
                return self.parts(value)
            if key == "memory":
                return {ns: self._part("state", one) for ns, one in inside.items()}
            return {name: self._hidden(one) for name, one in inside.items()}
        if key == "writes" and isinstance(value, list):
            return [self._part("writes", one) for one in value]
        return self._hidden(value)

    def _hidden(self, value: Value) -> Value:
        match value:
            case Tagged():
                if value.type.startswith(MESSAGES):
                    return Tagged(value.type, self._message(fields_of(value.payload)))
                return Tagged(value.type, self._hidden(value.payload))
            case dict():
                return {
                    key if key in self._channels else self._hidden(key): self._hidden(one)
                    for key, one in value.items()
                }
            case list():
                return [self._hidden(one) for one in value]
            case bytes():
                return b"redacted"
            case str() | int() | float() if value not in ("", 0, 1):
                key = type(value), value
                if key not in self._seen:
                    is_text = isinstance(value, str)
                    self._seen[key] = (
                        f"text {next(self._texts)}" if is_text else type(value)(next(self._numbers))
                    )
                return self._seen[key]
        return value

    def _message(self, fields: Mapping[Value, Value]) -> Fields:
        """Return a message with its structure, without what its provider told."""
        found: Fields = {"type": fields.get("type"), "content": self._hidden(fields.get("content"))}
        for key in ("id", "name", "tool_call_id"):
            if fields.get(key) is not None:
                found[key] = self._hidden(fields[key])
        if fields.get("status") in ("success", "error"):
            found["status"] = fields["status"]
        calls = fields.get("tool_calls")
        if isinstance(calls, list) and calls:
            found["tool_calls"] = [
                {
                    **{key: self._hidden(one) for key, one in fields_of(call).items()},
                    "type": "tool_call",
                }
                for call in calls
            ]
        return found


def _channels(record: Fields) -> Iterator[Value]:
    """Yield the names of channels that a record tells."""
    tasks = record["tasks"]
    for task in tasks if isinstance(tasks, list) else ():
        fields = fields_of(task)
        writes = fields.get("writes")
        for one in (fields.get("state"), *(writes if isinstance(writes, list) else [writes])):
            yield from fields_of(one)


def mapped(value: Any, change: Callable[[str], str]) -> Any:
    """Return a value with all of its texts changed, those of keys and of classes included."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, bytes):
        text = value.decode("latin-1")
        return value if change(text) == text else b"masked"
    if isinstance(value, Tagged):
        return Tagged(value.type, mapped(value.payload, change))
    if isinstance(value, list):
        return [mapped(one, change) for one in value]
    if isinstance(value, dict):
        return {mapped(key, change): mapped(one, change) for key, one in value.items()}
    return value
