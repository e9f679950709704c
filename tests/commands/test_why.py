"""Why threads that are pending do not go on, as far as the rows of official savers tell."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.kit.agents import stopping
from tests.kit.command import ckpt, ended

LATER = "2999-01-01"
"""When no run is in progress any more."""
SILENT = "silent for N"
KILLS = {
    "killed": ("killed", f"{SILENT} before charge (killed, or a breakpoint?)"),
    "beside": ("killed", f"{SILENT} in charge (killed?)"),
}
STOPS = {
    # The same rows as those of `killed`.
    "breakpoint": ("killed", f"{SILENT} before charge (killed, or a breakpoint?)"),
    "loop": ("recursion-limit", "25 steps without an end: recursion limit?"),
    "loop-again": ("recursion-limit", "25 steps without an end: recursion limit?"),
    "loop-answered": ("recursion-limit", "25 steps without an end: recursion limit?"),
    "other-limit": ("killed", f"{SILENT} before search (killed, or a breakpoint?)"),
    "updated": ("not-resumed", "nothing ran since an update N ago"),
    "join": ("joins", "book waits for air, road; rail came"),
    "done": None,
}


def whys(path: Path, *words: str, as_of: str = LATER) -> dict[str, tuple[str, str] | None]:
    listed: Any = ckpt(
        "-s", path, "threads", "list", *words, "--as-of", as_of, "--long", "--all", "-o", "json"
    ).json
    found = {one["thread_id"]: one.get("why") for one in listed}
    return {
        name: None
        if why is None
        else (
            why["code"],
            " ".join(
                "N" if word[0].isdigit() and word[-1] in "dy" else word
                for word in why["text"].split()
            ),
        )
        for name, why in found.items()
    }


@pytest.mark.parametrize("durability", ["sync", "exit"])
def test_each_stop_is_named(tmp_path: Path, durability: str) -> None:
    path = tmp_path / "stops.db"
    for thread_id in STOPS:
        stopping.run(path, thread_id, durability)
    assert whys(path) == STOPS
    assert set(whys(path, "--where", "why = recursion-limit")) == {
        "loop",
        "loop-again",
        "loop-answered",
    }


def test_a_killed_run_is_silent_in_the_node_that_did_not_end(tmp_path: Path) -> None:
    path = tmp_path / "killed.db"
    for thread_id in KILLS:
        assert ended(partial(stopping.run, path, thread_id, "sync")) == stopping.KILLED
    assert whys(path) == KILLS
    shown = ckpt("-s", path, "show", "beside", "--as-of", LATER)
    assert "(killed?)" in next(one for one in shown.out.splitlines() if one.startswith("why "))
    (join,) = ckpt("-s", path, "show", "beside", "-o", "json").json["joins"]
    assert join == {"node": "report", "waits_for": ["charge"], "has": ["plan"]}
    table = ckpt("-s", path, "threads", "list", "--as-of", LATER, "-o", "table")
    assert "silent for" in table.out
    now = ckpt("-s", path, "show", "killed", "-o", "json").json["why"]
    assert now["code"] == "running"
    assert now["text"].startswith("a run may be in progress (last checkpoint ")
    printed = ckpt("-s", path, "metrics").out
    assert 'ckpt_threads_pending{store="' in printed
    assert ',why="running"} 2\n' in printed
