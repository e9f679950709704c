"""Faults in the files of `langgraph dev`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ckpt_backends.model import Fault
from ckpt_backends.registry import open_store
from tests.kit.savers.dev import FileSaver, graph_of

NAMES = ("sound", "hole", "orphan", "late", "alone")


@pytest.fixture
def saver(tmp_path: Path) -> FileSaver:
    """Threads with a subgraph and a question each."""
    made = FileSaver(tmp_path / ".langgraph_api", at_each_put=False)
    for name in NAMES:
        graph_of(made).invoke({"items": ["in"]}, {"configurable": {"thread_id": name}})
    return made


def found(saver: FileSaver, folder: Path) -> tuple[list[Fault], set[str]]:
    """The faults of the store, and the suspect threads, after the files were written."""
    saver.sync()
    with open_store(str(folder)) as store:
        return list(store.faults()), set(store.suspect_threads())


def test_threads_whose_keys_contradict_each_other_are_suspect(
    saver: FileSaver, tmp_path: Path
) -> None:
    assert found(saver, tmp_path) == ([], set())
    rows: Any = {name: saver.storage[name][""] for name in NAMES}
    newest = {name: sorted(rows[name], reverse=True) for name in NAMES}
    del rows["hole"][newest["hole"][1]]
    del rows["orphan"][newest["orphan"][-1]]
    first = newest["orphan"][-2]
    rows["orphan"][first] = (*rows["orphan"][first][:2], None)
    late, head = newest["late"][-1], newest["late"][0]
    rows["late"][late] = (*rows["late"][late][:2], head)
    del saver.storage["alone"]
    assert found(saver, tmp_path) == ([], set(NAMES) - {"sound"})


def test_entries_that_no_saver_writes_are_named(saver: FileSaver, tmp_path: Path) -> None:
    rows: Any = saver.storage["sound"][""]
    rows[max(rows)] = "no checkpoint"
    written: Any = saver.writes
    written[next(iter(written))] = {"no": "write"}
    faults, _ = found(saver, tmp_path)
    assert sorted(one.code for one in faults) == ["body-unreadable", "value-unreadable"]
    assert not any("no checkpoint" in one.detail for one in faults)
