"""Without a name, `ckpt` reads the only store of the folder, and says so."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from ckpt_cli.config.found import only_store, parse_variables, server_named_in
from ckpt_cli.config.trust import read
from tests.kit.command import FIXTURES, SAMPLE, ckpt, copy_store
from tests.kit.hostile.standin import standin

URL = "postgresql://u:hunter2@127.0.0.1:{port}/agents"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, in which the test runs."""
    path = tmp_path / "project"
    path.mkdir()
    monkeypatch.chdir(path)
    return path


@pytest.fixture
def server() -> Iterator[tuple[str, list[object]]]:
    """The URL of a server that hangs up, and who connected."""
    connections: list[object] = []

    def answer(client: object) -> None:
        connections.append(client)

    with standin(answer) as port:
        yield URL.format(port=port), connections


def _database(path: Path, *tables: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        for one in tables:
            connection.execute(f"create table {one} (id)")
        connection.commit()


def test_the_only_store_is_read_and_named(folder: Path) -> None:
    copy_store(SAMPLE, folder)
    _database(folder / "orders.db", "orders")
    (folder / "Thumbs.db").write_text("no database at all")
    (folder / "empty.sqlite").touch()
    answer = ckpt("threads", "list", "-o", "json")
    assert (len(answer.json), answer.err) == (
        8,
        "note: using './store.db', the only store in this folder\n",
    )
    assert ckpt("-q", "threads", "list").err == ""
    # What is printed to be pasted names it.
    assert "ckpt -s ./store.db rollback" in ckpt("show", "invoice-import").out


def test_several_stores_are_listed_with_the_way_to_name_each(folder: Path) -> None:
    for name in ("a.db", "b c.sqlite"):
        (folder / name).write_bytes(SAMPLE.read_bytes())
    answer = ckpt("threads", "list")
    assert (answer.code, answer.err) == (
        2,
        "ckpt: no store given, and there are 2 here\n"
        "hint: name one: `ckpt -s ./a.db`, `ckpt -s './b c.sqlite'`\n",
    )


def test_a_store_that_cannot_be_opened_is_not_passed_over(folder: Path) -> None:
    (folder / "a.db").write_bytes(SAMPLE.read_bytes())
    (folder / "b.db").write_bytes(SAMPLE.read_bytes()[:6000])
    assert "there are 2 here" in ckpt("threads", "list").err


def test_a_named_store_wins(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a.db", "b.db"):
        (folder / name).write_bytes(SAMPLE.read_bytes())
    assert ckpt("-s", "a.db", "threads", "list").err == ""
    monkeypatch.setenv("CKPT_STORE", "b.db")
    assert ckpt("threads", "list").err == ""
    monkeypatch.delenv("CKPT_STORE")
    (folder / "ckpt.toml").write_text('default = "a.db"\n')
    assert ckpt("threads", "list").err == ""


def test_only_this_folder_is_searched(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "below").mkdir()
    (folder / "below" / "a.db").write_bytes(SAMPLE.read_bytes())
    assert ckpt("threads", "list").err.startswith("ckpt: no store given\n")
    monkeypatch.chdir(folder / "below")
    (folder / "a.db").write_bytes(SAMPLE.read_bytes())
    assert ckpt("threads", "list").code == 0
    os.rename(folder / "below" / "a.db", folder / "elsewhere")
    (folder / "below" / "link.db").symlink_to(folder / "elsewhere")
    assert "no store given" in ckpt("threads", "list").err


def test_a_folder_with_many_files_is_not_searched(folder: Path) -> None:
    for number in range(21):
        (folder / f"{number}.db").touch()
    assert "21 files here may be one" in ckpt("threads", "list").err


def test_the_folder_of_langgraph_dev_is_found(folder: Path) -> None:
    (folder / ".langgraph_api").mkdir()
    assert "no store given" in ckpt("threads", "list").err
    source = FIXTURES / "dev" / "runtime-0.36.7"
    shutil.copytree(source, folder / ".langgraph_api", dirs_exist_ok=True)
    answer = ckpt("threads", "list", "-o", "json")
    assert answer.err == "note: using './.langgraph_api', the only store in this folder\n"
    assert answer.json


def test_memory_is_found_if_no_threads_are_here(folder: Path) -> None:
    (folder / "memory.json").write_text(json.dumps({"version": "1.0", "facts": []}))
    assert "using './memory.json'" in ckpt("memory", "list").err
    copy_store(SAMPLE, folder)
    assert "using './store.db'" in ckpt("threads", "list").err


@pytest.mark.parametrize(
    "words",
    [
        ["rollback", "trip-to-kyoto", "--steps", "1", "--yes"],
        ["rollback", "trip-to-kyoto", "--steps", "1", "--plan-out", "plan.json"],
        ["threads", "delete", "trip-to-kyoto", "--yes"],
        ["purge", "--match", "*", "--yes"],
        ["gc", "--scope", "all", "--yes"],
        ["undo", "trip-to-kyoto", "--yes"],
        ["undo", "--yes"],
        ["repair", "messages", "--all", "--yes"],
        ["replay", "trip-to-kyoto", "--repair", "--yes"],
        ["erase", "trip-to-kyoto", "--yes"],
        ["rekey", "--all", "--decrypt", "--yes"],
    ],
    ids=" ".join,
)
def test_what_changes_a_store_needs_its_name(folder: Path, words: list[str]) -> None:
    path = copy_store(SAMPLE, folder)
    answer = ckpt(*words)
    assert answer.code == 2
    assert "no store given" in answer.err
    assert path.read_bytes() == SAMPLE.read_bytes()
    assert not (folder / "plan.json").exists()


@pytest.mark.parametrize("words", [["rollback", "--steps", "1", "--dry-run"], ["replay"]])
def test_what_only_shows_a_change_does_not(folder: Path, words: list[str]) -> None:
    copy_store(SAMPLE, folder)
    assert ckpt(*words, "trip-to-kyoto").code in {0, 1}


def test_a_server_is_contacted_only_if_its_file_is_trusted(
    folder: Path, server: tuple[str, list[object]]
) -> None:
    url, connections = server
    (folder / ".env").write_text(f"OPENAI_API_KEY=sk-1\nDATABASE_URI='{url}'\n")
    answer = ckpt("threads", "list")
    assert (answer.code, connections) == (2, [])
    assert answer.err == (
        "ckpt: no store given; '.env' is not trusted and names a server\n"
        "hint: read the file, then run `ckpt trust .env`; or use -s URL\n"
    )
    trusted = ckpt("trust", "--yes", ".env", "-o", "json")
    assert trusted.json["default"] == url.replace("hunter2", "***")
    assert (trusted.json["profiles"][0]["variables"], connections) == (["DATABASE_URI"], [])
    answer = ckpt("threads", "list")
    assert answer.code == 4
    assert len(connections) > 0
    assert "using the server of DATABASE_URI in '.env' (postgresql://u:***@" in answer.err
    assert "hunter2" not in trusted.out + trusted.err + answer.err
    (folder / ".env").write_text(f"DATABASE_URI={url}?x=1\n")
    connections.clear()
    assert "changed since it was trusted" in ckpt("threads", "list").err
    assert connections == []


def test_a_server_of_others_is_never_contacted(
    folder: Path, server: tuple[str, list[object]]
) -> None:
    url, connections = server
    path = folder / ".env"
    path.write_text(f"DATABASE_URI={url}\n")
    assert ckpt("trust", "--yes", ".env").code == 0
    path.chmod(0o666)
    assert "can be written by every user" in ckpt("threads", "list").err
    assert connections == []


def test_a_local_store_and_a_server_are_two(folder: Path) -> None:
    copy_store(SAMPLE, folder)
    (folder / ".env").write_text(f"DATABASE_URI={URL.format(port=1)}\n")
    answer = ckpt("threads", "list")
    assert "there are 2 here" in answer.err
    assert "hunter2" not in answer.err


@pytest.mark.parametrize(
    ("project", "variables", "key"),
    [
        ({}, "POSTGRES_URI=postgres://h/db", "POSTGRES_URI"),
        ({"env": "prod.env"}, "DATABASE_URI=redis://h/1", None),
        ({"env": {"POSTGRES_URI_CUSTOM": "postgres://h/db"}}, "", "POSTGRES_URI_CUSTOM"),
        ({"checkpointer": {"backend": "mongo"}}, "MONGODB_URI=mongodb://h/db", "MONGODB_URI"),
        ({"checkpointer": {"backend": "mongo"}}, "DATABASE_URI=postgres://h/db", None),
        ({"checkpointer": {"backend": "mongo", "uri": "mongodb://h/db"}}, "", "checkpointer.uri"),
        (
            {},
            "LS_DEFAULT_CHECKPOINTER_BACKEND=mongo\nLS_MONGODB_URI=mongodb://h/db",
            "LS_MONGODB_URI",
        ),
        # It names code, which is not run, so where the checkpoints are is not known.
        ({"checkpointer": {"path": "./own.py:saver"}}, "DATABASE_URI=postgres://h/db", None),
        # A broker that holds no checkpoints; a file; an URL in pieces; no URL.
        ({}, "REDIS_URI=redis://h/0", None),
        ({}, "DATABASE_URI=sqlite:///agent.db", None),
        ({}, "DATABASE_URI=postgres://${HOST}/db", None),
        ({}, "DATABASE_URI=agent.db", None),
        ({"env": "../.env"}, "", None),
        ({"env": ["DATABASE_URI"]}, "", None),
        ([], "", None),
    ],
)
def test_which_server_the_files_of_an_application_name(
    folder: Path, project: object, variables: str, key: str | None
) -> None:
    (folder.parent / ".env").write_text("DATABASE_URI=postgres://h/db")
    if project != {}:
        (folder / "langgraph.json").write_text(json.dumps(project))
    if variables:
        (folder / ".env").write_text(variables)
    found = server_named_in(folder)
    assert (None if found is None else found.key) == key


def test_another_file_of_variables(folder: Path) -> None:
    (folder / "langgraph.json").write_text('{"env": "prod.env"}')
    (folder / "prod.env").write_text("DATABASE_URI=postgres://h/db")
    (folder / ".env").write_text("DATABASE_URI=postgres://other/db")
    found = server_named_in(folder)
    assert found is not None
    assert found.source.name == "prod.env"
    assert ckpt("trust", "--yes", "prod.env").code == 0
    assert ckpt("trust", "--yes", ".env").code == 2
    here = only_store(folder)
    assert here is not None
    assert here.server is not None


def test_hostile_files_name_nothing(folder: Path) -> None:
    for text in (
        b"[" * 200_000,
        b"\xff\xfe",
        b'{"env": "\\u0000"}',
        b'{"env": {"DATABASE_URI": []}}',
    ):
        (folder / "langgraph.json").write_bytes(text)
        assert server_named_in(folder) is None
    (folder / "langgraph.json").unlink()
    (folder / ".env").write_bytes(b"A=" + b'"\\' * 200_000 + b"\nDATABASE_URI=" + b"=" * 200_000)
    assert server_named_in(folder) is None
    (folder / ".env").unlink()
    os.mkfifo(folder / ".env")
    assert server_named_in(folder) is None


def test_lines_of_variables(folder: Path) -> None:
    path = folder / ".env"
    path.write_text("# A=0\nexport A = 1 # one\nB='two # 2'\nC=\"three\"\nD=four#4\n E=\nF\nA=5\n")
    assert parse_variables(read(path)) == {
        "A": "5", "B": "two # 2", "C": "three", "D": "four#4", "E": "",
    }  # fmt: skip


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "home"
    path.mkdir()
    monkeypatch.setenv("HOME", str(path))
    return path


@pytest.mark.parametrize(
    ("place", "whose"),
    [
        (".deepagents/.state/sessions.db", "where dcode of Deep Agents keeps its sessions"),
        (".deepagents/sessions.db", "where Deep Agents kept its sessions until 2026"),
        (".evoscientist/sessions.db", "where EvoScientist keeps its sessions"),
    ],
)
def test_where_applications_keep_their_store(
    place: str, whose: str, folder: Path, home: Path
) -> None:
    (home / place).parent.mkdir(parents=True)
    (home / place).write_bytes(SAMPLE.read_bytes())
    answer = ckpt("threads", "list", "-o", "json")
    assert (len(answer.json), answer.err) == (8, f"note: using '{home / place}', {whose}\n")
    assert str(home / place) in {one["url"] for one in ckpt("stores", "-o", "json").json}
    refused = ckpt("threads", "delete", "invoice-import", "--yes")
    assert "what changes a store needs its name" in refused.err
    # What is here comes first.
    copy_store(SAMPLE, folder)
    assert "'./store.db', the only store in this folder" in ckpt("threads", "list").err


def test_several_applications_have_stores(folder: Path, home: Path) -> None:
    for place in (".deepagents/.state", ".evoscientist"):
        (home / place).mkdir(parents=True)
        (home / place / "sessions.db").write_bytes(SAMPLE.read_bytes())
    answer = ckpt("threads", "list")
    assert answer.code == 2
    assert "there are 2 in the usual places" in answer.err
    assert str(home / ".evoscientist" / "sessions.db") in answer.err


@pytest.mark.parametrize(
    "inside", ["data", "backend/data", ".deepagents", "backend/.deer-flow/data"]
)
def test_a_folder_below_in_which_stores_are_kept(inside: str, folder: Path, home: Path) -> None:
    (folder / inside).mkdir(parents=True)
    (folder / inside / "checkpoints.sqlite").write_bytes(SAMPLE.read_bytes())
    answer = ckpt("threads", "list", "-o", "json")
    assert len(answer.json) == 8
    assert f"'./{inside}/checkpoints.sqlite', the only store in '{inside}'" in answer.err
    shown = ckpt("show", "invoice-import").out
    assert f"ckpt -s ./{inside}/checkpoints.sqlite rollback" in shown


def test_a_link_to_another_folder_is_not_followed(folder: Path, home: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "a.db").write_bytes(SAMPLE.read_bytes())
    (folder / "data").symlink_to(tmp_path / "other")
    assert "no store given" in ckpt("threads", "list").err
