"""`doctor --deep` beside the official reading of the same threads; prints checkpoints a second."""

from __future__ import annotations

import json
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages

from tests.bench.measure import Figure, compared, interleaved, memory, run, table
from tests.support import ROOT

pytestmark = pytest.mark.bench

CKPT = Path(sysconfig.get_path("scripts")) / "ckpt"
THREADS, TURNS, STEPS = 20, 5, 18
OFFICIAL = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
from tests.bench.test_deep_speed import THREADS, built, saver_of
with saver_of(sys.argv[1]) as saver:
    for n in range(THREADS):
        config = {{"configurable": {{"thread_id": f"wide-{{n}}"}}}}
        for state in built(saver).get_state_history(config):
            pass
"""


class Wide(TypedDict, total=False):
    """A state of which a step changes little."""

    messages: Annotated[list[AnyMessage], add_messages]
    plan: list[str]
    profile: dict[str, Any]
    sources: list[dict[str, Any]]
    settings: dict[str, Any]
    summary: str
    left: int
    note: str


@contextmanager
def saver_of(store: str) -> Iterator[Any]:
    """Open the official saver of a store."""
    kind: Any = PostgresSaver if "://" in store else SqliteSaver
    with kind.from_conn_string(store) as saver:
        saver.setup()
        yield saver


def built(saver: Any) -> Any:
    """Build a graph that takes many small steps between two answers."""

    def work(state: Any) -> dict[str, Any]:
        return {"left": state["left"] - 1, "note": f"step {state['left']}"}

    def answer(state: Any) -> dict[str, Any]:
        n = len(state["messages"])
        return {"messages": [AIMessage(f"answer {n} " + "word " * 60, id=f"ai-{n}")]}

    graph: Any = StateGraph(Wide)
    graph.add_node("work", work)
    graph.add_node("answer", answer)
    graph.add_edge(START, "work")
    graph.add_conditional_edges("work", lambda state: "work" if state["left"] else "answer")
    graph.add_edge("answer", END)
    return graph.compile(checkpointer=saver)


def fill(store: str) -> None:
    """Fill a store with threads of some turns."""
    with saver_of(store) as saver:
        for n in range(THREADS):
            for turn in range(TURNS):
                first = {
                    "plan": [f"part {one}" for one in range(8)],
                    "profile": {"name": "anna", "tags": [f"tag {one}" for one in range(10)]},
                    "sources": [{"url": f"https://{one}", "text": "x" * 300} for one in range(10)],
                    "settings": {f"key {one}": one for one in range(20)},
                    "summary": "text " * 100,
                }
                built(saver).invoke(
                    {
                        "messages": [HumanMessage(f"question {turn}", id=f"human-{turn}")],
                        "left": STEPS,
                        **(first if turn == 0 else {}),
                    },
                    {"configurable": {"thread_id": f"wide-{n}"}, "recursion_limit": 100},
                    durability="sync",
                )


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_checking_is_as_fast_as_reading(
    engine: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    is_file = engine == "sqlite"
    store = str(tmp_path / "store.db") if is_file else request.getfixturevalue("postgres_url")
    fill(store)
    check: list[str | Path] = [CKPT, "-s", store, "doctor", "--deep", "-o", "json"]
    out = tmp_path / "answer.json"
    run(check, out=out)
    found = json.loads(out.read_bytes())
    assert found["findings"] == []
    number = found["checked"]["checkpoints"]
    commands = {"ckpt": check, "official": [sys.executable, "-c", OFFICIAL, store]}
    runs = interleaved(commands, 3)
    for name, one in runs.items():
        each = f"{number / one.least:.0f} ({number / one.cpu:.0f} of CPU time)"
        print(f"\n{engine}, {name}: {each} checkpoints a second", end="")
    figures: list[Figure] = [
        compared("doctor --deep", runs["ckpt"], "get_state_history", runs["official"]),
        memory("doctor --deep", runs["ckpt"].mib, 150),
    ]
    print(f"\n\n{table(figures)}")
