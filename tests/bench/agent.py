"""The agent that fills the stores with threads: it plans, searches in parallel, and calls tools."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, TypedDict

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Send, interrupt

_TEXT = "Lorem ipsum dolor sit amet, consetetur sadipscing. "
Update = dict[str, Any]


class State(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], add_messages]
    plan: list[str]
    found: Annotated[list[str], lambda old, new: (old + new)[-3:]]
    turns: int


class Short(State, total=False):
    """The same state, but only the last messages are kept, for threads of thousands of steps."""

    messages: Annotated[list[AnyMessage], lambda old, new: (old + new)[-4:]]


def build(saver: SqliteSaver, schema: Any = State) -> Any:
    """Build the graph plan -> search (six in parallel) -> model -> tools -> model."""
    graph: Any = StateGraph(schema)
    nodes: dict[str, Callable[[Any], Any]] = {
        "plan": _plan,
        "search": _search,
        "model": _model,
        "tools": _tools,
    }
    for name, node in nodes.items():
        graph.add_node(name, node)
    graph.add_edge(START, "plan")
    graph.add_conditional_edges("plan", _spread, ["search"])
    graph.add_edge("search", "model")
    graph.add_conditional_edges("model", _route, ["tools", END])
    graph.add_edge("tools", "model")
    return graph.compile(checkpointer=saver)


def build_loop(saver: SqliteSaver, turns: int) -> Any:
    """Build a graph with one node that runs `turns` times."""
    graph: Any = StateGraph(Short)
    graph.add_node("work", lambda state: {"turns": state.get("turns", 0) + 1})
    graph.add_edge(START, "work")
    graph.add_conditional_edges("work", lambda state: "work" if state["turns"] < turns else END)
    return graph.compile(checkpointer=saver)


def ask(graph: Any, thread_id: str, words: str) -> None:
    """Run one turn of a thread: to the answer, or to a question if the words are `approve`."""
    message = HumanMessage(f"{words}: {_TEXT}", id=f"human-{words}")
    graph.invoke({"messages": [message]}, {"configurable": {"thread_id": thread_id}})


def _plan(state: Update) -> Update:
    turn = state.get("turns", 0) + 1
    return {"turns": turn, "plan": [f"step {turn}.{n}" for n in range(6)]}


def _spread(state: Update) -> list[Send]:
    return [Send("search", {"wanted": step}) for step in state["plan"]]


def _search(state: Update) -> Update:
    return {"found": [f"{state['wanted']}: {_TEXT}"]}


def _model(state: Update) -> Update:
    last = state["messages"][-1]
    turn = state["turns"]
    usage = {"input_tokens": 1200, "output_tokens": 90, "total_tokens": 1290}
    if last.type == "tool":
        text = f"The answer is: {_TEXT}"
        return {"messages": [AIMessage(text, id=f"answer-{turn}", usage_metadata=usage)]}
    query = last.content if last.type == "human" else ""
    calls = [
        {"name": name, "args": {"query": query[:60], "limit": 5}, "id": f"call-{name}-{turn}"}
        for name in ("orders", "weather")
    ]
    return {"messages": [AIMessage("", id=f"calls-{turn}", tool_calls=calls, usage_metadata=usage)]}


def _route(state: Update) -> str:
    return "tools" if state["messages"][-1].type == "ai" and _calls(state) else END


def _tools(state: Update) -> Update:
    if "approve" in str(state["messages"][-2].content):
        interrupt({"question": "Call these tools?", "tools": [c["name"] for c in _calls(state)]})
    return {
        "messages": [
            ToolMessage(f"{call['name']}: {_TEXT}", tool_call_id=call["id"], id=f"r-{call['id']}")
            for call in _calls(state)
        ]
    }


def _calls(state: Update) -> list[Any]:
    return list(state["messages"][-1].tool_calls)
