"""Print the classes that a store names, and the list that admits those that strict mode blocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ckpt_cli.core.doctor.dangerous_types import is_dangerous
from ckpt_cli.core.doctor.strict_types import VARIABLE, can_be_allowed, is_blocked
from ckpt_cli.core.doctor.type_use import TypeUse, TypeUses
from ckpt_cli.render.terminal.styled_text import Style, StyledLine, line
from ckpt_cli.render.terminal.table import Column, plain_columns, table_lines

_ADMITTED, _BLOCKED, _NEVER, _UNAFFECTED = "admits", "blocks", "never admits", "no effect"
_DANGEROUS = "dangerous"
_STYLES: Mapping[str, Style] = {
    _BLOCKED: "change",
    _NEVER: "change",
    _UNAFFECTED: "dim",
    _DANGEROUS: "error",
}


def types_record(uses: TypeUses) -> dict[str, Any]:
    """Return the classes as JSON."""
    return {
        "types": [type_record(one) for one in uses.listed()],
        "allowed_msgpack_modules": [list(one) for one in uses.to_allow()],
    }


def type_record(use: TypeUse) -> dict[str, Any]:
    """Return one class as JSON."""
    named, key = use.named, use.key
    return {
        "type": named.text,
        "module": named.module,
        "name": named.name,
        "method": named.method or None,
        "format": named.form.value,
        "count": use.count,
        "blocked": is_blocked(named),
        "dangerous": is_dangerous(named),
        "thread_id": key.thread_id,
        "checkpoint_ns": key.checkpoint_ns,
        "checkpoint_id": key.checkpoint_id,
        "channel": use.channel,
    }


def type_lines(uses: TypeUses, width: int) -> Iterator[StyledLine]:
    """Yield a table of the classes, and below it what admits those that strict mode blocks."""
    listed = uses.listed()
    if not listed:
        yield line("no value names a class")
        return
    yield from table_lines(map(_row, listed), _COLUMNS, width)
    allowed = uses.to_allow()
    if allowed:
        yield line("")
        yield line(f"to admit these types with {VARIABLE}, give the saver this list:")
        yield line("")
        yield from _python(allowed)


def _row(use: TypeUse) -> dict[str, Any]:
    return {
        **type_record(use),
        "strict": _strict(use),
        "where": f"{use.key.thread_id}@{use.ref or use.key.checkpoint_id}",
    }


def _strict(use: TypeUse) -> str:
    """Return what LANGGRAPH_STRICT_MSGPACK does to a class, in words."""
    if is_dangerous(use.named):
        return _DANGEROUS
    if is_blocked(use.named):
        return _BLOCKED if can_be_allowed(use.named) else _NEVER
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


TYPE_RECORD_COLUMNS = plain_columns(
    "type",
    "module",
    "name",
    "method",
    "format",
    "count",
    "blocked",
    "dangerous",
    "thread_id",
    "checkpoint_ns",
    "checkpoint_id",
    "channel",
)
_COLUMNS = [
    Column("TYPE", "type"),
    Column("FORMAT", "format", drop=2),
    Column("VALUES", "count", right=True),
    Column("STRICT", "strict", style=lambda one: _STYLES.get(str(one), "plain")),
    Column("FIRST AT", "where", style="id", drop=1),
    Column("CHANNEL", "channel", drop=3),
]
