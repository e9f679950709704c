"""The types that LangGraph's serializers revive without being told, and how they are called.

`JsonPlusSerializer` calls what an ext type of msgpack names, and `JsonPlusRedisSerializer` what an
`lc` envelope names. A value can be moved from one to the other if both make the same call. Source:
`langgraph/checkpoint/serde` of langgraph-checkpoint 4.3, `SAFE_MSGPACK_TYPES`;
`langchain_core/load/mapping.py` of langchain-core 1.7.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

TypeName: TypeAlias = tuple[str, str]
"""Module and name of a class or function."""

DATETIME: TypeName = ("datetime", "datetime")
TIMEZONE: TypeName = ("datetime", "timezone")
TIMEDELTA: TypeName = ("datetime", "timedelta")
SET: TypeName = ("builtins", "set")
SEND: TypeName = ("langgraph.types", "Send")
SENDS = frozenset({SEND, ("langgraph.constants", "Send")})
INTERRUPT: TypeName = ("langgraph.types", "Interrupt")
DOCUMENT: TypeName = ("langchain_core.documents.base", "Document")

COLLECTIONS = frozenset({SET, ("builtins", "frozenset"), ("collections", "deque")})
"""Called with one list."""
ONE_ARGUMENT = frozenset(
    {
        ("uuid", "UUID"),
        ("decimal", "Decimal"),
        ("zoneinfo", "ZoneInfo"),
        *(
            ("ipaddress", f"IPv{n}{kind}")
            for n in "46"
            for kind in ("Address", "Interface", "Network")
        ),
    }
)
"""Called with one text."""
_PATHS = frozenset(
    (module, name)
    for module in ("pathlib", "pathlib._local")
    for name in ("Path", "PosixPath", "WindowsPath")
)
ARGUMENTS = _PATHS | {("re", "compile"), TIMEDELTA, ("datetime", "date"), TIMEZONE}
"""Called with several arguments."""
FIELDS: Mapping[TypeName, tuple[str, ...]] = {
    ("datetime", "time"): ("hour", "minute", "second", "microsecond", "tzinfo", "fold"),
    ("langgraph.store.base", "Item"): ("value", "key", "namespace", "created_at", "updated_at"),
    ("langgraph.store.base", "GetOp"): ("namespace", "key", "refresh_ttl"),
    INTERRUPT: ("value", "id", "resumable", "ns", "when", "interrupt_id", "response_schema"),
    ("langgraph.types", "Command"): ("graph", "update", "resume", "goto"),
    ("langgraph.types", "Overwrite"): ("value", "type"),
    ("langgraph.types", "TimeoutPolicy"): ("run_timeout", "idle_timeout", "refresh_on"),
    ("langgraph.types", "StateSnapshot"): (
        *("values", "next", "config", "metadata", "created_at", "parent_config", "tasks"),
        "interrupts",
    ),
    ("langgraph.types", "PregelTask"): (
        *("id", "name", "path", "error", "interrupts", "state", "result"),
    ),
}
"""Called with these fields, some of which may be missing."""
_NEEDED: Mapping[str, frozenset[str]] = {
    "Item": frozenset(FIELDS["langgraph.store.base", "Item"]),
    "GetOp": frozenset({"namespace", "key"}),
    "Interrupt": frozenset({"value"}),
    "Overwrite": frozenset({"value"}),
    "StateSnapshot": frozenset(FIELDS["langgraph.types", "StateSnapshot"]),
    "PregelTask": frozenset({"id", "name", "path"}),
}
HASHABLE = ONE_ARGUMENT | ARGUMENTS | {DATETIME, ("datetime", "time"), ("builtins", "frozenset")}
"""Types whose objects can be items of a set."""

_KINDS = {
    **{"AI": "ai", "Chat": "chat", "Function": "function", "Human": "human", "System": "system"},
    **{"Tool": "tool", "Base": "base"},
}
MESSAGES: Mapping[TypeName, str] = {
    **{
        (f"langchain_core.messages.{module}", f"{kind}Message{chunk}"): f"{kind}Message{chunk}"
        for kind, module in _KINDS.items()
        for chunk in ("", "Chunk")
        if kind != "Base"
    },
    ("langchain_core.messages.modifier", "RemoveMessage"): "RemoveMessage",
}
"""The classes of messages, with their names."""

LANGCHAIN_IDS: Mapping[tuple[str, ...], TypeName] = {
    **{("langchain", "schema", "messages", name[1]): name for name in MESSAGES},
    **{(*name[0].split("."), name[1]): name for name in MESSAGES},
    ("langchain", "schema", "document", "Document"): DOCUMENT,
}
"""By the id in an `lc` 1 envelope, the class that it revives as."""
IDS_OF_LANGCHAIN: Mapping[TypeName, tuple[str, ...]] = {
    **{name: ("langchain", "schema", "messages", name[1]) for name in MESSAGES},
    DOCUMENT: ("langchain", "schema", "document", "Document"),
}


def fits(name: TypeName, fields: Mapping[Any, Any]) -> bool:
    """Whether a call of a known class with these fields works.

    If a call fails, each serializer falls back to something else.
    """
    if name in FIELDS:
        known = {*fields} <= {*FIELDS[name]}
        return known and _NEEDED.get(name[1], frozenset()) <= {*fields}
    if name == DOCUMENT:
        return isinstance(fields.get("page_content"), str) and _is_dict_or_missing(
            fields, "metadata"
        )
    return name in MESSAGES and _message_fits(name[1], fields)


def _message_fits(name: str, fields: Mapping[Any, Any]) -> bool:
    content = fields.get("content", "" if name == "RemoveMessage" else None)
    if name == "RemoveMessage" and (content != "" or not isinstance(fields.get("id"), str)):
        return False
    if not isinstance(content, str) and not (
        isinstance(content, list) and all(isinstance(one, str | dict) for one in content)
    ):
        return False
    if not all(_is_text_or_none(fields, one) for one in ("id", "name")):
        return False
    dicts = ("additional_kwargs", "response_metadata")
    if not all(_is_dict_or_missing(fields, one) for one in dicts):
        return False
    if name.startswith("AI"):
        return _has_tool_calls(fields)
    if name.startswith("Tool"):
        status = fields.get("status", "success")
        return isinstance(fields.get("tool_call_id"), str) and status in ("success", "error")
    if name.startswith("Chat"):
        return isinstance(fields.get("role"), str)
    return not name.startswith("Function") or isinstance(fields.get("name"), str)


def _has_tool_calls(fields: Mapping[Any, Any]) -> bool:
    calls, invalid = fields.get("tool_calls", []), fields.get("invalid_tool_calls", [])
    chunks, usage = fields.get("tool_call_chunks", []), fields.get("usage_metadata")
    for one in (calls, invalid, chunks):
        if not isinstance(one, list) or not all(isinstance(call, dict) for call in one):
            return False
    return (usage is None or _is_usage(usage)) and all(
        isinstance(call.get("name"), str)
        and isinstance(call.get("args"), dict)
        and _is_text_or_none(call, "id")
        for call in calls
    )


def _is_usage(usage: object) -> bool:
    names = ("input_tokens", "output_tokens", "total_tokens")
    return isinstance(usage, dict) and all(type(usage.get(one)) is int for one in names)


def _is_text_or_none(fields: Mapping[Any, Any], name: str) -> bool:
    return isinstance(fields.get(name, ""), str | None)


def _is_dict_or_missing(fields: Mapping[Any, Any], name: str) -> bool:
    return isinstance(fields.get(name, {}), dict)


def call_works(name: TypeName, argument: object) -> bool:
    """Whether a call of a class in `ONE_ARGUMENT` with this text works."""
    if not isinstance(argument, str):
        return False
    module, cls = name
    try:
        if module == "uuid":
            from uuid import UUID

            UUID(argument)
        elif module == "decimal":
            from decimal import Decimal

            Decimal(argument)
        elif module == "ipaddress":
            import ipaddress

            getattr(ipaddress, cls)(argument)
    except (ValueError, ArithmeticError):
        return False
    return True
