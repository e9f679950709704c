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


class Compatibility(NamedTuple):
    """All threads, judged."""

    threads: Sequence[JudgedThread]
    notes: Sequence[str]
    safe_to_remove: Sequence[str]

    @property
    def summary(self) -> Mapping[str, int]:
        """The number of threads by verdict, the worst first."""
        number = Counter(one.verdict for one in self.threads)
        return {one.value: number[one] for one in CompatVerdict if number[one]}


def compatibility(
    threads: Sequence[JudgedThread], new: GraphFile, old: GraphFile | None, *, are_all: bool
) -> Compatibility:
    """Return judged threads, with what holds for all of them.

    Only if `are_all` threads of a store were judged, it is known which nodes none needs.
    """
    notes = []
    if old is None:
        notes.append(
            "without --from, changed code, removed edges and new nodes before a waiting one are"
            " not seen"
        )
    if not are_all:
        notes.append("what is safe to remove is not told of some threads")
        return Compatibility(threads, notes, ())
    needs = {name for one in threads for name in one.needs}
    parts = (old or new).parts
    nodes = {name for number in (old or new).graphs.values() for name in parts[number].nodes}
    return Compatibility(threads, notes, sorted(nodes - needs - {START}))


def _rows(found: Iterable[JudgedThread]) -> Iterator[dict[str, Any]]:
    for thread in found:
        for one in thread.findings:
            yield {"thread_id": thread.thread_id, **FINDING.record(one)}


ROW_COLUMNS = (
    THREAD,
    Column("VERDICT", "verdict"),
    Column("CODE", "code"),
    Column("WHERE", "where", style="node"),
    Column("REASON", "reason", cut=True),
    Column("REMEDY", "remedy", cut=True, drop=1),
)
_STYLES: Mapping[CompatVerdict, Style] = {
    CompatVerdict.BREAKS: "error",
    CompatVerdict.LOSES: "error",
    CompatVerdict.REPEATS: "question",
    CompatVerdict.CHANGES: "question",
    CompatVerdict.CANNOT_TELL: "question",
}


def compatibility_lines(found: Compatibility) -> Iterator[StyledLine]:
    """Yield the numbers by verdict, then each kind of difference with examples."""
    total = len(found.threads)
    numbers = ", ".join(f"{number} {name}" for name, number in found.summary.items())
    yield line((f"{counted(total, 'thread')}: {numbers or 'none'}", "head"))
    groups: dict[Incompatibility, list[str]] = {}
    for thread in found.threads:
        for one in thread.findings:
            groups.setdefault(one, []).append(thread.thread_id)
    order = list(CompatVerdict)
    for (verdict, code, where, reason, remedy), ids in sorted(
        groups.items(), key=lambda item: (order.index(item[0][0]), -len(item[1]), item[0][1:3])
    ):
        yield line("")
        yield line(
            (f"{verdict}  ", _STYLES.get(verdict, "plain")),
            (safe_text(where), "node"),
            f"  {code}, {counted(len(set(ids)), 'thread')}",
        )
        yield line(f"  {safe_text(reason)}")
        yield line((f"  remedy: {safe_text(remedy)}", "dim"))
        some = list(dict.fromkeys(ids))
        more = f" and {len(some) - _EXAMPLES} more" if len(some) > _EXAMPLES else ""
        shown = ", ".join(safe_text(one) for one in some[:_EXAMPLES])
        yield line((f"  {shown}{more}", "dim"))
    if found.safe_to_remove:
        yield line("")
        yield line(f"safe to remove: {', '.join(map(safe_text, found.safe_to_remove))}")
    for note in found.notes:
        yield line("")
        yield line((f"note: {safe_text(note)}", "dim"))


def finding_rows(found: Compatibility) -> Iterator[dict[str, Any]]:
    """Yield one row for each finding of each thread."""
    return _rows(found.threads)
