"""Sums of bytes, writes and tokens, and what tokens cost."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Generic, TypeVar

from ckpt_backends.model import NULL_TASK_ID
from ckpt_cli.core.conversation import Message, TokenCounts
from ckpt_cli.core.lineage import depth_of
from ckpt_cli.core.state import START
from ckpt_cli.core.tasks import UPDATE_PATH, pulled_node

_PER = 1_000_000


@dataclass(frozen=True, slots=True)
class ModelPrice:
    """The prices of a model, for a million tokens."""

    input: float
    output: float
    cache_read: float | None = None
    """None: as other input."""
    cache_creation: float | None = None
    """None: as other input."""

    def cost(self, tokens: TokenCounts) -> float:
        """Return what these tokens cost."""
        read = self.input if self.cache_read is None else self.cache_read
        creation = self.input if self.cache_creation is None else self.cache_creation
        plain = max(0, tokens.input - tokens.cache_read - tokens.cache_creation)
        return (
            plain * self.input
            + tokens.cache_read * read
            + tokens.cache_creation * creation
            + tokens.output * self.output
        ) / _PER


@dataclass(frozen=True, slots=True)
class PriceList:
    """The prices of all models that a configuration names."""

    currency: str = "USD"
    models: Mapping[str, ModelPrice] = field(default_factory=dict)
    """By name of a model, or by a pattern such as `gpt-4o*`."""

    def of(self, model: str | None) -> ModelPrice | None:
        """Return the price of a model: by its name, or else by the longest pattern that fits."""
        if model is None or model in self.models:
            return self.models.get(model or "")
        fitting = [name for name in self.models if fnmatchcase(model, name)]
        return self.models[max(fitting, key=len)] if fitting else None


# The messages of models in a thread, each once, with the tokens that they tell.
#
# A message is stored many times: in the write of its node, in that of the node that called the
# subgraph, and in each later state. Its id tells that it is the same. Of messages without an id,
# as many are counted as are stored at one place with equal contents.


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a message was found."""

    checkpoint_ns: str
    checkpoint_id: str
    task_id: str | None = None
    """The task that wrote it; None if it was found in a state."""
    task_path: str = ""
    node: str | None = None
    """Name of the node, in layouts that store it with each write."""
    at: datetime | None = None

    @property
    def own_node(self) -> str | None:
        """Name of the node that wrote it, as far as the write tells."""
        return self.node or pulled_node(self.task_path)

    @property
    def is_output(self) -> bool:
        """Whether a node wrote it; not the caller, who may have got it from a node."""
        return (
            self.task_id not in {None, NULL_TASK_ID}
            and self.own_node != START
            and not self.task_path.startswith(UPDATE_PATH)
        )

    def is_inside(self, other: Origin) -> bool:
        """Whether it was written in a subgraph that the task of another origin called."""
        if not self.checkpoint_ns.startswith(other.checkpoint_ns):
            return False
        inner = self.checkpoint_ns[len(other.checkpoint_ns) :].removeprefix("|").split("|")[0]
        node, _, task_id = inner.rpartition(":")
        return bool(inner) and (task_id == other.task_id or (not node and inner == other.own_node))

    @property
    def depth(self) -> int:
        """Number of subgraphs that it was written in."""
        return depth_of(self.checkpoint_ns)


_NOWHERE = Origin("", "")


@dataclass(frozen=True, slots=True)
class FoundMessage:
    """A message with its tokens."""

    model: str | None
    tokens: TokenCounts
    """Of no message if it has no usage data."""
    origin: Origin = _NOWHERE


Told = Iterable[tuple[Message, FoundMessage | None]]
"""Messages in their order; None for one that is not of a model and does not tell its tokens."""


class MessageLedger:
    """Gathers messages in any order, and yields each once."""

    def __init__(self) -> None:
        self._by_id: dict[str, FoundMessage] = {}
        self._with_id: dict[int, list[str]] = {}
        """By contents: the ids of the messages that have one."""
        self._nameless: dict[int, dict[int, list[FoundMessage]]] = {}
        """Messages without an id, by contents and by depth of subgraphs."""
        self._written: dict[tuple[str, str], list[int]] = {}
        """By namespace and channel: the contents of the list that was written last."""

    def add_list(self, channel: str, origin: Origin, told: Told) -> None:
        """Add the messages that a task wrote to a channel."""
        found = list(told)
        first = self._repeated(channel, origin, [one for one, _ in found])
        for place, (message, tokens) in enumerate(found):
            if tokens is None:
                continue
            if message.id is not None:
                self._add(message, replace(tokens, origin=origin))
            elif place >= first:
                self._alike(message, origin).append(replace(tokens, origin=origin))

    def add_state(self, origin: Origin, told: Told) -> None:
        """Add the messages in a channel of a state; without an id, those that it has more."""
        here: Counter[int] = Counter()
        for message, tokens in told:
            if tokens is None:
                continue
            if message.id is not None:
                self._add(message, replace(tokens, origin=origin))
                continue
            here[contents(message)] += 1
            known = self._alike(message, origin)
            if len(known) < here[contents(message)]:
                known.append(replace(tokens, origin=origin))

    def _alike(self, message: Message, origin: Origin) -> list[FoundMessage]:
        """Return the messages without an id that have equal contents, at the same depth."""
        by_depth = self._nameless.setdefault(contents(message), {})
        return by_depth.setdefault(origin.depth, [])

    def messages(self) -> Iterator[FoundMessage]:
        """Yield each message once."""
        by_id = dict(self._by_id)
        for held, by_depth in self._nameless.items():
            # In the state, and in the graph that called a subgraph, the same messages may have ids.
            # A state does not tell who wrote them, nor when.
            most = max(by_depth.values(), key=len)
            ids = self._with_id.get(held, [])
            for name, written in zip(ids, most, strict=False):
                if by_id[name].origin.task_id is None and written.origin.task_id is not None:
                    by_id[name] = replace(by_id[name], origin=written.origin)
            yield from most[len(ids) :]
        yield from by_id.values()

    def _add(self, message: Message, counted: FoundMessage) -> None:
        assert message.id is not None  # noqa: S101
        known = self._by_id.get(message.id)
        if known is None:
            self._by_id[message.id] = counted
            self._with_id.setdefault(contents(message), []).append(message.id)
            return
        # A message that was streamed grew.
        whole = known if _told(known) >= _told(counted) else counted
        is_better = _is_better(counted.origin, known.origin)
        origin = counted.origin if is_better else known.origin
        self._by_id[message.id] = replace(whole, origin=origin)

    def _repeated(self, channel: str, origin: Origin, messages: list[Message]) -> int:
        """Return how many messages of a list were in the list before: some nodes write it whole."""
        if all(one.id is not None for one in messages):
            return 0
        place, now = (origin.checkpoint_ns, channel), [contents(one) for one in messages]
        before = self._written.get(place, [])
        self._written[place] = now
        return len(before) if len(now) > 1 and now[: len(before)] == before else 0


def _told(found: FoundMessage) -> tuple[int, int]:
    """Return what is greater for a message that tells more."""
    return found.tokens.total, found.tokens.messages


def contents(message: Message) -> int:
    """Return a hash of all that a message holds but its id."""
    held = ((str(key), repr(value)) for key, value in message.fields.items() if key != "id")
    return hash(tuple(sorted(held)))


def _is_better(new: Origin, known: Origin) -> bool:
    """Return whether an origin tells better which node called the model.

    That is the innermost node, since the nodes around it write the message again; then the first.
    """
    if new.is_output != known.is_output:
        return new.is_output
    if new.is_inside(known) or known.is_inside(new):
        return new.is_inside(known)
    return new.at is not None and known.at is not None and new.at < known.at


_Key = TypeVar("_Key", bound=Hashable)


@dataclass(frozen=True, slots=True)
class ByteSum(Generic[_Key]):
    """Rows and bytes of one name."""

    key: _Key
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Ranking(Generic[_Key]):
    """The largest amounts, largest first, and the sum of all others."""

    top: tuple[ByteSum[_Key], ...]
    more: int
    """Number of the others."""
    more_bytes: int
    total: int
    """Bytes of all names."""


class SizeTally(Generic[_Key]):
    """Adds up rows and bytes by name."""

    def __init__(self) -> None:
        self._sums: dict[_Key, tuple[int, int]] = {}

    def add(self, key: _Key, rows: int, size: int) -> None:
        """Add rows and bytes to a name."""
        old_rows, old_size = self._sums.get(key, (0, 0))
        self._sums[key] = (old_rows + rows, old_size + size)

    def amounts(self) -> Iterable[ByteSum[_Key]]:
        """Return the amounts of all names."""
        return (ByteSum(key, rows, size) for key, (rows, size) in self._sums.items())


def rank(amounts: Iterable[ByteSum[_Key]], most: int) -> Ranking[_Key]:
    """Return the `most` largest amounts of a stream, which alone are held in memory."""
    number = total = 0

    def counted() -> Iterator[ByteSum[_Key]]:
        nonlocal number, total
        for one in amounts:
            number += 1
            total += one.bytes
            yield one

    stream = counted()
    top = tuple(heapq.nsmallest(most, stream, key=lambda one: (-one.bytes, str(one.key))))
    for _ in stream:  # Without room for any, they are counted all the same.
        pass
    rest = total - sum(one.bytes for one in top)
    return Ranking(top, number - len(top), rest, total)
