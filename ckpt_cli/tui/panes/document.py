"""The lines of a tab, with values that fold."""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import ClassVar, TypeVar, overload

from textual import work
from textual.binding import Binding, BindingType
from textual.events import Click

from ckpt_backends.codec.values import Value
from ckpt_backends.memory import ItemKey
from ckpt_backends.model import CheckpointKey
from ckpt_cli.core.conversation import as_message
from ckpt_cli.core.doctor.findings import Finding
from ckpt_cli.core.tree import Key
from ckpt_cli.queries.diff import Change
from ckpt_cli.render import folding
from ckpt_cli.render.folding import ValueNode
from ckpt_cli.render.text import Span, StyledLine, line
from ckpt_cli.render.values import key_text, leaf, message_label, summary
from ckpt_cli.tui.panes.rows import SearchableLines

MOST_LINES = 20_000
"""Maximum number of lines of one document; `ckpt show` prints more."""
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


@dataclass(frozen=True, slots=True)
class TabContent:
    """The content of a tab."""

    lines: Sequence[StyledLine]
    marks: Mapping[int, str] = field(default_factory=dict)
    """By line: the path of the value that starts there; the cursor stops there."""
    items: Mapping[int, ItemKey] = field(default_factory=dict)
    """By line: the key of the memory item that starts there."""
    findings: Mapping[int, Finding] = field(default_factory=dict)
    """By line: the finding that starts there."""
    places: Mapping[int, Key | None] = field(default_factory=dict)
    """By line: the checkpoint that the lines from there on are about, if any."""
    changes: Sequence[int] = ()
    """The lines of a diff where a change starts."""
    values: Mapping[int, Value] = field(default_factory=dict)
    """By line: the value that starts there."""
    state: StateValues | None = None
    """Values that fold, to be shown in place of the lines."""


def cut(lines: Iterator[StyledLine]) -> list[StyledLine]:
    found = list(islice(lines, MOST_LINES + 1))
    if len(found) > MOST_LINES:
        found[-1] = line(("… more; `ckpt show` prints all", "dim"))
    return found


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
        self.roots = [folding.channel_node(name, state.values[name]) for name in names]
        for node in folding.unfold(self.roots, folds.open):
            if len(self._rows) > MOST_LINES:
                self.is_cut = True
                break
            self.marks[len(self)] = node.name
            self.lines_of[node.name] = len(self)
            number = 1 if folding.takes_one_line(node, width) else len(self._lines(node))
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
            drawn = folding.node_lines(node, self._width, self._sign(node))
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
        inside = range(node.start, min(node.stop, node.start + folding.ITEMS * folding.ITEMS))
        is_changed = any(folding.child_name(node.path, at) in self._state.changes for at in inside)
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
        waiting.append(iter(folding.children(node)))


def own_text(node: ValueNode, beyond: int) -> str:
    """Return the text of a node without the nodes below it; a part of a text goes on `beyond`."""
    text = node.value if isinstance(node.value, str) else folding.text_of(node.value)
    if node.kind == "characters":
        is_shown = text is not None and node.stop - node.start <= folding.PART
        return text[node.start : node.stop + beyond] if text is not None and is_shown else ""
    if node.kind != "value":
        return ""
    key = "" if folding.is_index(node.key) else key_text(node.key)
    if text is not None:
        return f"{key}\n{text[: folding.BEGINNING + beyond]}"
    if folding.records_of(node.value):
        message = as_message(node.value)
        return key if message is None else f"{key}\n{message_label(message)}"
    scalar = leaf(node.value, _SCALAR)
    return f"{key}\n{summary(node.value, _SCALAR) if scalar is None else scalar[:_SCALAR]}"


_Part = TypeVar("_Part")

_HERE = "▸ "
_MOST_AT_ONCE = 2_000
"""Maximum number of values that one key unfolds."""
_BREATH = 0.02
"""Seconds of searching after which the screen may do other things."""


class DocumentRows(SearchableLines):
    """The lines of a tab, or of a memory item; the values of a state fold."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("right", "unfold_value", "Unfold", key_display="→"),
        Binding("left", "fold_value", "Fold", show=False),
    ]

    def __init__(self) -> None:
        super().__init__(id="document")
        self.document = TabContent(())
        self.signed: int | None = None
        """The line with the sign of the checkpoint under the cursor of the tree."""
        self._missed: tuple[int, str, int] | None = None
        """Where the cursor was put because a value is not there: its line, and the path and the
        line in the value to which it goes back in a checkpoint that has it."""
        self._row = (-1, 0)
        """A line that was shown above its row of the screen, for want of lines before it."""
        self.folds = Folds()
        self.unfolded: UnfoldedValues | None = None
        """The values that are shown; None in other tabs."""
        self._hits: Hits | None = None
        """What was found in the values that are shown; None if they were not searched."""
        self._hit = 0

    @property
    def path(self) -> str | None:
        """The path of the value under the cursor; None if there is none."""
        if self.unfolded is not None:
            return None if self.node is None else self.node.path
        return self._above(self.document.marks)

    @property
    def chosen(self) -> str | None:
        """The same, also if it is not in this checkpoint and the cursor is on another for now."""
        is_missed = self._missed is not None and self._missed[0] == self.cursor
        return self._missed[1] if self._missed is not None and is_missed else self.path

    @property
    def item(self) -> ItemKey | None:
        """The memory item under the cursor; None if there is none."""
        return self._above(self.document.items)

    @property
    def finding(self) -> Finding | None:
        """The finding under the cursor; None if there is none."""
        return self._above(self.document.findings)

    @property
    def place(self) -> Key | None:
        """The checkpoint that the line under the cursor is about; None if there is none."""
        return self._above(self.document.places)

    def _above(self, starts: Mapping[int, _Part]) -> _Part | None:
        """Return the part of the document that the line under the cursor belongs to, if any."""
        above = max((at for at in starts if at <= self.cursor), default=None)
        return None if above is None else starts[above]

    def line_at(self, index: int, width: int) -> StyledLine:
        shown = super().line_at(index, width)
        if index != self.signed:
            return shown
        # The first part of the line is blank for it.
        return StyledLine(((_HERE, "head"), *shown.spans[1:]))

    def sign_line(self, at: int | None, *, goes: bool) -> None:
        """Set the sign before a line; with `goes`, go there."""
        self.signed = at
        if at is not None and goes:
            is_seen = at in self.seen[1:-1]
            self.cursor = at
            if not is_seen:
                # Show what is before and after it, too.
                self.scroll_to(y=max(at - self.size.height // 2, 0), animate=False)
        self.refresh()

    def next_change(self, way: int) -> str:
        """Go to the next or previous change of a diff or a state; return which one it is."""
        if self.unfolded is not None and not self.document.changes:
            self.document = replace(self.document, changes=self.unfolded.changed_lines())
        changes = self.document.changes
        if not changes:
            return "no differences"
        after = (
            bisect_right(changes, self.cursor) if way > 0 else bisect_left(changes, self.cursor) - 1
        )
        at = min(max(after, 0), len(changes) - 1)
        self.cursor = changes[at]
        return f"change {at + 1} of {len(changes)}"

    def show_document(self, document: TabContent, *, keep: bool) -> None:
        """Show a document from its start; with `keep` at the same line as before."""
        self.document = self._prepared(document)
        self._missed = self.signed = None
        below = round(self.scroll_y)
        self.show_lines(self.document.lines, self.cursor if keep else 0)
        self.scroll_to(y=below if keep else 0, animate=False)

    def show_step(
        self,
        document: TabContent,
        before: tuple[CheckpointKey, str] | None,
        now: tuple[CheckpointKey, str],
        *,
        is_last: bool,
    ) -> None:
        """Show a tab of a checkpoint after what was shown before; at its end with `is_last`."""
        place, tab = now
        if before is not None and before[0].thread_id != place.thread_id:
            # Threads have the same channels, but other items in them.
            folds = self.folds.open.items()
            self.folds.open = {name: is_open for name, is_open in folds if folding.is_channel(name)}
        if before == now and document.state is None:
            self.show_document(document, keep=True)
        elif is_last:
            self.show_document(document, keep=False)
            self.action_edge(1)
        elif before is not None and (before[0].thread_id, before[1]) == (place.thread_id, tab):
            self._show_next(document)
        else:
            self.show_document(document, keep=False)

    def _show_next(self, document: TabContent) -> None:
        """Show the same tab of another checkpoint, with the cursor on the same line of its value.

        Without that value, the cursor is on the nearest one above, until it is moved.
        """
        at = self.cursor if self.cursor in self.seen else round(self.scroll_y)
        below = self._row[1] if self._row[0] == at else at - round(self.scroll_y)
        shown = self.document
        document = self._prepared(document)
        before = [(line, path) for line, path in shown.marks.items() if line <= at]
        lines = {path: line for line, path in document.marks.items()}
        if self._missed is not None and self._missed[0] == at:
            _, wanted, inside = self._missed
        elif before:
            wanted, inside = before[-1][1], at - before[-1][0]
        else:
            wanted, inside = "", at
        if wanted in lines:
            after = min((one for one in lines.values() if one > lines[wanted]), default=None)
            last = len(document.lines) if after is None else after
            goal = min(lines[wanted] + inside, last - 1)
        else:
            near = [lines[path] for _, path in before if path in lines]
            goal = near[-1] if near else min(at, min(lines.values(), default=0))
        self.document, self.signed = document, None
        self.show_lines(document.lines, goal)
        self.scroll_to(y=max(goal - below, 0), animate=False)
        self._row = (goal if goal < below else -1, below)
        self._missed = (self.cursor, wanted, inside) if wanted and wanted not in lines else None

    # Values that fold

    @property
    def node(self) -> ValueNode | None:
        """The value under the cursor; None if there is none."""
        return None if self.unfolded is None else self.unfolded.node_at(self.cursor)

    @property
    def value(self) -> tuple[str, Value] | None:
        """The value under the cursor and its path; None if there is none."""
        if (node := self.node) is not None:
            return node.path, folding.part_of(node)
        above = max((at for at in self.document.values if at <= self.cursor), default=None)
        if above is None:
            return None
        return self.document.marks[above], self.document.values[above]

    def _prepared(self, document: TabContent) -> TabContent:
        """Return a document with the values of a state unfolded as before."""
        did_fold = self.unfolded is not None
        self.unfolded = self._hits = None
        if did_fold != (document.state is not None):
            # It builds the footer anew, which takes longer than the rest of a step.
            self.call_next(self.refresh_bindings)
        if document.state is None:
            return document
        self.unfolded = UnfoldedValues(document.state, self.folds, max(self.width, 1))
        return replace(document, lines=self.unfolded, marks=self.unfolded.marks)

    def _unfold_again(self, goal: str | None = None) -> None:
        """Show the same values under other folds; the cursor goes to a node, or stays on its."""
        node, before = self.node, self.unfolded
        if before is None:
            return
        hits = self._hits
        inside = 0 if node is None or goal else self.cursor - before.lines_of[node.name]
        self.document = self._prepared(self.document)
        self._hits = hits
        name = goal or (None if node is None else node.name)
        self.show_lines(self.document.lines, self._line_of(name, inside))

    def _line_of(self, name: str | None, inside: int) -> int:
        """Return a line of a node, or else the line of the cursor."""
        if self.unfolded is None or name is None or name not in self.unfolded.lines_of:
            return self.cursor
        start = at = self.unfolded.lines_of[name]
        while (
            at < start + inside and (at + 1) not in self.unfolded.marks and at + 1 < len(self.lines)
        ):
            at += 1
        return at

    # Keys

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Bind the keys that fold only where values fold."""
        if action in ("unfold_value", "fold_value"):
            return self.unfolded is not None
        return super().check_action(action, parameters)

    def action_choose(self) -> None:
        """Choose the value under the cursor; a part of a long one unfolds."""
        node = self.node
        if node is None or node.kind == "value":
            super().action_choose()
        else:
            self._set(node, is_open=not node.is_open)

    def action_unfold_value(self) -> None:
        """Unfold the value under the cursor; go into it if it is unfolded."""
        if (node := self.node) is None:
            return
        if node.is_open:
            self.cursor += 1
        elif node.is_open is False:
            self._set(node, is_open=True)

    def action_fold_value(self) -> None:
        """Fold the value under the cursor; go to the value around it if it is folded."""
        if (node := self.node) is None or self.unfolded is None:
            return
        if node.is_open:
            self._set(node, is_open=False)
        elif node.parent is not None:
            self.cursor = self.unfolded.lines_of[node.parent.name]

    def unfold_all(self) -> None:
        """Unfold everything below the value under the cursor, or fold it again."""
        if (node := self.node) is None:
            return
        found = folding.everything_below(node, _MOST_AT_ONCE)
        is_open = any(not self.folds.open.get(one.name, one.starts_open) for one in found)
        self.folds.open |= dict.fromkeys((one.name for one in found), is_open)
        self._unfold_again(node.name)

    def pin(self) -> str | None:
        """Pin the channel under the cursor, or unpin it; returns its name, None without one."""
        if (node := self.node) is None:
            return None
        name = str(node.channel.key)
        if name in self.folds.pinned:
            self.folds.pinned.remove(name)
        else:
            self.folds.pinned.append(name)
        self._unfold_again()
        return name

    def _set(self, node: ValueNode, *, is_open: bool) -> None:
        self.folds.open[node.name] = is_open
        self._unfold_again(node.name)

    def on_click(self, event: Click) -> None:
        """Fold or unfold by a click on the sign; the base class does the rest."""
        at = round(self.scroll_y) + event.y
        if self.unfolded is None or (node := self.unfolded.node_at(at)) is None:
            return
        column = folding.sign_column(node, max(self.width, 1))
        if node.is_open is None or at not in self.unfolded.marks or not 0 <= event.x - column <= 1:
            return
        event.prevent_default()
        self.cursor = at
        self._set(node, is_open=not node.is_open)

    # Search

    def look_for(self, text: str) -> None:
        if self.unfolded is None or not text:
            self.workers.cancel_group(self, "look")
            self._hits = None
            super().look_for(text)
            return
        self.wanted = text.casefold()
        self.here = self.cursor - 1
        self.refresh()
        self._look(0)

    def action_next(self, way: int) -> None:
        if self.unfolded is None or not self.wanted:
            super().action_next(way)
        elif self._hits is None:
            self._look(way)
        elif self._hits.nodes:
            self._go_to_hit(self._hit + way)
        else:
            super().action_next(way)

    @work(exclusive=True, group="look")
    async def _look(self, way: int) -> None:
        """Search all values, and go to the next hit from the cursor; back with a negative way."""
        tree, node, state = self.unfolded, self.node, self.document.state
        if tree is None:
            return
        hits, began = Hits(), time.monotonic()
        for hits in search(tree.roots, self.wanted, None if node is None else node.name):  # noqa: B007
            if time.monotonic() - began > _BREATH:
                await asyncio.sleep(0)
                began = time.monotonic()
        if self.document.state is not state:
            return
        self._hits = hits
        if hits.ended is not None:
            said = f"searched up to '{hits.ended}'; `ckpt grep` searches all"
            self.app.notify(said, severity="warning", markup=False)
        if not hits.nodes:
            await self._draw_all()
            super().action_next(way or 1)
            return
        is_here = hits.above < len(hits.nodes) and hits.nodes[hits.above] is node
        self._go_to_hit(hits.above + (way if way < 0 else int(way > 0 and is_here)))

    async def _draw_all(self) -> None:
        """Draw all lines, because some show several values together, such as tool calls."""
        began = time.monotonic()
        for at in range(len(self.lines)):
            self.line_at(at, self.width)
            if time.monotonic() - began > _BREATH:
                await asyncio.sleep(0)
                began = time.monotonic()

    def _go_to_hit(self, number: int) -> None:
        if self._hits is None:
            return
        self._hit = number % len(self._hits.nodes)
        found = self._hits.nodes[self._hit]
        around = found.parent
        if folding.text_of(found.value) is not None:
            self.folds.open[found.name] = True
        while around is not None:
            self.folds.open[around.name] = True
            around = around.parent
        self._unfold_again(found.name)
        self.cursor = self._line_with_hit()

    def _line_with_hit(self) -> int:
        """Return the line of the node under the cursor that contains the text."""
        start = self.cursor
        last = min((at for at in self.document.marks if at > start), default=len(self.lines))
        return next((at for at in range(start, last) if self.is_found(at)), start)
