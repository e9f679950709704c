"""The classes of messages that LangChain's envelopes name by an older path.

Source: `langchain_core/load/mapping.py` of langchain-core 1.7.
"""

from __future__ import annotations

_OLD = "langchain.schema.messages."
_NEW = "langchain_core.messages."
_MODULES = {
    **dict.fromkeys(("AIMessage", "AIMessageChunk"), "ai"),
    **dict.fromkeys(("ChatMessage", "ChatMessageChunk"), "chat"),
    **dict.fromkeys(("FunctionMessage", "FunctionMessageChunk"), "function"),
    **dict.fromkeys(("HumanMessage", "HumanMessageChunk"), "human"),
    **dict.fromkeys(("SystemMessage", "SystemMessageChunk"), "system"),
    **dict.fromkeys(("ToolMessage", "ToolMessageChunk"), "tool"),
    "RemoveMessage": "modifier",
}


def class_name(path: str) -> str:
    """The module and the class that a path means: `langchain_core.messages.ai.AIMessage`."""
    name = path.removeprefix(_OLD)
    if name == path or name not in _MODULES:
        return path
    return f"{_NEW}{_MODULES[name]}.{name}"
