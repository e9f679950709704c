"""Plan to erase single values of threads: what is erased, and how many rows change."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from ckpt_backends.codec.values import Cut, Opaque, Tagged, Value
from ckpt_backends.erasing.erasure import (
    ANY_STEP,
    SHORTEST_PART,
    Erasure,
    Scalar,
    ScalarPlace,
    Step,
)
from ckpt_backends.erasing.thread import ErasureCounts, ThreadEraser
from ckpt_backends.errors import Refused
from ckpt_backends.protocol import Store
from ckpt_backends.transfer.form import CannotHold
from ckpt_backends.transfer.sealing import WithKeys
from ckpt_cli.core.values import Path, Selected, format_path, is_set
from ckpt_cli.plans.repair import ValuePlace

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
