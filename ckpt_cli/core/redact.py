"""Hide the contents of values, so that output can be pasted into a ticket.

These are not hidden: ids of threads, checkpoints, tasks and interrupts, namespaces, names of
channels, nodes, classes and metadata keys, versions, times and sizes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from ckpt_backends.codec.values import Cut, Opaque, Tagged, Value
from ckpt_cli.core.conversation import ROLES, Call, Message, ToolCall, Turn
from ckpt_cli.core.state import BY, LOST_DELTA, NAME, Body

if TYPE_CHECKING:
    from ckpt_backends.model import Write
    from ckpt_cli.core.diff import ChannelChange, StepChanges
    from ckpt_cli.core.search import Match

REDACTED = "ckpt.redacted"
"""Type of the `Tagged` that replaces a value; its payload is the type and size in words."""
REASON = "redacted"

_SCALARS = {"str", "int", "float", "bool"}
_SOURCES = ("input", "loop", "update", "fork")


def redact(value: Value) -> Tagged:
    """Replace a value by its type and size."""
    name, size = _measure(value)
    return Tagged(REDACTED, f"{name}, {size}" if size else name)


def redact_text(text: str) -> str:
    """Return the replacement for a text."""
    return f"{REASON}, {_counted(len(text), 'character')}"


def redact_values(values: Mapping[str, Value]) -> dict[str, Value]:
    """Hide the values, but not their names."""
    return {name: redact(value) for name, value in values.items()}


def redact_metadata(metadata: Mapping[str, Value]) -> dict[str, Value]:
    """Hide metadata, except `source`, `step` and `parents` if these are well-formed, and that
    `ckpt` added the checkpoint.
    """
    return {
        name: value if _is_structure(name, value) else redact(value)
        for name, value in metadata.items()
    }


def hides_scalar(value: Value) -> bool:
    """Return whether this stands for a hidden text, number or boolean."""
    hidden = value.payload if isinstance(value, Tagged) and value.type == REDACTED else ""
    return str(hidden).partition(",")[0] in _SCALARS


def redact_opaque(value: Opaque) -> Opaque:
    """Hide the reason and hash of an unreadable value: the reason may quote it, and short values
    can be guessed from a hash.
    """
    return Opaque(value.type, value.size, "", REASON)


def redact_write(write: Write) -> Write:
    """Hide the value of a write."""
    if write.value is None:
        return write
    return write._replace(value=write.value._replace(data=b"", problem=REASON))


def redact_body(body: Body) -> Body:
    """Hide the values of a body, and why it could not be read."""
    return body._replace(
        values=redact_values(body.values),
        pending_sends=None if body.pending_sends is None else redact(body.pending_sends),
        problem=None if body.problem is None else redact_opaque(body.problem),
    )


def redact_change(change: ChannelChange) -> ChannelChange:
    """Keep only the fact that a channel changed, and the types and sizes."""
    from ckpt_cli.core.diff import Op

    if change.change == "added":
        return replace(change, after=redact(change.after))
    if change.change == "removed":
        return replace(change, before=redact(change.before))
    before, after = redact(change.before), redact(change.after)
    return replace(
        change, before=before, after=after, ops=(Op("replace", (), before=before, after=after),)
    )


def redact_changes(changes: StepChanges) -> StepChanges:
    """Keep only which channels a step changed, and how many items were added."""
    added = {name: list(map(redact, items)) for name, items in changes.added.items()}
    return changes._replace(added=added, turned={})


def redact_match(match: Match) -> Match:
    """Hide the text of a matching line and the keys of its path."""
    path = tuple("*" if isinstance(step, str) else step for step in match.path)
    return replace(match, path=path, place=(), line=redact_text(match.line), start=0, end=0)


def redact_turn(turn: Turn) -> Turn:
    """Keep only the role, the size, the number of tool calls and the tokens of a message."""
    message = turn.message
    calls = [Call(ToolCall(REASON, redact(one.call.args), None), one.result) for one in turn.calls]
    return replace(
        turn,
        value=redact(turn.value),
        message=Message(
            message.role if message.role in ROLES else "?",
            redact(message.content),
            id=None,
            name=None,
            tool_calls=tuple(one.call for one in calls),
            fields={},
        ),
        calls=tuple(calls),
        model=None,
    )


def _is_structure(name: str, value: Value) -> bool:
    match name:
        case "source":
            return value in _SOURCES
        case "step":
            return isinstance(value, int) and not isinstance(value, bool)
        case "parents":
            return isinstance(value, dict) and all(
                isinstance(part, str) for pair in value.items() for part in pair
            )
    return name == BY and value == NAME


def _measure(value: Value) -> tuple[str, str]:
    """Return type and size in words; the size is `''` if it would reveal the value."""
    match value:
        case None:
            return "null", ""
        case str():
            return "str", _counted(len(value), "character")
        case bytes():
            return "bytes", _counted(len(value), "byte")
        case list():
            return "list", _counted(len(value), "item")
        case dict():
            return "dict", _counted(len(value), "item")
        case Tagged():
            return value.type, _measure(value.payload)[1]
        case Opaque():
            is_lost = value == LOST_DELTA
            return value.type, "not stored" if is_lost else _counted(value.size, "byte")
        case Cut():
            return _measure(value.kept)[0], _counted(value.size, "byte")
    return type(value).__name__, ""


def _counted(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"
