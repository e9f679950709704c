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
from tests.thread_tests.mutations import MUTATIONS
from tests.thread_tests.recording import MODULES, failures, place_of, record, write


@pytest.mark.engines
def test_tests_pass_twice_in_another_process(tmp_path: Path) -> None:
    """All but those whose subgraph is called by a function, which skip themselves."""
    folder, path, written = tmp_path / "tests", tmp_path / "store.db", []
    folder.mkdir()
    for name in MODULES:
        record(path, name)
    with open_store(parse_url(str(path))) as store:
        for name in MODULES:
            tests = ThreadTests(folder, place_of(name))
            written.append(tests.write(ThreadReader(store, name)))
    ThreadTests(folder, "any:graph").check(written, Path(sys.executable), note=True)
    assert {one.thread_id: one.marked for one in written if one.marked} == {}
    assert sum(len(one.names) for one in written) > 90
    assert {one.thread_id: one.left_out for one in written if one.left_out} == {
        "handoff": [("desk > tools, step 4.2", "it did not finish")]
    }
    noted = json.loads((folder / "test_loop.json").read_text())
    first, *rest = noted["asked"]["model, step 3"]
    assert (first["$messages"].split()[1:], rest) == (["m1", "m2", "m3"], [])


def test_parallel_tasks_get_their_own_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
def test_faults_in_a_graph_are_found(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the route, the reducer, a tool's argument, the prompt, a write and a channel's name."""
    assert missed_faults(tmp_path, name, monkeypatch) == []
