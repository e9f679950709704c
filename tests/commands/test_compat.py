"""`compat` on the command line; what it says is tested in tests/compat."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands.words import refusals
from tests.kit.agents.edges import graph
from tests.kit.agents.small import running
from tests.kit.command import ROOT, ckpt
from tests.kit.probing import written

OLD, NEW = ">ask ask>act", ">review review>act"
APPLICATION = """
from langgraph.types import interrupt
from tests.kit.agents.edges import graph

def ask(_):
    return {"log": [interrupt("sure?")]}

def build():
    return graph(">ask ask>act", ask=ask).compile()
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the probe prints of two versions of an agent, and a store of the first one."""
    folder = tmp_path_factory.mktemp("compat")
    written(folder / "old.json", graph(OLD, asks="ask"))
    written(folder / "new.json", graph(NEW, asks="review"))
    with running(folder / "store.db", graph(OLD, asks="ask")) as agent:
        for name in ("one", "two"):
            agent.invoke({"log": []}, {"configurable": {"thread_id": name}})
    return folder


def test_a_renamed_node_is_named_with_its_threads(folder: Path) -> None:
    store, new, old = (folder / one for one in ("store.db", "new.json", "old.json"))
    words = ("-s", store, "compat", new, "--from", old)
    found = ckpt(*words, "-o", "json").json
    assert found["summary"] == {"loses": 2}
    (finding,) = found["threads"][0]["findings"]
    assert (finding["verdict"], finding["code"], finding["where"]) == ("loses", "node-gone", "ask")
    assert found["notes"] == found["safe_to_remove"] == []
    text = ckpt(*words, "-o", "table").out
    assert text.startswith("2 threads: 2 loses\n\nloses  ask  node-gone, 2 threads\n")
    lines = ckpt(*words, "-o", "ndjson").out.splitlines()
    assert [json.loads(one)["verdict"] for one in lines] == ["loses", "loses"]
    assert ckpt(*words, "-o", "tsv").out.count("node-gone") == 2


def test_the_exit_code_tells_what_is_not_accepted(folder: Path) -> None:
    store, new, old = (str(folder / one) for one in ("store.db", "new.json", "old.json"))
    words = ("-s", store, "compat", new, "--exit-code")
    ckpt(*words, code=1)
    ckpt(*words, "--fail-on", "breaks, repeats", code=0)
    ckpt(*words, "--accept", "node-gone:ask", code=0)
    (folder / "accepted.txt").write_text("# the old node is drained\nnode-gone\n")
    ckpt(*words, "--accept-from", str(folder / "accepted.txt"), code=0)
    ckpt("-s", store, "compat", old, "--exit-code", code=0)
    assert "without --from" in ckpt("-s", store, "compat", old, "-o", "table").out
    some = ckpt(*words, "--match", "nothing", "-o", "json")
    assert (some.code, some.json["safe_to_remove"]) == (0, [])
    assert "not told of some threads" in some.json["notes"][-1]


def test_the_probe_reads_a_configuration_of_langgraph(tmp_path: Path) -> None:
    (tmp_path / "probe.py").write_text(ckpt("compat", "--probe").out)
    (tmp_path / "app.py").write_text(APPLICATION)
    config = {"graphs": {"agent": "./app.py:build"}, "dependencies": [".", str(ROOT)]}
    (tmp_path / "langgraph.json").write_text(json.dumps(config))
    words = [sys.executable, "probe.py", "langgraph.json"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert list(found["graphs"]) == ["agent"]
    assert found["parts"][0]["nodes"]["ask"]["asks"] == ["sure?"]
    assert found["parts"][0]["edges"] == {"__start__": ["ask"], "ask": ["act"]}


def test_a_filter_asks_what_the_new_graph_does(folder: Path, tmp_path: Path) -> None:
    words = ("threads", "list", "--compat", folder / "new.json", "-o", "json", "--where")
    listed = ("-s", folder / "store.db", *words)
    found = [ckpt(*listed, f"compat {one}").json for one in ("= loses", "= ok", "!= ok")]
    assert [len(one) for one in found] == [2, 0, 2]
    old = ("--compat-from", folder / "new.json")
    found = ckpt(*listed, 'compat = "another graph" and thread = one', *old).json
    assert found == []
    untold = ckpt("-s", folder / "store.db", "threads", "list", "--where", "compat = ok")
    assert (untold.code, "--compat NEW.json" in untold.err) == (2, True)
    ckpt(*listed, "compat = worse", code=2, says="no verdict 'worse'")


def test_a_profile_names_the_graphs_and_other_files_are_refused(folder: Path) -> None:
    profile = """
        [stores.prod]
        url = "store.db"
        [stores.prod.compat]
        new = "new.json"
        from = "old.json"
    """
    (folder / "own.toml").write_text(profile)
    words = ("--config", folder / "own.toml", "-s", "prod")
    found = ckpt(*words, "interrupts", "--where", "compat = loses", "-o", "json").json
    assert [one["thread_id"] for one in found] == ["two", "one"]
    (folder / "own.toml").write_text(profile.replace("new =", "next ="))
    ckpt(*words, "interrupts", code=2, says="keys 'new' and 'from'")
    for text in ("", '{"ckpt_graph": 2}', "[" * 100_000):
        (folder / "odd.json").write_text(text)
        found = ckpt("-s", folder / "store.db", "compat", folder / "odd.json", code=2, out="")
        assert "is not what the probe prints" in found.err or "describes no graph" in found.err


test_wrong_words_are_refused = refusals(
    ("compat", 2, "no graph is given"),
    ("compat none.json", 2, "cannot read 'none.json'"),
    ("compat none.json --fail-on worse", 2, "no verdict in 'worse'"),
)
