"""The written tests of many applications: they pass on the graph that made them, and fail on one
with a fault.
"""

import json
import sys
import time
from collections import Counter
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
from tests.thread_tests.mutations import MUTATIONS
from tests.thread_tests.recording import (
    APPLICATIONS,
    application,
    failures,
    place_of,
    record,
    write,
)


@pytest.mark.engines
def test_tests_pass_twice_in_another_process(tmp_path: Path) -> None:
    """All but those whose subgraph is called by a function, which skip themselves."""
    assert len(APPLICATIONS) >= 20
    folder, written = tmp_path / "tests", []
    folder.mkdir()
    path = tmp_path / "store.db"
    for name in APPLICATIONS:
        record(path, name)
    with open_store(parse_url(str(path))) as store:
        for name in APPLICATIONS:
            tests = ThreadTests(folder, place_of(name))
            written.append(tests.write(ThreadReader(store, name)))
    ThreadTests(folder, "any:graph").check(written, Path(sys.executable), note=True)
    assert {one.thread_id: one.marked for one in written if one.marked} == {}
    assert sum(len(one.names) for one in written) > 150
    assert {one.thread_id: one.left_out for one in written if one.left_out} == {
        "handoff": [("desk > tools, step 4.2", "it did not finish")]
    }
    noted = json.loads((folder / "test_react.json").read_text())
    first, *rest = noted["asked"]["agent, step 3"]
    assert (first["$messages"].split()[1:], rest) == (["m1", "m2", "m3", "m4"], [])


def test_parallel_tasks_get_their_own_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In whatever order they ask."""
    record(tmp_path / "store.db", "sending")
    found = write(tmp_path / "store.db", tmp_path / "tests", "sending", place_of("sending"))
    module: Any = application("sending")
    worker, waits = module.worker, {"bees": 0.2, "elephants": 0.1, "owls": 0.0}

    def late(state: Any) -> Any:
        time.sleep(waits[state["subject"]])
        return worker(state)

    monkeypatch.setattr(module, "worker", late)
    assert failures(found.path) == {}


def planted(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
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
    module = application(name)
    assert module.__file__ is not None
    text = Path(module.__file__).read_text()
    missed = []
    for old, new in MUTATIONS[name]:
        assert old in text, old
        try:
            changed: Any = ModuleType(module.__name__)
            changed.__file__ = module.__file__
            monkeypatch.setitem(sys.modules, module.__name__, changed)
            exec(compile(text.replace(old, new, 1), module.__file__, "exec"), changed.__dict__)
        except Exception:
            continue  # such a graph cannot be built
        if not failures(found.path):
            missed.append((old, new))
    return missed


def test_faults_in_a_graph_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the route, the reducer, a tool's argument, the prompt, a write and a channel's name."""
    assert planted(tmp_path, "loop", monkeypatch) == []


@pytest.mark.nightly
@pytest.mark.parametrize("name", [name for name in APPLICATIONS if name != "loop"])
def test_faults_are_found(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four of 210 cannot be found: these change nothing that a thread tells."""
    unseen = Counter(react=1, nested=1, records=1, retrieval=1)
    assert len(MUTATIONS[name]) >= 10
    assert len(planted(tmp_path, name, monkeypatch)) <= unseen[name]
