"""Graphs whose nodes say in a log that they began and ended, and the ways in which they stop.

It runs in the environments of older releases too, which have neither `ckpt` nor pytest.
"""

import asyncio
import operator
import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Annotated, Any, NamedTuple

from langchain_core.runnables import RunnableLambda
from langchain_core.runnables.config import ensure_config
from langgraph.graph import END, START, StateGraph
from typing_extensions import TypedDict

RELEASE = tuple(int(part) for part in version("langgraph").split(".")[:3])
LOG = ""
"""The file to which nodes and savers append lines."""
TURN = 0
"""Which call of the graph runs: 0 and up before the stop, `RESUMED` behind it."""
RESUMED = 99
Act = Callable[[str, Any], Any]


def note(*words: object) -> None:
    """Append a line to the log at once, so that a kill behind it leaves it there."""
    file = os.open(LOG, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, ("\t".join(map(str, words)) + "\n").encode())
    os.close(file)


def noted() -> list[list[str]]:
    with open(LOG) as file:
        return [line.rstrip("\n").split("\t") for line in file]


def stored(path: str) -> int:
    """How many tasks of a node have writes in the store."""
    lines = noted()
    ids = {words[2].rpartition(":")[2] for words in lines if words[:2] == ["begin", path]}
    return len(ids & {words[1] for words in lines if words[0] == "writes"})


def has_begun(path: str) -> bool:
    return any(words[:2] == ["begin", path] for words in noted())


class State(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]
    item: str


# What a node does. In the resume nodes that failed or died work.


def works(path: str, state: Any) -> Any:
    return {"log": [path]}


def fails(path: str, state: Any) -> Any:
    if TURN != RESUMED:
        raise ValueError(f"{path} is broken")
    return works(path, state)


def dies(path: str, state: Any) -> Any:
    if TURN != RESUMED:
        os.kill(os.getpid(), signal.SIGKILL)
    return works(path, state)


def ask(path: str, question: str = "") -> Any:
    from langgraph.types import interrupt

    question = question or path
    note("ask", path, *place())
    answer = interrupt(question)
    note("answered", path, *place())
    return answer


def asks(path: str, state: Any) -> Any:
    return {"log": [f"{path} {ask(path)}"]}


def asks_later(path: str, state: Any) -> Any:
    """Die with the answer stored, before it is read."""
    while TURN == 1 and not any("__resume__" in words for words in noted()):
        time.sleep(0.005)
    return dies(path, state) if TURN == 1 else asks(path, state)


def asks_twice(path: str, state: Any) -> Any:
    return {"log": [f"{path} {ask(path, path + ' 1')} {ask(path, path + ' 2')}"]}


def asks_number(path: str, state: Any) -> Any:
    return {"log": [f"{path} {int(ask(path))}"]}


def asks_third(path: str, state: Any) -> Any:
    is_third = sum(str(one).startswith("a") for one in state["log"]) == 2
    return asks(path, state) if is_third else works(path, state)


@dataclass
class Wait:
    """Do something as soon as something is the case, in the first turn."""

    until: Callable[[], bool]
    act: Act

    def __call__(self, path: str, state: Any) -> Any:
        return self.act(path, state)


def beside(other: str, act: Act) -> Act:
    """Wait until another node has begun."""
    return Wait(lambda: has_begun(other), act)


def after(other: str, act: Act, calls: int = 1) -> Act:
    """Wait for another node's writes, or until so many tasks of it are stored."""
    return Wait(lambda: stored(other) >= calls, act)


def later(turn: int, act: Act) -> Act:
    """Work, and do something else from a turn on."""

    def run(path: str, state: Any) -> Any:
        return act(path, state) if turn <= TURN else works(path, state)

    return run


def slow(path: str, state: Any) -> Any:
    """Go on for longer than the others before the stop; an async run cancels it."""
    return works(path, state)


def pauses(act: Act) -> Any:
    """Yield for as long as a node waits."""
    if TURN == RESUMED:
        return
    if act is slow:
        yield from [0.01] * 30
    if isinstance(act, Wait) and TURN == 0:
        ends = time.monotonic() + 5
        while not act.until():
            if time.monotonic() > ends:
                raise TimeoutError
            yield 0.005
        # Others may be about to store what they wrote.
        yield 0.01


def node(path: str, act: Act = works, is_async: bool = False) -> Any:
    def run(state: Any) -> Any:
        note("begin", path, *place())
        for pause in pauses(act):
            time.sleep(pause)
        done = act(path, state)
        note("end", path, *place())
        return done

    async def arun(state: Any) -> Any:
        note("begin", path, *place())
        for pause in pauses(act):
            await asyncio.sleep(pause)
        done = act(path, state)
        note("end", path, *place())
        return done

    return arun if is_async else run


def place() -> tuple[str, int]:
    """The namespace of a node's task, which ends with the task's id, and its step."""
    found = ensure_config()
    metadata = found.get("metadata", {})
    said = metadata.get("langgraph_checkpoint_ns") or found["configurable"].get("checkpoint_ns")
    return str(said), int(metadata.get("langgraph_step", 0))


# Shapes.


def graph(edges: str, *, inside: str = "", **nodes: Any) -> Any:
    """Build a graph of edges such as `START a, a+b c`; nodes are acts, with options, or graphs."""
    made = StateGraph(State)
    for name, one in nodes.items():
        act, given = one if isinstance(one, tuple) else (one, {})
        path = f"{inside} > {name}" if inside else name
        made.add_node(name, act if hasattr(act, "invoke") else node(path, act, ASYNC), **given)
    for edge in filter(None, map(str.strip, edges.split(","))):
        source, target = edge.split()
        sources: Any = (
            source.split("+") if "+" in source else START if source == "START" else source
        )
        made.add_edge(sources, END if target == "END" else target)
    return made


ASYNC = False


class Cell(NamedTuple):
    build: Callable[[Any], Any]
    """From a saver to a compiled graph; it may look at `TURN`."""
    turns: Sequence[Any] = ({"log": ["in"]},)
    """The calls before the stop; a callable makes one from the questions that wait, by text."""
    kill: tuple[Any, ...] = ()
    """When the process dies in the last turn: `before put` or `after put`, with namespace and
    step."""
    durability: str = "sync"
    is_async: bool = False
    since: tuple[int, ...] = (0, 2)
    cancels: str = ""
    """The run is cancelled as soon as this node has begun."""
    limit: int = 20
    """How many steps the run may take before the stop."""


def answer(value: Any) -> Any:
    from langgraph.types import Command

    return lambda questions: Command(resume=value)


def answers(**by_text: Any) -> Any:
    from langgraph.types import Command

    return lambda questions: Command(
        resume={questions[text.replace("__", " > ")]: value for text, value in by_text.items()}
    )


def go(target: str) -> Any:
    from langgraph.types import Command

    return lambda questions: Command(goto=target)


def send(item: str) -> Any:
    from langgraph.types import Command, Send

    return lambda questions: Command(goto=Send("work", {"item": item}))


class Update(NamedTuple):
    """The caller changes the state in the name of a node."""

    node: str


def on_saver(make: Callable[..., Any]) -> Callable[..., Any]:
    """Make a graph as soon as its saver is there, since it may look at `TURN` and `ASYNC`."""
    return lambda *given, **named: lambda saver: make(*given, **named).compile(checkpointer=saver)


@on_saver
def loop(a: Act) -> Any:
    made = graph("START a", a=a, b=works)
    made.add_conditional_edges("a", lambda now: "b" if len(now["log"]) > 3 else "a", ["a", "b"])
    return made


@on_saver
def delta(b: Act) -> Any:
    """A state whose log is a DeltaChannel."""
    from langgraph.channels.delta import DeltaChannel

    def add(current: Any, writes: Any) -> Any:
        return [*(current or []), *(one for write in writes for one in write)]

    class Deltas(TypedDict, total=False):
        log: Annotated[list[Any], DeltaChannel(add, snapshot_frequency=5)]

    made = StateGraph(Deltas)
    for name, act in {"a": works, "b": b, "c": works}.items():
        made.add_node(name, node(name, act, ASYNC))
    for source, target in ((START, "a"), ("a", "b"), ("b", "c")):
        made.add_edge(source, target)
    return made


@on_saver
def chain(b: Any = works, c: Any = works) -> Any:
    return graph("START a, a b, b c", a=works, b=b, c=c)


def fork(a: Any = works, b: Any = works, d: Any = None, **compiled: Any) -> Any:
    """Nodes side by side, and one behind them."""
    nodes = {"a": a, "b": b, **({"d": d} if d else {})}
    edges = ", ".join([*(f"START {name}" for name in nodes), "+".join(nodes) + " c"])
    return lambda saver: graph(edges, **nodes, c=works).compile(checkpointer=saver, **compiled)


@on_saver
def sends(acts: dict[str, Act], beside: Act | None = None, h: Act | None = None) -> Any:
    """A node sends three items to workers that do what these say; errors may be handled."""
    from langgraph.types import Send

    more: dict[str, Any] = {"beside": beside} if beside else {}
    own = {"error_handler": handler("__error_handler__work", h)} if h else {}
    made = graph("START plan", plan=works, work=(by_item(acts), own), total=works, **more)
    made.add_edge("work", "total")
    sent = [Send("work", {"item": one}) for one in "xyz"]
    made.add_conditional_edges("plan", lambda state: [*sent, *more], ["work", *more])
    return made


@on_saver
def sends_to_sub(acts: dict[str, Act]) -> Any:
    """Two calls of one subgraph at the same time."""
    from langgraph.types import Send

    inner = graph("START j, j k", inside="sub", j=works, k=by_item(acts, "sub > k")).compile()
    made = graph("START plan, sub total", plan=works, sub=inner, total=works)
    sent = [Send("sub", {"item": one}) for one in "xy"]
    made.add_conditional_edges("plan", lambda state: sent, ["sub"])
    return made


@on_saver
def sub(
    j: Any = works,
    k: Any = works,
    *,
    side: Any = None,
    parallel: bool = False,
    checkpointer: Any = None,
    called: bool = False,
    deep: bool = False,
    **compiled: Any,
) -> Any:
    """A node `sub` that is a graph of `j` and `k`, or a function `sub` that calls it."""
    inside = "sub > deep" if deep else "sub"
    edges = "START j, START k" if parallel else "START j, j k"
    made = graph(edges, inside=inside, j=j, k=k).compile(
        **({"checkpointer": checkpointer} if checkpointer is not None else {}), **compiled
    )
    if deep:
        made = graph("START deep", inside="sub", deep=made).compile()
    if called:
        made = RunnableLambda(calling(made))
    edges = "START a, a sub, sub c"
    nodes: dict[str, Any] = {"a": works, "sub": made, "c": works}
    if side:
        edges, nodes = f"{edges}, a side", {**nodes, "side": side}
    return graph(edges, **nodes)


def calling(inner: Any) -> Any:
    def call(state: Any) -> Any:
        note("begin", "sub", *place())
        out = inner.invoke({"log": []})
        note("end", "sub", *place())
        return {"log": out["log"]}

    async def acall(state: Any) -> Any:
        note("begin", "sub", *place())
        out = await inner.ainvoke({"log": []})
        note("end", "sub", *place())
        return {"log": out["log"]}

    return acall if ASYNC else call


def handler(path: str, act: Act) -> Any:
    """An error handler, which takes the error beside the state."""
    from langgraph.errors import NodeError

    step = node(path, act, ASYNC)

    def handle(state: Any, error: NodeError) -> Any:
        return step(state)

    async def ahandle(state: Any, error: NodeError) -> Any:
        return await step(state)

    return ahandle if ASYNC else handle


@on_saver
def handled(
    a: Any = fails, h: Any = works, b: Any = None, *, default: bool = False, inside: str = ""
) -> Any:
    """A node `a` with an error handler, `b` beside it, `c` behind; `inside` a subgraph."""
    prefix = f"{inside} > " if inside else ""

    def handling(name: str, act: Act) -> dict[str, Any]:
        return {"error_handler": handler(f"{prefix}__{name}", act)}

    made = StateGraph(State)
    if default:
        made.set_node_defaults(**handling("default_error_handler__", h))
    own = {} if default else handling("error_handler__a", h)
    act = a(prefix) if a is asking_call else node(f"{prefix}a", a, ASYNC)
    made.add_node("a", act, **own)
    made.add_node("c", node(f"{prefix}c", works, ASYNC))
    made.add_edge(START, "a").add_edge("a", "c")
    if b:
        made.add_node("b", node(f"{prefix}b", b, ASYNC))
        made.add_edge(START, "b").add_edge("b", "c")
    if not inside:
        return made
    return graph("START one, one sub, sub two", one=works, sub=made.compile(), two=works)


def asking_call(prefix: str) -> Any:
    """A subgraph call `a` whose second node asks."""
    return graph("START j, j k", inside=f"{prefix}a", j=works, k=asks_number).compile()


def by_item(acts: dict[str, Act], path: str = "work") -> Any:
    """A worker that does what its item says."""

    def work(state: Any) -> Any:
        return node(path, acts.get(state["item"], works))(state)

    return RunnableLambda(work)


@on_saver
def deferred(
    before: bool = True, behind: bool = True, *, gate: Act = asks, join: bool = False
) -> Any:
    """`total` waits for all that runs; whether it is deferred may change at the resume."""
    edges = "left+gate total" if join else "left total, gate total"
    late = (works, {"defer": behind if TURN == RESUMED else before})
    begin = f"START left, START right, right gate, {edges}"
    return graph(begin, left=works, right=works, gate=gate, total=late)


def functional(
    first: Act = works, second: Act = works, own: Act = works, *, side: bool = False
) -> Any:
    """An entrypoint that calls two tasks, beside or in order, and then does something itself."""

    def build(saver: Any) -> Any:
        from langgraph.func import entrypoint, task

        @task
        def one(value: str) -> str:
            return str(node("main > one", first)({}))

        @task
        def two(value: str) -> str:
            return str(node("main > two", second)({}))

        @entrypoint(checkpointer=saver)
        def main(value: Any) -> str:
            note("begin", "main", *place())
            tasks = (one("x"), two("y")) if side else (call("x") for call in (one, two))
            out = "".join(task.result() for task in tasks)
            for pause in pauses(own):
                time.sleep(pause)
            out += str(own("main", {}))
            note("end", "main", *place())
            return out

        return main

    return build


H = (1, 2)
"""Error handlers came with 1.2."""
D = (0, 6)
"""`durability`, and answers by id."""
IN = {"log": ["in"]}
TWICE = [{"log": ["one"]}, {"log": ["two"]}]
ANSWERED, FORTY = [IN, answer("x")], [IN, answer("forty")]
"""An answer, and one that the node cannot take for a number."""
CELLS: dict[str, Cell] = {
    # One node after the other.
    "chain-done": Cell(chain()),
    "chain-answer-unread": Cell(chain(b=asks_later), turns=ANSWERED, since=D),
    "chain-answer-unasked": Cell(chain(b=fails), turns=ANSWERED, since=D),
    "chain-second-question": Cell(chain(b=asks_twice), turns=ANSWERED),
    "chain-died-exit": Cell(chain(b=dies), durability="exit", since=D),
    "chain-stored-last": Cell(chain(), kill=("before put", "", 3)),
    "chain-input-saved": Cell(chain(), kill=("after put", "", -1)),
    "bad-answer-again": Cell(chain(b=asks_number), turns=[IN, answer("forty"), answer("40")]),
    # Side by side.
    "fork-asked-failed-done": Cell(fork(a=asks, b=after("d", fails), d=after("a", works))),
    "fork-cut-short": Cell(fork(a=beside("b", fails), b=slow), is_async=True),
    # Send.
    "send-died": Cell(sends({"y": after("work", dies, 2)})),
    "send-plan-stored": Cell(sends({}), kill=("before put", "", 1)),
    "send-beside-failed": Cell(sends({}, beside=after("work", fails, 3))),
    # Error handlers.
    "handler-died": Cell(handled(h=dies), since=H),
    "handler-ran-sibling-asked": Cell(handled(b=asks), since=H),
    "handler-asked-answered-badly": Cell(handled(h=asks_number), turns=ANSWERED, since=H),
    "handler-default-two": Cell(handled(h=fails, b=beside("a", fails), default=True), since=H),
    # Deferred nodes.
    "defer-off": Cell(deferred(True, False), since=D),
    "defer-on": Cell(deferred(False, True), since=D),
    # Subgraphs.
    "sub-asked-two-one-answered": Cell(
        sub(j=asks, k=asks, parallel=True), turns=[IN, answers(sub__j="x")], since=D
    ),
    "sub-inner-stored": Cell(sub(), kill=("before put", "sub", 1)),
    "sub-inner-last-stored": Cell(sub(), kill=("before put", "sub", 2)),
    "sub-inner-done": Cell(sub(), kill=("after put", "sub", 2)),
    "sub-inner-input": Cell(sub(), kill=("after put", "sub", -1)),
    "sub-side-asked": Cell(sub(k=asks, side=asks)),
    "sub-called-failed": Cell(sub(k=fails, called=True)),
    "sub-deep-second-question": Cell(sub(k=asks_twice, deep=True), turns=ANSWERED),
    "sub-deep-asked": Cell(sub(k=asks, deep=True)),
    "sub-stateful-second-asked": Cell(sub(k=later(1, asks), checkpointer=True), turns=TWICE),
    # With `durability="sync"`, LangGraph 1.2.24 fails on a graph without checkpoints.
    "sub-no-checkpoints-failed": Cell(sub(k=fails, checkpointer=False), durability=""),
    # Breakpoints.
    "break-inside": Cell(sub(interrupt_before=["k"])),
    # Functional API.
    "tasks-asked": Cell(functional(second=after("main > one", asks))),
    "tasks-died": Cell(functional(second=after("main > one", dies))),
    "tasks-own-died": Cell(functional(own=after("main > two", dies))),
    # The second run knows the entrypoint's name from the first.
    "tasks-second-died": Cell(functional(second=later(1, dies)), turns=TWICE),
    "tasks-second-bad-answer": Cell(
        functional(second=later(1, asks_number)), turns=[IN, {"log": ["two"]}, answer("x")]
    ),
    "tasks-side-asked": Cell(functional(side=True, first=asks, second=works)),
    # Handlers of subgraph calls, in subgraph calls, and of sent tasks.
    "handler-call-answered-badly": Cell(handled(a=asking_call, h=fails), turns=ANSWERED, since=H),
    "handler-sub-ran-sibling-failed": Cell(
        handled(b=after("sub > __error_handler__a", fails), inside="sub"), since=H
    ),
    "handler-sub-default-died": Cell(handled(h=dies, default=True, inside="sub"), since=H),
    "handler-send-asked": Cell(sends({"x": fails, "z": fails}, h=asks), since=H),
    "handler-cut-short": Cell(
        handled(h=slow, b=beside("__error_handler__a", fails)), is_async=True, since=H
    ),
    # A second stop after a resume.
    "fork-bad-answer-one": Cell(fork(a=asks_number, b=asks), turns=[IN, answers(a="x")], since=D),
    "send-bad-answer": Cell(sends({"y": asks_number}), turns=FORTY),
    # A caller's command, and a state that the caller changed.
    "goto-beside-question": Cell(chain(b=asks, c=later(1, fails)), turns=[IN, go("c")]),
    "goto-sent-beside-sent": Cell(
        sends({"y": asks, "z": asks, "w": dies}, beside=asks), turns=[IN, send("w")], since=D
    ),
    "updated": Cell(chain(b=fails), turns=[IN, Update("a")]),
    "updated-as-asking": Cell(chain(b=asks), turns=[IN, Update("b")]),
    "updated-sub": Cell(sub(k=fails), turns=[IN, Update("a")]),
    # Cancelled from outside, and out of steps.
    "cancelled-fork-asked": Cell(fork(a=asks, b=slow), is_async=True, cancels="b"),
    "out-of-steps-sub": Cell(sub(), limit=2),
    "async-sub-called-cut-short": Cell(
        sub(k=slow, side=beside("sub > k", fails), called=True), is_async=True
    ),
    # Breakpoints beside other things.
    "break-after-two": Cell(fork(interrupt_after=["b"])),
    # Joins and loops.
    "loop-asked": Cell(loop(asks_third)),
    # A DeltaChannel.
    "delta-asked": Cell(delta(b=asks), since=H),
    # Deferred nodes beside other things.
    "defer-join-stored": Cell(deferred(join=True, gate=works), kill=("before put", "", 2), since=D),
    # Stateful subgraphs.
    "sub-two-calls-two-asked": Cell(sends_to_sub({"x": asks, "y": asks})),
}
