"""Words and signs for the tree of a thread, used by all its output forms."""

# Without `annotations` of `__future__`: a `NamedTuple` would compile each of these texts.
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ckpt_cli.core.tree.calls import calling_node, is_call, namespace_parts
from ckpt_cli.core.tree.rows import CallRow, FoldRow, Key, StepDetails, StepRow, TreeLayout
from ckpt_cli.render.terminal.cell_width import cell_len, fit
from ckpt_cli.render.terminal.safe_text import safe_text
from ckpt_cli.render.terminal.styled_text import Span, Style
from ckpt_cli.render.values.one_line import counted

_TASK_ID_SHOWN = 8
_UNKNOWN = StepDetails()


class Glyphs(NamedTuple):
    """The signs of the tree; each lane and each sign before a ref is two columns wide."""

    step: str = "○ "
    input: str = "◆ "
    hand: str = "◇ "
    """An update or a fork, made by a person or a tool."""
    head: str = "● "
    fold: str = "┊ "
    call: str = "╰ "
    lane: str = "│ "
    branch: str = "├─"
    cut_lane: str = "⋯ "
    gone: str = "┆ "
    question: str = "? "
    error: str = "✗ "
    problem: str = "! "
    answered: str = "✓ "
    arrow: str = " → "
    times: str = "×"
    to: str = "–"
    dots: str = "…"
    dot: str = " · "


UNICODE = Glyphs()
ASCII = Glyphs(
    step="o ",
    input="> ",
    hand="~ ",
    head="* ",
    fold=": ",
    call="` ",
    lane="| ",
    branch="|-",
    cut_lane="< ",
    gone=": ",
    error="x ",
    answered="+ ",
    arrow=" -> ",
    times="x",
    to="-",
    dots="...",
    dot=", ",
)


class TreeWording:
    """The text of each row. Only this class escapes data for printing."""

    def __init__(
        self,
        plan: TreeLayout,
        details: Mapping[Key, StepDetails],
        refs: Mapping[str, str],
        glyphs: Glyphs,
    ) -> None:
        self.glyphs = glyphs
        self._ns = plan.ns
        self._details = details
        self._refs = refs
        self._asked_below: dict[Key, list[str]] = {}
        for row in plan.rows:
            if isinstance(row, CallRow) and row.nested:
                below = self._asked_below.setdefault(row.caller, [])
                for node in map(self.node, row.heads):
                    below += (*node.questions, *node.errors)

    def node(self, key: Key) -> StepDetails:
        return self._details.get(key, _UNKNOWN)

    def ref(self, checkpoint_id: str) -> str:
        return safe_text(self._refs.get(checkpoint_id) or checkpoint_id[-8:])

    def step(self, row: StepRow) -> str:
        step = self.node(row.key).step
        step = row.step if step is None else step
        return "" if step is None else str(step)

    def sign(self, row: StepRow) -> Span:
        """Return the sign of a checkpoint in the graph."""
        source = self.node(row.key).source
        if row.head:
            return self.glyphs.head, "head"
        if source == "input":
            return self.glyphs.input, "bold"
        if source in {"update", "fork"}:
            return self.glyphs.hand, "change"
        return self.glyphs.step, "plain"

    def made(self, row: StepRow) -> Span:
        """Return what made the checkpoint: an input, an update, a fork, or the nodes that ran."""
        node = self.node(row.key)
        if node.source == "input":
            return "input", "bold"
        origin = f" of {self.ref(node.forked_from)}" if node.forked_from else ""
        nodes = self.counted(Counter(node.ran).items())
        if node.source == "fork":
            return f"fork{origin}", "change"
        if node.source == "update":
            return f"update{origin}" + (f" as {nodes}" if nodes else ""), "change"
        if node.ran == ("__start__",):
            return nodes, "dim"
        if not nodes:
            return ("?" if row.key in self._details else ""), "dim"
        return nodes, "node"

    def next(self, row: StepRow) -> str:
        """Return the nodes that run after a tip, those that a resume runs after the head; empty
        for other rows, since the next row shows them.
        """
        if not row.last or row.key not in self._details:
            return ""
        node = self.node(row.key)
        found = node.next if node.resumes is None else node.resumes
        if found is None:
            return f"{self.glyphs.arrow}?"
        return f"{self.glyphs.arrow}{self.counted(Counter(found).items()) or 'END'}"

    def marks(self, row: StepRow) -> list[Span]:
        glyphs = self.glyphs
        answered = self.node(row.key).answered
        number = f"{answered} " if answered > 1 else ""
        marks: list[Span] = [(f"{glyphs.answered}{number}answered", "add")] if answered else []
        # The newest checkpoint of a call is not a head that a run would continue from.
        if row.head and (row.ns == self._ns or not is_call(row.ns)):
            marks.append((f"{glyphs.head}head", "head"))
        elif row.last and not row.head:
            marks.append((f"{glyphs.step}tip", "dim"))
        return marks

    def remarks(self, row: StepRow) -> list[Span]:
        """Return the operation that added the checkpoint, questions, errors and problems, one line
        each, without those shown by a call below.

        LangGraph stores a question and an error of a subgraph at every level.
        """
        glyphs = self.glyphs
        node = self.node(row.key)
        below = Counter(self._asked_below.get(row.key, ()))
        lines: list[Span] = [(safe_text(node.change), "dim")] if node.change else []
        for sign, texts, style in _signed(node, glyphs):
            for text in texts:
                if below[text] > 0:
                    below[text] -= 1
                else:
                    lines.append((f"{sign}{safe_text(text)}", style))
        return lines

    def folded(self, row: FoldRow) -> str:
        known = self.counted((node, runs) for node, runs in row.ran if node != "__start__")
        if row.all_known or not known:
            return known
        return f"{known}, {self.glyphs.dots}"

    def call_name(self, row: CallRow) -> str:
        if len(row.namespaces) > 1:
            node = safe_text(calling_node(row.namespaces[0]))
            return f"{node} {self.glyphs.times}{len(row.namespaces)}"
        return self.short_ns(row.namespaces[0])

    def call_facts(self, row: CallRow) -> str:
        facts = [counted(len(row.keys), "checkpoint")]
        if row.branches > 1:
            facts.append(counted(row.branches, "branch"))
        return self.glyphs.dot.join(facts)

    def call_status(self, row: CallRow) -> str:
        """Return the status of the call; empty if its own tree shows it, or if it is not known."""
        if row.nested:
            return ""
        nodes = [self._details[key] for key in row.heads if key in self._details]
        failed = ["error"] if any(node.errors for node in nodes) else []
        asking = ["interrupted"] if any(node.questions for node in nodes) else []
        if failed or asking:
            return ", ".join([*failed, *asking])
        if any(node.next for node in nodes):
            return "pending"
        done = len(nodes) == len(row.heads) and all(node.next == () for node in nodes)
        return "done" if done else ""

    def counted(self, counts: Iterable[tuple[str, int]]) -> str:
        times = self.glyphs.times
        return ", ".join(
            f"{safe_text(node)} {times}{n}" if n > 1 else safe_text(node) for node, n in counts
        )

    def short_ns(self, ns: str) -> str:
        """Return a call's own namespace with a short task id: `research:9c1e2b07…`."""
        node, task, number = namespace_parts(ns)
        if task is None:
            return safe_text(ns)
        short = task[:_TASK_ID_SHOWN] + self.glyphs.dots if len(task) > _TASK_ID_SHOWN else task
        return safe_text(f"{node}:{short}" + (f"|{number}" if number else ""))


def _signed(node: StepDetails, glyphs: Glyphs) -> list[tuple[str, Sequence[str], Style]]:
    problems = () if node.problem is None else (node.problem,)
    return [
        (glyphs.question, node.questions, "question"),
        (glyphs.error, node.errors, "error"),
        (glyphs.problem, problems, "error"),
    ]


def status_style(status: str) -> Style:
    """Return the style of the worst condition in a text such as `error, interrupted`."""
    styles: dict[str, Style] = {"interrupted": "question", "error": "error", "pending": "warn"}
    return styles.get(status.partition(",")[0], "plain")


def cut(text: str, room: int, dots: str) -> str:
    """Cut a text to `room` columns; a cut text ends with dots."""
    if cell_len(text) <= room:
        return text
    if room < len(dots):
        return ""
    return fit(text, room - len(dots) + 1)[:-1].rstrip() + dots
