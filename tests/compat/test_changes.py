"""Changes of a graph, one by one: what the official library does, and what `ckpt` says before."""

import operator
import sys
from dataclasses import dataclass, field
from enum import Enum
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Literal, NamedTuple

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, ToolCall
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import StructuredTool, tool
from langgraph.func import entrypoint, task
from langgraph.types import Command, interrupt
from langgraph.types import interrupt as asks
from pydantic import BaseModel, Field, ValidationError, create_model

from ckpt_backends.registry import open_store
from ckpt_backends.url import parse_url
from ckpt_cli.queries.compat import judged_threads
from tests.kit.agents.edges import (
    BESIDE,
    CHAIN,
    REPLAYED,
    ask,
    fail,
    graph,
    keyed,
    merged,
    nested,
    say,
    sends,
)
from tests.kit.agents.small import Log, running
from tests.kit.cases import cases
from tests.kit.probing import described, judged, resumed, stopped


@dataclass
class Logged:
    log: Annotated[list[str], operator.add] = field(default_factory=list)


CHAINS: list[tuple[str, Any, str, list[str] | None]] = [
    ("same", graph(CHAIN), "ok", ["pre", "rv yes", "fin"]),
    ("waiting renamed", graph(">pre pre>new new>fin", asks="new"), "loses", None),
    ("waiting removed", graph(">pre pre>fin"), "loses", None),
    ("node before renamed", graph(">other other>rv rv>fin"), "ok", ["pre", "rv yes", "fin"]),
    ("node before removed", graph(">rv rv>fin"), "ok", ["pre", "rv yes", "fin"]),
    ("node behind renamed", graph(">pre pre>rv rv>end"), "ok", ["pre", "rv yes", "end"]),
    ("node behind removed", graph(">pre pre>rv"), "ok", ["pre", "rv yes"]),
    ("node added before", graph(">pre pre>mid mid>rv rv>fin"), "ok", ["pre", "rv yes", "fin"]),
    ("node added behind", graph(">pre pre>rv rv>m m>fin"), "ok", ["pre", "rv yes", "m", "fin"]),
    ("node added beside", graph(f"{CHAIN} pre>side"), "ok", ["pre", "rv yes", "fin"]),
    ("edge leads elsewhere", graph(">pre pre>rv pre>fin"), "loses", None),
    ("edge is a join", graph(">pre pre>rv pre+rv>fin"), "loses", None),
    ("waiting is deferred", graph(CHAIN, defer="rv"), "breaks", None),
    ("state is a dataclass", graph(CHAIN, schema=Logged), "ok", ["pre", "rv yes", "fin"]),
    ("node behind is deferred", graph(CHAIN, defer="fin"), "ok", ["pre", "rv yes", "fin"]),
]  # fmt: skip
PARALLEL: list[tuple[str, Any, str, list[str] | None]] = [
    ("same", graph(BESIDE), "ok", ["a", "rv yes", "j"]),
    ("finished renamed", graph(">b >rv b+rv>j"), "loses", None),
    ("waiting renamed", graph(">a >new a+new>j", asks="new"), "loses", None),
    ("join renamed", graph(">a >rv a+rv>other"), "loses", None),
    ("members in another order", graph(">a >rv rv+a>j"), "loses", None),
    ("join is edges", graph(">a >rv a>j rv>j"), "ok", ["a", "rv yes", "j"]),
    ("join that never fires", graph(f"{BESIDE} rv+z>rest"), "ok", ["a", "rv yes", "j"]),
    ("join is deferred", graph(BESIDE, defer="j"), "ok", ["a", "rv yes", "j"]),
    ("finished is deferred", graph(BESIDE, defer="a"), "breaks", None),
    ("another member", graph(">a >rv >x a+rv+x>j"), "loses", None),
]


NOT_FIRED: list[tuple[str, Any, str, list[str] | None]] = [
    ("stuck join is gone", graph(f"{BESIDE} j>rest"), "ok", ["a", "rv yes", "j", "rest"]),
    ("stuck join has others", graph(f"{BESIDE} a+y>rest"), "ok", ["a", "rv yes", "j"]),
]
SENDS: list[tuple[str, Any, str, list[str] | None]] = [
    ("end renamed", sends("w", "end"), "ok", ["pre", "rv yes", "rv yes", "end"]),
    ("worker renamed", sends("other", "fin"), "loses", None),
]


def check(path: Path, old: Any, new: Any, verdict: str, log: list[str] | None) -> None:
    """Compare what is said with what happens: `log` if nothing is harmed."""
    found = judged(path, new, old)
    assert {str(one.verdict) for one in found.findings} | {str(found.verdict)} >= {verdict}
    if log is not None:
        assert found.findings == []
        assert resumed(path, new)["log"] == log
        return
    try:
        after = resumed(path, new)
    except Exception:
        assert verdict == "breaks"
    else:
        assert verdict != "breaks"
        assert after != resumed(path, old)


@pytest.mark.parametrize(
    ("old", "new", "verdict", "log"),
    [
        pytest.param(old, *row, id=name)
        for old, rows in (
            *((graph(CHAIN), CHAINS), (graph(BESIDE), PARALLEL), (sends("w", "fin"), SENDS)),
            (graph(f"{BESIDE} a+z>rest"), NOT_FIRED),
        )
        for name, *row in rows
    ],
)
def test_a_question_waits(
    tmp_path: Path, old: Any, new: Any, verdict: str, log: list[str] | None
) -> None:
    check(stopped(tmp_path / "s.db", old, {"log": []}), old, new, verdict, log)


def chosen(edges: str, *ends: str, **roles: Any) -> Any:
    """A graph in which `rv` leads to the first of some nodes by a condition."""
    built = graph(edges, **roles)
    built.add_conditional_edges("rv", lambda _: ends[:1], list(ends))
    return built


def asks_one_two(_: Any) -> Any:
    first = interrupt("one")
    return {"log": [f"one={first} two={interrupt('two')}"]}


NOT_ID = "cannot tell interrupt-id"


def say_no(_: Any) -> Any:
    return {"log": ["no"]}


JOINED_TOO = graph(">pre pre>o x+y>o", o=graph(">first first>rv").compile())
MAY = chosen(">a >rv a>b x>y", "x", "b")
ROUTE = "loses route e"
LATER = ">a a>d a>rv"
LATEST = f"{LATER} rv>d"


@cases(
    "old new told log",
    (graph(BESIDE), graph(f"{BESIDE} x+y>a"), "changes task-id a", "a rv j"),
    (graph(BESIDE), graph(f"{BESIDE} x+y>rv"), f"{NOT_ID} rv", "a rv j"),
    (nested(), JOINED_TOO, f"{NOT_ID} o, repeats subgraph-restarts o", "pre pre first rv"),
    (graph(LATER, defer="d"), graph(LATER), "loses undeferred d", "a rv"),
    (graph(LATEST, defer="d"), graph(LATEST), "cannot tell undeferred d", "a rv d"),
    (graph(f"{LATER} a+rv>j", defer="j"), graph(f"{LATER} a+rv>j"), "breaks undeferred j", None),
    (graph(LATER, defer="d"), graph(">a a>e a>rv", defer="e"), "loses node-gone d", "a rv"),
    (graph(LATER, defer="d"), graph(">a a>rv"), "cannot tell node-gone d", "a rv"),
    (graph(">a >rv a>b"), graph(">a >rv a>c"), "loses node-gone b", "a rv"),
    (graph(">a >rv a>b"), graph(">a >rv a>c", c=say_no), "loses node-gone b", "a rv"),
    (graph(">a >rv a>b", b=say_no), graph(">a >rv rv>c", c=say_no), "loses node-gone b", "a rv no"),
    (graph(f"{LATER} d>e", defer="d"), graph(f"{LATER} d>f >e", defer="d"), ROUTE, "a rv d f"),
    (graph(">a >rv a>b"), graph(">a >rv rv>c", c=say_no), "cannot tell node-gone b", "a rv no"),
    (graph(">a >rv a>b"), graph(">a >rv x>c", c=say_no, x=fail), "", "a rv"),
    (graph(">a >rv a>b rv>b"), graph(">a >rv a>c rv>c"), "", "a rv c"),
    (MAY, chosen(">a >rv a>c x>y", "x", "c"), "cannot tell node-gone b", "a rv x y"),
    (graph(">a >rv >b a+b>c"), graph(">a >rv >b a+b>d", d=say_no), "loses join-gone c", "a b rv"),
    (graph(BESIDE), graph(">a >rv j>x"), "cannot tell join-gone j", "a rv"),
    (graph(BESIDE), graph(">a >rv a>j"), "loses join-gone j, loses route j", "a rv"),
    (graph(BESIDE), graph(">a >rv rv>x x>j"), "", "a rv x j"),
    (graph(BESIDE), chosen(">a >rv x>y j>y", "x", "j"), "cannot tell join-gone j", "a rv x y"),
)
def test_what_is_told_of_each_node(
    tmp_path: Path, old: Any, new: Any, told: str, log: str | None
) -> None:
    path = stopped(tmp_path / "s.db", old, {"log": []})
    found = judged(path, new, old).findings
    assert ", ".join(f"{one.verdict} {one.code} {one.where}" for one in found) == told
    if log is None:
        with pytest.raises(Exception, match=r"."):
            resumed(path, new)
    else:
        assert [one.split()[0] for one in resumed(path, new)["log"]] == log.split()


@pytest.mark.parametrize("saver", [None, True])
def test_a_subgraph_waits(tmp_path: Path, saver: bool | None) -> None:
    old = nested(saver=saver)
    path = stopped(tmp_path / "s.db", old, {"log": []})
    check(path, old, nested(saver=saver), "ok", resumed(path, old)["log"])
    check(path, old, nested("other", saver=saver), "loses", None)
    check(path, old, nested(waiting="new", saver=saver), "loses", None)
    check(path, old, nested(o=say("o")), "loses", None)
    found = judged(path, nested(o=say("o"))).findings
    assert ("cannot tell", "subgraph-unseen", "o") in {one[:3] for one in found}
    found = judged(path, nested(saver=None if saver else True), old).findings
    assert ("repeats", "subgraph-restarts", "o") in {one[:3] for one in found}


ADDED, MERGED = Annotated[list[str], operator.add], Annotated[dict[str, Any], merged]
REBUILT: list[tuple[list[str], Any, Any, str]] = [
    ([], REPLAYED, REPLAYED, "ok"),
    ([], REPLAYED, ADDED, "ok"),
    ([], REPLAYED, list[str], "loses"),
    ([], REPLAYED, MERGED, "breaks"),
    ([], REPLAYED, None, "loses"),
]


@cases(
    "more before after verdict",
    ([], list, list, "ok"),
    ([], list, None, "loses"),
    ([], list, ADDED, "ok"),
    ([], ADDED, list, "ok"),
    ([], list, MERGED, "breaks"),
    ([], str, ADDED, "breaks"),
    ([], list, str, "changes"),
    *REBUILT,
    *((["more", "again"], *row) for _, *row in REBUILT),  # a snapshot is stored
)
def test_a_key_of_the_state(
    tmp_path: Path, more: list[str], before: Any, after: Any, verdict: str
) -> None:
    def of(kind: Any) -> Any:
        writes: dict[str, Any] = dict.fromkeys(more, lambda _: {"k": ["v"]})
        if verdict == "breaks":
            writes["fin"] = lambda _: {"k": {"a": 1} if kind is MERGED else ["v"]}
        names = ["", "pre", *more, "rv", "fin"]
        edges = " ".join(f"{one}>{other}" for one, other in pairwise(names))
        return keyed({} if kind is None else {"k": kind}, edges, **writes)

    value: Any = "v" if before is str else ["v"]
    path = stopped(tmp_path / "s.db", of(before), {"log": [], "k": value})
    assert str(judged(path, of(after), of(before)).verdict) == verdict
    if verdict == "breaks":
        with pytest.raises(Exception, match=r"."):
            resumed(path, of(after))
    else:
        kept = value * (1 + len(more))
        assert (resumed(path, of(after)).get("k") == kept) is (verdict != "loses")


MODEL = "class P(BaseModel):\n    x: int = 1\n"
DATA = "@dataclass\nclass P:\n    x: int = 1\n"
ENUM = "class P(Enum):\n    x = 'a'\n    y = 'b'\n"


@pytest.mark.parametrize(
    ("before", "after", "code"),
    [
        *((one, one, None) for one in (MODEL, DATA, ENUM)),
        *((one, f"{one}    z: int = 2\n", None) for one in (MODEL, DATA)),
        *((one, one.replace(" = 1", "\n    z: int"), "field") for one in (MODEL, DATA)),
        *((one, one.replace("x: int", "z: int"), "field") for one in (MODEL, DATA)),
        *((one, one.replace("class P", "class Q"), "class-gone") for one in (MODEL, DATA, ENUM)),
        *((MODEL, DATA, None), (DATA, MODEL, None)),
        (MODEL, f"class P(BaseModel, extra='allow'):\n{MODEL.replace('x', 'z')[20:]}", None),
        (ENUM, ENUM.replace("    x = 'a'\n", ""), "enum"),
        (ENUM, ENUM.replace("    y = 'b'\n", ""), None),
        *((one, "P = dict\n", "class-gone") for one in (MODEL, DATA)),
        *(("P = dict\n", one, "type") for one in (MODEL, DATA)),
    ],
)  # fmt: skip
def test_objects_in_the_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str, after: str, code: str | None
) -> None:
    def fields(kind: Any) -> list[str]:
        return list(getattr(kind, "model_fields", None) or kind.__dataclass_fields__)

    def flow(source: str) -> Any:
        module = ModuleType("types_of_the_agent")
        monkeypatch.setitem(sys.modules, module.__name__, module)
        vars(module).update({"BaseModel": BaseModel, "dataclass": dataclass, "Enum": Enum})
        exec(source, vars(module))
        kind = next(vars(module)[one] for one in ("P", "Q") if one in vars(module))

        def make(_: Any) -> Any:
            return {"k": kind("a") if issubclass(kind, Enum) else kind(x=1)}

        def look(state: Any) -> Any:
            one = state["k"]
            if isinstance(one, dict) and kind is dict:
                return {"log": [f"{one['x']}"]}
            shown = one.value if isinstance(one, Enum) else [getattr(one, f) for f in fields(kind)]
            return {"log": [f"{shown[0]}"]}

        return keyed({"k": kind}, pre=make, fin=look)

    old = described(flow(before))
    path = stopped(tmp_path / "s.db", flow(before), {"log": []})
    new = flow(after)
    with open_store(parse_url(str(path))) as store:
        (found,) = judged_threads(store, store.threads(), described(new), old)
    assert {one.code for one in found.findings} == ({code} if code else set())
    if code is None:
        assert resumed(path, new)["log"][-1] in {"1", "a"}
    elif found.verdict == "breaks":
        with pytest.raises(Exception, match=r"."):
            resumed(path, new)
    else:
        told = {"P = dict\n": "cannot tell", MODEL.replace("x", "z"): "changes"}
        assert str(found.verdict) == told[after]


def person(question: str) -> Any:
    return interrupt(question)


def asks_by_help(_: Any) -> Any:
    return {"log": [f"rv {person('sure?')}"]}


def asks_as_other(_: Any) -> Any:
    return {"log": [f"rv {asks('sure?')}"]}


@pytest.mark.parametrize(
    ("node", "alone"), [(asks_by_help, "cannot tell"), (asks_as_other, "ok"), (ask, "ok")]
)
def test_a_question_that_a_helper_asks(tmp_path: Path, node: Any, alone: str) -> None:
    old = graph(CHAIN, rv=node)
    path = stopped(tmp_path / "s.db", old, {"log": []})
    assert judged(path, old, old).verdict == "ok"
    assert judged(path, old).verdict == alone
    assert judged(path, graph(CHAIN, asks=""), old).verdict in {"loses", "cannot tell"}


def test_a_new_node_that_the_thread_has_passed(tmp_path: Path) -> None:
    class Keyed(Log):
        key: str

    def writes(_: Any) -> Any:
        return {"key": "v"}

    def reads(state: Any) -> Any:
        return {"log": [state["key"]]}

    old = graph(CHAIN)
    path = stopped(tmp_path / "s.db", old, {"log": []})
    before = graph(">pre pre>mid mid>rv rv>fin", schema=Keyed, mid=writes, fin=reads)
    found = judged(path, before, old)
    assert {(str(one.verdict), one.code) for one in found.findings} == {("cannot tell", "skipped")}
    with pytest.raises(KeyError):
        resumed(path, before)
    behind = graph(">pre pre>rv rv>mid mid>fin", schema=Keyed, mid=writes, fin=reads)
    for one in (behind, graph(">pre pre>mid mid>rv rv>fin", schema=Keyed, mid=writes)):
        assert judged(path, one, old).verdict == "ok"
        assert resumed(path, one)["log"][-1] in {"v", "fin"}


def asks_two_one(_: Any) -> Any:
    first = interrupt("two")
    return {"log": [f"two={first} one={interrupt('one')}"]}


def asks_one(_: Any) -> Any:
    return {"log": [f"one={interrupt('one')}"]}


@pytest.mark.parametrize(
    ("answers", "node", "verdict"),
    [
        ([], asks_one_two, "ok"),
        ([], asks_two_one, "changes"),
        ([], asks_one, "ok"),
        ([], say("rv"), "loses"),
        (["A"], asks_two_one, "changes"),
        (["A"], asks_one, "loses"),
    ],
)
def test_questions_go_by_order(tmp_path: Path, answers: list[str], node: Any, verdict: str) -> None:
    old, new = graph(CHAIN, rv=asks_one_two), graph(CHAIN, rv=node)
    path = stopped(tmp_path / "s.db", old, {"log": []}, answers)
    assert str(judged(path, new, old).verdict) == verdict
    refiled = judged(path, graph(f"{CHAIN} x+y>rv", rv=asks_one_two), old).verdict
    assert refiled == ("repeats" if answers else "cannot tell")
    if verdict == "changes":
        assert resumed(path, new)["log"] != resumed(path, old)["log"]


def checked(kind: Any, **more: Any) -> Any:
    log: Any = (Annotated[list[str], operator.add], [])
    return graph(CHAIN, schema=create_model("State", log=log, k=kind, **more))


@pytest.mark.parametrize(
    ("new", "code"),
    [
        (checked((str, "")), None),
        (checked((str, ""), need=(int, ...)), "required"),
        (checked((int, 0)), "invalid"),
        (checked((Literal["yes", "no"], "yes")), "invalid"),
        (checked((Literal["text", "no"] | None, "no")), None),
        (checked((str, Field("", max_length=3))), "invalid"),
        (checked((str, Field("", max_length=4))), None),
    ],
)
def test_a_state_that_is_checked(tmp_path: Path, new: Any, code: str | None) -> None:
    old = checked((str, ""))
    path = stopped(tmp_path / "s.db", old, {"log": [], "k": "text"})
    found = judged(path, new, old)
    assert ({one.code for one in found.findings} >= {code}) is (code is not None)
    if code is None:
        assert found.verdict == "ok"
    else:
        assert found.verdict == "breaks"
        with pytest.raises(Exception, match=r"."):
            resumed(path, new)


@pytest.mark.parametrize("kind", [int, float, bool, str, int | None])
@pytest.mark.parametrize("value", ["3", " 3.0", "3.5", "Yes", "x", True, 1, 2, 2.0, 2.5, None, [1]])
def test_a_state_that_converts_what_is_stored(tmp_path: Path, kind: Any, value: Any) -> None:
    old, new = checked((Any, "")), checked((kind, None))
    path = stopped(tmp_path / "s.db", old, {"log": [], "k": value})
    if judged(path, new, old).verdict != "breaks":
        assert resumed(path, new)["k"] == value
    else:
        with pytest.raises(ValidationError):
            resumed(path, new)


class Model(GenericFakeChatModel):
    def bind_tools(self, tools: Any, **_: Any) -> Any:
        return self


def agent(gates: dict[str, bool], *tools: Any) -> Any:
    calls = [ToolCall(name="pay", args={"amount": 3, "to": "x"}, id="c1")]
    said = [AIMessage("", tool_calls=calls), AIMessage("done")]
    asks = HumanInTheLoopMiddleware(interrupt_on=dict(gates))
    return create_agent(Model(messages=iter(said)), list(tools), middleware=[asks])


@tool
def pay(amount: int, to: str = "") -> str:
    """Pay."""
    return f"paid {amount}"


@tool("pay")
def pay_less(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


@tool
def look(text: str) -> str:
    """Look."""
    return text


@pytest.mark.parametrize(
    ("new", "codes"),
    [
        (agent({"pay": True}, pay, look), set()),
        (agent({"pay": True}, pay), set()),
        (agent({"pay": True}, look), {"tool-gone"}),
        (agent({"pay": True}, pay_less, look), {"tool-args"}),
        (agent({"look": True}, pay, look), {"gate-gone"}),
    ],
)
def test_a_tool_call_waits_for_a_person(tmp_path: Path, new: Any, codes: set[str]) -> None:
    old = agent({"pay": True}, pay, look)
    path = stopped(tmp_path / "s.db", old.builder, {"messages": [("human", "pay")]})
    assert {one.code for one in judged(path, new, old).findings} == codes


def delegating(*names: str) -> Any:
    """An agent whose tool `task` calls other agents by name, as that of Deep Agents does."""
    subagents = {name: RunnableLambda(lambda text: text) for name in names}

    def task(description: str, subagent_type: str) -> str:
        if subagent_type not in subagents:
            return f"there is no {subagent_type}"
        return f"done: {subagents[subagent_type].invoke(description)}"

    given = {"description": "look", "subagent_type": "research"}
    said = [
        AIMessage("", tool_calls=[ToolCall(name="task", args=given, id="c1")]),
        AIMessage("so it is"),
    ]
    asks = HumanInTheLoopMiddleware(interrupt_on={"task": True})
    tools = [StructuredTool.from_function(task, description="Delegate.")]
    return create_agent(Model(messages=iter(said)), tools, middleware=[asks])


@pytest.mark.parametrize(
    ("names", "codes"), [(("research", "write"), set()), (("reader", "write"), {"agent-gone"})]
)
def test_a_call_of_an_agent_waits(tmp_path: Path, names: tuple[str, ...], codes: set[str]) -> None:
    old = delegating("research")
    path = stopped(tmp_path / "s.db", old.builder, {"messages": [("human", "look")]})
    assert {one.code for one in judged(path, delegating(*names), old).findings} == codes
    with running(path, delegating(*names).builder) as agent:
        answer: Any = Command(resume={"decisions": [{"type": "approve"}]})
        after = agent.invoke(answer, {"configurable": {"thread_id": "t"}})
    assert after["messages"][2].content == ("there is no research" if codes else "done: look")


def test_another_question_is_told(tmp_path: Path) -> None:
    old = graph(CHAIN)
    path = stopped(tmp_path / "s.db", old, {"log": []})
    other = graph(CHAIN, rv=lambda _: {"log": [f"rv {interrupt('really?')}"]})
    (found,) = judged(path, other, old).findings
    assert (str(found.verdict), found.code, found.where) == ("cannot tell", "question-text", "rv")


class Flow(NamedTuple):
    """A functional graph that gets its checkpointer when it runs."""

    body: Any

    def compile(self, checkpointer: Any = None) -> Any:
        self.body.__name__ = "flow"
        return entrypoint(checkpointer=checkpointer)(self.body)


RAN: list[str] = []


def called(name: str) -> Any:
    def act(text: str) -> str:
        RAN.append(name)
        return f"{name} {text}"

    act.__name__ = act.__qualname__ = name
    return task(act)


first, second, renamed, more = map(called, ("first", "second", "renamed", "more"))


def plain(text: str) -> Any:
    one = first(text).result()
    two = second(one).result()
    return two, interrupt("sure?"), second("end").result()


def done_renamed(text: str) -> Any:
    one = renamed(text).result()
    two = second(one).result()
    return two, interrupt("sure?"), second("end").result()


def next_renamed(text: str) -> Any:
    one = first(text).result()
    two = second(one).result()
    return two, interrupt("sure?"), renamed("end").result()


def added_before(text: str) -> Any:
    zero = more(text).result()
    one = first(zero).result()
    two = second(one).result()
    return two, interrupt("sure?"), second("end").result()


def added_behind(text: str) -> Any:
    one = first(text).result()
    two = second(one).result()
    return two, interrupt("sure?"), second("end").result(), more("last").result()


def removed(text: str) -> Any:
    one = first(text).result()
    return one, interrupt("sure?")


def looped(text: str) -> Any:
    for act in (first, second):
        text = act(text).result()
    return text, interrupt("sure?"), second("end").result()


def helped(text: str) -> Any:
    return both(text), interrupt("sure?"), second("end").result()


def both(text: str) -> Any:
    return second(first(text).result()).result()


@pytest.mark.parametrize(
    ("new", "verdict", "again"),
    [
        (plain, "ok", []),
        (next_renamed, "ok", []),
        (added_behind, "ok", []),
        (removed, "ok", []),
        (done_renamed, "repeats", ["renamed"]),
        (added_before, "repeats", ["more", "first", "second"]),
        (looped, "cannot tell", []),
        (helped, "cannot tell", []),
    ],
    ids=lambda one: getattr(one, "__name__", None),
)
def test_calls_are_filed_by_name_and_order(
    tmp_path: Path, new: Any, verdict: str, again: list[str]
) -> None:
    path = stopped(tmp_path / "s.db", Flow(plain), "x")
    assert str(judged(path, Flow(new), Flow(plain)).verdict) == verdict
    RAN.clear()
    resumed(path, Flow(new))
    behind = {next_renamed: ["renamed"], added_behind: ["second", "more"], removed: []}
    assert [*again, *behind.get(new, ["second"])] == RAN
    if verdict == "repeats":  # the names alone tell it
        assert judged(path, Flow(new)).verdict == "repeats"


def test_the_same_flow_in_which_no_order_is_told_is_ok(tmp_path: Path) -> None:
    for number, body in enumerate((looped, helped)):
        path = stopped(tmp_path / f"{number}.db", Flow(body), "x")
        assert judged(path, Flow(body), Flow(body)).verdict == "ok"
        assert judged(path, Flow(body)).verdict == "ok"
