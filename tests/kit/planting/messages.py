"""Messages, as objects of LangChain or as the JSON of its constructors."""

from typing import Any

from langchain_core.messages import RemoveMessage
from langgraph.graph.message import REMOVE_ALL_MESSAGES

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


def again(message: Any, number: int) -> Any:
    """Return a message once more: with another id, and with other ids of its calls or result."""

    def other(value: str | None) -> str:
        return f"{value}-{number}"

    fields = message["kwargs"] if isinstance(message, dict) else message.model_dump()
    new: dict[str, Any] = {"id": other(fields.get("id"))}
    if calls := fields.get("tool_calls"):
        new["tool_calls"] = [{**one, "id": other(one["id"])} for one in calls]
    if "tool_call_id" in fields:
        new["tool_call_id"] = other(fields["tool_call_id"])
    if isinstance(message, dict):
        return {**message, "kwargs": {**fields, **new}}
    return message.model_copy(update=new)


def emptying(message: Any) -> Any:
    """Return the `RemoveMessage` that empties a list, in the form of a message."""
    if isinstance(message, dict):
        fields = {"content": "", "id": REMOVE_ALL_MESSAGES}
        return {**message, "id": [*message["id"][:-1], "RemoveMessage"], "kwargs": fields}
    return RemoveMessage(REMOVE_ALL_MESSAGES)
