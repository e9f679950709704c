"""What another version of a graph does to stored threads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ckpt_cli.core.compat import CompatVerdict, GraphFile, Incompatibility
from ckpt_cli.core.state import START
from ckpt_cli.queries.compat import JudgedThread
from ckpt_cli.render.fields import Field, Shape
from ckpt_cli.render.table import THREAD, Column
from ckpt_cli.render.text import Style, StyledLine, line, safe_text
from ckpt_cli.render.types import FLAG, INTEGER, TEXT, one_of
from ckpt_cli.render.values import counted

_VERDICT = one_of(*CompatVerdict)
_EXAMPLES = 3

FINDING = Shape(
    "One thing that a resume does otherwise.",
    Field("verdict", _VERDICT, "How bad it is."),
    Field("code", TEXT, "The kind of difference."),
    Field("where", TEXT, "Node or channel, with the subgraphs around it."),
    Field("reason", TEXT, "What happens, and why."),
    Field("remedy", TEXT, "What to do."),
)
JUDGED = Shape(
    "What the new graph does to a thread.",
    Field("thread_id", TEXT, "Thread."),
    Field("verdict", _VERDICT, "The worst of all findings."),
    Field("in_flight", FLAG, "Whether something runs next; otherwise only its state counts."),
    Field("graph", TEXT.or_null, "The graph that it was judged by."),
    Field("findings", FINDING.list, "What differs."),
)
COMPATIBILITY = Shape(
    "What new graphs do to the threads of a store.",
    Field("summary", INTEGER.by_name, "Threads by verdict."),
    Field("notes", TEXT.list, "What holds for all threads."),
    Field("safe_to_remove", TEXT.list, "Nodes that no thread in flight needs."),
    Field("threads", JUDGED.list, "Each thread."),
)


_MOST_KINDS = 1_000
"""Kinds of differences that are told apart: a store may have any number of keys."""


class _Kind:
    """The threads with one kind of difference: how many, and the first ones."""

    def __init__(self) -> None:
        self.number = 0
        self.examples: list[str] = []

    def add(self, thread_id: str) -> None:
        self.number += 1
        if len(self.examples) < _EXAMPLES:
            self.examples.append(thread_id)


class Compatibility:
    """What new graphs do to threads, which are judged while this is iterated over, once.

    What holds for all of them is known then. Threads are not kept.
    """

    def __init__(
        self,
        threads: Iterator[JudgedThread],
        new: GraphFile,
        old: GraphFile | None,
        *,
        are_all: bool,
    ) -> None:
        """Only if they `are_all` threads of a store, it is known which nodes none needs."""
        graphs = old or new
        names = {name for number in graphs.graphs.values() for name in graphs.parts[number].nodes}
        self._threads = threads
        self._numbers: Counter[CompatVerdict] = Counter()
        self._unneeded = names - {START}
        self.kinds: dict[Incompatibility, _Kind] = {}
        self.untold = 0
        """Findings of further kinds."""
        self.notes = _notes(has_old=old is not None, are_all=are_all)
        self._are_all = are_all

    def __iter__(self) -> Iterator[JudgedThread]:
        for one in self._threads:
            self._numbers[one.verdict] += 1
            self._unneeded -= one.needs
            for finding in dict.fromkeys(one.findings):
                kind = self.kinds.get(finding)
                if kind is None and len(self.kinds) < _MOST_KINDS:
                    kind = self.kinds[finding] = _Kind()
                if kind is None:
                    self.untold += 1
                else:
                    kind.add(one.thread_id)
            yield one

    @property
    def summary(self) -> Mapping[str, int]:
        """The number of threads by verdict, the worst first."""
        return {one.value: self._numbers[one] for one in CompatVerdict if self._numbers[one]}

    @property
    def safe_to_remove(self) -> Sequence[str]:
        """The nodes that no thread in flight needs; none if not all threads were judged."""
        return sorted(self._unneeded) if self._are_all else ()

    def record(self) -> dict[str, Any]:
        """Judge all threads, and return them with what holds for all, as JSON has it."""
        threads = list(self)
        return COMPATIBILITY.record(_Whole(self.summary, self.notes, self.safe_to_remove, threads))


class _Whole(NamedTuple):
    summary: Mapping[str, int]
    notes: Sequence[str]
    safe_to_remove: Sequence[str]
    threads: Sequence[JudgedThread]


def _notes(*, has_old: bool, are_all: bool) -> Sequence[str]:
    notes = []
    if not has_old:
        notes.append(
            "without --from, changed code, removed edges and new nodes before a waiting one are"
            " not seen"
        )
    if not are_all:
        notes.append("what is safe to remove is not told of some threads")
    return notes


ROW_COLUMNS = (
    THREAD,
    Column("VERDICT", "verdict"),
    Column("CODE", "code"),
    Column("WHERE", "where", style="node"),
    Column("REASON", "reason", cut=True),
    Column("REMEDY", "remedy", cut=True, drop=1),
)
STYLES: Mapping[CompatVerdict, Style] = {
    CompatVerdict.BREAKS: "error",
    CompatVerdict.LOSES: "error",
    CompatVerdict.REPEATS: "question",
    CompatVerdict.CHANGES: "question",
    CompatVerdict.CANNOT_TELL: "question",
}
"""How verdicts look that are not fine."""


def compatibility_lines(found: Compatibility) -> Iterator[StyledLine]:
    """Judge all threads; yield the numbers by verdict, then each kind of difference."""
    for _ in found:
        pass
    total = sum(found.summary.values())
    numbers = ", ".join(f"{number} {name}" for name, number in found.summary.items())
    yield line((f"{counted(total, 'thread')}: {numbers or 'none'}", "head"))
    order = list(CompatVerdict)
    for (verdict, code, where, reason, remedy), kind in sorted(
        found.kinds.items(),
        key=lambda item: (order.index(item[0].verdict), -item[1].number, item[0][1:3]),
    ):
        yield line("")
        yield line(
            (f"{verdict}  ", STYLES.get(verdict, "plain")),
            (safe_text(where), "node"),
            f"  {code}, {counted(kind.number, 'thread')}",
        )
        yield line(f"  {safe_text(reason)}")
        yield line((f"  remedy: {safe_text(remedy)}", "dim"))
        left = kind.number - len(kind.examples)
        more = f" and {left} more" if left else ""
        shown = ", ".join(map(safe_text, kind.examples))
        yield line((f"  {shown}{more}", "dim"))
    if found.untold:
        yield line("")
        yield line(f"{counted(found.untold, 'finding')} of other kinds: -o ndjson shows all")
    if found.safe_to_remove:
        yield line("")
        yield line(f"safe to remove: {', '.join(map(safe_text, found.safe_to_remove))}")
    for note in found.notes:
        yield line("")
        yield line((f"note: {safe_text(note)}", "dim"))


def finding_rows(found: Iterable[JudgedThread]) -> Iterator[dict[str, Any]]:
    """Yield one row for each finding of each thread."""
    for thread in found:
        for one in thread.findings:
            yield {"thread_id": thread.thread_id, **FINDING.record(one)}
