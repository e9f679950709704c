"""Check a conversation: calls without results, results without calls, and ids that repeat.

`core/conversation/pairing.py` says which calls count as answered.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ckpt_backends.codec.values import Value
from ckpt_backends.model import CheckpointKey
from ckpt_cli.core.conversation.messages import as_message
from ckpt_cli.core.conversation.pairing import (
    CallForm,
    CallPlace,
    Counterparts,
    duplicates,
    pair,
)
from ckpt_cli.core.doctor.codes import Severity
from ckpt_cli.core.doctor.finding import Finding
from ckpt_cli.core.values.equality import same

_MERGED_BY_ID = "messages"
"""The channel of `MessagesState`, which `add_messages` merges by the ids of messages."""
_LONGEST = 80
"""Maximum number of characters of a name or id in a text."""


def message_findings(
    key: CheckpointKey,
    channel: str,
    items: Sequence[Value],
    others: Counterparts,
    *,
    names: bool = True,
) -> Iterator[Finding]:
    """Yield what is wrong with the conversation in a channel of a checkpoint.

    Texts contain the names of tools and the ids of calls and messages only with `names`.
    """

    def finding(code: str, detail: str) -> Finding:
        return Finding(
            code=code,
            detail=detail,
            thread_id=key.thread_id,
            checkpoint_ns=key.checkpoint_ns,
            checkpoint_id=key.checkpoint_id,
            channel=channel,
        )

    found = pair(items, others)
    for number, one in enumerate((*found.unanswered, *found.final), 1):
        tool = _tool(one) if names else f"a tool (unanswered call {number})"
        text, severity = f"message {one.index} calls {tool}, and no message after it has the", None
        if number > len(found.unanswered):
            # Some applications carry out such calls, and send the result as the next input.
            text = f"the last message calls {tool}, and nothing that runs next has the"
            severity = Severity.INFO
        elif one.form is CallForm.FUNCTION:
            severity = Severity.WARNING  # Google's API refuses it, others may not.
        unanswered = finding("tool-call-unanswered", f"{text} result")
        # A result of these would be a picture or a file.
        has_fix = one.form is not CallForm.DEVICE
        yield replace(unanswered, own_severity=severity, has_fix=has_fix)
    for index in found.orphaned:
        yield finding("tool-result-orphaned", _orphan_text(items, index, names=names))
    for first, index, message_id in duplicates(items):
        if channel != _MERGED_BY_ID and same(items[first], items[index]):
            continue  # A list that only grows, such as a transcript, may hold a message twice.
        yield finding(
            "message-id-duplicate",
            f"messages {first} and {index} have the same id"
            + (f" ({_short(message_id)})" if names else ""),
        )


def _tool(one: CallPlace) -> str:
    of = "" if one.form is CallForm.FUNCTION else f" ({_short(one.id)})"
    return f"'{_short(one.call.name)}'{of}"


def _orphan_text(items: Sequence[Value], index: int, *, names: bool) -> str:
    message = as_message(items[index])
    fields = {} if message is None else message.fields
    name, call_id = fields.get("name"), fields.get("tool_call_id")
    of = f" of '{_short(name)}'" if names and isinstance(name, str) and name else ""
    which = f" ({_short(call_id)})" if names and isinstance(call_id, str) else ""
    return f"message {index} is a result{of}{which}, and no message before it makes the call"


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
