"""`repair values` puts back what was deleted, so that the official saver reads as before."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.postgres import PostgresSaver

from ckpt_cli.commands import changing
from tests.kit.command import ckpt
from tests.kit.planting.apart import delete, execute, replace, rows, versions
from tests.kit.planting.steps import SERDE, THREAD, graph, talk
from tests.kit.servers import Server, postgres_database

CONFIG: Any = {"configurable": {"thread_id": THREAD}}
KEPT_APART = ("messages", "log", "facts", "tags")
"""Channels whose values the saver does not put into the body."""
OTHER = SERDE.dumps_typed(["other"])[1]


@pytest.fixture(scope="module")
def whole(postgres_server: Server) -> Iterator[str]:
    """The name of a database with a thread, of which each test has a copy."""
    with postgres_database(postgres_server) as url:
        with PostgresSaver.from_conn_string(url) as saver:
            saver.setup()
            talk(saver)
        yield url.rpartition("/")[2]


@pytest.fixture
def url(postgres_server: Server, whole: str) -> Iterator[str]:
    with postgres_database(postgres_server, template=whole) as url:
        yield url


def history(url: str) -> list[Any]:
    """What the official saver reads of every checkpoint.

    The graph is not asked: LangGraph 1.2 itself makes up for a reducer's value that is missing.
    """
    with PostgresSaver.from_conn_string(url) as saver:
        return [
            (one.config, one.checkpoint, one.metadata, one.parent_config)
            for one in saver.list(CONFIG)
        ]


def mended(url: str, *words: str) -> Any:
    """Return the answer of a repair that is asked for through `replay`."""
    return ckpt("-s", url, "replay", THREAD, "--repair", "--yes", "-o", "json", *words)


def repair(url: str, *words: str) -> None:
    ckpt("-s", url, "repair", "values", *(words or (THREAD,)), "--yes", code=0)


def stored_bytes(stored: list[Any], version: str) -> bytes:
    (found,) = (data for name, at, _, data in stored if (name, at) == ("log", version))
    return bytes(found)


def unwritable_log() -> Path:
    """Put a file in the place of the folder in which running operations are noted."""
    running = Path(os.environ["XDG_STATE_HOME"]) / "ckpt" / "operations" / "running"
    running.rmdir()
    running.write_text("")
    return running


def verify(url: str) -> tuple[int, dict[str, Any]]:
    answer = ckpt("-s", url, "replay", THREAD, "--verify", "-o", "json")
    return answer.code, answer.json


def test_a_damaged_thread_is_found_repaired_and_resumed(url: str) -> None:
    before, stored = history(url), rows(url)
    for channel in KEPT_APART:
        delete(url, channel, versions(url, channel)[2])
    delete(url, "messages", versions(url, "messages")[-1])
    assert history(url) != before
    code, found = verify(url)
    assert code == 1
    wrong = {one["channel"] for one in found["findings"] if one["verdict"] == "mismatch"}
    assert wrong == set(KEPT_APART)
    damaged = rows(url)
    ckpt("-s", url, "replay", THREAD, "--repair", code=5)
    shown = ckpt("-s", url, "replay", THREAD, "--repair", "--dry-run", "-o", "json").json
    assert (len(shown["repaired"]), shown["refused"]) == (5, [])
    assert rows(url) == damaged
    done = mended(url)
    assert done.code == 0, done.err
    assert history(url) == before
    assert [row[:2] for row in rows(url)] == [row[:2] for row in stored]
    assert verify(url)[0] == 0
    again = mended(url).json
    assert again["repaired"] == again["refused"] == []
    with PostgresSaver.from_conn_string(url) as saver:
        human = HumanMessage("and now?", id="human-9")
        answer = graph(saver).invoke({"messages": [human], "log": ["asked"]}, CONFIG)
    assert [message.id for message in answer["messages"]][-2:] == ["human-9", "ai-7"]
    assert verify(url)[0] == 0


def test_one_checkpoint_is_repaired(url: str) -> None:
    """Of the root: the values that it names."""
    for number in (1, 4):
        delete(url, "log", versions(url, "log")[number])
    whole = ckpt("-s", url, "repair", "values", THREAD, "--dry-run", "-o", "json").json
    place = whole["repaired"][1]["checkpoint_id"]
    one = ckpt("-s", url, "repair", "values", f"{THREAD}@{place}", "--dry-run", "-o", "json").json
    assert one["repaired"] == whole["repaired"][1:]


def test_damaged_bytes_are_replaced_and_readable_ones_never(url: str) -> None:
    before = history(url)
    version = versions(url, "log")[3]
    replace(url, "log", version)
    damaged = rows(url)
    assert [one["replaces"] for one in mended(url).json["repaired"]] == [True]
    assert history(url) == before
    undone = ckpt("-s", url, "undo", THREAD, "--yes", "-o", "json").json
    assert [one["before"] for one in undone["threads"][0]["values"]] == ["unreadable"]
    assert rows(url) == damaged
    repair(url)
    assert history(url) == before
    # Readable, and not what was written: found, and left alone.
    replace(url, "log", version, OTHER)
    assert verify(url)[0] == 1
    stored = rows(url)
    answer = mended(url).json
    assert answer["repaired"] == answer["refused"] == []
    assert rows(url) == stored


def change_a_write(url: str) -> None:
    where = "FROM checkpoint_writes WHERE channel = 'log' AND task_path LIKE '%%left'"
    execute(
        url,
        "UPDATE checkpoint_writes SET blob = %s WHERE channel = 'log' AND task_path LIKE '%%left'"
        f" AND checkpoint_id = (SELECT checkpoint_id {where} ORDER BY 1 LIMIT 1 OFFSET 1)",
        OTHER,
    )


def test_it_is_refused_where_writes_do_not_lead_to_later_values(url: str) -> None:
    change_a_write(url)
    replace(url, "log", versions(url, "log")[4])
    stored = rows(url)
    answer = ckpt("-s", url, "repair", "values", THREAD, "--yes")
    assert (answer.code, rows(url)) == (5, stored)
    assert "later steps do not follow from the rebuilt value" in answer.out + answer.err


def test_without_a_place_for_the_record_the_repair_is_made_with_a_warning(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = history(url)
    delete(url, "log", versions(url, "log")[3])
    monkeypatch.setenv("XDG_STATE_HOME", "/dev/null")
    done = ckpt("-s", url, "repair", "values", THREAD, "--yes")
    assert (done.code, "`ckpt undo` will not find this repair" in done.err) == (0, True)
    assert history(url) == before


def test_only_recorded_bytes_are_replaced(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    third, fourth = versions(url, "log")[3:5]
    replace(url, "log", third)
    damaged = rows(url)
    with monkeypatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", "/dev/null")
        refused = ckpt("-s", url, "repair", "values", THREAD, "--yes")
        assert (refused.code, rows(url)) == (5, damaged)
        assert "nothing was written: the unreadable bytes would be lost" in refused.err
        assert "export XDG_STATE_HOME=FOLDER" in refused.err
    repair(url)
    running = unwritable_log()
    replace(url, "log", fourth)
    stored = rows(url)
    for words in ([THREAD], ["--all"]):
        refused = ckpt("-s", url, "repair", "values", *words, "--yes", code=5)
        assert "the unreadable bytes would be lost" in refused.out + refused.err
        assert rows(url) == stored
    running.unlink()
    repair(url, "--all")
    ckpt("-s", url, "undo", THREAD, "--yes", code=0)
    assert rows(url) == stored
    ckpt("-s", url, "undo", THREAD, "--yes", code=0)
    replace(url, "log", fourth, stored_bytes(damaged, fourth))
    assert rows(url) == damaged


def test_a_value_that_became_readable_is_left(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    version = versions(url, "log")[3]
    replace(url, "log", version)

    def become_readable(question: str) -> None:
        assert question == f"Restore 1 value of thread '{THREAD}'?"
        replace(url, "log", version, OTHER)

    monkeypatch.setattr(changing, "confirm", become_readable)
    ckpt("-s", url, "repair", "values", THREAD, code=6, says="changed meanwhile")
    assert stored_bytes(rows(url), version) == OTHER
    assert ckpt("-s", url, "ops", "list", "-o", "json").json == []


def test_an_undo_and_a_redo_show_the_values_and_give_back_what_was_there(url: str) -> None:
    before = history(url)
    third, fourth = versions(url, "log")[3:5]
    delete(url, "log", third)
    replace(url, "log", fourth)
    damaged = rows(url)
    done = ckpt("-s", url, "repair", "values", THREAD, "--yes", "-o", "json").json["repaired"]
    repaired = rows(url)
    names = ("checkpoint_ns", "checkpoint_id", "step", "channel", "version")
    found = [{name: one[name] for name in names} for one in done]

    def check(command: str, *before: str) -> None:
        (step,) = ckpt("-s", url, command, "--dry-run", "-o", "json").json["threads"]
        expected = [{**one, "before": was} for one, was in zip(found, before, strict=True)]
        assert step["values"] == expected

    check("undo", "missing", "unreadable")
    table = ckpt("-s", url, "undo", "--dry-run", "-o", "tsv").out.splitlines()
    assert [line.split("\t")[-1] for line in table] == ["before", "missing", "unreadable"]
    text = ckpt("-s", url, "undo", THREAD, "--dry-run").out
    first, second = (
        f"removes  log of step {one['step']}  {one['checkpoint_id']}\n" for one in found
    )
    assert f"{first}{second}         the unreadable value is stored again\n" in text
    op = ckpt("-s", url, "ops", "list", "-o", "json").json[0]["op"]
    for words in ([op], []):
        ckpt("-s", url, "undo", *words, "--yes", code=0)
        assert rows(url) == damaged
        check("redo", "restored", "restored")
        assert ckpt("-s", url, "redo", "--dry-run").out.count("restores log of step") == 2
        ckpt("-s", url, "redo", "--yes", code=0)
        assert rows(url) == repaired
    assert history(url) == before


def test_an_undo_takes_back_what_was_done_last_and_nothing_that_changed_since(url: str) -> None:
    version = versions(url, "log")[3]
    delete(url, "log", version)
    damaged = rows(url)
    repair(url)
    (repaired,) = (one for one in rows(url) if one[:2] == ("log", version))
    ckpt("-s", url, "rollback", THREAD, "~1", "--yes", code=0)
    assert ckpt("-s", url, "undo", THREAD, "--yes", "-o", "json").json["form"] == "removal"
    replace(url, "log", version, OTHER)
    stored = rows(url)
    refused = ckpt("-s", url, "undo", THREAD, "--yes")
    assert (refused.code, rows(url)) == (5, stored)
    assert "the values of 'log' changed since" in refused.err
    replace(url, "log", version, bytes(repaired[3]))
    (step,) = ckpt("-s", url, "undo", THREAD, "--yes", "-o", "json").json["threads"]
    assert [one["channel"] for one in step["values"]] == ["log"]
    assert rows(url) == damaged


def test_ids_that_were_given_at_merge_are_taken_from_later_values(postgres_url: str) -> None:
    with PostgresSaver.from_conn_string(postgres_url) as saver:
        saver.setup()
        for turn in range(2):
            graph(saver).invoke({"messages": [("user", f"no id {turn}")]}, CONFIG)
    before = history(postgres_url)
    delete(postgres_url, "messages", versions(postgres_url, "messages")[0])
    answer = mended(postgres_url)
    assert answer.code == 0, answer.err
    assert history(postgres_url) == before
