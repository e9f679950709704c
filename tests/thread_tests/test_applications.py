"""The written tests of many applications: they pass on the graph that made them, and fail on one
with a fault.
"""

import json
import sys
import time
from inspect import getsource
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from ckpt_backends.registry import open_store
from ckpt_backends.url import parse_url
from ckpt_cli import testing
from ckpt_cli.api.thread_tests import ThreadTests
from ckpt_cli.core.thread_tests import with_prompts
from ckpt_cli.reading.thread import ThreadReader
from ckpt_cli.render.thread_tests import spelled_json
from tests.thread_tests.recording import MODULES, failures, place_of, record, write

MUTATIONS: dict[str, list[tuple[str, str]]] = {
    "loop": [
        ('SystemMessage("Be brief."), ', ""),
        ('*state["messages"]]', '*state["messages"][::-1]]'),
        ('"turns": 1', '"turns": 2'),
        ('"tools" if state["messages"][-1].tool_calls else END', "END"),
        ("Annotated[int, operator.add]", "int"),
        ("def weather(query: str)", "def weather(city: str)"),
        ("turns: Annotated", "rounds: Annotated"),
        ('add_edge("tools", "model")', 'add_edge("tools", END)'),
    ],
    "handoff": [
        ('goto="billing"', 'goto="desk"'),
        ("graph=Command.PARENT, ", ""),
        ("Handed over: {reason}", "Handed over"),
    ],
    "reviewing": [
        ('interrupt({"book": query})', 'interrupt({"reserve": query})'),
        ("answer = interrupt", "answer = str"),
        ("< 3 else", "< 9 else"),
        ('prompt="You book tables."', 'prompt="You book hotels."'),
        ("mood: str", "tone: str"),
        ('name="agent"', 'name="other"'),
    ],
    "planning": [
        ("{**before, **after}", "after | {'a': 'b'}"),
        ("[TodoListMiddleware(), FilesMiddleware()]", "[FilesMiddleware()]"),
        ("You know countries.", "You know towns."),
    ],
    "asynchronous": [
        ("async def fetch(query: str)", "async def fetch(url: str)"),
        ("ToolNode([fetch])", "ToolNode([])"),
        ("[first, second]", "[second, first]"),
        ("AIMessage(whole.content", "AIMessage(whole.content * 2"),
        ('*state["messages"], first]', 'first, *state["messages"]]'),
    ],
    "asking": [
        ('"details" if answer == "yes" else END', "END"),
        ('"When?"', '"Which day?"'),
        ("left {interrupt('Left?')}", "left"),
        ('["left", "right"], "both"', '["left"], "both"'),
        (", defer=True", ""),
    ],
    "functional": [
        ("[SystemMessage(", "[HumanMessage(topic), SystemMessage("),
        ("len(text.split())", "len(text)"),
        ('save={"total": earlier + words}', 'save={"total": words}'),
        ('previous["total"] if previous else 0', "0"),
    ],
    "memory": [
        ('state.get("visits") or 0) + 1', 'state.get("visits") or 0) + 2'),
        ("checkpointer=True", "checkpointer=None"),
        ("Annotated[list[str], operator.add]", "list[str]"),
    ],
    "sending": [
        ('{"subject": one}', '{"topic": one}'),
        ('for one in state["subjects"]]', 'for one in state["subjects"][1:]]'),
        ("Annotated[list[Any], operator.add]", "Annotated[list[Any], lambda a, b: b]"),
    ],
    "models": [
        ("date(2026, 5, 4)", "date(2026, 5, 5)"),
        ("Color.BLUE}", "Color.RED}"),
        ('"items": items, ', ""),
        ('BLUE = "blue"', 'BLUE = "navy"'),
    ],
}
"""Faults to plant in each application, as (text, instead): each must fail one of its tests. What
`loop` shows of prompts, routes and names is not planted again elsewhere."""


@pytest.mark.engines
def test_tests_pass_twice_in_another_process(tmp_path: Path) -> None:
    """All but those whose subgraph is called by a function, which skip themselves."""
    folder, path, written = tmp_path / "tests", tmp_path / "store.db", []
    folder.mkdir()
    for name in MODULES:
        record(path, name)
    with open_store(parse_url(str(path))) as store:
        for name in MODULES:
            written.append(ThreadTests(folder, place_of(name)).write(ThreadReader(store, name)))
    ThreadTests(folder, "any:graph").check(written, Path(sys.executable), note=True)
    assert {one.thread_id: one.marked for one in written if one.marked} == {}
    assert sum(len(one.names) for one in written) > 75
    assert {one.thread_id: one.left_out for one in written if one.left_out} == {
        "handoff": [("desk > tools, step 4.2", "it did not finish")]
    }
    noted = json.loads((folder / "test_loop.json").read_text())
    first, *rest = noted["asked"]["model, step 3"]
    assert (first["$messages"].split()[1:], rest) == (["m1", "m2", "m3"], [])


def test_parallel_tasks_get_own_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In whatever order they ask."""
    record(tmp_path / "store.db", "sending")
    found = write(tmp_path / "store.db", tmp_path / "tests", "sending", place_of("sending"))
    module: Any = MODULES["sending"]
    worker, waits = module.worker, {"bees": 0.2, "elephants": 0.1, "owls": 0.0}

    def late(state: Any) -> Any:
        time.sleep(waits[state["subject"]])
        return worker(state)

    monkeypatch.setattr(module, "worker", late)
    assert failures(found.path) == {}


def missed_faults(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> list[tuple[str, str]]:
    """Return the faults of an application that its tests do not find."""
    record(tmp_path / "store.db", name)
    found = write(tmp_path / "store.db", tmp_path / "tests", name, place_of(name))
    notes = tmp_path / "notes"
    monkeypatch.setenv(testing.NOTES, str(notes))
    assert failures(found.path) == {}
    monkeypatch.delenv(testing.NOTES)
    lines = notes.read_text().splitlines() if notes.exists() else []
    prompts = {task: asked for _, task, asked in map(json.loads, lines)}
    found.data_path.write_text(spelled_json(with_prompts(found.form, prompts)))
    assert failures(found.path) == {}
    module, missed = MODULES[name], []
    text, own = getsource(module), getsource(getattr(module, name))
    for old, new in MUTATIONS[name]:
        part = own if old in own else text  # a function or a class beside it
        assert old in part, old
        changed: Any = ModuleType(module.__name__)
        monkeypatch.setitem(sys.modules, module.__name__, changed)
        exec(text.replace(part, part.replace(old, new, 1)), changed.__dict__)
        if not failures(found.path):
            missed.append((old, new))
    return missed


@pytest.mark.in_ci("loop", "reviewing")
@pytest.mark.parametrize("name", MODULES)
def test_graph_faults_are_found(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the route, the reducer, a tool's argument, the prompt, a write and a channel's name."""
    assert missed_faults(tmp_path, name, monkeypatch) == []
