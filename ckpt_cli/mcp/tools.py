"""The tools that an agent may call."""

from __future__ import annotations

import binascii
import hashlib
import json
import sys
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeAlias

from ckpt_backends.codec import to_json
from ckpt_backends.errors import UsageError
from ckpt_backends.protocol import Store
from ckpt_cli.api.answer import Surroundings, Watcher, filter_of
from ckpt_cli.api.store import StoreHandle
from ckpt_cli.api.thread import CheckpointHandle, ThreadHandle
from ckpt_cli.core.filters import fields_in
from ckpt_cli.core.values import parse_path
from ckpt_cli.queries.messages import last_held
from ckpt_cli.queries.threads import SORTS
from ckpt_cli.reading.store import RedactedStore
from ckpt_cli.render.doctor import CHECKED
from ckpt_cli.render.messages import message_records
from ckpt_cli.render.text import safe_json, safe_text

Item: TypeAlias = Mapping[str, Any] | str
"""One part of an answer: a record, or a line of a drawing."""
_DEEPEST = 50
"""Levels of a record as JSON; parsers of clients refuse more than 100 or 200 in a message."""
_AROUND = 900
"""Number of characters for what stands around the items."""


@dataclass(frozen=True, slots=True)
class PageStart:
    """Where a page begins."""

    item: int = 0
    """Number of items before it."""
    offset: int = 0
    """Number of characters of the first item that earlier pages had."""


@dataclass(frozen=True, slots=True)
class Page:
    """Items of an answer, and where the next page begins."""

    items: list[Item]
    following: PageStart | None
    """None on the last page."""


def call_key(name: str, arguments: Mapping[str, Any]) -> str:
    """Return a text that differs between calls whose pages must not be mixed."""
    rest = {key: value for key, value in arguments.items() if key not in {"cursor", "max_chars"}}
    asked = json.dumps([name, rest], sort_keys=True)
    return hashlib.sha256(asked.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def to_cursor(place: PageStart, key: str) -> str:
    """Return the text that a client sends for the page that begins at a place."""
    text = f"{place.item}:{place.offset}:{key}"
    return urlsafe_b64encode(text.encode()).decode().rstrip("=")


def from_cursor(cursor: str, key: str) -> PageStart:
    """Return the place of a cursor. Raises `UsageError` if it belongs to another call."""
    try:
        text = urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode("ascii")
        item, offset, of = text.split(":")
        place = PageStart(int(item), int(offset))
    except (binascii.Error, ValueError):
        raise _foreign() from None
    if of != key or not (0 <= place.item <= sys.maxsize and 0 <= place.offset <= sys.maxsize):
        raise _foreign()
    return place


def _foreign() -> UsageError:
    return UsageError(
        "this cursor is not from this call",
        hint="send next_cursor with the same arguments, or leave out the cursor",
    )


def cut(items: Iterable[Item], place: PageStart, size: int) -> Page:
    """Return the page that begins at a place. Raises `UsageError` if an item ends before it.

    It has at least one item, and at most about `size` characters, as text and as JSON. An item
    that is larger than a page comes in parts, each with a piece of its JSON text.
    """
    room = max(size - _AROUND, _AROUND)
    found = islice(items, place.item, None)
    first = next(found, None)
    if first is None:
        return Page([], None)
    if place.offset or width(first) > room:
        return _part(first, found, place, room)
    taken, room = [first], room - width(first)
    for n, one in enumerate(found, place.item + 1):
        room -= width(one)
        if room < 0:
            return Page(taken, PageStart(n))
        taken.append(one)
    return Page(taken, None)


def _part(item: Item, following: Iterator[Item], place: PageStart, room: int) -> Page:
    """Return a page with a part of one item."""
    text = line(item)
    if place.offset > len(text):
        raise _foreign()
    # Its quotes and backslashes are escaped once more as a part of a JSON text.
    end, room = place.offset, room - _AROUND // 2
    while end < len(text) and room > 0:
        room -= len(json.dumps(text[end])) - 2
        end += 1
    part = {"part": text[place.offset : end], "from": place.offset, "of": len(text)}
    if end < len(text):
        return Page([part], PageStart(place.item, end))
    more = next(following, None) is not None
    return Page([part], PageStart(place.item + 1) if more else None)


def line(item: Item) -> str:
    """Return an item as one line of text, without keys that say nothing."""
    if isinstance(item, str):
        return safe_text(item)
    kept = {key: value for key, value in item.items() if value not in (None, [], {}, "")}
    return safe_json(json.dumps(kept, ensure_ascii=False, separators=(",", ":")))


def width(item: Item) -> int:
    """Return the number of characters of an item, as text or as JSON, whatever is more."""
    return max(len(line(item)), len(json.dumps(structured(item), ensure_ascii=False))) + 2


def structured(item: Item) -> dict[str, Any]:
    """Return an item as JSON for programs, whose texts a reader cannot be fooled by either."""
    if isinstance(item, str):
        return {"line": safe_text(item)}
    return {safe_text(key): _shallow(value, _DEEPEST) for key, value in item.items()}


def _shallow(value: Any, levels: int) -> Any:
    """Return a JSON value with at most this number of levels; the text has the rest."""
    match value:
        case dict() | list() if not levels:
            return {"$deeper": "the text of this answer has the rest"}
        case dict():
            return {safe_text(key): _shallow(one, levels - 1) for key, one in value.items()}
        case list():
            return [_shallow(one, levels - 1) for one in value]
        case str():
            return safe_text(value, newlines=True)
    return value


_LONGEST = 2000
"""Number of characters that a text may have at most."""


Parameter: TypeAlias = Mapping[str, Any]
"""The JSON Schema of one argument of a tool."""


def text(about: str, *, choices: Sequence[str] = ()) -> Parameter:
    """Return an argument that is a text."""
    limit = {"enum": list(choices)} if choices else {"maxLength": _LONGEST}
    return {"type": "string", **limit, "description": about}


def texts(about: str, *, choices: Sequence[str] = ()) -> Parameter:
    """Return an argument that is a list of texts."""
    one = {key: value for key, value in text("", choices=choices).items() if key != "description"}
    return {"type": "array", "items": one, "maxItems": 1000, "description": about}


def flag(about: str) -> Parameter:
    """Return an argument that is true or false; false if left out."""
    return {"type": "boolean", "description": about}


def number(about: str, least: int) -> Parameter:
    """Return an argument that is a whole number."""
    return {"type": "integer", "minimum": least, "description": about}


THREAD = text("The id of the thread, as `threads` prints it.")
REF = text(
    "Which checkpoint: head (the default), an id or the start or end of one, ~2 (two before the"
    " head), step:3, or a time such as 2h or 2026-04-07T10:00."
)
NAMESPACE = text("The namespace of a subgraph, as `history` with all_ns prints it. Default: root.")
CHANNELS = texts("Only these channels.")
WHERE = text(
    "A filter over threads, such as: status = error and idle > 2h and not thread like 'test-%'."
    " Fields: thread, status, next, source, step, age, idle, first_at, last_at, checkpoints, bytes,"
    " error, question, user, metadata.KEY, values.CHANNEL. Operators: = != < <= > >= in like ~ and"
    " or not."
)
THREADS = texts("Only the threads with these ids.")
SINCE = text("Only what is not older than this: an age such as 2h or 7d, or a time.")
PAGING = {
    "cursor": text("next_cursor of the page before, to get the next page of the same call."),
    "max_chars": number("Size of the answer in characters, if the default is too much.", 1000),
}


_TELLING = frozenset({"error", "question", "user", "metadata", "any", "values"})
"""The fields of a filter that tell something of the values they are compared with."""
OPEN_HINT = "the person who started the server can show values: ckpt mcp --values, or --channels"


@dataclass(frozen=True, slots=True)
class Permission:
    """Which values the agent may see."""

    values: bool = False
    """All values, errors, questions and metadata."""
    channels: Collection[str] = ()
    """Without `values`: the values of these channels only."""

    def allows(self, channels: Collection[str]) -> bool:
        """Return whether all of these channels may be shown; at least one."""
        return self.values or (bool(channels) and set(channels) <= set(self.channels))


class SeenStore:
    """An open store: `handle` hides values unless they may be shown, `whole` hides nothing."""

    def __init__(self, store: Store, around: Surroundings, allowed: Permission) -> None:
        self.allowed = allowed
        self.whole = StoreHandle(store, around)
        self.handle = self.whole if allowed.values else StoreHandle(RedactedStore(store), around)
        self.around = around

    def close(self) -> None:
        """Close the connection or the file."""
        self.handle.close()

    def refresh(self) -> None:
        """See what was saved since the store was opened or last refreshed."""
        self.handle.refresh()

    def showing(self, channels: Collection[str]) -> StoreHandle:
        """Return the store to read these channels from: with their values if they are allowed."""
        return self.whole if self.allowed.allows(channels) else self.handle


@dataclass(frozen=True, slots=True)
class Asked:
    """One call of a tool."""

    store: SeenStore
    arguments: Mapping[str, Any]
    watch: Watcher
    """Gets what long work looks at; raises `Stopped` if the answer is not wanted any more."""

    def get(self, name: str, default: Any = None) -> Any:
        """Return an argument, or the default if it was left out."""
        found = self.arguments.get(name)
        return default if found is None else found

    def given(self, *names: str) -> dict[str, Any]:
        """Return those of these arguments that were not left out, and the filters."""
        found = {name: self.arguments[name] for name in names if self.get(name) is not None}
        return {**found, "where": self.where} if self.get("where") else found

    @property
    def where(self) -> list[str]:
        """The filters: one or none. Raises `UsageError` if one would tell hidden values."""
        text = self.get("where")
        if text and not self.store.allowed.values:
            found = filter_of(self.store.around, text)
            for field in () if found is None else fields_in(found):
                channel = field.path[0] if field.name == "values" and field.path else None
                if field.name in _TELLING and channel not in self.store.allowed.channels:
                    raise UsageError(
                        f"this server hides values, so it cannot filter by '{field.name}'",
                        hint=OPEN_HINT,
                    )
        return [text] if text else []

    def thread(self, store: StoreHandle | None = None) -> ThreadHandle:
        """Return the thread that is named. Raises `NotFound`."""
        return (store or self.store.handle).thread(self.arguments["thread"])

    def checkpoint(self, store: StoreHandle | None = None, ref: str = "ref") -> CheckpointHandle:
        """Return the checkpoint that is named. Raises `NotFound` or `Ambiguous`."""
        return self.thread(store).at(self.get(ref, "head"), ns=self.get("ns"))


@dataclass(frozen=True, slots=True)
class Tool:
    """What an agent can ask."""

    name: str
    title: str
    about: str
    """What it answers and when to use it, for the model that makes the call."""
    parameters: Mapping[str, Parameter]
    answer: Callable[[Asked], Iterable[Item]]

    required: Sequence[str] = ("thread",)
    """Those of its parameters that may not be left out, if it has them."""

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema of its arguments."""
        return {
            "type": "object",
            "properties": {**self.parameters, **PAGING},
            "required": [name for name in self.parameters if name in self.required],
            "additionalProperties": False,
        }


_STATUSES = ("error", "interrupted", "pending", "done", "unknown", "empty")


def _threads(asked: Asked) -> Iterator[Item]:
    given = asked.given("status", "match", "since", "sort", "sizes")
    return map(dict, asked.store.handle.listed(**given, watch=asked.watch))


def _tree(asked: Asked) -> Iterator[Item]:
    return iter(asked.thread().tree(**asked.given("ns", "unfold")).split("\n"))


def _history(asked: Asked) -> Iterator[Item]:
    found = asked.thread().history(**asked.given("ns", "all_ns"))
    return (without_versions(one.listed()) for one in asked.watch(found))


def without_versions(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record without the versions of channels: long, and nothing to a model."""
    return {name: value for name, value in record.items() if name != "versions"}


def _timeline(asked: Asked) -> Iterator[Item]:
    found = asked.checkpoint().timeline(**asked.given("since", "last")).to_dict()
    steps = found.pop("steps")
    yield found
    yield from steps


HISTORY_TOOLS = (
    Tool(
        "threads",
        "List threads",
        "List the threads of the store, newest first, with status, step, what runs next, and why"
        " a thread waits. Begin here to find stuck threads: status error, interrupted or pending.",
        {
            "status": texts("Only threads for which one of these holds.", choices=_STATUSES),
            "where": WHERE,
            "match": text("Only thread ids that match this shell pattern, such as user-*."),
            "since": SINCE,
            "sort": text("Order; by default last activity.", choices=SORTS),
            "sizes": flag("Add the stored bytes; takes longer on some stores."),
        },
        _threads,
    ),
    Tool(
        "tree",
        "Draw a thread",
        "Draw a thread as a tree: its steps, forks, subgraph calls, questions and errors. Use it"
        " to see what happened in one thread before you look at single checkpoints.",
        {
            "thread": THREAD,
            "ns": NAMESPACE,
            "unfold": flag("Show every step; by default, long runs of steps are folded."),
        },
        _tree,
    ),
    Tool(
        "history",
        "List checkpoints",
        "List the checkpoints of a thread, newest first, with step, nodes, next nodes, status and"
        " number of writes, without values. Use it to find the id of a checkpoint.",
        {
            "thread": THREAD,
            "ns": NAMESPACE,
            "all_ns": flag("Include the checkpoints of subgraphs."),
        },
        _history,
    ),
    Tool(
        "timeline",
        "Show how long steps took",
        "Tell how long each step and each node of a thread took, and how long it waited for a"
        " person. The first item sums up, then one item follows for each step.",
        {
            "thread": THREAD,
            "ref": REF,
            "ns": NAMESPACE,
            "since": SINCE,
            "last": number("Only this number of steps.", 1),
        },
        _timeline,
    ),
)


def _show(asked: Asked) -> Iterator[Item]:
    path = asked.get("path")
    if path is not None:
        yield from _at_path(asked, path)
        return
    channels, wants_writes = asked.get("channels"), asked.get("writes", False)
    record = without_versions(asked.checkpoint().show(channels, writes=wants_writes))
    values, writes = record.pop("values"), record.pop("writes", [])
    yield {**record, "channels": list(values)}
    for name, value in values.items():
        yield {"channel": name, "value": _opened(asked, name, value)}
    for write in writes if wants_writes else ():
        yield {"write": write}


def _opened(asked: Asked, channel: str, hidden: Any) -> Any:
    """Return the value of a channel as it may be shown."""
    allowed = asked.store.allowed
    if allowed.values or not allowed.allows([channel]):
        return hidden
    shown = asked.checkpoint(asked.store.whole).show([channel], writes=False)
    return shown["values"][channel]


def _at_path(asked: Asked, path: str) -> Iterator[Item]:
    store = _store_for(asked, path)
    for one in asked.checkpoint(store).select(path):
        yield {"path": path, "value": to_json(one.value)}


def _diff(asked: Asked) -> Iterator[Item]:
    store, channels = asked.store.handle, asked.get("channels")
    record = _compared(asked, store, channels)
    changes: Mapping[str, Any] = record.pop("channels")
    yield {**record, "changed": list(changes)}
    allowed = asked.store.allowed
    for name, change in changes.items():
        if allowed.values or not allowed.allows([name]):
            yield {"channel": name, **change}
        else:
            shown = _compared(asked, asked.store.whole, [name])
            yield {"channel": name, **shown["channels"][name]}


def _compared(asked: Asked, store: Any, channels: Any) -> dict[str, Any]:
    after = asked.checkpoint(store, "to")
    if asked.get("writes", False):
        return dict(after.diff_writes(channels=channels))
    return dict(after.diff(asked.get("from"), channels))


def _messages(asked: Asked) -> Iterator[Item]:
    channel = asked.get("channel")
    name = channel or asked.checkpoint().conversation().channel
    found = asked.checkpoint(asked.store.showing([name])).conversation(name)
    last = asked.get("last")
    skipped = max(len(found.turns) - last, 0) if last else 0
    about: dict[str, Any] = {"channel": found.channel, "messages": len(found.turns)}
    if not found.turns and (before := last_held(asked.checkpoint().target, [name])) is not None:
        about["last_held"] = {"checkpoint_id": before.checkpoint_id, "messages": before.number}
    yield about
    yield from message_records(found.turns, skipped)


def _blame(asked: Asked) -> Iterator[Item]:
    path = asked.arguments["path"]
    store = _store_for(asked, path)
    found = asked.checkpoint(store).blame(path).to_dict()
    if not asked.store.allowed.values:
        # The reason of an edit is metadata, which no open channel opens.
        hidden = asked.checkpoint().blame(path).to_dict()
        found = {**found, **{name: hidden[name] for name in ("forked_from", "forked_by", "reason")}}
    yield found


def _store_for(asked: Asked, path: str) -> StoreHandle:
    """Return the store to follow a path in: with values if its channel is open.

    Raises `UsageError` for a key inside a hidden value: that it is there would tell of the value.
    """
    steps = parse_path(path)
    channels = [steps[0]] if steps and isinstance(steps[0], str) else []
    if not asked.store.allowed.allows(channels) and any(isinstance(one, str) for one in steps[1:]):
        raise UsageError(
            "this server hides values, so it cannot look for a key in one", hint=OPEN_HINT
        )
    return asked.store.showing(channels)


_PATH = "A part of the state, such as plan or messages[-1].content; [] stands for each item."

CHECKPOINT_TOOLS = (
    Tool(
        "show",
        "Show a checkpoint",
        "Show the state at a checkpoint: first what it is, what is next and which channels it has,"
        " then one item for each channel. Use path for a part of a large value.",
        {
            "thread": THREAD,
            "ref": REF,
            "ns": NAMESPACE,
            "channels": CHANNELS,
            "path": text(_PATH),
            "writes": flag("Add what the tasks of the next step wrote."),
        },
        _show,
    ),
    Tool(
        "diff",
        "Compare two checkpoints",
        "Tell what changed between two checkpoints of a thread; without from, what the step that"
        " made the checkpoint changed. With writes, which task wrote it.",
        {
            "thread": THREAD,
            "to": REF,
            "from": text("The earlier checkpoint. Default: the one before."),
            "ns": NAMESPACE,
            "channels": CHANNELS,
            "writes": flag("Show the writes of the step next to the values; leave out from."),
        },
        _diff,
    ),
    Tool(
        "messages",
        "Read the conversation",
        "Read the messages of a thread at a checkpoint, with tool calls, their results and tokens.",
        {
            "thread": THREAD,
            "ref": REF,
            "ns": NAMESPACE,
            "channel": text("The channel with the messages, if it is not 'messages'."),
            "last": number("Only this number of messages, the newest.", 1),
        },
        _messages,
    ),
    Tool(
        "blame",
        "Find who set a value",
        "Find the step, the node and the task that set a value. Use it when a value is wrong.",
        {
            "thread": THREAD,
            "path": text("The value, such as plan or messages[-1].content."),
            "ref": REF,
            "ns": NAMESPACE,
        },
        _blame,
        required=("thread", "path"),
    ),
)


def _memory(asked: Asked) -> Iterator[Item]:
    memory, namespace = asked.store.handle.memory, asked.get("namespace", "")
    if (key := asked.get("key")) is not None:
        yield memory.show(key, namespace).to_dict()
        return
    if (wanted := asked.get("search")) is not None:
        if not asked.store.allowed.values:
            raise UsageError("this server hides the values to search", hint=OPEN_HINT)
        hits = memory.search(wanted, namespace, watch=asked.watch)
        yield from (one.to_dict() for one in hits)
        if hits.missed:
            yield {"missed": hits.missed}
        return
    items = memory.items(namespace, match=asked.get("match"), since=asked.get("since"))
    yield from (one.to_dict() for one in asked.watch(items))


MEMORY_TOOLS = (
    Tool(
        "memory",
        "Read long-term memory",
        "List what agents remember across threads, without values; with key, show one item with"
        " its value and where it came from; with search, find a text.",
        {
            "namespace": text("Only this namespace and those below it, such as users/anna."),
            "key": text("Show the item with this key."),
            "search": text("Find this text in namespaces, keys and values."),
            "match": text("Only keys that match this shell pattern."),
            "since": SINCE,
        },
        _memory,
    ),
)


def _interrupts(asked: Asked) -> Iterator[Item]:
    given = asked.given("threads", "older_than")
    return map(dict, asked.store.handle.interrupts(**given, watch=asked.watch))


def _errors(asked: Asked) -> Iterator[Item]:
    given, by = asked.given("threads", "since", "history"), asked.get("by")
    if by is not None:
        return iter(asked.store.handle.errors_by(by, **given, watch=asked.watch))
    return map(dict, asked.store.handle.errors(**given, watch=asked.watch))


def _grep(asked: Asked) -> Iterator[Item]:
    allowed = asked.store.allowed
    channels = asked.get("channels", () if allowed.values else list(allowed.channels))
    if not allowed.values and not allowed.allows(channels):
        # That something matches would tell what is hidden.
        raise UsageError("this server hides the values to search", hint=OPEN_HINT)
    hits = asked.store.whole.grep(
        asked.arguments["pattern"],
        fixed=not asked.get("regex", False),
        channels=channels,
        **asked.given("threads", "ignore_case", "ns", "head_only"),
        watch=asked.watch,
    )
    yield from map(dict, hits)
    if hits.missed:
        yield {"missed": hits.missed}


def _doctor(asked: Asked) -> Iterator[Item]:
    found = asked.store.handle.doctor(**asked.given("threads", "deep"), watch=asked.watch)
    yield from map(dict, found)
    yield {"complete": found.complete, "checked": CHECKED.record(found.checked)}


TROUBLE_TOOLS = (
    Tool(
        "interrupts",
        "List open questions",
        "List the questions for whose answer threads wait, with thread, node and since when.",
        {
            "threads": THREADS,
            "where": WHERE,
            "older_than": text("Only questions older than this, such as 2h."),
        },
        _interrupts,
    ),
    Tool(
        "errors",
        "List failed tasks",
        "List the failed tasks for whose retry threads wait, with node, error and time. With by,"
        " count the same errors together: begin so if there are many.",
        {
            "threads": THREADS,
            "where": WHERE,
            "since": SINCE,
            "history": flag("Include failures that were retried or handled since."),
            "by": text("Count by this.", choices=("error", "node")),
        },
        _errors,
    ),
    Tool(
        "grep",
        "Search values",
        "Search the values, writes, questions and errors of threads for a text. On a large store,"
        " name threads or a filter: every value may have to be read.",
        {
            "pattern": text("The text to search for."),
            "regex": flag("Take the pattern as a regular expression; its time is limited."),
            "ignore_case": flag("Ignore the difference of upper and lower case."),
            "threads": THREADS,
            "where": WHERE,
            "channels": CHANNELS,
            "ns": NAMESPACE,
            "head_only": flag("Search the newest state only."),
        },
        _grep,
        required=("pattern",),
    ),
    Tool(
        "doctor",
        "Check for damage",
        "Check threads for missing or unreadable values, conversations that model APIs refuse,"
        " interrupted steps and more. Each finding names the command that mends it, for a person"
        " to run. The last item tells what was checked.",
        {
            "threads": THREADS,
            "where": WHERE,
            "deep": flag("Decode every value and replay every step; takes long on many threads."),
        },
        _doctor,
    ),
)


TOOLS = {
    one.name: one for one in (*HISTORY_TOOLS, *CHECKPOINT_TOOLS, *TROUBLE_TOOLS, *MEMORY_TOOLS)
}
