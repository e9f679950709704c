"""Print a conversation as text, as records, and as statistics."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from ckpt_backends.codec.values import Value
from ckpt_cli.core.conversation import Call, Statistics, ToolCall, Turn, content_text, is_error
from ckpt_cli.render.fields import Field, Shape, View, inside, known, optional
from ckpt_cli.render.table import Column, Record, plain_columns, table_lines
from ckpt_cli.render.text import Style, StyledLine, Ui, line, safe_text, wrap
from ckpt_cli.render.types import FLAG, INTEGER, TEXT, VALUE
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


class _Said(NamedTuple):
    """A message of a conversation, which may hold the results of its tool calls."""

    turn: Turn
    turns: Sequence[Turn]


class _Called(NamedTuple):
    """A tool call, and the message with its result."""

    call: ToolCall
    result: Turn | None


def _called(said: _Said) -> list[_Called]:
    return [
        _Called(one.call, None if one.result is None else said.turns[one.result])
        for one in _calls(said.turn)
    ]


def _call_answered(said: _Said) -> str | None:
    called = said.turn.message.fields.get("tool_call_id")
    return called if isinstance(called, str) else None


_USAGE = Shape("Tokens.", *(Field(key, INTEGER, "Tokens.") for key in ("input", "output", "total")))
_RESULT = Shape(
    "The result of a tool call.",
    Field("index", INTEGER, "Place of its message in the conversation."),
    Field("id", TEXT.or_null, "Id of its message.", "message.id"),
    Field("content", VALUE, "Content.", "message.content"),
    Field("error", FLAG, "Whether the tool failed.", lambda turn: is_error(turn.message)),
)
_CALL = Shape(
    "A tool call.",
    Field("id", TEXT.or_null, "Id of the call.", "call.id"),
    Field("name", TEXT, "Tool.", "call.name"),
    Field("args", VALUE, "Arguments.", "call.args"),
    Field("result", _RESULT.or_null, "Its result."),
    optional("invalid", FLAG, "The arguments could not be parsed.", "call.invalid"),
)
MESSAGE = Shape(
    "A message of a conversation.",
    Field("index", INTEGER, "Place in the conversation, from 0.", "turn.index"),
    Field("id", TEXT.or_null, "Id of the message.", "turn.message.id"),
    Field("role", TEXT, "human, ai, tool, system, ...", "turn.message.role"),
    Field("name", TEXT.or_null, "Name, such as that of a tool.", "turn.message.name"),
    Field("content", VALUE, "Content: a text, or a list of blocks.", "turn.message.content"),
    Field("tool_calls", _CALL.list, "Tool calls with their results, a list.", _called),
    Field("usage", _USAGE.or_null, "Tokens, if the message tells them.", "turn.usage"),
    Field("model", TEXT.or_null, "Model that made it.", "turn.model"),
    known("tool_call_id", TEXT, "Tool call that it answers.", _call_answered),
)
STATISTICS = Shape(
    "Numbers of a conversation.",
    Field("messages", INTEGER.by_name, "Messages by role.", "roles"),
    Field(
        "tokens",
        Shape(
            "Tokens of one model.",
            Field("model", TEXT.or_null, "Model."),
            Field("messages", INTEGER, "Its messages.", "usage.messages"),
            *inside("usage", *_USAGE),
        ).list,
        "Tokens by model.",
        "models",
    ),
    Field(
        "tool_calls",
        Shape(
            "Calls of one tool.",
            Field("name", TEXT, "Tool."),
            Field("calls", INTEGER, "Its calls."),
            Field("errors", INTEGER, "How many failed."),
            Field("unanswered", INTEGER, "How many have no result."),
        ).list,
        "Calls by tool.",
        "tools",
    ),
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
    return (MESSAGE.record(_Said(turn, turns)) for turn in turns[first:])


def _statistics_rows(found: Statistics) -> Iterator[Record]:
    """Yield the same, one row per role, model or tool."""
    record = STATISTICS.record(found)
    for role, number in record["messages"].items():
        yield {"kind": "role", "name": role, "count": number}
    for one in record["tokens"]:
        yield {**one, "kind": "model", "name": one["model"], "count": one["messages"]}
    for one in record["tool_calls"]:
        yield {**one, "kind": "tool", "count": one["calls"]}


def _statistics_lines(found: Statistics, ui: Ui) -> Iterator[StyledLine]:
    """Yield the same as tables."""
    record = STATISTICS.record(found)
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
        yield from table_lines(rows, columns, ui)


MESSAGES_VIEW = View(
    lambda found: list(message_records(*found)),
    lambda found, ui, full: transcript_lines(
        found[0], found[1], ui.width, full=full, cut=ui.terminal and not full
    ),
    lambda found: message_records(*found),
    MESSAGE.columns(
        *("index", "role", "name", "id", "content", "tool_calls", "tool_call_id", "model", "usage")
    ),
)
"""Of the turns of a conversation, and the place of the first to print."""
STATISTICS_VIEW = View(
    STATISTICS.record,
    _statistics_lines,
    _statistics_rows,
    plain_columns("kind", "name", "count", "input", "output", "total", "errors", "unanswered"),
)


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
