"""The saver's tables as applications change them: other columns, ids as UUIDs, other names.

They are read as before. No row is added or removed, and the reason says what `ckpt` does not know.
"""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver

from ckpt_backends.testing.library import config_of_thread, graph_of
from tests.kit.command import ckpt

THREAD = str(uuid4())
POSTGRES = ("checkpoints", "checkpoint_blobs", "checkpoint_writes")
SQLITE = ("checkpoints", "writes")
QUESTIONS = (
    *(["threads", "list"], ["show", THREAD], ["show", THREAD, "--tree"], ["history", THREAD]),
    *(["diff", f"{THREAD}@~2", THREAD], ["grep", "first"], ["replay", THREAD], ["du"]),
)
CHANGES = (
    *(["rollback", THREAD, "--steps", "1"], ["fork", THREAD, "head"]),
    *(["threads", "delete", THREAD], ["purge", "--older-than", "0s"]),
)


def fill(saver: Any) -> None:
    saver.setup()
    graph_of(saver).invoke({"items": ["in"]}, config_of_thread(THREAD))


def answers(store: str) -> list[Any]:
    found = []
    for words in QUESTIONS:
        answer = ckpt("-s", store, *words, "-o", "json")
        assert answer.code == 0, answer.err
        found.append(answer.json)
    (used,) = found.pop()["threads"]
    (listed,) = found[0]
    return [*found, used["rows"], listed["head"]]


def check_only_read(store: str, reason: str) -> None:
    assert f"note: ckpt only reads this store: {reason}" in ckpt("-s", store, "show", THREAD).err
    for words in CHANGES:
        refused = ckpt("-s", store, *words, "--yes")
        assert refused.code == 4, words
        assert f"': {reason}\nhint: ckpt only reads it; `ckpt copy" in refused.err


def check_copied(store: str, target: Path) -> None:
    """That the hint of a refusal helps: the copy goes on."""
    done = ckpt("-s", store, "copy", THREAD, "--to", target, "--create", "--yes")
    assert done.code == 0, done.err
    assert ckpt("-s", target, "rollback", THREAD, "--steps", "1", "--yes").code == 0


@pytest.mark.engines
@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("ADD COLUMN tenant text", "unknown column checkpoints.tenant"),
        ("ALTER COLUMN thread_id TYPE uuid USING thread_id::uuid", "ids of the type uuid"),
    ],
    ids=["column", "ids"],
)
def test_changed_columns_of_postgres(
    postgres_url: str, statement: str, reason: str, tmp_path: Path
) -> None:
    with PostgresSaver.from_conn_string(postgres_url) as saver:
        fill(saver)
    before = answers(postgres_url)
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        for table in POSTGRES if "uuid" in statement else POSTGRES[:1]:
            connection.execute(f"ALTER TABLE {table} {statement}".encode())
    after = answers(postgres_url)
    assert without_sizes(after) == without_sizes(before)
    check_only_read(postgres_url, reason)
    check_copied(postgres_url, tmp_path / "copy.db")


@pytest.mark.engines
def test_tables_of_postgres_with_other_names(postgres_url: str, tmp_path: Path) -> None:
    with PostgresSaver.from_conn_string(postgres_url) as saver:
        fill(saver)
    before = answers(postgres_url)
    names = ("Agent Checkpoints", "agent_values", "agent_writes")
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        for usual, own in zip(POSTGRES, names, strict=True):
            connection.execute(f'ALTER TABLE {usual} RENAME TO "{own}"'.encode())
    assert "found 'Agent Checkpoints', agent_values" in ckpt("-s", postgres_url, "du").err
    store = f"{postgres_url}?tables=Agent%20Checkpoints,agent_values,agent_writes"
    assert without_sizes(answers(store)) == without_sizes(before)
    (told,) = ckpt("-s", store, "stores", "-o", "json").json
    assert told["size"] > 0
    check_only_read(store, "tables with other names")
    check_copied(store, tmp_path / "copy.db")
    missing = ckpt("-s", f"{postgres_url}?tables=one,agent_values,agent_writes", "du")
    assert (missing.code, "no table 'one'" in missing.err) == (4, True)
    wrong = ckpt("-s", f"{postgres_url}?tables=agent_writes", "du")
    assert (wrong.code, "checkpoints, checkpoint_blobs, checkpoint_writes" in wrong.err) == (
        2,
        True,
    )


@pytest.mark.parametrize("form", ["parameter", "profile", "copy"])
def test_tables_of_a_file_with_other_names(tmp_path: Path, form: str) -> None:
    file = tmp_path / "agent.db"
    with SqliteSaver.from_conn_string(str(file)) as saver:
        fill(saver)
    before = answers(str(file))
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
        for usual, own in zip(SQLITE, ("agent_checkpoints", "agent_writes"), strict=True):
            connection.execute(f"ALTER TABLE {usual} RENAME TO {own}")
        # A table of the application that has the saver's name.
        connection.execute("CREATE TABLE checkpoints (id)")
        connection.commit()
    store = f"sqlite:///{file}?tables=agent_checkpoints,agent_writes"
    if form == "copy":
        store += "&copy=1"
    stored = file.read_bytes()
    if form == "profile":
        config = tmp_path / "ckpt.toml"
        config.write_text(
            f'[stores.own]\nurl = "sqlite:///{file}"\ntables = "agent_checkpoints,agent_writes"\n'
        )
        answer = ckpt("--config", config, "-s", "own", "threads", "list", "-o", "json")
        assert [one["thread_id"] for one in answer.json] == [THREAD]
    assert without_sizes(answers(store)) == without_sizes(before)
    if form == "parameter":
        check_only_read(store, "tables with other names")
        check_copied(store, tmp_path / "copy.db")
        missing = ckpt("-s", f"sqlite:///{file}?tables=agent_checkpoints,one", "du")
        assert (missing.code, "no table 'one'" in missing.err) == (4, True)
    assert file.read_bytes() == stored


def without_sizes(found: Any) -> Any:
    """Answers without what depends on the types and names of columns, and on the time."""
    if isinstance(found, list):
        return [without_sizes(one) for one in found]
    if isinstance(found, dict):
        left_out = ("bytes", "size", "store", "sources")
        return {name: without_sizes(one) for name, one in found.items() if name not in left_out}
    return found
