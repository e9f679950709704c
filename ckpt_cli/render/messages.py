"""Print a conversation as text, as records, and as statistics."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ckpt_backends.codec import to_json
from ckpt_backends.codec.values import Value
from ckpt_cli.core.conversation import Call, Statistics, Turn, content_text, is_error
from ckpt_cli.render.table import Column, Record, plain_columns, table_lines
from ckpt_cli.render.text import Style, StyledLine, line, safe_text, wrap
from ckpt_cli.render.values import block, call_text, counted, message_label

_MESSAGE_LINES = 24
_RESULT_LINES = 4
"""Number of lines that are shown on a terminal without `--full`."""
_CALL_IDS = ("id", "call_id")
_STYLES: dict[str, Style] = {
    "ai": "node",
    "assistant": "node",
    "human": "add",
    "user": "add",
    "tool": "change",
    "system": "dim",
}

STAT_COLUMNS = plain_columns(
    "kind", "name", "count", "input", "output", "total", "errors", "unanswered"
)


def transcript_lines(
    turns: Sequence[Turn], first: int, width: int, *, full: bool, cut: bool
) -> Iterator[StyledLine]:
    """Yield the conversation from one message on, with tool results below their calls.

    `full` shows every message in its place with all its fields; `cut` shortens long texts.
    """
    started = False
    for turn in turns[first:]:
        if turn.answers is not None and turn.answers >= first and not full:
            continue
        if started:
            yield line("")
        started = True
        if full:
            title, *rest = block(turn.value, 0, width)
            yield line((title, _style(turn)), (f"  [{turn.index}]", "dim"))
            yield from map(line, rest)
        else:
            yield from turn_lines(turn, turns, width, cut=cut)


def turn_lines(turn: Turn, turns: Sequence[Turn], width: int, *, cut: bool) -> Iterator[StyledLine]:
    """Yield one message, with the results of its tool calls below it."""
    yield _header(turn)
    calls = _calls(turn)
    content = _without_calls(turn.message.content, calls)
    yield from _text(content, 2, width, _MESSAGE_LINES if cut else None)
    for call in calls:
        yield from _call(call, turns, width, cut=cut)


def message_records(turns: Sequence[Turn], first: int) -> Iterator[dict[str, Any]]:
    """Yield one record per message; a tool call contains its result."""
    for turn in turns[first:]:
        message, usage = turn.message, turn.usage
        record: dict[str, Any] = {
            "index": turn.index,
            "id": message.id,
            "role": message.role,
            "name": message.name,
            "content": to_json(message.content),
            "tool_calls": [_call_record(call, turns) for call in _calls(turn)],
            "usage": None if usage is None else usage._asdict(),
            "model": turn.model,
        }
        if isinstance(called := message.fields.get("tool_call_id"), str):
            record["tool_call_id"] = called
        yield record


def message_columns() -> Sequence[Column]:
    """Return the columns of a conversation as TSV."""
    names = ("index", "role", "name", "id", "content", "tool_calls", "tool_call_id", "model")
    return plain_columns(*names, "usage")


def statistics_record(found: Statistics) -> dict[str, Any]:
    """Return the answer of `messages --stat` as JSON."""
    return {
        "messages": dict(found.roles),
        "tokens": [
            {"model": one.model, "messages": one.messages, **one.usage._asdict()}
            for one in found.models
        ],
        "tool_calls": [one._asdict() for one in found.tools],
    }


def statistics_rows(record: dict[str, Any]) -> Iterator[Record]:
    """Yield the same, one row per role, model or tool."""
    for role, number in record["messages"].items():
        yield {"kind": "role", "name": role, "count": number}
    for one in record["tokens"]:
        yield {**one, "kind": "model", "name": one["model"], "count": one["messages"]}
    for one in record["tool_calls"]:
        yield {**one, "kind": "tool", "count": one["calls"]}


def statistics_lines(record: dict[str, Any], width: int) -> Iterator[StyledLine]:
    """Yield the same as tables."""
    roles = [{"role": role, "n": number} for role, number in record["messages"].items()]
    tables = [
        (roles, [Column("ROLE", "role", style="head"), _count("MESSAGES", "n")]),
        (
            [{**one, "model": one["model"] or "(unnamed)"} for one in record["tokens"]],
            [
                Column("MODEL", "model", style="head"),
                _count("MESSAGES", "messages"),
                _count("INPUT TOKENS", "input"),
                _count("OUTPUT TOKENS", "output"),
                _count("TOKENS", "total"),
            ],
        ),
        (
            record["tool_calls"],
            [
                Column("TOOL", "name", style="head"),
                *(_count(name.upper(), name) for name in ("calls", "errors", "unanswered")),
            ],
        ),
    ]
    for n, (rows, columns) in enumerate([one for one in tables if one[0]]):
        if n:
            yield line("")
        yield from table_lines(rows, columns, width)


def _count(header: str, key: str) -> Column:
    return Column(header, key, right=True)


def _calls(turn: Turn) -> list[Call]:
    """Return the calls of a message, each once.

    A call with arguments that cannot be parsed is stored in `invalid_tool_calls`, and as the model
    made it in `additional_kwargs`.
    """
    invalid = {one.call.id for one in turn.calls if one.call.invalid} - {None}
    return [one for one in turn.calls if one.call.invalid or one.call.id not in invalid]


def _without_calls(content: Value, calls: Sequence[Call]) -> Value:
    """Return a content without the blocks of these calls, which are shown by themselves.

    Anthropic's `tool_use` has the id of the call in `id`, OpenAI's `function_call` in `call_id`.
    """
    ids = {one.call.id for one in calls} - {None}
    if not ids or not isinstance(content, list):
        return content
    return [
        block
        for block in content
        if not isinstance(block, dict)
        or isinstance(block.get("text"), str)
        or ids.isdisjoint(one for one in map(block.get, _CALL_IDS) if isinstance(one, str))
    ]


def _style(turn: Turn) -> Style:
    return _STYLES.get(turn.message.role, "head")


def _header(turn: Turn) -> StyledLine:
    message = turn.message
    facts = [] if turn.model is None else [turn.model]
    facts += [] if turn.usage is None else [f"{turn.usage.total} tokens"]
    facts += ["failed"] if is_error(message) else []
    return line(
        (message_label(message), _style(turn)),
        (f"  [{turn.index}]", "dim"),
        (f"  {safe_text(', '.join(facts))}" if facts else "", "dim"),
    )


def _text(content: Value, indent: int, width: int, most: int | None) -> Iterator[StyledLine]:
    """Yield a content in lines; if there are more than `most`, with the number left out."""
    text = content_text(content) if isinstance(content, str | list) else ""
    if text:
        lines = [
            piece
            for one in safe_text(text, newlines=True).split("\n")
            for piece in wrap(one, width - indent)
        ]
    else:
        lines = [] if content in (None, "", []) else list(block(content, 0, width - indent))
    keep = len(lines) if most is None or len(lines) <= most + 1 else most
    for one in lines[:keep]:
        yield line(" " * indent + one if one else "")
    if keep < len(lines):
        more = counted(len(lines) - keep, "more line")
        yield line((f"{' ' * indent}… {more}; --full shows all", "dim"))


def _call(call: Call, turns: Sequence[Turn], width: int, *, cut: bool) -> Iterator[StyledLine]:
    text = call_text(call.call, width - 4 if cut else 1 << 20)
    lines = list(wrap(text, width - 4))
    yield line("  ", ("> ", "dim"), (lines[0], "bold"))
    for more in lines[1:]:
        yield line("    ", (more, "bold"))
    if call.result is None:
        yield line(("    no result", "dim"))
        return
    answer = turns[call.result].message
    if is_error(answer):
        yield line(("    failed", "error"))
    yield from _text(answer.content, 4, width, _RESULT_LINES if cut else None)


def _call_record(call: Call, turns: Sequence[Turn]) -> dict[str, Any]:
    record: dict[str, Any] = {
        "id": call.call.id,
        "name": call.call.name,
        "args": to_json(call.call.args),
        "result": None,
    }
    if call.call.invalid:
        record["invalid"] = True
    if call.result is not None:
        answer = turns[call.result].message
        record["result"] = {
            "index": call.result,
            "id": answer.id,
            "content": to_json(answer.content),
            "error": is_error(answer),
        }
    return record
