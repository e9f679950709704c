"""What is written of a thread: secrets, hostile names, failures, marks, and what is refused."""

import ast
import json
import operator
import os
import random
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.graph import MessagesState
from langgraph.types import Command, interrupt

from tests.commands.words import refusals
from tests.kit.agents.small import Log, chain, run, running
from tests.kit.command import FIXTURES, ROOT, ckpt
from tests.secrets.credentials import credentials
from tests.thread_tests.recording import failures, place_of, record

KNOWN = credentials()
FAILS = True


class Told(MessagesState):
    notes: Annotated[list[Any], operator.add]


def export(path: Path, folder: Path, *words: str | Path, thread: str = "t") -> Any:
    return ckpt(
        *("-s", path, "export", thread, "--as", "pytest", "--to", folder, "-o", "json", *words)
    )


def leaking() -> Any:
    """What was given comes into messages, tool calls, keys of dicts, bytes, and a question."""

    def model(state: Told) -> Any:
        call = {"name": "login", "args": {"keys": state["notes"]}, "id": "call_1"}
        said = state["messages"][0].content
        return {"messages": [AIMessage(f"You say {said}", tool_calls=[call])]}

    def tool(state: Told) -> Any:
        answer = interrupt({"keys": state["notes"]})
        message = ToolMessage(f"{state['notes'][0]} {answer}", tool_call_id="call_1")
        return {"messages": [message], "notes": [dict.fromkeys(state["notes"][:-1], 1)]}

    return chain(Told, {"model": model, "tool": tool})


def test_secrets_are_refused_masked_or_redacted(tmp_path: Path) -> None:
    """Of every kind that is known, wherever they stand, also in the id of the thread."""
    path, graph = tmp_path / "store.db", ("--graph", f"{__name__}:leaking")
    secret = KNOWN["github-token"]
    given = {"messages": [HumanMessage(f"My key is {secret}")], "notes": [*KNOWN.values(), "plain"]}
    run(path, leaking(), given, Command(resume="yes"), thread=secret)
    refused = export(path, tmp_path / "refused", *graph, thread=secret)
    assert refused.code == 5
    assert f"holds {len(KNOWN)} credentials" in refused.err
    assert "state.messages[0].content (github-token)" in refused.err
    assert [*(tmp_path / "refused").iterdir()] == []
    masked, hidden = tmp_path / "masked", tmp_path / "hidden"
    assert export(path, masked, *graph, "--mask-secrets", thread=secret).code == 0
    # The id of a thread is not redacted.
    assert export(path, hidden, *graph, "--redact", thread=secret).code == 5
    assert export(path, hidden, *graph, "--redact", "--mask-secrets", thread=secret).code == 0
    for folder in (masked, hidden):
        assert len([*folder.iterdir()]) == 2
        texts = [refused.err, *map(str, folder.iterdir())]
        for one in folder.iterdir():
            texts += [one.read_text(), one.read_text().replace("\\n", "\n").replace("\\\\", "\\")]
        assert [kind for kind, one in KNOWN.items() if any(one in text for text in texts)] == []
    ((data, test),) = [sorted(masked.iterdir())]
    assert '"plain"' in data.read_text()
    assert '"plain"' not in "".join(one.read_text() for one in hidden.iterdir())
    assert failures(test) == {}


def test_names_from_a_store_cannot_become_code(tmp_path: Path) -> None:
    """Neither that of the thread, nor of nodes and channels, nor what was said."""
    evil = '"""\nimport os; os.system("true")\n"""\\'
    graph = chain(Told, {f"a{evil}'); x('": lambda _: {"messages": [AIMessage(evil)]}})
    run(tmp_path / "store.db", graph, {"messages": [("user", evil)]}, thread=evil)
    words = ("--graph", "app.graph:build")
    told = export(tmp_path / "store.db", tmp_path / "tests", *words, thread=evil).json[0]
    for text in (Path(told["file"]).read_text(), shown(tmp_path / "store.db", evil)):
        tree = ast.parse(text)
        calls = {ast.unparse(one.func) for one in ast.walk(tree) if isinstance(one, ast.Call)}
        assert calls <= {"ThreadRecording", "RECORDING.node", "RECORDING.thread"}
        imports = [one for one in ast.walk(tree) if isinstance(one, ast.Import | ast.ImportFrom)]
        assert [ast.unparse(one) for one in imports] == [
            "from ckpt_cli.testing import ThreadRecording"
        ]


def shown(path: Path, thread: str, *words: str | Path) -> str:
    return ckpt("-s", path, "show", "--as", "pytest", *words, "--", thread).out


def breaking() -> Any:
    def charge(state: Log) -> Any:
        if FAILS:
            raise ValueError("no currency")
        return {"log": ["charged"]}

    return chain(Log, {"order": lambda _: {"log": ["ordered"]}, "charge": charge})


def test_a_failed_task_fails_its_test_until_the_graph_is_mended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "store.db"
    with pytest.raises(ValueError, match="no currency"):
        run(path, breaking(), {"log": ["in"]})
    told = export(path, tmp_path / "tests", "--graph", f"{__name__}:breaking").json[0]
    assert (told["tests"], told["failing"]) == (3, ["test_charge_step_2"])
    found = failures(Path(told["file"]))
    assert {*found} == {"test_charge_step_2"}
    assert "no currency" in found["test_charge_step_2"]
    pasted = tmp_path / "test_pasted.py"
    pasted.write_text(shown(path, "t", "--graph", f"{__name__}:breaking"))
    assert {*failures(pasted)} == {"test_charge_step_2"}
    monkeypatch.setattr(sys.modules[__name__], "FAILS", False)
    assert failures(Path(told["file"])) == failures(pasted) == {}


class Drawn(TypedDict, total=False):
    number: float
    at: float
    host: str
    log: Annotated[list[str], operator.add]


def changing() -> Any:
    def draw(state: Drawn) -> Any:
        return {"number": random.random()}

    def read(state: Drawn) -> Any:
        return {"log": [time.strftime("%X") + str(time.perf_counter())]}

    def fetch(state: Drawn) -> Any:
        if "PYTEST_CURRENT_TEST" in os.environ and "CKPT_TEST_NOTES" in os.environ:
            socket.getaddrinfo("example.invalid", 80)
        return {"host": "example"}

    def stamp(state: Drawn) -> Any:
        return {"at": time.time()}

    return chain(Drawn, {"draw": draw, "read": read, "fetch": fetch, "stamp": stamp})


@pytest.mark.engines  # the check runs pytest twice
def test_tests_that_pass_once_are_marked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, folder = tmp_path / "store.db", tmp_path / "tests"
    run(path, changing(), {"log": ["in"]})
    monkeypatch.chdir(ROOT)
    words = ("--graph", f"{__name__}:changing", "--check", "--python", sys.executable)
    told = export(path, folder, *words).json[0]
    marked = {one["test"]: one["reason"] for one in told["marked"]}
    assert {*marked} == {"test_thread", "test_draw_step_1", "test_read_step_2", "test_fetch_step_3"}
    assert "random numbers" in marked["test_draw_step_1"]
    assert marked["test_fetch_step_3"] == "the graph uses the network: example.invalid"
    decorated = [
        one.name
        for one in ast.parse(Path(told["file"]).read_text()).body
        if isinstance(one, ast.FunctionDef) and one.decorator_list
    ]
    assert sorted(decorated) == sorted(marked)


def test_a_check_of_no_graph_marks_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, folder = tmp_path / "store.db", tmp_path / "tests"
    run(path, breaking_not(), {"log": ["in"]})
    monkeypatch.chdir(ROOT)
    words = ("--graph", "no_such_module:graph", "--check", "--python", sys.executable)
    failed = export(path, folder, *words)
    assert failed.code == 7
    assert "No module named 'no_such_module'" in failed.err
    assert "xfail" not in (folder / "test_t.py").read_text()


def test_a_thread_that_was_changed_by_hand_begins_behind_that(tmp_path: Path) -> None:
    """Its test begins in the state that was there before the next input."""
    path = tmp_path / "store.db"
    run(path, breaking_not(), {"log": ["in"]})
    with running(path, breaking_not()) as agent:
        config: Any = {"configurable": {"thread_id": "t"}}
        agent.update_state(config, {"log": ["by hand"]}, as_node="order")
    run(path, breaking_not(), {"log": ["again"]})
    told = export(path, tmp_path / "tests", "--graph", f"{__name__}:breaking_not").json[0]
    assert (told["tests"], told["left_out"]) == (3, [])
    test = json.loads(Path(told["data"]).read_text())["test"]
    assert test["before"] == {"log": ["in", "ordered", "by hand"]}
    assert [turn["input"] for turn in test["turns"]] == [{"log": ["again"]}]
    assert failures(Path(told["file"])) == {}


def breaking_not() -> Any:
    return chain(Log, {"order": lambda _: {"log": ["ordered"]}})


def test_a_file_that_is_there_is_written_over_by_force_alone(tmp_path: Path) -> None:
    path, graph = tmp_path / "store.db", ("--graph", "app.graph:build")
    run(path, breaking_not(), {"log": ["in"]})
    assert export(path, tmp_path / "tests", *graph).code == 0
    (tmp_path / "tests" / "test_t.py").write_text("mine")
    refused = export(path, tmp_path / "tests", *graph)
    assert (refused.code, "exists" in refused.err) == (5, True)
    assert (tmp_path / "tests" / "test_t.py").read_text() == "mine"
    assert export(path, tmp_path / "tests", *graph, "--force").code == 0


def test_threads_of_javascript_are_refused(tmp_path: Path) -> None:
    (stored, *_) = sorted(FIXTURES.glob("js-*/store.db"))
    path = tmp_path / "store.db"
    shutil.copyfile(stored, path)
    (first, *_) = ckpt("-s", path, "threads", "list", "-o", "json").json
    words = ("--graph", "app.graph:build")
    refused = export(path, tmp_path / "tests", *words, thread=first["thread_id"])
    assert (refused.code, "LangGraph.js wrote thread" in refused.err) == (4, True)


def test_only_the_fixture_module_is_imported_by_a_written_test() -> None:
    """`ckpt_cli.testing` brings no driver, no parser of options, and no other part of ckpt."""
    code = (
        "import sys, ckpt_cli.testing\n"
        "own = [m for m in sys.modules if m.startswith(('ckpt_cli.', 'ckpt_backends'))]\n"
        "print(own, [m for m in ('typer', 'sqlite3', 'pytest') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert done.stdout.strip() == "['ckpt_cli.testing'] []"


def test_an_export_tells_what_was_left_out(tmp_path: Path) -> None:
    record(tmp_path / "store.db", "handoff")
    told = export(
        *(tmp_path / "store.db", tmp_path / "tests", "--graph", place_of("handoff")),
        thread="handoff",
    ).json[0]
    assert told["left_out"] == [{"what": "desk > tools, step 4.2", "reason": "it did not finish"}]
    data = json.loads(Path(told["data"]).read_text())
    assert (data["ckpt_test"], data["thread"], data["title"]) == (1, "handoff", "Hello")


test_wrong_words_are_refused = refusals(
    ("export trip-to-kyoto --as pytest", 2, "requires --graph"),
    ("export trip-to-kyoto --as pytest --graph here", 2, "'here' names no graph"),
    ("export trip-to-kyoto --graph app:graph", 2, "are for tests"),
    ("export trip-to-kyoto --as pytest --format csv --graph a:b", 2, "takes no --format"),
    ("export nobody --as pytest --graph a:b", 3, "no thread 'nobody'"),
)
