"""The `created_at` of an official snapshot names that very checkpoint, though its id is younger."""

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.kit.agents.small import Log, chain, running
from tests.kit.command import ckpt

THREAD = "anna@example.com"
CONFIG: Any = {"configurable": {"thread_id": THREAD}}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[tuple[str, str]]]:
    """Return a store, and the (created_at, id) of each snapshot, newest first."""
    path = tmp_path_factory.mktemp("created") / "store.db"
    nodes = {name: lambda _, name=name: {"log": [name]} for name in "abc"}
    with running(path, chain(Log, nodes)) as graph:
        for text in ("one", "two"):
            graph.invoke({"log": [text]}, CONFIG)
        return path, [
            (one.created_at, one.config["configurable"]["checkpoint_id"])
            for one in graph.get_state_history(CONFIG)
        ]


def test_a_time_finds_the_checkpoint_that_was_made_then(
    made: tuple[Path, list[tuple[str, str]]],
) -> None:
    path, snapshots = made
    assert len(snapshots) == 10
    for created_at, checkpoint_id in snapshots:
        for words in ([THREAD, "--as-of", created_at], [f"{THREAD}@{created_at}"]):
            shown = ckpt("-s", path, "show", *words, "-o", "json").json
            assert shown["checkpoint_id"] == checkpoint_id
    for (_, before), (created_at, _) in zip(snapshots[1:], snapshots, strict=False):
        earlier = datetime.fromisoformat(created_at) - timedelta(microseconds=1)
        shown = ckpt("-s", path, "show", THREAD, "--as-of", earlier.isoformat(), "-o", "json")
        assert shown.json["checkpoint_id"] == before


def test_bounds_hold_what_was_made_at_them(made: tuple[Path, list[tuple[str, str]]]) -> None:
    path, snapshots = made
    last = snapshots[0][0]
    earlier = (datetime.fromisoformat(last) - timedelta(microseconds=1)).isoformat()

    def listed(*words: str) -> list[str]:
        found = ckpt("-s", path, "threads", "list", *words, "-o", "json").json
        return [one["thread_id"] for one in found]

    assert listed("--until", last) == [THREAD]
    assert listed("--since", last) == [THREAD]
    assert listed("--until", earlier) == []
    first, third = (stats(path, "--until", snapshots[at][0]) for at in (1, 2))
    whole = stats(path)
    assert stats(path, "--until", last)["nodes"] == whole["nodes"] != third["nodes"]
    assert first["by"] == whole["by"]  # The last checkpoint has no writes.


def stats(path: Path, *words: str) -> Any:
    return ckpt("-s", path, "stats", THREAD, *words, "-o", "json").json
