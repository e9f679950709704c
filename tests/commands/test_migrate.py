"""`migrate` on the command line; how threads end is tested in tests/compat."""

from pathlib import Path
from typing import Annotated, Any

import pytest
from langgraph.channels import EphemeralValue

from tests.commands.words import refusals
from tests.kit.agents.edges import CHAIN, graph, keyed, nested
from tests.kit.agents.small import Picked, running
from tests.kit.cases import cases
from tests.kit.command import FIXTURES, ckpt
from tests.kit.probing import written

NEW = graph(">pre pre>new new>fin", asks="new")
RENAME = ("--rename-node", "rv=new")


def picks(_: Any) -> Any:
    return {"pick": ["this"]}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three threads that wait, one that is done, one of another graph, and the new graph."""
    with running(tmp_path / "s.db", graph(CHAIN)) as agent:
        for name in ("one", "two", "three"):
            agent.invoke({"log": []}, {"configurable": {"thread_id": name}})
    with running(tmp_path / "s.db", graph(CHAIN, asks="")) as agent:
        agent.invoke({"log": []}, {"configurable": {"thread_id": "done"}})
    with running(tmp_path / "s.db", graph(">x x>y", schema=Picked, x=picks, y=picks)) as agent:
        agent.invoke({"pick": []}, {"configurable": {"thread_id": "other"}})
    written(tmp_path / "new.json", NEW)
    return tmp_path


def heads(folder: Path) -> dict[str, Any]:
    listed = ckpt("-s", folder / "s.db", "threads", "list", "-o", "json").json
    return {one["thread_id"]: (one["status"], one["checkpoints"]) for one in listed}


def test_all_threads_are_one_operation(folder: Path) -> None:
    before = heads(folder)
    words = ("-s", folder / "s.db", "migrate", "--all", "--to", folder / "new.json", *RENAME)
    planned = ckpt(*words, "--dry-run", "-o", "json").json
    assert {one["thread_id"]: one["state"] for one in planned} == dict.fromkeys(
        ("one", "two", "three"), "planned"
    )
    assert heads(folder) == before
    done = ckpt(*words, "--yes", "-o", "json")
    assert {one["state"] for one in done.json} == {"migrated"}
    assert done.json[0]["mends"] == ["renames node rv to new", "keeps 1 question open"]
    assert "left out 2 threads: nothing to migrate" in done.err
    assert heads(folder) == before | dict.fromkeys(("one", "two", "three"), ("interrupted", 4))
    (op,) = ckpt("-s", folder / "s.db", "ops", "list", "-o", "json").json
    assert op["action"] == "migrate"
    ckpt("-s", folder / "s.db", "undo", op["op"], "--yes", code=0)
    assert heads(folder) == before


def test_what_has_no_recipe_is_refused_with_the_finding(folder: Path) -> None:
    stuck = written(folder / "stuck.json", graph(">pre pre>rv pre+rv>fin"))
    words = ("-s", folder / "s.db", "migrate", "one", "--to", stuck)
    refused = ckpt(*words, "--yes", code=5, says="loses fin (join-stuck)")
    assert "--accept join-stuck:fin" in refused.err
    ckpt(*words, "--accept", "join-stuck:fin", "--yes", says="nothing to migrate in thread 'one'")
    assert ckpt(*words, "--accept", "join-stuck:fin", "--yes", "-o", "json").json == []
    many = ckpt("-s", folder / "s.db", "migrate", "--all", "--to", stuck, "--yes", "-o", "json")
    assert (many.code, many.out.count('"state": "skipped"')) == (5, 3)
    # What a thread has passed is not migrated.
    done = ckpt("-s", folder / "s.db", "migrate", "done", *RENAME, "--yes", code=0, out="")
    assert "thread 'done': its head has nothing under these names" in done.err
    # Without the new graph, nothing is proven.
    done = ckpt("-s", folder / "s.db", "migrate", "one", *RENAME, "--yes")
    assert "nothing proves that the new graph resumes it: give --to NEW.json" in done.out
    assert ckpt("-s", folder / "s.db", "show", "one", "-o", "json").json["next"] == ["new"]


@cases(
    "store thread said",
    ("lg-0.2.70", "async-asking", "of format 2, before LangGraph 0.5"),
    ("js-1.7.3", "interrupt-nested", "a thread of LangGraph.js"),
)
def test_what_is_never_migrated(store: str, thread: str, said: str) -> None:
    words = ("migrate", thread, "--rename-node", "ask=other", "--dry-run")
    ckpt("-s", FIXTURES / store / "store.db", *words, code=4, says=said)


def test_a_key_that_was_set_before_keeps_its_name(folder: Path) -> None:
    """It has no value any more, but the nodes have seen its versions."""
    kinds = {"k": str, "once": Annotated[str, EphemeralValue(str)]}
    with running(folder / "s.db", keyed(kinds)) as agent:
        agent.invoke({"log": [], "k": "v", "once": "v"}, {"configurable": {"thread_id": "keys"}})
    words = ("migrate", "keys", "--rename-channel", "k=once", "--yes")
    ckpt("-s", folder / "s.db", *words, code=5, says="the thread has a key 'once', too")


def test_a_subgraph_that_ran_under_both_names_is_refused(folder: Path) -> None:
    config: Any = {"configurable": {"thread_id": "both"}}
    for name in ("o", "other"):
        with running(folder / "s.db", nested(name, saver=True)) as agent:
            agent.invoke({"log": []}, config)
    words = ("migrate", "both", "--rename-node", "o=other", "--yes")
    ckpt("-s", folder / "s.db", *words, code=5, says="'other' has run in it already")


test_wrong_words_are_refused = refusals(
    ("migrate trip-to-kyoto", 2, "nothing to migrate to"),
    ("migrate trip-to-kyoto --rename-node act", 2, "'act' is not OLD=NEW"),
    ("migrate trip-to-kyoto --rename-node act=a --rename-node act=b", 2, "names 'act' twice"),
    ("migrate trip-to-kyoto --rename-node act=b --rename-node ask=b", 2, "names 'b' twice"),
    ("migrate trip-to-kyoto --default lang=en", 2, "'lang=en' is not KEY=JSON"),
    ("migrate --rename-node act=a", 2, "no thread given"),
    ("migrate trip-to-kyoto --to none.json", 2, "cannot read 'none.json'"),
)
