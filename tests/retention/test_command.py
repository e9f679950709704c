"""What `ckpt purge` takes, refuses and says."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from tests.backends.agent import fill, graph_of, saver_of
from tests.servers import Server, postgres_database
from tests.support import SAMPLE, ckpt, copy_store


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return copy_store(SAMPLE, tmp_path)


def ids(store: Path) -> set[str]:
    return {
        one["thread_id"] for one in ckpt("-s", store, "threads", "list", "--all", "-o", "json").json
    }


def test_an_empty_policy_is_refused(store: Path) -> None:
    before = store.read_bytes()
    for words in ([], ["--yes"], ["--protect", "x", "--include-pending", "--yes"]):
        refused = ckpt("-s", store, "purge", *words)
        assert refused.code == 2, words
        assert "hint: name threads by" in refused.err
    assert store.read_bytes() == before


def test_conditions_join(store: Path) -> None:
    words = ["-s", str(store), "purge", "--dry-run", "-o", "json", "--older-than", "1m"]
    every = {one["thread_id"] for one in ckpt(*words).json["threads"]}
    assert "weekly-digest" in every
    some = {one["thread_id"] for one in ckpt(*words, "--match", "*-report").json["threads"]}
    assert some == {"nightly-report"}
    failed = {one["thread_id"] for one in ckpt(*words, "--status", "error").json["threads"]}
    assert failed == {"invoice-import"}
    assert ckpt(*words, "--where", "metadata.source=nothing").json["threads"] == []


def test_what_is_protected_stays_and_says_so(store: Path) -> None:
    words = ["purge", "--older-than", "1m", "--protect", "trip-*", "--yes", "-o", "json"]
    found = ckpt("-s", store, *words).json
    assert {"thread_id": "trip-to-kyoto", "reason": "protected"} in found["skipped"]
    assert "trip-to-kyoto" in ids(store)
    assert "weekly-digest" not in ids(store)


def test_expired_goes_by_the_retention_of_the_profile(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(store.parent)
    refused = ckpt("-s", store, "purge", "--expired", "--yes")
    assert (refused.code, "retention" in refused.err) == (2, True)
    config = store.parent / "ckpt.toml"
    config.write_text('[stores.a]\nurl = "store.db"\nretention = "900d"\n')
    assert ckpt("-s", "a", "purge", "--expired", "--yes", "-o", "json").json["threads"] == []
    config.write_text('[stores.a]\nurl = "store.db"\nretention = "1m"\n')
    assert ckpt("-s", "a", "purge", "--expired", "--yes", "-o", "json").json["threads"] != []


def test_a_plan_of_another_store_is_refused(store: Path, tmp_path: Path) -> None:
    plan = tmp_path / "plan"
    assert ckpt("-s", store, "purge", "--match", "*", "--plan-out", plan).code == 0
    other = tmp_path / "other.db"
    other.write_bytes(store.read_bytes())
    refused = ckpt("-s", other, "purge", "--plan", plan, "--yes")
    assert (refused.code, "is of the store" in refused.err) == (2, True)
    assert ckpt("-s", store, "purge", "--plan", plan, "--match", "x", "--yes").code == 2
    for text in ("", "{}", "no json", plan.read_text() + "[1]\n", plan.read_text() + "broken\n"):
        plan.write_text(text)
        before = store.read_bytes()
        assert ckpt("-s", store, "purge", "--plan", plan, "--yes").code == 2, text
        assert store.read_bytes() == before
    assert ckpt("-s", store, "purge", "--plan", tmp_path / "none", "--yes").code == 2


def test_an_archive_that_cannot_be_written_keeps_everything(store: Path, tmp_path: Path) -> None:
    before, file = ids(store), tmp_path / "file"
    file.write_text("")
    assert ckpt("-s", store, "purge", "--match", "*", "--archive", file, "--yes").code == 4
    refused = ckpt("-s", store, "purge", "--match", "*", "--archive", file / "in it", "--yes")
    assert (refused.code, "hint: name a folder" in refused.err) == (4, True)
    assert ids(store) == before


def test_a_time_limit_leaves_the_rest_for_the_next_run(store: Path) -> None:
    before = ids(store)
    words = ["-s", str(store), "purge", "--match", "*", "--yes", "-o", "json"]
    stopped = ckpt(*words, "--max-duration", "0s")
    assert stopped.code == 7
    assert "--max-duration is over" in stopped.err
    assert json.loads(stopped.out)["left"] > 0
    assert ids(store) == before


def test_vacuum_gives_the_room_back(store: Path) -> None:
    before = store.stat().st_size
    words = ["purge", "--match", "*", "--include-pending", "--include-interrupted", "--vacuum"]
    assert ckpt("-s", store, *words, "--yes").code == 0
    with closing(sqlite3.connect(store)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert store.stat().st_size < before / 4


def test_names_come_from_a_file(store: Path, tmp_path: Path) -> None:
    names = tmp_path / "names"
    names.write_text("weekly-digest\n\nno such thread\n")
    found = ckpt("-s", store, "threads", "delete", "--from", names, "--yes", "-o", "json").json
    assert [one["thread_id"] for one in found["threads"]] == ["weekly-digest"]
    assert found["skipped"] == [{"thread_id": "no such thread", "reason": "no such thread"}]
    assert ckpt("-s", store, "threads", "delete", "no such thread", "--yes").code == 3
    assert ckpt("-s", store, "threads", "delete", "--yes").code == 2
    names.write_text("")
    assert ckpt("-s", store, "threads", "delete", "--from", names, "--yes").code == 0


def test_a_signal_ends_it_between_two_batches(tmp_path: Path) -> None:
    from langgraph.checkpoint.sqlite import SqliteSaver

    store = tmp_path / "store.db"
    with closing(sqlite3.connect(store, check_same_thread=False)) as connection:
        for number in range(20):
            config = {"configurable": {"thread_id": f"t{number}"}}
            graph_of(SqliteSaver(connection)).invoke({"items": ["in"]}, config)
    words = ["purge", "--match", "*", "--batch", "1", "--sleep", "2", "--yes", "-o", "json"]
    process = subprocess.Popen(
        [sys.executable, "-m", "ckpt_cli", "-s", str(store), *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 60
    while len(ids(store)) == 20 and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 7, err
    assert "SIGTERM" in err
    report = json.loads(out)
    assert 0 < report["removed"]["threads"] < 20
    assert (
        report["left"] + report["removed"]["threads"] == 20 == report["left"] + 20 - len(ids(store))
    )


def test_an_agent_at_work_loses_no_checkpoint(postgres_server: Server) -> None:
    """It writes on while its thread is purged over and over: what it reads is always whole."""
    with postgres_database(postgres_server) as url:
        fill(url, "busy", *(f"old-{number}" for number in range(20)))
        stop, wrong = threading.Event(), []

        def work() -> None:
            with saver_of(url) as saver:
                graph, config = graph_of(saver), {"configurable": {"thread_id": "busy"}}
                number = len(graph.get_state(config).values["items"])
                while not stop.is_set():
                    number += 3
                    found = graph.invoke({"items": ["more"]}, config)
                    if len(found["items"]) != number:
                        wrong.append(len(found["items"]))
                        return

        agent = threading.Thread(target=work)
        agent.start()
        try:
            for _ in range(5):
                words = ["purge", "--older-than", "1s", "--keep-last", "2", "--yes", "-o", "json"]
                done = ckpt("-s", url, *words)
                assert done.code == 0, done.err
                done = ckpt("-s", url, "purge", "--keep-last", "2", "--yes", "-o", "json")
                assert done.code == 0, done.err
        finally:
            stop.set()
            agent.join()
        assert wrong == []
        with saver_of(url) as saver:
            config = {"configurable": {"thread_id": "busy"}}
            assert len(graph_of(saver).get_state(config).values["items"]) % 3 == 0


def test_a_role_without_rights_is_told_what_it_needs(postgres_server: Server) -> None:
    from tests.backends.agent import role

    with postgres_database(postgres_server) as url:
        fill(url, "a")
        with role(url) as reader:
            refused = ckpt("-s", reader, "threads", "delete", "a", "--yes")
            assert refused.code == 4
            assert "hint: " in refused.err
        with psycopg.connect(url) as connection:
            ((left,),) = connection.execute("SELECT count(*) FROM checkpoints").fetchall()
        assert left > 0


def test_a_locked_table_is_waited_for_and_then_left(postgres_server: Server) -> None:
    with postgres_database(postgres_server) as url:
        fill(url, "a")
        with psycopg.connect(url) as holder:
            holder.execute("LOCK TABLE checkpoints IN ROW EXCLUSIVE MODE")
            refused = ckpt("-s", url, "threads", "delete", "a", "--yes")
        assert (refused.code, "lock" in refused.err) == (4, True)
        assert ckpt("-s", url, "threads", "delete", "a", "--yes").code == 0


def test_the_help_ends_with_a_crontab_line_that_works(store: Path, tmp_path: Path) -> None:
    lines = [text.strip() for text in ckpt("purge", "--help").out.splitlines()]
    (line,) = [text for text in lines if text.startswith("17 3 * * *")]
    command = line.split("* * *", 1)[1].split()
    assert command[0] == "ckpt"
    (tmp_path / "ckpt.toml").write_text('[stores.prod]\nurl = "store.db"\n')
    done = subprocess.run(
        [sys.executable, "-m", "ckpt_cli", *command[1:]],
        cwd=store.parent,
        env={**os.environ, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    import logging

    logging.disable(logging.WARNING)
    yield
    logging.disable(logging.NOTSET)
