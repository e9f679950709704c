"""What a search found."""

from __future__ import annotations

from collections import Counter
from operator import itemgetter
from typing import Any

from ckpt_cli.core.secrets import SecretFinding
from ckpt_cli.core.tasks import path_text
from ckpt_cli.core.values import format_path
from ckpt_cli.queries.grep import GrepHit
from ckpt_cli.render.fields import Field, Shape, inside
from ckpt_cli.render.table import THREAD, Column
from ckpt_cli.render.types import INTEGER, KEY, TEXT, TIME, one_of
from ckpt_cli.render.values import counted

_BEFORE, _AFTER = 24, 200
"""Characters around a match that are kept for a table; the table cuts them to its width."""


def _node(hit: GrepHit) -> str | None:
    return hit.path[-1] if hit.path else hit.node


def _place(hit: GrepHit) -> str:
    return format_path((hit.channel, *hit.match.path))


HIT = Shape(
    "A line that matches.",
    *KEY,
    Field("ref", TEXT, "Short name of the checkpoint."),
    Field("ts", TIME.or_null, "When it was saved.", "at"),
    Field("in", one_of("value", "question", "error", "write"), "Where the text is.", "kind"),
    Field("node", TEXT.or_null, "Node that wrote, failed or asks.", _node),
    Field("node_path", TEXT.list, "Nodes from the root graph to it.", "path"),
    Field("task_id", TEXT.or_null, "Its task."),
    Field("channel", TEXT, "Channel."),
    Field("path", TEXT, "Where in the channel the text is.", _place),
    *inside(
        "match",
        Field("line_number", INTEGER, "Line of the text, from 1.", "number"),
        Field("line", TEXT, "The line."),
        Field("start", INTEGER, "Where the first match in the line begins."),
        Field("end", INTEGER, "Where it ends."),
    ),
)


def table_record(hit: GrepHit) -> dict[str, Any]:
    """Return the same with the line cut to the part around the match, for a table."""
    record = HIT.record(hit)
    line = excerpt(hit.match.line, hit.match.start, hit.match.end)
    return {**record, "line": line, "node": path_text(hit.path) or hit.node}


def excerpt(text: str, start: int, end: int) -> str:
    """Return the part of a line around a match."""
    begin = max(start - _BEFORE, 0)
    stop = min(max(end, start + 1) + _AFTER, begin + 4 * _AFTER)
    blank = text.find(" ", begin, start)
    if begin and blank >= 0:
        begin = blank + 1
    return ("…" if begin else "") + text[begin:stop].strip() + ("…" if stop < len(text) else "")


HIT_COLUMNS = HIT.columns(
    THREAD,
    "checkpoint_id",
    Column("REF", "ref", style="id"),
    Column("NAMESPACE", "checkpoint_ns", cut=True, style="dim", drop=3),
    Column("IN", "in", drop=1),
    Column("NODE", "node", style="node", drop=2),
    Column("PATH", "path", cut=True, style="change"),
    Column("TEXT", "line", cut=True),
    *("channel", "task_id", "line_number", "start", "end", "ts"),
)
"""A table shows short refs, TSV full ids."""


_PREFIXED = ("write:", "metadata:")


def _path(found: SecretFinding) -> str:
    return format_path(found.path)


def _value(found: SecretFinding) -> str | None:
    """Return what `ckpt erase --value` takes; None if nothing can be found by it."""
    if found.is_masked or found.checkpoint_id is None:
        return None
    path = _path(found)
    if found.place == "write":
        path = f"write:{found.task_id}:{found.idx}:{path}"
    elif found.place == "metadata":
        path = f"metadata:{path}"
    elif path.startswith(_PREFIXED):
        first, *rest = found.path
        path = f'["{first}"]{format_path(("x", *rest))[1:]}'
    return f"{found.thread_id}@{found.checkpoint_id}:{path}"


SECRET = Shape(
    "A credential at one place; its text is never told.",
    Field("thread_id", TEXT.or_null, "Thread; null for long-term memory."),
    Field("checkpoint_ns", TEXT.or_null, "Namespace; '' is the root graph."),
    Field("checkpoint_id", TEXT.or_null, "The newest of the checkpoints that hold it."),
    Field("place", one_of("value", "write", "metadata", "memory"), "What holds it."),
    Field("channel", TEXT.or_null, "Channel of a value or a write."),
    Field("path", TEXT, "Where it is; it begins with the channel, if there is one.", _path),
    Field("kind", TEXT, "Kind of credential."),
    Field("task_id", TEXT.or_null, "Task of a write."),
    Field("idx", INTEGER.or_null, "Number of a write within its task."),
    Field("checkpoints", INTEGER.or_null, "Number of checkpoints that hold it here."),
    Field("namespace", TEXT.list.or_null, "Labels of an item of long-term memory."),
    Field("key", TEXT.or_null, "Key of an item of long-term memory."),
    Field(
        "value", TEXT.or_null, "What `erase --value` takes; null where a name is hidden.", _value
    ),
)
SECRET_COLUMNS = [
    *SECRET.columns(Column("KIND", "kind", style="change")),
    Column("THREAD@REF", "where", style="id"),
    *SECRET.columns(
        Column("NAMESPACE", "checkpoint_ns", drop=3),
        Column("IN", "place", drop=2),
        Column("PATH", "path", cut=True, least=20),
        Column("CHECKPOINTS", "checkpoints", right=True, drop=1),
    ),
]
"""The columns of the table."""
SECRET_RECORD_COLUMNS = SECRET.columns(
    *("kind", "thread_id", "checkpoint_ns", "checkpoint_id", "place", "channel", "path"),
    *("task_id", "idx", "checkpoints", "namespace", "key", "value"),
)
SECRET_KIND = Shape(
    "A kind of credential that can be found; taken from a pair.",
    Field("kind", TEXT, "Kind.", itemgetter(0)),
    Field("sources", TEXT.list, "Who describes its form.", itemgetter(1)),
)
SECRET_KIND_COLUMNS = SECRET_KIND.columns(
    Column("KIND", "kind", style="change"), Column("FORM", "sources", ", ".join, cut=True)
)


def secret_row(found: SecretFinding) -> dict[str, Any]:
    """Return a finding as JSON, with what only a table shows."""
    where = f"{found.thread_id}@{found.ref or found.checkpoint_id}"
    if found.namespace is not None:
        where = "/".join((*found.namespace, found.key or ""))
    return {**SECRET.record(found), "where": where}


def found_text(kinds: Counter[str], threads: int | None, ignored: int) -> str:
    """Return one line about all that was found in threads, or in memory if `threads` is None."""
    place = "long-term memory" if threads is None else counted(threads, "thread")
    searched = f"searched {place}"
    left_out = f"; {ignored} left out by the profile" if ignored else ""
    if not kinds:
        return f"{searched}: no secrets{left_out}"
    listed = ", ".join(f"{number} {kind}" for kind, number in kinds.most_common())
    return f"{searched}: {counted(kinds.total(), 'secret')} ({listed}){left_out}"
