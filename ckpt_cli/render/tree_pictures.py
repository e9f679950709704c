"""The tree of a thread as pictures: Mermaid and SVG."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from importlib.resources import files
from xml.etree.ElementTree import Element, tostring

from ckpt_backends.model import time_of
from ckpt_cli.core.tree import CallRow, FoldRow, Key, Row, SectionRow, StepRow
from ckpt_cli.queries.tree import Tree
from ckpt_cli.render.text import UNLIMITED, Span, StyledLine, Ui, cell_len, safe_text
from ckpt_cli.render.tree import UNICODE, TreeWording, cut, has_zones, status_style, tree_header
from ckpt_cli.render.values import counted

# Build HTML and SVG as elements: text never becomes a tag, because nothing is pasted together.


def element(tag: str, text: str | None = None, **attributes: str | int | float) -> Element:
    """Return an element with a text, in which invisible characters are escaped.

    `class_` and `text_anchor` become `class` and `text-anchor`.
    """
    found = Element(tag, _named(attributes))
    found.text = None if text is None else safe_text(text, newlines=True)
    return found


def add(
    parent: Element, tag: str, text: str | None = None, **attributes: str | int | float
) -> Element:
    """Add an element to another one; return it."""
    child = element(tag, text, **attributes)
    parent.append(child)
    return child


def html(root: Element) -> str:
    """Return an element as HTML, with all text escaped."""
    return tostring(root, encoding="unicode", method="html")


def xml(root: Element) -> str:
    """Return an element as XML, with all text escaped."""
    return tostring(root, encoding="unicode")


def _named(attributes: dict[str, str | int | float]) -> dict[str, str]:
    return {
        name.rstrip("_").replace("_", "-"): safe_text(
            f"{value:g}" if isinstance(value, float) else str(value)
        )
        for name, value in attributes.items()
    }


_HARMLESS = frozenset(" -.,?×→·…✓✗●○")
_LONGEST = 60
_CLASSES = {
    "head": "fill:#d3f9d8,stroke:#2b8a3e,stroke-width:2px,color:#000",
    "question": "fill:#fff3bf,stroke:#e67700,color:#000",
    "error": "fill:#ffe3e3,stroke:#c92a2a,color:#000",
    "folded": "fill:#f1f3f5,stroke:#adb5bd,stroke-dasharray:4 3,color:#495057",
}


def mermaid_lines(tree: Tree, ui: Ui) -> Iterator[StyledLine]:  # noqa: ARG001
    """Yield a tree as `flowchart TD`, with a box for each row of `tree_lines`."""
    chart = _Chart(TreeWording(tree, UNICODE))
    for row in tree.plan.rows:
        if isinstance(row, StepRow):
            chart.add_step(row)
        elif isinstance(row, FoldRow):
            chart.add_fold(row)
        elif isinstance(row, CallRow):
            chart.add_call(row)
        else:
            chart.add_section(row)
    return (StyledLine(((text, "plain"),), whole=True) for text in chart.text())


class _Chart:
    """The boxes, in one block per namespace, and the arrows between them."""

    def __init__(self, words: TreeWording) -> None:
        self.words = words
        self.blocks: dict[str, list[str]] = {"": []}
        self.titles: dict[str, str] = {}
        self.arrows: list[str] = []
        self.styled: list[str] = []
        self.names: dict[Key, str] = {}
        self.boxes = 0

    def add_step(self, row: StepRow) -> None:
        words = self.words
        remarks = words.remarks(row)
        made, style = words.made(row)
        step = words.step(row)
        what = f"{step}  {made}{words.next(row)}" if step else f"{made}{words.next(row)}"
        marks = words.marks(row)
        name = self._name([row.key])
        sides = {"bold": ("([", "])"), "change": ("{{", "}}")}.get(style, ("[", "]"))
        texts = (words.ref(row.id), what, *(text for text, _ in (*marks, *remarks)))
        self.blocks.setdefault(row.ns, []).append(f"{name}{sides[0]}{_label(texts)}{sides[1]}")
        looks = dict.fromkeys(style for _, style in (*marks, *remarks))
        self.styled += [f"class {name} {style}" for style in looks if style in _CLASSES]
        parent = self.names.get((row.ns, row.parent or ""))
        if parent is not None and not row.first:
            self.arrows.append(f"{parent} {'-.->' if row.branch else '-->'} {name}")

    def add_fold(self, row: FoldRow) -> None:
        name = self._name([(row.ns, checkpoint_id) for checkpoint_id in row.ids])
        texts = (counted(len(row.ids), "step"), self.words.folded(row))
        self.blocks.setdefault(row.ns, []).append(f"{name}[{_label(texts)}]")
        self.styled.append(f"class {name} folded")
        self.arrows.append(f"{self.names[row.ns, row.parent]} --> {name}")

    def add_call(self, row: CallRow) -> None:
        words = self.words
        name = self._name([])
        texts = (words.call_name(row), words.call_facts(row), words.call_status(row))
        if row.nested:
            self.titles[row.namespaces[0]] = f"subgraph {name}[{_label(texts)}]"
        else:
            self.blocks[row.caller[0]].append(f"{name}[[{_label(texts)}]]")
        self.arrows.append(f"{self.names[row.caller]} -.- {name}")

    def add_section(self, row: SectionRow) -> None:
        texts = (self.words.short_ns(row.ns), counted(row.checkpoints, "checkpoint"))
        self.titles[row.ns] = f"subgraph {self._name([])}[{_label(texts)}]"

    def text(self) -> Iterator[str]:
        yield "flowchart TD"
        for ns, boxes in self.blocks.items():
            if ns in self.titles:
                yield f"  {self.titles[ns]}"
                yield from (f"    {box}" for box in boxes)
                yield "  end"
            else:
                yield from (f"  {box}" for box in boxes)
        yield from (f"  {arrow}" for arrow in self.arrows)
        yield from (f"  classDef {name} {looks}" for name, looks in _CLASSES.items())
        yield from (f"  {text}" for text in self.styled)

    def _name(self, keys: Iterable[Key]) -> str:
        name = f"n{self.boxes}"
        self.boxes += 1
        self.names.update(dict.fromkeys(keys, name))
        return name


def _label(texts: Iterable[str]) -> str:
    """Join texts as the lines of one quoted label."""
    shown = (cut(text.strip(), _LONGEST, UNICODE.dots) for text in texts)
    return '"' + "<br/>".join(_escape(text) for text in shown if text) + '"'


def _escape(text: str) -> str:
    return "".join(
        char if char.isalnum() or char in _HARMLESS else f"#{ord(char)};" for char in text
    )


# Print the tree of a thread as a picture (SVG), for reports and documents.
#
# A row is as in `tree_lines`; each checkpoint is joined to the one it was made from.


MOST_ROWS = 400
"""Of more rows, the newest are drawn."""
_ROW, _REMARK, _LANE, _EDGE = 22, 17, 16, 12
_CHARACTER = 7.25
"""Width of a character at 12 pixels in the widest of the fonts."""
_TEXT, _LONGEST_LABEL = 56, 70
"""Columns of the nodes of a row, and of a question or an error below it."""
_LANES = 24
_RADIUS = 4.5
_TIME = 19


@dataclass(frozen=True, slots=True)
class DrawnTree:
    """The picture of a tree."""

    picture: Element
    rows: Mapping[Key, int]
    """The row of each drawn checkpoint, as in the attribute `data-row`; folded ones share one."""
    left_out: int
    """Number of rows that are not drawn."""


def svg_lines(tree: Tree, ui: Ui) -> Iterator[StyledLine]:
    """Yield the tree as a document of its own, with colours for light and dark backgrounds."""
    root = draw_tree(tree, ui.zone).picture
    root.set("xmlns", "http://www.w3.org/2000/svg")
    header = " ".join(one.text for one in tree_header(tree, TreeWording(tree, UNICODE), UNLIMITED))
    style = element("style")
    style.text = files("ckpt_cli.data").joinpath("report", "tree.css").read_text("utf-8")
    paper = element("rect", width="100%", height="100%", fill="var(--paper)")
    title, described = element("title"), element("desc")
    title.text, described.text = safe_text(f"Checkpoints of thread {tree.thread_id}"), header
    root[:] = [title, described, style, paper, *root]
    return (StyledLine(((text, "plain"),), whole=True) for text in xml(root).split("\n"))


def draw_tree(tree: Tree, zone: tzinfo) -> DrawnTree:
    """Return the picture of a tree, to be part of a page that has `tree.css`."""
    return _Drawing(TreeWording(tree, UNICODE), zone).draw(tree.plan.rows)


class _Drawing:
    def __init__(self, words: TreeWording, zone: tzinfo) -> None:
        self.words = words
        self.zone = zone
        self.root = element("svg", class_="tree", role="img")
        self.edges = add(self.root, "g")
        self.centres: dict[Key, tuple[float, float]] = {}
        self.rows: dict[Key, int] = {}
        self.y = float(_EDGE)
        self.widest = 0.0
        self.times: list[tuple[Element, float, str]] = []

    def draw(self, rows: Sequence[Row]) -> DrawnTree:
        left_out = max(len(rows) - MOST_ROWS, 0)
        if left_out:
            spans: list[Span] = [(f"{counted(left_out, 'earlier row')} left out", "dim")]
            self._text(self.root, _EDGE, spans)
            self.y += _ROW
        for number, row in enumerate(rows[left_out:]):
            group = add(self.root, "g", class_="row", data_row=number)
            if isinstance(row, SectionRow):
                self.y += _ROW / 2
            top = self.y
            if isinstance(row, StepRow):
                self.rows[row.key] = number
                self._step(group, row)
            elif isinstance(row, FoldRow):
                self.rows |= dict.fromkeys([(row.ns, one) for one in row.ids], number)
                self._fold(group, row)
            elif isinstance(row, CallRow):
                self.rows |= dict.fromkeys(row.keys, number) if not row.nested else {}
                self._call(group, row)
            else:
                self._section(group, row)
            hit = element("rect", class_="hit", x=0, y=top, width="100%", height=self.y - top)
            hit.set("fill", "transparent")
            group.insert(0, hit)
        self._set_size()
        return DrawnTree(self.root, self.rows, left_out)

    def _set_size(self) -> None:
        right = self.widest + 2 * _CHARACTER + _TIME * _CHARACTER
        for group, y, time in self.times:
            add(group, "text", time, class_="time", x=right, y=y, text_anchor="end")
        width, height = right + _EDGE, self.y + _EDGE
        self.root.set("viewBox", f"0 0 {width:g} {height:g}")
        self.root.set("width", f"{width:g}")
        self.root.set("height", f"{height:g}")

    def _step(self, group: Element, row: StepRow) -> None:
        words = self.words
        x, y = self._place(row.depth)
        remarks = words.remarks(row)
        if row.trouble is None and row.parent is not None:
            self._join((row.ns, row.parent), x, y, is_cut=not row.first)
        self.centres[row.key] = x, y
        self._dot(group, row, x, y, {style for _, style in remarks})
        step = words.step(row)
        trouble = {"loop": "  its parents form a loop", "parent gone": "  its parent is not stored"}
        spans: list[Span] = [
            (words.ref(row.id), "head" if row.head else "id"),
            (f"  {step}  " if step else "  ", "dim"),
            *self._cut([words.made(row), (words.next(row), "plain")]),
            *((f"  {text}", style) for text, style in words.marks(row)),
            (trouble.get(row.trouble or "", ""), "dim"),
        ]
        self._text(group, x + 12, spans, self._clock(words.node(row.key).at or time_of(row.id)))
        self.y += _ROW
        for text, style in remarks:
            spans = [(cut(text, _LONGEST_LABEL, UNICODE.dots), style)]
            self._text(group, x + 24, spans, up=4)
            self.y += _REMARK

    def _fold(self, group: Element, row: FoldRow) -> None:
        x, y = self._place(row.depth)
        self._join((row.ns, row.parent), x, y + 5, is_cut=True, folded=True)
        self.centres |= dict.fromkeys([(row.ns, one) for one in row.ids], (x, y + 5))
        spans: list[Span] = [(f"{counted(len(row.ids), 'step')}  ", "dim")]
        spans += self._cut([(self.words.folded(row), "dim")])
        self._text(group, x + 12, spans, self._clock(time_of(row.ids[0])))
        self.y += _ROW

    def _call(self, group: Element, row: CallRow) -> None:
        words = self.words
        x, y = self._place(row.depth)
        self._join(row.caller, x, y, is_cut=True)
        add(group, "rect", class_="dot call", x=x - 3, y=y - 3, width=6, height=6)
        status = words.call_status(row)
        spans: list[Span] = [
            *self._cut([(words.call_name(row), "node")]),
            (f"  {words.call_facts(row)}", "dim"),
            (f"  {status}" if status else "", status_style(status)),
        ]
        self._text(group, x + 12, spans, self._clock(time_of(row.first)))
        self.y += _ROW

    def _section(self, group: Element, row: SectionRow) -> None:
        name, facts = self.words.short_ns(row.ns), f"  {self.words.section_facts(row)}"
        self._text(group, _EDGE, [(name, "bold"), (facts, "dim")])
        self.y += _ROW

    def _place(self, depth: int) -> tuple[float, float]:
        return _EDGE + min(depth, _LANES) * _LANE, self.y + _ROW / 2

    def _join(self, parent: Key, x: float, y: float, *, is_cut: bool, folded: bool = False) -> None:
        """Draw the line from a parent; if that is not drawn and `is_cut`, from the upper edge."""
        if parent not in self.centres and not is_cut:
            return
        from_x, from_y = self.centres.get(parent, (x, 0.0))
        path = f"M{from_x:g} {from_y:g}V{y:g}"
        if from_x != x:
            path = f"M{from_x:g} {from_y:g}V{y - 8:g}Q{from_x:g} {y:g} {from_x + 8:g} {y:g}H{x:g}"
        add(self.edges, "path", class_="edge folded" if folded else "edge", d=path)

    def _dot(self, group: Element, row: StepRow, x: float, y: float, looks: set[str]) -> None:
        source = self.words.node(row.key).source
        kind = "hand" if source in {"update", "fork"} else "input" if source == "input" else "step"
        trouble = "error" if "error" in looks else "question" if "question" in looks else ""
        classes = " ".join(filter(None, ("dot", "head" if row.head else kind, trouble)))
        if kind == "step" or row.head:
            add(group, "circle", class_=classes, cx=x, cy=y, r=_RADIUS)
        else:
            r = _RADIUS + 1
            diamond = f"M{x:g} {y - r:g}l{r:g} {r:g}l{-r:g} {r:g}l{-r:g} {-r:g}z"
            add(group, "path", class_=classes, d=diamond)

    def _text(
        self, group: Element, x: float, spans: Sequence[Span], time: str = "", *, up: int = 0
    ) -> None:
        y = self.y + _ROW / 2 + 4 - up
        text = add(group, "text", x=x, y=y)
        text.set("xml:space", "preserve")
        for piece, style in spans:
            if piece:
                add(text, "tspan", piece, **({} if style == "plain" else {"class_": style}))
        width = sum(cell_len(piece) for piece, _ in spans) * _CHARACTER
        if time:
            self.widest = max(self.widest, x + width)
            self.times.append((group, y, time))
        else:
            # It may use the space of the time, too.
            self.widest = max(self.widest, x + width - (_TIME + 2) * _CHARACTER)

    def _cut(self, spans: Sequence[Span]) -> list[Span]:
        room = _TEXT
        shown: list[Span] = []
        for text, style in spans:
            shown.append((cut(text, room, UNICODE.dots), style))
            room -= cell_len(shown[-1][0])
        return shown

    def _clock(self, at: datetime | None) -> str:
        if at is None or not has_zones(at):
            return ""
        return f"{at.astimezone(self.zone):%Y-%m-%d %H:%M:%S}"
