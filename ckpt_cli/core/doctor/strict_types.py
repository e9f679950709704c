"""What `LANGGRAPH_STRICT_MSGPACK` admits, and how to admit more.

With this variable, LangGraph's serializer calls only listed classes when it decodes msgpack. Of any
other class it returns what the object was made of: a dict, a list or a text. JSON and pickles are
not affected: other options guard them.

Source: `SAFE_MSGPACK_TYPES` and `SAFE_MSGPACK_METHODS` in
`langgraph/checkpoint/serde/_msgpack.py`, langgraph-checkpoint 4.3.2. `SAFE_MSGPACK_METHODS` holds
even without the variable. A compiled graph adds the types of its state schema, as far as they can
be seen there: `build_serde_allowlist` in `langgraph/_internal/_serde.py`, langgraph 1.2.22.
"""

from __future__ import annotations

from collections.abc import Mapping

from ckpt_cli.core.doctor.dangerous_types import is_dangerous
from ckpt_cli.core.doctor.named_types import NamedIn, TypeName

VARIABLE = "LANGGRAPH_STRICT_MSGPACK"
_ON = frozenset({"1", "true", "yes"})

_PATHS = "Path PosixPath WindowsPath"
_TYPES: Mapping[str, str] = {
    "builtins": "frozenset set",
    "collections": "deque",
    "datetime": "date datetime time timedelta timezone",
    "decimal": "Decimal",
    "ipaddress": "IPv4Address IPv4Interface IPv4Network IPv6Address IPv6Interface IPv6Network",
    "langchain_core.documents.base": "Document",
    "langchain_core.messages.ai": "AIMessage AIMessageChunk",
    "langchain_core.messages.base": "BaseMessage BaseMessageChunk",
    "langchain_core.messages.chat": "ChatMessage ChatMessageChunk",
    "langchain_core.messages.function": "FunctionMessage FunctionMessageChunk",
    "langchain_core.messages.human": "HumanMessage HumanMessageChunk",
    "langchain_core.messages.modifier": "RemoveMessage",
    "langchain_core.messages.system": "SystemMessage SystemMessageChunk",
    "langchain_core.messages.tool": "ToolMessage ToolMessageChunk",
    "langgraph.store.base": "GetOp Item",
    "langgraph.types": "Command Interrupt Overwrite PregelTask Send StateSnapshot TimeoutPolicy",
    "pathlib": _PATHS,
    "pathlib._local": _PATHS,
    "re": "compile",
    "uuid": "UUID",
    "zoneinfo": "ZoneInfo",
}
ADMITTED = frozenset((module, name) for module, names in _TYPES.items() for name in names.split())
"""The classes that are always admitted, as pairs of module and name."""
ADMITTED_METHODS = frozenset({("datetime", "datetime", "fromisoformat")})
"""The methods that are admitted. No option admits another one."""


def is_blocked(named: TypeName) -> bool:
    """Return whether a saver in strict mode returns what an object was made of instead of it."""
    if named.form is NamedIn.METHOD:
        return (named.module, named.name, named.method) not in ADMITTED_METHODS
    return named.form is NamedIn.MSGPACK and (named.module, named.name) not in ADMITTED


def can_be_allowed(named: TypeName) -> bool:
    """Return whether a class can be put on the list of allowed modules without harm."""
    return named.form is NamedIn.MSGPACK and not is_dangerous(named)


def is_strict(environment: Mapping[str, str]) -> bool:
    """Return whether the environment turns strict mode on."""
    return environment.get(VARIABLE, "").lower() in _ON
