"""The chat model of these applications: what it answers depends on the prompt alone."""

import re
from collections.abc import Iterator
from typing import Any

from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult


class Scripted(BaseChatModel):
    """Calls the tools that the last person named as `name(argument)`, then tells the results."""

    calls: int = 0

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        self.calls += 1
        message = self.answer(messages)
        return ChatResult(generations=[ChatGeneration(message=message)])

    def answer(self, messages: list[BaseMessage]) -> AIMessage:
        last = messages[-1]
        if isinstance(last, HumanMessage) and (calls := [*wanted(str(last.content))]):
            for number, one in enumerate(calls):
                one["id"] = f"call_{len(messages)}_{number}_{self.calls}"
            return AIMessage("", tool_calls=calls)
        if isinstance(last, ToolMessage):
            return AIMessage(f"It is {last.content}.")
        return AIMessage(f"Answer to '{last.content}' after {len(messages)} messages.")


def wanted(text: str) -> Iterator[dict[str, Any]]:
    for name, argument in re.findall(r"(\w+)\(([^)]*)\)", text):
        key = {"transfer_to_billing": "reason", "note": "text"}.get(name, "query")
        yield {"name": name, "args": {key: argument}, "type": "tool_call"}
