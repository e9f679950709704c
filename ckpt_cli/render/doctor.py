"""Findings, and types that values name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from ckpt_cli.core.doctor import types
from ckpt_cli.core.doctor.findings import Checked, Finding, Severity
from ckpt_cli.render.fields import Field, Shape
from ckpt_cli.render.table import Column, table_lines
from ckpt_cli.render.text import Style, StyledLine, Ui, command_field, field, line
from ckpt_cli.render.types import FLAG, INTEGER, TEXT, one_of
from ckpt_cli.render.values import counted

_NAMED = 3
"""Maximum number of threads that have a line of their own for the same reason."""

_STYLES: Mapping[str, Style] = {
    Severity.ERROR: "error",
    Severity.WARNING: "change",
    Severity.INFO: "dim",
}


@cache
def finding_shape(words: Sequence[str]) -> Shape:
    """Return what is told of a finding; `words` name the store in the commands for it."""
    return Shape(
        "A fault. A part of its place that does not apply is null.",
        Field("code", TEXT, "What it is: [doctor.md](doctor.md#codes) lists the codes."),
        Field("severity", one_of(*Severity), "How bad it is."),
        Field("thread_id", TEXT.or_null, "Thread; null for the store as a whole."),
        Field("checkpoint_ns", TEXT.or_null, "Namespace."),
        Field("checkpoint_id", TEXT.or_null, "Checkpoint."),
        Field("channel", TEXT.or_null, "Channel."),
        Field("task_id", TEXT.or_null, "Task."),
        Field("detail", TEXT, "What is wrong."),
        Field(
            "fix",
            TEXT.or_null,
            "A command, or a statement of the engine, that mends it.",
            lambda one: one.fix(words) or None,
        ),
        Field(
            "look", TEXT.or_null, "A command that shows more.", lambda one: one.look(words) or None
        ),
    )


FINDING = finding_shape(())
CHECKED = Shape(
    "How much was checked.",
    Field("threads", INTEGER, "Threads."),
    Field("checkpoints", INTEGER, "Checkpoints."),
    Field("writes", INTEGER, "Writes."),
    Field("values", INTEGER, "Values that were decoded; each counts once."),
)
TYPE = Shape(
    "A class or function that values name in one form.",
    Field("type", TEXT, "The whole name.", "named.text"),
    Field("module", TEXT, "Module.", "named.module"),
    Field("name", TEXT, "Name in it.", "named.name"),
    Field("method", TEXT.or_null, "Method that is called.", lambda one: one.named.method or None),
    Field("format", one_of(*types.NamedIn), "How values name it.", "named.form"),
    Field("count", INTEGER, "Number of values."),
    Field(
        "blocked", FLAG, f"{types.VARIABLE} refuses it.", lambda one: types.is_blocked(one.named)
    ),
    Field("dangerous", FLAG, "Decoding it does harm.", lambda one: types.is_dangerous(one.named)),
    Field("thread_id", TEXT, "Thread that names it first.", "key.thread_id"),
    Field("checkpoint_ns", TEXT, "Namespace.", "key.checkpoint_ns"),
    Field("checkpoint_id", TEXT, "Oldest checkpoint.", "key.checkpoint_id"),
    Field("channel", TEXT.or_null, "Channel; null for metadata and the rest of a checkpoint."),
)
_FINDINGS = Field("findings", FINDING.list.converted_by(None), "What was found.")
_UNCHECKED = Shape(
    "A thread that could not be checked completely.",
    Field(
        "thread_id", TEXT.or_null, "Thread; null for the store itself.", lambda one: one[0] or None
    ),
    Field("reason", TEXT, "Why.", lambda one: one[1]),
)
EXAMINATION = Shape(
    "What is wrong with a store.",
    Field("store", TEXT, "Its URL, without secrets."),
    Field("complete", FLAG, "Whether all could be read."),
    Field("checked", CHECKED, "How much was checked."),
    _FINDINGS,
    Field(
        "unchecked",
        _UNCHECKED.list,
        "What could not be checked.",
        lambda found: found.unchecked.items(),
    ),
)
_TYPES = (
    Field("types", TYPE.list, "What values name.", lambda found: found.types.listed()),
    Field(
        "allowed_msgpack_modules",
        TEXT.list.list,
        "What to give the saver so that it admits them: the module and the name of each.",
        lambda found: found.types.to_allow(),
    ),
)
EXAMINATION_WITH_TYPES = Shape(
    "What is wrong with a store, and what its values name.", *EXAMINATION, *_TYPES
)
THREAD_REPORT = Shape(
    "What is wrong with a thread.",
    Field("thread_id", TEXT, "Thread."),
    Field("complete", FLAG, "Whether all could be read.", lambda found: not found.unchecked),
    Field("checked", CHECKED, "How much was checked."),
    _FINDINGS,
)


def finding_row(finding: Finding, store_words: Sequence[str]) -> dict[str, Any]:
    """Return a finding with what only a table shows."""
    where = finding.thread_id
    if where is not None and finding.checkpoint_id is not None:
        where = f"{where}@{finding.ref or finding.checkpoint_id}"
    name, command = _help(finding, store_words)
    return {
        **finding_shape(tuple(store_words)).record(finding),
        "where": where,
        "help": f"{name}: {command}" if command else None,
    }


FINDING_COLUMNS = [
    Column("SEVERITY", "severity", style=lambda one: _STYLES.get(str(one), "plain"), drop=3),
    Column("CODE", "code"),
    Column("THREAD@REF", "where", style="id"),
    Column("NAMESPACE", "checkpoint_ns", drop=2),
    Column("CHANNEL", "channel", drop=1),
    Column("WHAT", "detail", cut=True, least=30),
    Column("FIX OR SEE", "help"),
]
RECORD_COLUMNS = FINDING.columns(
    *("severity", "code", "thread_id", "checkpoint_ns", "checkpoint_id", "channel", "task_id"),
    *("detail", "fix", "look"),
)


def finding_lines(finding: Finding, store_words: Sequence[str], width: int) -> Iterator[StyledLine]:
    """Yield one finding with its place, what it means and what helps."""
    yield line((finding.severity.value, _STYLES[finding.severity]), " ", (finding.code, "bold"))
    place = {
        "at": finding.ref or finding.checkpoint_id,
        "in": finding.checkpoint_ns,
        "channel": finding.channel,
        "task": finding.task_id,
        "what": finding.detail,
    }
    for name, text in place.items():
        if text:
            yield from field(name, text, width)
    name, command = _help(finding, store_words)
    if command:
        yield command_field(name, command)


def summary_text(severities: Counter[Severity], checked: Checked, unchecked: int) -> str:
    """Return one line about all findings and about what was checked.

    `unchecked` is the number of threads that could not be checked completely.
    """
    numbers = [(name.removesuffix("s"), n) for name, n in CHECKED.record(checked).items()]
    about = ", ".join(counted(n, name) for name, n in numbers if n or name == "thread")
    parts = [_counted(severities[one], one) for one in Severity if severities[one]]
    found = " and ".join(filter(None, [", ".join(parts[:-1]), *parts[-1:]])) or "no findings"
    text = f"checked {about}: {found}"
    if unchecked:
        text += f"; {counted(unchecked, 'thread')} could not be checked completely"
    return text


def unchecked_notes(unchecked: Mapping[str, str]) -> Iterator[str]:
    """Yield why threads could not be checked: one line for all with the same reason.

    `unchecked` has the reasons by thread; the key `''` stands for the store.
    """
    threads: dict[str, list[str]] = {}
    for thread_id, reason in unchecked.items():
        threads.setdefault(reason, []).append(thread_id)
    for reason, ids in threads.items():
        named = [f"thread '{one}'" for one in ids if one]
        if len(named) > _NAMED:
            named = [f"{len(named)} threads, such as {named[0].removeprefix('thread ')}"]
        whole = ["the whole store"] if "" in ids else []
        for what in [*whole, *named]:
            yield f"cannot check {what}: {reason}"


def _help(finding: Finding, store_words: Sequence[str]) -> tuple[str, str]:
    """Return `fix` with what mends a finding, or else `see` with what shows more, or `''`."""
    if fix := finding.fix(store_words):
        return "fix", fix
    return "see", finding.look(store_words)


def _counted(number: int, severity: Severity) -> str:
    return f"{number} {severity}" if severity is Severity.INFO else counted(number, severity)


_ADMITTED, _BLOCKED, _NEVER, _UNAFFECTED = "admits", "blocks", "never admits", "no effect"
_DANGEROUS = "dangerous"
_TYPE_STYLES: Mapping[str, Style] = {
    _BLOCKED: "change",
    _NEVER: "change",
    _UNAFFECTED: "dim",
    _DANGEROUS: "error",
}


def type_lines(uses: types.TypeUses, ui: Ui) -> Iterator[StyledLine]:
    """Yield a table of the classes, and below it what admits those that strict mode blocks."""
    listed = uses.listed()
    if not listed:
        yield line("no value names a class")
        return
    yield from table_lines(map(_row, listed), _COLUMNS, ui)
    allowed = uses.to_allow()
    if allowed:
        yield line("")
        yield line(f"to admit these types with {types.VARIABLE}, give the saver this list:")
        yield line("")
        yield from _python(allowed)


def _row(use: types.TypeUse) -> dict[str, Any]:
    return {
        **TYPE.record(use),
        "strict": _strict(use),
        "where": f"{use.key.thread_id}@{use.ref or use.key.checkpoint_id}",
    }


def _strict(use: types.TypeUse) -> str:
    """Return what LANGGRAPH_STRICT_MSGPACK does to a class, in words."""
    if types.is_dangerous(use.named):
        return _DANGEROUS
    if types.is_blocked(use.named):
        return _BLOCKED if types.can_be_allowed(use.named) else _NEVER
    return _ADMITTED if use.named.form.value.startswith("msgpack") else _UNAFFECTED


def _python(allowed: Sequence[tuple[str, str]]) -> Iterator[StyledLine]:
    """Yield Python code with the list, ready to paste."""
    yield _code("allowed_msgpack_modules = [")
    for module, name in allowed:
        yield _code(f"    ({_literal(module)}, {_literal(name)}),")
    yield _code("]")
    yield _code("# when the saver is created: Saver(..., serde=serde)")
    yield _code("serde = JsonPlusSerializer(allowed_msgpack_modules=allowed_msgpack_modules)")
    yield _code("# or later, if strict mode is on:")
    yield _code("saver = saver.with_allowlist(allowed_msgpack_modules)")


def _code(text: str) -> StyledLine:
    return StyledLine(line(text).spans, whole=True)


def _literal(text: str) -> str:
    """Return a Python literal in ASCII, so nothing in it acts on a terminal."""
    literal = ascii(text)
    return f'"{text}"' if literal == f"'{text}'" else literal


_COLUMNS = [
    Column("TYPE", "type"),
    Column("FORMAT", "format", drop=2),
    Column("VALUES", "count", right=True),
    Column("STRICT", "strict", style=lambda one: _TYPE_STYLES.get(str(one), "plain")),
    Column("FIRST AT", "where", style="id", drop=1),
    Column("CHANNEL", "channel", drop=3),
]
