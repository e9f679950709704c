"""Find the values that `THREAD[@REF]:PATH` names, or a record of `ckpt secrets`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Any

from ckpt_backends.codec import decode
from ckpt_backends.codec.values import Opaque, Value
from ckpt_backends.errors import Ambiguous, NotFound, Refused, UsageError
from ckpt_backends.protocol import Store
from ckpt_cli.core.values.paths import Path, Selected, format_path, parse_path, select
from ckpt_cli.threads.states import read_state
from ckpt_cli.threads.target import TargetArguments, find_checkpoint
from ckpt_cli.threads.thread import ThreadReader

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
        for one in self.reader.store.writes(
            self.reader.thread_id,
            checkpoint_ns=self.checkpoint_ns,
            checkpoint_ids=[self.checkpoint_id],
            values=True,
        ):
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
