"""Print the tree of a thread as a Mermaid flowchart, for issues and documents.

Labels are quoted. Everything in them except letters, digits and a few harmless signs is written as
a character code, so that data cannot end its label, open a directive or become HTML.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from ckpt_cli.core.tree.rows import (
    CallRow,
    FoldRow,
    Key,
    SectionRow,
    StepDetails,
    StepRow,
    TreeLayout,
)
from ckpt_cli.render.terminal.styled_text import StyledLine
from ckpt_cli.render.tree.wording import UNICODE, TreeWording, cut
from ckpt_cli.render.values.one_line import counted

_HARMLESS = frozenset(" -.,?×→·…✓✗●○")
_LONGEST = 60
_CLASSES = {
    "head": "fill:#d3f9d8,stroke:#2b8a3e,stroke-width:2px,color:#000",
    "question": "fill:#fff3bf,stroke:#e67700,color:#000",
    "error": "fill:#ffe3e3,stroke:#c92a2a,color:#000",
    "folded": "fill:#f1f3f5,stroke:#adb5bd,stroke-dasharray:4 3,color:#495057",
}


def mermaid_lines(
    plan: TreeLayout, details: Mapping[Key, StepDetails], refs: Mapping[str, str]
) -> Iterator[StyledLine]:
    """Yield the rows of a plan as `flowchart TD`, with a box for each line of `tree_lines`."""
    chart = _Chart(TreeWording(plan, details, refs, UNICODE))
    for row in plan.rows:
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
