"""A chat model without a network that tells its tokens, and graphs that call it."""

from collections import Counter
from collections.abc import Iterator
from typing import Annotated, Any, TypedDict

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, RemoveMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langgraph.graph.message import add_messages

from tests.kit.agents.small import chain

SPENT: Counter[tuple[str, str]] = Counter()
"""By model and kind: the tokens of all calls."""


class CountingModel(BaseChatModel):
    """Answers with a text, and adds what that cost to `SPENT`."""

    name: str = "big"

    @property
    def _llm_type(self) -> str:
        return "counting"

    def _usage(self, messages: list[Any]) -> Any:
        number = SPENT[self.name, "messages"] + 1
        tokens = {"input_tokens": 100 * len(messages) + number, "output_tokens": 10 + number}
        tokens["total_tokens"] = sum(tokens.values())
        details = {"cache_read": 7, "cache_creation": 3}
        for kind, amount in (*tokens.items(), *details.items(), ("reasoning", 5), ("messages", 1)):
            SPENT[self.name, kind.removesuffix("_tokens")] += amount
        return {**tokens, "input_token_details": details, "output_token_details": {"reasoning": 5}}

    def _generate(self, messages: Any, *args: Any, **kwargs: Any) -> ChatResult:
        said = AIMessage("a whole answer", **self._told(messages))
        return ChatResult(generations=[ChatGeneration(message=said)])

    def _stream(self, messages: Any, *args: Any, **kwargs: Any) -> Iterator[ChatGenerationChunk]:
        for text in ("a streamed ", "answer"):
            yield ChatGenerationChunk(message=AIMessageChunk(content=text))
        last = AIMessageChunk(content="", chunk_position="last", **self._told(messages))
        yield ChatGenerationChunk(message=last)

    def _told(self, messages: list[Any]) -> dict[str, Any]:
        usage = self._usage(messages)
        return {"usage_metadata": usage, "response_metadata": {"model_name": self.name}}


class Chat(TypedDict, total=False):
    messages: Annotated[list[Any], add_messages]


def talk(model: str) -> Any:
    """Return a node that calls a model."""
    return lambda state: {"messages": [CountingModel(name=model).invoke(state["messages"])]}


def trim(state: Any) -> Any:
    """Remove all but the last message."""
    return {"messages": [RemoveMessage(one.id) for one in state["messages"][:-1]]}


def agent(saver: Any) -> Any:
    """Compile: a model, its messages trimmed, and a subgraph with another model."""
    inner = chain(Chat, {"dig": talk("small")}).compile()
    nodes = {"chat": talk("big"), "trim": trim, "research": inner, "sum": talk("big")}
    return chain(Chat, nodes).compile(checkpointer=saver)
