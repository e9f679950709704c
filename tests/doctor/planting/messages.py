"""Messages, as objects of LangChain or as the JSON of its constructors."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

_KINDS = {"ToolMessage": "tool", "HumanMessage": "human", "AIMessage": "ai"}


def kind_of(message: Any) -> str:
    """Return the kind of a message, such as `tool`."""
    if isinstance(message, dict):
        return _KINDS.get(message["id"][-1], "other")
    return str(message.type)


def reworded(message: Any) -> Any:
    """Return a message with another text."""
    if isinstance(message, dict):
        return {**message, "kwargs": {**message["kwargs"], "content": "changed by hand"}}
    return message.model_copy(update={"content": "changed by hand"})


def copied(message: Any) -> Any:
    """Return an equal message with the same id."""
    return deepcopy(message)
