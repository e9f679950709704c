"""Tell damaged values from those that cannot be read for another reason."""

from __future__ import annotations

from ckpt_backends.codec.values import Opaque, Value
from ckpt_backends.encryption import DAMAGED
from ckpt_cli.core.channels import NOT_STORED
from ckpt_cli.core.conversation.messages import as_message

_ENCRYPTED = "encrypted"
"""All reasons why a value stays encrypted begin with this word."""
_FOREIGN = "unknown type"
"""The reason if no official serializer has the type of a value."""
_NO_FAULT = (
    _FOREIGN,  # An application may have a serializer of its own.
    NOT_STORED,  # The layout does not store it.
    _ENCRYPTED,
)
_ABSENT = " is missing"
"""End of the reason if a layout stores a value in several rows, and one of them is not stored."""
_ELSEWHERE = "payload is in "
"""Start of the reason if a value is in another store, which this run does not open."""
_NOT_READ = "not read"
"""End of the reason why a value was left in the store: it is too long."""


_REPLACED = "[unable to serialize, circular reference is too complex to analyze]"
"""What LangGraph.js stores in the place of a value that JSON cannot hold, such as one with a BigInt
(`stringify` in `serde/utils/fast-safe-stringify` of @langchain/langgraph-checkpoint)."""


def is_replaced(value: Value) -> bool:
    """Return whether a value is the error text of LangGraph.js's serializer."""
    return isinstance(value, str) and value == _REPLACED


def holds_replaced(value: Value) -> bool:
    """Return whether a list of messages goes on from that text: a reducer made it a message."""
    messages = map(as_message, value if isinstance(value, list) else ())
    return any(one is not None and is_replaced(one.content) for one in messages)


def is_damaged(value: Value) -> bool:
    """Return whether a decoded value shows that its stored bytes are damaged."""
    if not isinstance(value, Opaque):
        return False
    if value.reason.startswith(DAMAGED):
        return True
    return not value.reason.startswith(_NO_FAULT) and not is_unread(value)


def is_foreign(value: Value) -> bool:
    """Return whether a value has a type that no official serializer has."""
    return isinstance(value, Opaque) and value.reason == _FOREIGN


def is_absent(value: Value) -> bool:
    """Return whether a part of a value is not stored; its saver may store it a moment later."""
    return isinstance(value, Opaque) and value.reason.endswith(_ABSENT)


def is_unread(value: Value) -> bool:
    """Return whether a value was left in the store, or in another one."""
    if not isinstance(value, Opaque):
        return False
    return value.reason.endswith(_NOT_READ) or value.reason.startswith(_ELSEWHERE)


def is_encrypted(value: Value) -> bool:
    """Return whether a value stays encrypted, because its key is not known."""
    if not isinstance(value, Opaque) or is_damaged(value):
        return False
    return value.reason.startswith(_ENCRYPTED)
