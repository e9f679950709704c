"""Plans to erase single values: where they are, what is erased, and how many rows change."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from typing import Any

from ckpt_backends.codec import decode
from ckpt_backends.codec.values import Cut, Opaque, Tagged, Value
from ckpt_backends.erasing.formats import (
    ANY_STEP,
    SHORTEST_PART,
    Erasure,
    Scalar,
    ScalarPlace,
    Step,
)
from ckpt_backends.erasing.thread import ErasureCounts, ThreadEraser
from ckpt_backends.errors import Ambiguous, NotFound, Refused, UsageError
from ckpt_backends.protocol import Store
from ckpt_backends.transfer.form import CannotHold
from ckpt_backends.transfer.sealing import WithKeys
from ckpt_cli.core.values import Path, Selected, format_path, is_set, parse_path, select
from ckpt_cli.reading.states import read_state
from ckpt_cli.reading.target import TargetArguments, find_checkpoint
from ckpt_cli.reading.thread import ThreadReader

_METADATA, _WRITE = "metadata:", "write:"
_WORDS_OF_WRITE = 3


@dataclass(frozen=True, slots=True)
class ValuePlace:
    """A place in one checkpoint of a thread."""

    reader: ThreadReader
    checkpoint_ns: str
    checkpoint_id: str
    kind: str
    """`value`, `write` or `metadata`."""
    path: Path
    """Except in metadata, it begins with the channel."""
    task_id: str = ""
    idx: int = 0

    @property
    def source(self) -> tuple[str, ...]:
        """What is read to find the value: places with the same source are in the same values."""
        task = (self.task_id, str(self.idx)) if self.kind == "write" else ()
        return self.reader.thread_id, self.checkpoint_ns, self.checkpoint_id, self.kind, *task

    def read(self, root: dict[Value, Value] | None = None) -> list[Selected]:
        """Return the values at the place; `root` are the values of its source, if they are read.

        Raises `NotFound`, and `Refused` if it is encrypted.
        """
        if root is None:
            root = self.root()
        first = self.path[0] if self.path else None
        found = root.get(first) if isinstance(first, str) else None
        if isinstance(found, Opaque):
            name = format_path(self.path[:1])
            raise Refused(f"'{name}' cannot be erased, because it was not read: {found.reason}")
        return select(root, self.path)

    def root(self) -> dict[Value, Value]:
        """Return the values of the source by channel, or the metadata."""
        if self.kind == "write":
            return self._write()
        moment = self.reader.stored(self.checkpoint_ns, self.checkpoint_id, state=True)
        found: dict[Value, Value] = {}
        if self.kind == "metadata":
            found.update(moment.metadata)
            return found
        if moment.body.problem:
            raise Refused(f"checkpoint '{self.checkpoint_id}' is {moment.body.problem.reason}")
        # Channels of LangGraph itself, such as `__start__`, are no part of the state.
        found.update(moment.body.values)
        found.update(read_state(self.reader, moment).values)
        return found

    def names(self) -> set[str]:
        """Return the names of the graph's channels and nodes, as far as the checkpoint has them."""
        body = self.reader.stored(self.checkpoint_ns, self.checkpoint_id).body
        return {*body.versions, *body.seen}

    def _write(self) -> dict[Value, Value]:
        for one in self.reader.writes(self.checkpoint_ns, [self.checkpoint_id], values=True):
            if (one.task_id, one.idx) == (self.task_id, self.idx) and one.value is not None:
                return {one.channel: decode(one.value)}
        raise NotFound(f"no write {self.idx} of task '{self.task_id}'")


def named_place(
    store: Store,
    text: str,
    ns: str | None,
    now: datetime,
    zone: tzinfo,
    note: Callable[[str], None],
) -> ValuePlace:
    """Return the place that `THREAD[@REF]:PATH` names; PATH may begin with a kind.

    A thread id and a REF may contain colons, so the first colon is taken behind which there is a
    value. Raises `NotFound`, `Ambiguous` or `UsageError`.
    """
    problem: NotFound | Ambiguous | UsageError | None = None
    is_thread = False
    at = text.find(":")
    while at > 0:
        words = TargetArguments(text[:at], ns=ns)
        try:
            target = find_checkpoint(store, words, now, zone, note)
            place = _inside(
                target.reader, target.checkpoint_ns, target.checkpoint_id, text[at + 1 :]
            )
            place.read()
        except (NotFound, Ambiguous, UsageError) as error:
            # Of several problems, that of a thread that exists tells most.
            has_thread = store.thread(text[:at].partition("@")[0]) is not None
            if problem is None or has_thread >= is_thread:
                problem, is_thread = error, has_thread
        else:
            return place
        at = text.find(":", at + 1)
    if problem is not None:
        raise problem
    raise UsageError(
        f"'{text}' names no value", hint="give THREAD:PATH or THREAD@REF:PATH, with a channel first"
    )


def _inside(reader: ThreadReader, ns: str, checkpoint_id: str, rest: str) -> ValuePlace:
    if rest.startswith(_METADATA):
        path = parse_path(rest.removeprefix(_METADATA))
        return ValuePlace(reader, ns, checkpoint_id, "metadata", path)
    if rest.startswith(_WRITE):
        words = rest.removeprefix(_WRITE).split(":", _WORDS_OF_WRITE - 1)
        if len(words) == _WORDS_OF_WRITE and words[1].isdecimal():
            path = parse_path(words[2])
            task_id, idx = words[0], int(words[1])
            return ValuePlace(reader, ns, checkpoint_id, "write", path, task_id, idx)
    path = parse_path(rest)
    if not path:
        raise UsageError("name a channel and not the whole state", hint="give THREAD:CHANNEL")
    return ValuePlace(reader, ns, checkpoint_id, "value", path)


@dataclass(slots=True)
class RecordedPlaces:
    """The places of the records of `ckpt secrets -o ndjson`."""

    skipped_memory: int = 0
    skipped_unnamed: int = 0
    """Records that do not tell their place, since it contains the secret."""

    def read(self, store: Store, lines: Iterable[str]) -> Iterator[ValuePlace]:
        """Yield the places in threads. Raises `NotFound`, and `UsageError` for another text."""
        reader: ThreadReader | None = None
        for number, text in enumerate(lines, 1):
            if not text.strip():
                continue
            record = _record(text, number)
            if record.get("place") == "memory":
                self.skipped_memory += 1
            elif record.get("value") is None:
                self.skipped_unnamed += 1
            else:
                thread_id = record["thread_id"]
                if not isinstance(thread_id, str):
                    raise UsageError(f"line {number} names no thread")
                if reader is None or reader.thread_id != thread_id:
                    reader = ThreadReader(store, thread_id)
                yield _recorded(reader, record, number)


def _record(text: str, number: int) -> dict[str, Any]:
    try:
        record = json.loads(text)
        if isinstance(record, dict) and {"thread_id", "place", "path"} <= record.keys():
            return record
    except (ValueError, RecursionError):
        pass
    raise UsageError(
        f"line {number} is not a record of `ckpt secrets`",
        hint="write them with `ckpt secrets -o ndjson`",
    )


def _recorded(reader: ThreadReader, record: dict[str, Any], number: int) -> ValuePlace:
    ns, checkpoint_id = record.get("checkpoint_ns"), record.get("checkpoint_id")
    if not (isinstance(ns, str) and isinstance(checkpoint_id, str)):
        raise UsageError(f"line {number} names no checkpoint")
    kind, text = record["place"], record["path"]
    if kind not in ("value", "write", "metadata"):
        raise UsageError(f"line {number} has the unknown place '{kind}'")
    task_id, idx = record.get("task_id") or "", record.get("idx") or 0
    if not (isinstance(text, str) and isinstance(task_id, str) and isinstance(idx, int)):
        raise UsageError(f"line {number} names no value")
    return ValuePlace(reader, ns, checkpoint_id, kind, parse_path(text), task_id, idx)


KEPT_WORDS = frozenset(
    {
        *("human", "ai", "system", "tool", "function", "chat", "remove", "user", "assistant"),
        *("text", "image_url", "tool_call", "tool_use", "tool_result", "invalid_tool_call"),
        *("constructor", "not_implemented", "secret", "success", "error", "developer"),
        *("content", "additional_kwargs", "response_metadata", "tool_calls", "tool_call_id"),
        *("AIMessageChunk", "HumanMessageChunk", "SystemMessageChunk", "ToolMessageChunk"),
    }
)
"""Texts by which LangChain tells the kinds of messages apart. No message could be read without."""


@dataclass(slots=True)
class ToErase:
    """What is erased in one thread, collected from several places."""

    thread_id: str
    texts: set[str] = field(default_factory=set)
    scalars: list[ScalarPlace] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    """Of channels and nodes of the graph."""

    def add(self, place: ValuePlace, found: Selected) -> None:
        """Add a whole value. Raises `Refused` if it cannot be erased."""
        name = format_path(found.path)
        value = found.value
        if isinstance(value, str):
            self.add_text(value, name)
        elif isinstance(value, dict | list | Tagged):
            for path, one in _leaves(value, found.path, name):
                self._add_inner(place, path, one)
        else:
            self._add_scalar(place, found.path, _scalar(value, name))

    def add_text(self, text: str, name: str) -> None:
        """Add a text, to be erased wherever it is. Raises `Refused` for one that is needed."""
        if not text:
            raise Refused(f"'{name}' is empty: there is nothing to erase")
        if text in KEPT_WORDS:
            raise Refused(
                f"'{name}' is a word by which LangChain reads messages, so it cannot be erased",
                hint="name the value that is secret",
            )
        self.texts.add(text)

    def _add_inner(self, place: ValuePlace, path: Path, value: Scalar) -> None:
        """Add a value inside a list or an object. Short texts are erased at their place only."""
        if isinstance(value, str) and len(value) >= SHORTEST_PART:
            if value not in KEPT_WORDS:
                self.texts.add(value)
        elif value not in KEPT_WORDS and value not in ("", 0):
            self._add_scalar(place, path, value)

    def _add_scalar(self, place: ValuePlace, path: Path, value: Scalar) -> None:
        if place.kind == "metadata":
            raise Refused(
                f"'{format_path(path)}' of the metadata is no text, so it cannot be erased"
            )
        steps: list[Step] = [one for one in path if isinstance(one, str | int)]
        self.scalars.append(ScalarPlace(tuple(steps), value))

    def erasure(self) -> Erasure:
        """Return it as the rules of an erasure. Raises `Refused` for a name of the graph."""
        if self.texts & self.names:
            raise Refused(
                f"a value of thread '{self.thread_id}' is the name of a channel or a node, by which"
                " the graph goes on, so it cannot be erased",
                hint="name the value that is secret",
            )
        return Erasure(frozenset(self.texts), tuple(dict.fromkeys(self.scalars)))


def _leaves(value: Value, path: Path, name: str) -> Iterator[tuple[Path, Scalar]]:
    """Yield all texts, numbers and booleans inside a value with their paths."""
    todo: list[tuple[Path, Value]] = [(path, value)]
    while todo:
        at, one = todo.pop()
        if isinstance(one, Tagged) and is_set(one) and isinstance(one.payload, list):
            # The order of a set differs from checkpoint to checkpoint.
            todo += [((*at, ANY_STEP), item) for item in one.payload]
        elif isinstance(one, Tagged):
            todo.append((at, one.payload))
        elif isinstance(one, dict):
            todo += [((*at, _step(key)), item) for key, item in one.items()]
        elif isinstance(one, list):
            todo += [((*at, index), item) for index, item in enumerate(one)]
        elif one is not None:
            yield at, _scalar(one, name)


def _step(key: Value) -> Step:
    return key if type(key) in (str, int) else str(key)  # type: ignore[return-value]


def _scalar(value: Value, name: str) -> Scalar:
    """Return a plain value. Raises `Refused` for one that cannot be found in what is stored."""
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            raise Refused(f"'{name}' has bytes that are no text, so it cannot be erased") from None
    if isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Opaque | Cut):
        raise Refused(f"'{name}' was not read: {value.reason}")
    raise Refused(f"'{name}' is null: there is nothing to erase")


@dataclass(frozen=True, slots=True)
class EraseValuePlan:
    """What an erasure changes in one thread."""

    thread_id: str
    erasure: Erasure = field(repr=False)
    counts: ErasureCounts
    digest: tuple[int, int]
    """What the thread was when it was planned."""


@dataclass(frozen=True, slots=True)
class ErasingSide:
    """A store whose values are to be erased."""

    rows: Store
    """With rows as stored: neither decrypted nor redacted."""
    layout: str
    keys: WithKeys | None

    def eraser(self, erasure: Erasure) -> ThreadEraser:
        """Return an eraser for one reading of a thread."""
        return ThreadEraser(self.layout, erasure, self.keys)


def plan_erasure(side: ErasingSide, asked: ToErase) -> EraseValuePlan:
    """Return what would change in a thread.

    Raises `Refused` if a value cannot be read or contains a name that has to be kept.
    """
    erasure = asked.erasure()
    eraser = side.eraser(erasure)
    try:
        for _ in eraser.edits(side.rows.rows(asked.thread_id)):
            pass
    except CannotHold as error:
        raise unreadable(asked.thread_id, error) from error
    finally:
        side.rows.refresh()
    return EraseValuePlan(asked.thread_id, erasure, eraser.counts, eraser.digest)


def unreadable(thread_id: str, error: CannotHold) -> Refused:
    """Return the error for a thread with a value that cannot be read."""
    return Refused(
        f"thread '{thread_id}' was left as it is: {error.message}",
        hint="what cannot be read cannot be erased; `ckpt doctor --deep` lists such values",
    )


def collected(places: Iterable[tuple[ValuePlace, Sequence[Selected]]]) -> dict[str, ToErase]:
    """Return what is erased in each thread. Raises `Refused`."""
    found: dict[str, ToErase] = {}
    for place, values in places:
        thread_id = place.reader.thread_id
        asked = found.setdefault(thread_id, ToErase(thread_id))
        asked.names |= place.names()
        for one in values:
            asked.add(place, one)
    return found
