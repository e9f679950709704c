"""`history` lists the checkpoints of a thread with the nodes that made them."""

from pathlib import Path
from typing import Any

import pytest
from langgraph.graph import START
from langgraph.types import Send

from tests.commands.words import refusals
from tests.kit.agents import failing as agents
from tests.kit.agents.small import Log, chain, run
from tests.kit.command import ckpt


def history(path: Path, *words: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = ckpt("-s", path, "history", "t", *words, "-o", "json").json
    return found


@pytest.fixture
def retried(path: Path) -> Path:
    """A store with a thread in which a node failed, and then ran again."""
    world = agents.fill(path, agents.crashed, "t")
    world.is_down = False
    run(path, agents.crashed(world), None)
    return path


def test_a_step_that_failed_and_was_retried_is_marked(retried: Path) -> None:
    newest, failed, first = history(retried)
    assert (newest["nodes"], failed["nodes"], first["nodes"]) == (["crash"], ["__start__"], [])
    # The last one shown has a parent that is not.
    assert [one["nodes"] for one in history(retried, "-n", "1")] == [["crash"]]
    assert (newest["marks"], failed["marks"], first["marks"]) == (["done"], ["retried"], [])
    assert ckpt("-s", retried, "history", "t", "-o", "table").out.count("retried") == 1
    tree = ckpt("-s", retried, "show", "t", "--tree", "-o", "table").out
    assert "✗ crash: TimeoutError('crash: no answer after 1 s')  (retried)" in tree


def test_repeated_nodes_are_counted(path: Path) -> None:
    graph = chain(Log, {}).add_node("search", lambda _: {"log": ["found"]})
    graph.add_conditional_edges(START, lambda _: [Send("search", {"log": []})] * 3)
    run(path, graph, {"log": []})
    newest, before = history(path)[:2]
    assert (newest["nodes"], before["next"]) == (["search"] * 3, ["search"] * 3)
    table = ckpt("-s", path, "history", "t", "-o", "table").out.splitlines()
    assert [row.count("search ×3") for row in table] == [0, 1, 1, 0]
    assert "search ×3" in ckpt("-s", path, "show", "t@~1", "-o", "table").out


test_wrong_words_are_refused = refusals(
    ("history nobody", 3, "no thread 'nobody'"), ("history trip-to-kyoto -n 0", 2, "--limit")
)


@pytest.mark.parametrize("command", ["history", "tail", "interrupts"])
def test_a_command_on_a_thread_names_what_shows_a_checkpoint(sample: Path, command: str) -> None:
    """To be pasted, with the store or with the configuration."""
    answer = ckpt("-s", sample, command, "trip-to-kyoto@step:3", code=3, out="")
    error, hint = answer.err.splitlines()
    assert error.startswith("ckpt: 'trip-to-kyoto@step:3' is a checkpoint, ")
    named = hint.partition("`ckpt ")[2].partition("`")[0]
    ckpt(*named.split(), code=0)
    assert named.split()[:2] == ["-s", str(sample)]
    config = sample.with_name("own.toml")
    config.write_text(f'[stores.agent]\nurl = "{sample}"\n')
    answer = ckpt("--config", config, "-s", "agent", command, "trip-to-kyoto@step:3")
    assert f"`ckpt --config {config} -s agent show trip-to-kyoto@step:3`" in answer.err
