"""The agents that fill the SQLite stores, and the official library on what they stored.

`RECIPES` makes the files. As a program, `main history URL KIND`, it lists the history of a thread
as the library does, and prints what that took.
"""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import partial
from importlib import import_module
from itertools import count, islice
from operator import add, or_
from pathlib import Path
from time import perf_counter, process_time
from typing import Annotated, Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Send, interrupt
from typing_extensions import TypedDict

from bench.raw import engine_of

Update = dict[str, Any]
_TEXT = "Lorem ipsum dolor sit amet, consetetur sadipscing. "


class State(TypedDict, total=False):
    """The state of the agent."""

    messages: Annotated[list[AnyMessage], add_messages]
    plan: list[str]
    found: Annotated[list[str], lambda old, new: (old + new)[-3:]]


class Short(State, total=False):
    """The same, but only the last messages are kept, for threads of thousands of steps."""

    messages: Annotated[list[AnyMessage], lambda old, new: (old + new)[-4:]]


def _model(state: Update) -> Update:
    said = state["messages"][-1]
    if "approve" in said.content:
        interrupt({"question": "Call these tools?", "tools": ["orders", "weather"]})
    calls = [
        {"name": name, "args": {"query": said.content[:60]}, "id": f"call-{name}-{said.id}"}
        for name in ("orders", "weather")
    ]
    answers = [ToolMessage(_TEXT, tool_call_id=one["id"]) for one in calls]
    last = AIMessage(f"The answer is: {_TEXT}", id=f"answer-{said.id}")
    return {"messages": [AIMessage("", id=f"ai-{said.id}", tool_calls=calls), *answers, last]}


def _agent(saver: Any, schema: Any = State) -> Any:
    """Build the graph plan -> search (six in parallel) -> model, which calls two tools."""
    graph: Any = StateGraph(schema)
    graph.add_node("plan", lambda _: {"plan": [f"step {n}" for n in range(6)]})
    graph.add_node("search", lambda state: {"found": [f"{state['wanted']}: {_TEXT}"]})
    graph.add_node("model", _model)
    graph.add_edge(START, "plan")
    graph.add_conditional_edges(
        "plan", lambda state: [Send("search", {"wanted": one}) for one in state["plan"]], ["search"]
    )
    graph.add_edge("search", "model")
    return graph.compile(checkpointer=saver)


class Steps(TypedDict, total=False):
    """A state of which a thread uses some channels."""

    left: int
    carried: list[str]
    blob: bytes
    added: Annotated[list[str], add]
    facts: Annotated[dict[str, Any], or_]
    messages: Annotated[list[AnyMessage], add_messages]


def _message(n: int) -> Update:
    if n % 3:
        return {}
    kind = HumanMessage if n % 2 else AIMessage
    return {"messages": [kind(f"message {n} " + "word " * 60, id=f"message-{n}")]}


KINDS: dict[str, tuple[Update, Callable[[int], Update]]] = {
    "counted": ({}, lambda _: {}),
    "carried": ({"carried": [f"a text with number {n}" for n in range(1000)]}, lambda _: {}),
    "blob": ({"blob": bytes(range(256)) * 400}, lambda _: {}),
    "added": ({}, lambda n: {"added": [f"a note of step {n}, with some words"]}),
    "facts": (
        {},
        lambda n: {"facts": {f"fact {n % 300}": {"step": n, "tags": ["one"], "text": "x" * 40}}},
    ),
    "messages": ({}, _message),
}
"""By kind of state: what its thread begins with, and what a step adds, by its number."""


def _asking(n: int) -> Update:
    return {"carried": [interrupt({"question": "Go on?"})]} if n == 1 else {}


def _failing(n: int) -> Update:
    if n == 1:
        raise TimeoutError("no answer")
    return {}


def _steps(saver: Any, step: Callable[[int], Update]) -> Any:
    """Build a graph of one node, which runs until nothing is left."""

    def work(state: Any) -> Update:
        return {"left": state["left"] - 1, **step(state["left"])}

    graph: Any = StateGraph(Steps)
    graph.add_node("work", work)
    graph.add_edge(START, "work")
    graph.add_conditional_edges("work", lambda state: "work" if state["left"] else END)
    return graph.compile(checkpointer=saver)


def _said(words: str) -> Update:
    return {"messages": [HumanMessage(f"{words}: {_TEXT}", id=f"human-{words}")]}


def _config(thread_id: str) -> Any:
    return {"configurable": {"thread_id": thread_id}, "recursion_limit": 1_000_000}


@contextmanager
def _written(path: Path) -> Iterator[SqliteSaver]:
    """Yield a new store, written as fast as possible; at the end it is as the saver leaves it."""
    with closing(sqlite3.connect(path, check_same_thread=False)) as connection:
        saver = SqliteSaver(connection)
        saver.setup()
        for setting in ("journal_mode = OFF", "synchronous = OFF", "cache_size = -500000"):
            connection.execute(f"PRAGMA {setting}")
        yield saver
        connection.commit()
        connection.execute("PRAGMA journal_mode = WAL")


def _multiplied(path: Path, threads: int, runs: Sequence[tuple[Any, Sequence[Update]]]) -> None:
    """Make a thread with each graph and its inputs, and copy all rows under other names until there
    are enough: nothing else depends on the name. A tenth of the names begins with `old-`.
    """
    name = (
        f"CASE WHEN n / {len(runs)} % 10 THEN '' ELSE 'old-' END"
        " || printf('%08x', n * 2654435761 % 4294967296)"
    )
    series = f"WITH RECURSIVE s(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM s LIMIT {threads})"
    with _written(path) as saver:
        for n, (build, inputs) in enumerate(runs):
            for one in inputs:
                with suppress(TimeoutError):
                    build(saver).invoke(one, _config(str(n)))
        for table in ("checkpoints", "writes"):
            saver.conn.execute(f"CREATE TEMP TABLE run_{table} AS SELECT * FROM {table}")
            saver.conn.execute(f"CREATE INDEX temp.of_{table} ON run_{table} (thread_id)")
            saver.conn.execute(f"DELETE FROM {table}")
            found = saver.conn.execute(f"SELECT name FROM pragma_table_info('{table}')")
            rest = ", ".join(one for (one,) in found if one != "thread_id")
            saver.conn.execute(
                f"{series} INSERT INTO {table} (thread_id, {rest}) SELECT {name}, {rest}"
                f" FROM s CROSS JOIN run_{table} r ON r.thread_id = CAST(n % {len(runs)} AS TEXT)"
            )


def _agents(path: Path, threads: int) -> None:
    """Threads of 15 checkpoints; three in twenty wait for an answer."""
    few = ["one two approve", *["one two three"] * 5]
    said = [*few, "one two", *few, "one two three four", *few]
    _multiplied(path, threads, [(_agent, [*map(_said, words.split())]) for words in said])


def _small(path: Path, threads: int) -> None:
    """Threads of 4 checkpoints; one in a hundred waits for an answer, and another one failed."""
    steps = [KINDS["added"][1]] * 98
    steps[30:30], steps[60:60] = [_asking], [_failing]
    _multiplied(path, threads, [(partial(_steps, step=one), [{"left": 2}]) for one in steps])


def _long(path: Path, steps: int) -> None:
    """Three long threads: one run, many runs, and many runs with a fork every 100 checkpoints."""
    with _written(path) as saver:
        _steps(saver, KINDS["counted"][1]).invoke({"left": steps - 2}, _config("loop"))
        graph, forked_at = _agent(saver, Short), 0
        for thread_id in ("straight", "forked"):
            config = _config(thread_id)
            for turn in count():
                sql = "SELECT count(*) FROM checkpoints WHERE thread_id = ?"
                ((number,),) = saver.conn.execute(sql, [thread_id])
                if number >= steps:
                    break
                if thread_id == "forked" and number >= forked_at + 100:
                    forked_at = number
                    history = islice(graph.get_state_history(config, limit=14), 10, None)
                    graph.invoke(None, next(one.config for one in history if one.next))
                graph.invoke(_said(f"turn {turn}"), config)


def _states(path: Path, steps: int) -> None:
    """A thread of many steps for each kind of state, of its name."""
    with _written(path) as saver:
        for kind, (first, step) in KINDS.items():
            _steps(saver, step).invoke({"left": steps, **first}, _config(kind), durability="sync")


def _value(path: Path, megabytes: int) -> None:
    """A thread `large` with one large value."""
    with _written(path) as saver:
        start = {"left": 2, "carried": ["0123456789" * (megabytes * 100_000)]}
        _steps(saver, KINDS["counted"][1]).invoke(start, _config("large"))


RECIPES: dict[str, Callable[[Path, int], None]] = {
    "agents": _agents,
    "copied": _agents,
    "small": _small,
    "vast": _small,
    "long": _long,
    "states": _states,
    "value": _value,
}
"""What makes the file of each store, with its number of threads, steps or MB."""


_SAVERS = {
    "sqlite": ("langgraph.checkpoint.sqlite", "SqliteSaver"),
    "postgresql": ("langgraph.checkpoint.postgres", "PostgresSaver"),
    "mysql": ("langgraph.checkpoint.mysql.pymysql", "PyMySQLSaver"),
    "redis": ("langgraph.checkpoint.redis", "RedisSaver"),
    "mongodb": ("langgraph.checkpoint.mongodb", "MongoDBSaver"),
}


@contextmanager
def _saver_of(url: str) -> Iterator[Any]:
    """Open a store with its official saver."""
    module, name = _SAVERS[engine_of(url)]
    words = [url] if name != "MongoDBSaver" else [url, url.rpartition("/")[2]]
    with getattr(import_module(module), name).from_conn_string(*words) as saver:
        if name == "RedisSaver":
            saver.setup()
        yield saver


def main() -> None:
    """List the history of the thread of a kind, and print the seconds and CPU seconds it took."""
    _, url, kind = sys.argv[1:]
    with _saver_of(url) as saver:
        graph = _steps(saver, KINDS[kind][1])
        next(iter(graph.get_state_history(_config(kind), limit=1)))
        seconds, cpu = perf_counter(), process_time()
        for one in graph.get_state_history(_config(kind)):
            print(one.config["configurable"]["checkpoint_id"])
        print(perf_counter() - seconds, process_time() - cpu)
