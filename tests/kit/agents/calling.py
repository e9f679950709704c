"""Agents with two tools, one of which does not return until the process is killed.

The name of a thread begins with the kind of its agent.
"""

import operator
import os
import time
from collections.abc import Callable, Sequence
from threading import Thread
from typing import Annotated, Any, TypedDict

from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.channels.delta import DeltaChannel
from langgraph.graph import MessagesState
from langgraph.graph.message import _messages_delta_reducer
from langgraph.prebuilt import ToolNode, create_react_agent, tools_condition
from langgraph.types import interrupt

from ckpt_backends.testing.harness import Harness
from tests.kit.agents.small import chain

HANGS: list[int] = []
"""If the slow tool never returns, as in the process that is killed: where it says so."""


def check_pairs(messages: Sequence[BaseMessage]) -> None:
    """Raise `ValueError` unless each call of a tool has one result, right behind it."""
    wanted: set[str | None] = set()
    for message in messages:
        if isinstance(message, ToolMessage):
            if message.tool_call_id not in wanted:
                raise ValueError(f"INVALID_CHAT_HISTORY: nothing called {message.tool_call_id}")
            wanted.remove(message.tool_call_id)
            continue
        if wanted:
            raise ValueError(f"INVALID_CHAT_HISTORY: no result of {sorted(map(str, wanted))}")
        if isinstance(message, AIMessage):
            wanted = {call["id"] for call in message.tool_calls}
    if wanted:
        raise ValueError(f"INVALID_CHAT_HISTORY: no result of {sorted(map(str, wanted))}")


class ScriptedModel(BaseChatModel):
    """Calls the tools that the user names, then repeats the results."""

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        check_pairs(messages)
        last, number = messages[-1], len(messages)
        answer = AIMessage(f"answer {number}", id=f"ai-{number}")
        if isinstance(last, HumanMessage):
            names = [one for one in str(last.content).split() if one in TOOLS]
            answer.tool_calls = [
                {"name": name, "args": {}, "id": f"call-{number}-{name}", "type": "tool_call"}
                for name in names
            ]
        return ChatResult(generations=[ChatGeneration(message=answer)])


@tool
def quick() -> str:
    """Return at once."""
    return "quick result"


@tool
def slow() -> str:
    """Return at once, or never."""
    if HANGS:
        os.write(HANGS[0], b"slow\n")  # In one piece: others write at the same time.
        time.sleep(600)
    return "slow result"


@tool
def ask() -> str:
    """Ask a person."""
    return f"the person said {interrupt('May I?')}"


@tool
def delegate() -> str:
    """Let a subgraph ask a person."""
    asks = {"asks": lambda _: {"messages": [AIMessage(interrupt("May I?"))]}}
    found = chain(MessagesState, asks).compile().invoke({"messages": []})
    return f"the person said {found['messages'][-1].content}"


TOOLS = {"quick": quick, "slow": slow, "ask": ask, "delegate": delegate}


class DeltaState(TypedDict):
    messages: Annotated[list[AnyMessage], DeltaChannel(_messages_delta_reducer)]
    log: Annotated[list[str], operator.add]


def create(saver: Any) -> Any:
    from langchain.agents import create_agent

    return create_agent(ScriptedModel(), list(TOOLS.values()), checkpointer=saver)


def react(saver: Any, version: Any) -> Any:
    tools = list(TOOLS.values())
    return create_react_agent(ScriptedModel(), tools, checkpointer=saver, version=version)


def loop(state: Any) -> Callable[[Any], Any]:
    def build(saver: Any) -> Any:
        def model(state: Any) -> Any:
            return {"messages": ScriptedModel().invoke(state["messages"])}

        graph = chain(state, {"model": model}).add_node("tools", ToolNode(list(TOOLS.values())))
        graph.add_conditional_edges("model", tools_condition).add_edge("tools", "model")
        return graph.compile(checkpointer=saver)

    return build


AGENTS: dict[str, Callable[[Any], Any]] = {
    "create": create,
    "react1": lambda saver: react(saver, "v1"),
    "react2": lambda saver: react(saver, "v2"),
    "delta": loop(DeltaState),
    "loop": loop(MessagesState),
}


def agent(thread_id: str, saver: Any) -> Any:
    return AGENTS[thread_id.partition("-")[0]](saver)


def config_of(thread_id: str) -> Any:
    return {"configurable": {"thread_id": thread_id}}


def hang(harness: Harness, names: Sequence[str], told: int) -> None:
    """Run an agent on each thread at the same time; the slow tool of each writes a line."""
    HANGS.append(told)
    given = {"messages": [HumanMessage("use quick and slow", id="human-1")]}
    with harness.saver() as saver:
        runs = [
            Thread(target=agent(one, saver).invoke, args=(given, config_of(one))) for one in names
        ]
        for run in runs:
            run.start()
        for run in runs:
            run.join()
