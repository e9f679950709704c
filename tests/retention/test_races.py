"""An agent that works on while its thread is purged loses no checkpoint, on any layout."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from ckpt_backends.testing.library import config_of_thread, graph_of
from tests.kit.command import ckpt
from tests.kit.opening import empty_store
from tests.kit.travelling import HARNESSES


def layouts() -> Iterator[Any]:
    """All that can be written while an agent works, but for the slowest server."""
    for name in HARNESSES.keys() - {"dev", "dynamodb"}:
        yield pytest.param(name, marks=pytest.mark.engines if name == "redis" else pytest.mark.slow)


@pytest.mark.parametrize("name", sorted(layouts(), key=str))
def test_an_agent_at_work_loses_no_checkpoint(
    name: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """It writes on while its thread is purged over and over: what it reads is always whole."""
    stop, lengths = Event(), list[int]()
    with empty_store(HARNESSES[name], request, tmp_path) as place:
        graph = graph_of(place.kept_saver)

        def work() -> None:
            while not stop.is_set():
                found = graph.invoke({"items": ["more"]}, config_of_thread("busy"))
                lengths.append(len(found["items"]))

        for thread in ("busy", *(f"old-{number}" for number in range(10))):
            graph.invoke({"items": ["in"]}, config_of_thread(thread))
        agent = Thread(target=work)
        agent.start()
        try:
            for policy in (["--keep-last", "2"], ["--older-than", "1s"], ["--keep-last", "1"]) * 3:
                done = ckpt("-s", place.url, "purge", *policy, "--yes", "-o", "json")
                assert done.code == 0, done.err
        finally:
            stop.set()
            agent.join()
        assert lengths == [3 * (2 + turn) for turn in range(len(lengths))] != []
        state = graph.get_state(config_of_thread("busy"))
        assert len(state.values["items"]) == lengths[-1]
