"""The values of a state as lines that fold, and a search in them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import overload

from ckpt_backends.codec.values import Value
from ckpt_cli.core.conversation import as_message
from ckpt_cli.queries.diff import Change
from ckpt_cli.render.folding import (
    BEGINNING,
    ITEMS,
    PART,
    ValueNode,
    channel_node,
    child_name,
    children,
    is_index,
    node_lines,
    parts_of,
    takes_one_line,
    text_of,
    unfold,
)
from ckpt_cli.render.text import Span, StyledLine, line
from ckpt_cli.render.values import key_text, leaf, message_label, summary

_MOST_LINES = 20_000
"""Maximum number of lines that are unfolded at once."""
_SIGNS: Mapping[Change, Span] = {"added": ("+", "add"), "changed": ("~", "change")}


@dataclass(frozen=True, slots=True)
class StateValues:
    """The state of a checkpoint, to be folded and unfolded."""

    heading: Sequence[StyledLine]
    values: Mapping[str, Value]
    remarks: Mapping[str, str]
    """By channel: how its value was rebuilt."""
    changes: Mapping[str, Change]
    """By path: what the step did to a value."""


@dataclass(slots=True)
class Folds:
    """What a person folded, unfolded and pinned; the same in all checkpoints."""

    open: dict[str, bool] = field(default_factory=dict)
    """By the name of a node: whether it is open. All others are as at the start."""
    pinned: list[str] = field(default_factory=list)
    """The channels that come first."""


class UnfoldedValues(Sequence[StyledLine]):
    """The lines of a state under some folds; a line is drawn when it is seen."""

    def __init__(self, state: StateValues, folds: Folds, width: int) -> None:
        self._state, self._width = state, width
        self._pinned = set(folds.pinned)
        self._rows: list[tuple[ValueNode, int]] = []
        self._drawn: dict[str, Sequence[StyledLine]] = {}
        self.marks: dict[int, str] = {}
        """By line: the name of the node that starts there."""
        self.lines_of: dict[str, int] = {}
        """By name: the line at which a node starts."""
        self.is_cut = False
        pinned = [name for name in folds.pinned if name in state.values]
        names = [*pinned, *(name for name in state.values if name not in self._pinned)]
        self.roots = [channel_node(name, state.values[name]) for name in names]
        for node in unfold(self.roots, folds.open):
            if len(self._rows) > _MOST_LINES:
                self.is_cut = True
                break
            self.marks[len(self)] = node.name
            self.lines_of[node.name] = len(self)
            number = 1 if takes_one_line(node, width) else len(self._lines(node))
            self._rows += [(node, at) for at in range(number)]

    def __len__(self) -> int:
        return len(self._state.heading) + len(self._rows) + self.is_cut

    @overload
    def __getitem__(self, index: int) -> StyledLine: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[StyledLine]: ...
    def __getitem__(self, index: int | slice) -> StyledLine | Sequence[StyledLine]:
        if isinstance(index, slice):
            return [self[at] for at in range(*index.indices(len(self)))]
        if index < 0:
            index += len(self)
        above = len(self._state.heading)
        if index < above:
            return self._state.heading[index]
        if index - above == len(self._rows) and self.is_cut:
            return line(("… more; fold values to see the rest", "dim"))
        node, at = self._rows[index - above]
        return self._lines(node)[at]

    def __iter__(self) -> Iterator[StyledLine]:
        return (self[at] for at in range(len(self)))

    def node_at(self, index: int) -> ValueNode | None:
        """Return the node that a line belongs to; None for the heading."""
        at = index - len(self._state.heading)
        return self._rows[at][0] if 0 <= at < len(self._rows) else None

    def changed_lines(self) -> list[int]:
        """Return the lines of what the step changed: of what is unfolded, only the parts."""
        nodes = ((at, self.node_at(at)) for at in self.marks)
        signed = [(at, node) for at, node in nodes if node is not None and self._sign(node)[0]]
        below = [node.depth for _, node in signed[1:]] + [0]
        return [
            at for (at, node), deeper in zip(signed, below, strict=True) if deeper <= node.depth
        ]

    def _lines(self, node: ValueNode) -> Sequence[StyledLine]:
        drawn = self._drawn.get(node.name)
        if drawn is None:
            drawn = node_lines(node, self._width, self._sign(node))
            if node.parent is None and (remark := self._remark(str(node.key))):
                drawn[0] = line(*drawn[0].spans, (f"  {remark}", "dim"))
            self._drawn[node.name] = drawn
        return drawn

    def _sign(self, node: ValueNode) -> Span:
        """Return the sign of what the step did to a node."""
        if node.kind != "items":
            change = self._state.changes.get(node.name)
            return ("", "plain") if change is None else _SIGNS[change]
        # A part is changed if one of its items is.
        inside = range(node.start, min(node.stop, node.start + ITEMS * ITEMS))
        is_changed = any(child_name(node.path, at) in self._state.changes for at in inside)
        return _SIGNS["changed"] if is_changed else ("", "plain")

    def _remark(self, name: str) -> str:
        words = ["pinned"] if name in self._pinned else []
        if (remark := self._state.remarks.get(name)) is not None:
            words.append(remark)
        return f"({'; '.join(words)})" if words else ""


MOST_VALUES = 300_000
MOST_CHARACTERS = 50_000_000
"""A search ends after this number of values or characters."""
MOST_HITS = 10_000
_SCALAR = 1_000
"""Number of characters or bytes of a scalar that are searched."""


@dataclass(slots=True)
class Hits:
    """Where a text was found, from top to bottom."""

    nodes: list[ValueNode] = field(default_factory=list)
    above: int = 0
    """How many of them are above the node that the search started from."""
    ended: str | None = None
    """The path at which the search ended; None if everything was searched."""


def search(roots: Iterable[ValueNode], wanted: str, start: str | None) -> Iterator[Hits]:
    """Search all values for a text in lower case; yields the same hits after each value.

    `start` is the name of the node under the cursor.
    """
    hits, values, characters = Hits(), 0, 0
    waiting = [iter(roots)]
    while waiting:
        node = next(waiting[-1], None)
        if node is None:
            waiting.pop()
            continue
        if node.name == start:
            hits.above = len(hits.nodes)
        text = own_text(node, len(wanted))
        values, characters = values + 1, characters + len(text)
        if wanted in text.casefold():
            hits.nodes.append(node)
        if values > MOST_VALUES or characters > MOST_CHARACTERS or len(hits.nodes) == MOST_HITS:
            hits.ended = node.path
            yield hits
            return
        yield hits
        waiting.append(iter(children(node)))


def own_text(node: ValueNode, beyond: int) -> str:
    """Return the text of a node without the nodes below it; a part of a text goes on `beyond`."""
    text = node.value if isinstance(node.value, str) else text_of(node.value)
    if node.kind == "characters":
        is_shown = text is not None and node.stop - node.start <= PART
        return text[node.start : node.stop + beyond] if text is not None and is_shown else ""
    if node.kind != "value":
        return ""
    key = "" if is_index(node.key) else key_text(node.key)
    if text is not None:
        return f"{key}\n{text[: BEGINNING + beyond]}"
    if parts_of(node.value):
        message = as_message(node.value)
        return key if message is None else f"{key}\n{message_label(message)}"
    scalar = leaf(node.value, _SCALAR)
    return f"{key}\n{summary(node.value, _SCALAR) if scalar is None else scalar[:_SCALAR]}"
