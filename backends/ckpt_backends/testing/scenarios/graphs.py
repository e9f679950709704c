"""The graphs that the scenarios run: each function takes a saver and gives a compiled graph.

They must build in every era, since the newest library opens the older stores with them.
"""

from __future__ import annotations

from typing import Any

from langchain_core.messages import AIMessage, ToolMessage
from langgraph.graph import END, START, StateGraph

from ckpt_backends.testing.scenarios import compat
from ckpt_backends.testing.scenarios.building import (
    Chat,
    Items,
    Node,
    State,
    Visits,
    assemble,
    chain,
    fail,
    question,
    say,
)


def linear(saver: Any, **options: Any) -> Any:
    graph = chain({"read": say("read"), "think": say("think"), "write": say("written")})
    return graph.compile(checkpointer=saver, **options)


def breakpoint_before(saver: Any) -> Any:
    return linear(saver, interrupt_before=["write"])


def breakpoint_after(saver: Any) -> Any:
    return linear(saver, interrupt_after=["think"])


def loop(saver: Any) -> Any:
    def work(state: State) -> State:
        turn = (state.get("count") or 0) + 1
        return {"items": [f"turn {turn}"], "count": turn}

    def more(state: State) -> str:
        return "work" if state["count"] < 3 else "report"

    graph = assemble(
        Items, {"work": work, "report": say("done")}, [(START, "work"), ("report", END)]
    )
    graph.add_conditional_edges("work", more, {"work": "work", "report": "report"})
    return graph.compile(checkpointer=saver)


def conditional(saver: Any) -> Any:
    def route(state: State) -> list[str]:
        return ["left", "right"] if state.get("note") == "both" else [state["note"]]

    nodes = {"sort": say("sorted"), "left": say("left"), "right": say("right"), "end": say("end")}
    graph = assemble(Items, nodes, [(START, "sort"), ("left", "end"), ("right", "end")])
    graph.add_conditional_edges("sort", route, ["left", "right"])
    graph.add_edge("end", END)
    return graph.compile(checkpointer=saver)


def fanout(saver: Any, worker: Node | None = None) -> Any:
    """Three Sends to `worker` beside a plain edge to `audit`."""

    def work(state: State) -> State:
        return {"items": [f"worked on {state['part']}"]}

    def split(state: State) -> list[Any]:
        return [compat.Send("worker", {"part": part}) for part in ("a", "b", "c")]

    nodes = {
        "plan": say("plan"),
        "worker": worker or work,
        "audit": say("audit"),
        "sum": say("sum"),
    }
    graph = assemble(Items, nodes, [(START, "plan"), ("plan", "audit"), ("worker", "sum")])
    graph.add_conditional_edges("plan", split, ["worker"])
    graph.add_edge("sum", END)
    return graph.compile(checkpointer=saver)


def fanout_asking(saver: Any) -> Any:
    def worker(state: State) -> State:
        return {"items": [compat.ask({"part": state["part"], "text": "go on?"})]}

    return fanout(saver, worker)


def join(saver: Any) -> Any:
    """Two branches of which one is longer; `merge` waits for both."""
    nodes = {
        "start": say("start"),
        "short": say("short"),
        "long": say("long"),
        "longer": say("longer"),
        "merge": say("merged"),
    }
    edges = [(START, "start"), ("start", "short"), ("start", "long"), ("long", "longer")]
    graph = assemble(Items, nodes, [*edges, ("merge", END)])
    graph.add_edge(["short", "longer"], "merge")
    return graph.compile(checkpointer=saver)


def defer(saver: Any) -> Any:
    """`last` is deferred until nothing else runs; `both` is a deferred join."""
    graph = assemble(
        Items,
        {"a": say("a"), "b": say("b"), "b2": say("b2")},
        [(START, "a"), (START, "b"), ("b", "b2")],
    )
    graph.add_node("last", say("last"), defer=True)
    graph.add_node("both", say("both"), defer=True)
    graph.add_edge("a", "last")
    graph.add_edge(["a", "b2"], "both")
    return graph.compile(checkpointer=saver)


def ask_alone(saver: Any) -> Any:
    nodes = {"prepare": say("ready"), "ask": question("Go on?"), "finish": say("finished")}
    return chain(nodes).compile(checkpointer=saver)


def ask_twice(saver: Any) -> Any:
    nodes = {"prepare": say("ready"), "ask": question("Question", times=2), "finish": say("end")}
    return chain(nodes).compile(checkpointer=saver)


def ask_parallel(saver: Any) -> Any:
    nodes = {
        "ask_a": question({"question": "A?", "options": ["yes", "no"]}),
        "ask_b": question({"question": "B?", "options": ["yes", "no"]}),
        "quiet": say("quiet"),
        "end": say("end"),
    }
    edges: list[tuple[Any, str]] = [(START, name) for name in ("ask_a", "ask_b", "quiet")]
    return assemble(Items, nodes, [*edges, (["ask_a", "ask_b"], "end")]).compile(checkpointer=saver)


def subgraph(saver: Any) -> Any:
    """before -> child (two nodes) -> after."""
    child = chain({"inside": say("inside"), "deep": say("deep")}).compile()
    nodes = {"before": say("before"), "child": child, "after": say("after")}
    return chain(nodes).compile(checkpointer=saver)


def subgraph_asking(saver: Any) -> Any:
    child = chain({"inside": say("inside"), "deep": question("From inside?")}).compile()
    nodes = {"before": say("before"), "child": child, "after": say("after")}
    return chain(nodes).compile(checkpointer=saver)


def child_stopping(saver: Any = None) -> Any:
    graph = chain({"inside": say("inside"), "deep": say("deep")})
    return graph.compile(checkpointer=saver, interrupt_before=["deep"])


def subgraph_stopping(saver: Any) -> Any:
    """The only kind of subgraph for which 0.2.14 stores a namespace: one with a breakpoint."""
    nodes = {"before": say("before"), "child": child_stopping(), "after": say("after")}
    return chain(nodes).compile(checkpointer=saver)


def subgraph_nested(saver: Any) -> Any:
    inner = chain({"core": say("core"), "ask": question("From the core?")}).compile()
    middle = chain({"enter": say("enter"), "inner": inner, "leave": say("leave")}).compile()
    nodes = {"before": say("before"), "middle": middle, "after": say("after")}
    return chain(nodes).compile(checkpointer=saver)


def subgraph_failing(saver: Any) -> Any:
    child = chain({"inside": say("inside"), "deep": fail("the child failed")}).compile()
    return chain({"before": say("before"), "child": child}).compile(checkpointer=saver)


def subgraph_stateful(saver: Any) -> Any:
    """The child keeps its own state between turns."""
    child = chain({"remember": say("remembered")}).compile(checkpointer=True)

    def call(state: State) -> State:
        found = child.invoke({"items": [f"turn {len(state['items'])}"]})
        return {"items": [f"child knows {len(found['items'])}"]}

    nodes = {"greet": say("hello"), "memory": call, "bye": say("bye")}
    return chain(nodes).compile(checkpointer=saver)


def subgraph_stateful_node(saver: Any) -> Any:
    """As above, with the child as the node itself."""

    def count(state: State) -> State:
        return {"visits": (state.get("visits") or 0) + 1}

    child = chain({"count": count}, Visits).compile(checkpointer=True)
    return chain({"greet": say("hello"), "memory": child}, Visits).compile(checkpointer=saver)


def subgraph_twice(saver: Any) -> Any:
    """One node calls a subgraph twice from its Python code."""
    child = chain({"step": say("stepped")}).compile()

    def twice(state: State) -> State:
        first = child.invoke({"items": ["first"]})
        second = child.invoke({"items": ["second"]})
        return {"items": first["items"] + second["items"]}

    return chain({"twice": twice, "end": say("end")}).compile(checkpointer=saver)


def chat(saver: Any) -> Any:
    """model <-> tools, until the model has nothing left to look up."""

    def model(state: State) -> State:
        return {"messages": [fake_model(state["messages"])]}

    def tools(state: State) -> State:
        calls = state["messages"][-1].tool_calls
        return {"messages": [fake_tool(call) for call in calls]}

    def route(state: State) -> str:
        return "tools" if state["messages"][-1].tool_calls else END

    graph = assemble(Chat, {"model": model, "tools": tools}, [(START, "model"), ("tools", "model")])
    graph.add_conditional_edges("model", route, ["tools", END])
    return graph.compile(checkpointer=saver)


def fake_model(messages: list[Any]) -> AIMessage:
    turn = len(messages)
    usage = {"input_tokens": 12 * turn, "output_tokens": 7, "total_tokens": 12 * turn + 7}
    if messages[-1].type != "human":
        text = f"The answer is {messages[-1].content}."
        return AIMessage(text, id=f"ai-{turn}", usage_metadata=usage)
    call = {"name": "look_up", "args": {"query": messages[-1].content, "limit": 3}}
    return AIMessage(
        "",
        id=f"ai-{turn}",
        tool_calls=[{**call, "id": f"call_{turn}", "type": "tool_call"}],
        usage_metadata=usage,
        response_metadata={"model_name": "fake-1", "finish_reason": "tool_calls"},
    )


def fake_tool(call: Any) -> ToolMessage:
    text = f"found '{call['args']['query']}'"
    return ToolMessage(text, tool_call_id=call["id"], name=call["name"], id=f"tool-{call['id']}")


def goto(saver: Any) -> Any:
    """Nodes that choose the next ones with Command."""

    def choose(state: State) -> Any:
        return compat.Command(goto=["left", "right"], update={"items": ["chose"]})

    def left(state: State) -> Any:
        worker = compat.Send("worker", {"part": "sent"})
        return compat.Command(goto=worker, update={"items": ["left"]})

    def worker(state: State) -> State:
        return {"items": [f"worked on {state.get('part', 'nothing')}"]}

    nodes = {"choose": choose, "left": left, "right": say("right"), "worker": worker}
    return assemble(Items, nodes, [(START, "choose")]).compile(checkpointer=saver)


def failing(saver: Any) -> Any:
    nodes = {"prepare": say("ready"), "boom": fail("it broke: ünïcode 💥"), "after": say("after")}
    return chain(nodes).compile(checkpointer=saver)


def failing_parallel(saver: Any) -> Any:
    nodes = {
        "fine": say("fine"),
        "boom": fail("late failure", after=0.15),
        "silent": silent,
        "end": say("end"),
    }
    edges: list[tuple[Any, str]] = [(START, name) for name in ("fine", "boom", "silent")]
    return assemble(Items, nodes, [*edges, (["fine", "boom"], "end")]).compile(checkpointer=saver)


def failing_once(saver: Any) -> Any:
    attempts: list[int] = []

    def shaky(state: State) -> State:
        attempts.append(1)
        if len(attempts) == 1:
            raise TimeoutError("the first attempt timed out")
        return {"items": ["second attempt"]}

    nodes = {"prepare": say("ready"), "shaky": shaky, "after": say("after")}
    return chain(nodes).compile(checkpointer=saver)


def failing_handled(saver: Any) -> Any:
    graph = StateGraph(Items)
    graph.add_node("boom", fail("handled failure"), error_handler=say("handled"))
    graph.add_node("after", say("after"))
    graph.add_edge(START, "boom")
    graph.add_edge("boom", "after")
    return graph.compile(checkpointer=saver)


def silent(state: State) -> None:
    """A node that writes nothing."""


def quiet(saver: Any) -> Any:
    nodes = {"first": say("first"), "silent": silent, "last": say("last")}
    return chain(nodes).compile(checkpointer=saver)


def odd_names(saver: Any) -> Any:
    """Names that carry the separators of channel names, and a join of them."""
    nodes = {
        "a+b": say("a+b"),
        "c d": say("c d"),
        "déjà vu": say("déjà vu"),
        "查询": say("查询"),
        "x+y z": say("joined"),
    }
    edges: list[tuple[Any, str]] = [(START, "a+b"), (START, "c d"), ("a+b", "déjà vu")]
    graph = assemble(Items, nodes, [*edges, ("c d", "查询"), ("x+y z", END)])
    graph.add_edge(["déjà vu", "查询"], "x+y z")
    return graph.compile(checkpointer=saver)


def cached(saver: Any) -> Any:
    graph = StateGraph(Items)
    policy = compat.CachePolicy(key_func=lambda state: "same")
    graph.add_node("costly", say("costly"), cache_policy=policy)
    graph.add_node("after", say("after"))
    graph.add_edge(START, "costly")
    graph.add_edge("costly", "after")
    return graph.compile(checkpointer=saver, cache=compat.InMemoryCache())
