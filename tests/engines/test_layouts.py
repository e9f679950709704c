"""Layouts are told by what is stored: others are refused, and what no saver makes is only read."""

import re
from pathlib import Path
from typing import Any

import pytest

from ckpt_backends.testing.harness import Harness
from tests.engines.answers import check_damaged, items_of, refuses, succeeds, without
from tests.kit.agents.steps import fill, talk
from tests.kit.command import ckpt, later
from tests.kit.harness.mongodb import Place
from tests.kit.harness.sql import SqlHarness
from tests.kit.harness.three_table import connected
from tests.kit.savers.redis_threads import client

ENGINES = pytest.mark.engines
TYPED = """CREATE TABLE checkpoints (thread_id text, checkpoint_ns text, checkpoint text,
    metadata jsonb);
CREATE TABLE checkpoint_blobs (thread_id text, checkpoint_ns text, channel text, type text,
    blob bytea);
CREATE TABLE checkpoint_writes (thread_id text, checkpoint_ns text, checkpoint_id text,
    task_id text, idx int, channel text, type text, blob bytea)"""
LESS = "CREATE TABLE checkpoints (thread_id text, checkpoint_id text)"


def plant(url: str, planted: str) -> None:
    """Run statements of SQL or a command of Redis, or fill a collection of MongoDB."""
    if url.startswith("redis"):
        client(url).execute_command(*planted.split())
    elif url.startswith("mongodb"):
        if planted:
            Place(url).database[planted].insert_one({"name": "x"})
    else:
        with connected(url) as execute:
            for statement in planted.split(";"):
                execute(statement, [])


@pytest.mark.parametrize(
    ("server", "planted", "says"),
    [
        ("postgres", "SELECT 1", "no tables at all"),
        ("postgres", "CREATE TABLE songs (name text)", "found songs"),
        ("postgres", "CREATE TABLE checkpoints (thread_id text, thread_ts text)", "thread_ts"),
        ("postgres", LESS, "missing checkpoints."),
        ("postgres", TYPED, "checkpoints.checkpoint of type jsonb"),
        ("mysql", "SELECT 1", "no tables at all"),
        ("mysql", "CREATE TABLE songs (name text)", "found songs"),
        ("mysql", LESS, "missing checkpoints."),
        ("mongodb", "", "is empty"),
        ("mongodb", "songs", "found 'songs'"),
        ("redis", "PING", "is empty"),
        ("redis", "SET cache:1 x", "found other keys, such as 'cache:1'"),
        ("redis", "HSET checkpoint:t:1 checkpoint {} parent_ts 0", "early 2024"),
        ("redis", "SET checkpoint:t x", "no checkpoints"),
        ("redis", "HSET lg:threads something else", "no checkpoints"),
    ],
)
def test_what_is_no_store_is_told_with_what_was_found(
    request: pytest.FixtureRequest, server: str, planted: str, says: str
) -> None:
    url = request.getfixturevalue(f"{server}_url")
    plant(url, planted)
    refuses(url, "threads", "list", says=says)


@pytest.mark.parametrize(
    ("place", "other"),
    [
        ("postgres", "postgres-shallow"),
        ("mysql", "mysql-shallow"),
        ("mongodb", "kaflow"),
        ("three-table", "three-table-latest"),
    ],
    indirect=["place"],
)
def test_a_layout_that_is_not_there_is_refused(place: Harness, other: str) -> None:
    talk(place.kept_saver, "trip")
    url = place.url if "://" in place.url else f"sqlite:///{place.url}"
    ckpt("-s", f"{url}?layout={place.name}", "threads", "list", code=0)
    refuses(f"{url}?layout={other}", "threads", "list", says=f"it holds '{place.name}'")


TAGGED = "ALTER TABLE checkpoints ALTER org_id DROP DEFAULT; CREATE TABLE checkpoint_tags (n text)"
CHARS = "org_id CHAR(36) NOT NULL DEFAULT 'x'"
WRITES = """CREATE TABLE writes (thread_id TEXT NOT NULL, checkpoint_ns TEXT NOT NULL DEFAULT '',
    checkpoint_id TEXT NOT NULL, task_id TEXT NOT NULL, idx INTEGER NOT NULL,
    channel TEXT NOT NULL, type TEXT, value BLOB, task_path TEXT NOT NULL DEFAULT '',
    org TEXT NOT NULL, PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id, task_id, idx))"""


@pytest.mark.parametrize(
    ("place", "planted", "saver", "says"),
    [
        (
            "postgres",
            f"ALTER TABLE checkpoints ADD org_id uuid NOT NULL DEFAULT gen_random_uuid(); {TAGGED}",
            " or later, with extra column 'org_id' and extra table 'checkpoint_tags'",
            "column 'org_id' of 'checkpoints'",
        ),
        (
            "postgres",
            f"ALTER TABLE checkpoints ADD org_id text; {TAGGED}",
            " or later, with extra column 'org_id' and extra table 'checkpoint_tags'",
            "': unknown column checkpoints.org_id",
        ),
        (
            "sqlite",
            f"ALTER TABLE writes RENAME TO old; {WRITES}; DROP TABLE old;"
            "CREATE TABLE checkpoint_tags (tag)",
            ", with extra column 'org' and extra table 'checkpoint_tags'",
            "column 'org' of 'writes' must have a value, and ckpt does not know it",
        ),
        *(
            pytest.param(name, f"ALTER TABLE {table} ADD x text", "", f"{table}.x", marks=ENGINES)
            for name, table in (("kagent", "lg_checkpoint"), ("supabase", "langgraph_checkpoints"))
        ),
        (
            "mysql",
            f"ALTER TABLE checkpoint_writes ADD {CHARS}; ALTER TABLE checkpoints ADD {CHARS};"
            "ALTER TABLE checkpoint_writes ALTER org_id DROP DEFAULT;"
            "ALTER TABLE checkpoints ALTER org_id DROP DEFAULT",
            ", with extra column 'org_id'",
            "column 'org_id' of 'checkpoints', 'checkpoint_writes' must have a value",
        ),
    ],
    indirect=["place"],
)
def test_own_columns_are_only_read(place: Harness, planted: str, saver: str, says: str) -> None:
    talk(place.kept_saver, "trip")
    plant(place.url, planted)
    assert items_of(place.url, "trip") == ["in trip", "from a", "from b"]
    (found,) = ckpt("-s", place.url, "stores", "-o", "json").json
    assert found["saver"].endswith(saver)
    for change in (
        *(["copy", "trip@head", "--as", "new", "--yes"], ["threads", "delete", "trip", "--yes"]),
        ["erase", "trip", "--dry-run"],
    ):
        assert "`ckpt copy THREAD --to STORE`" in refuses(place.url, *change, says=says).err


@pytest.mark.parametrize(
    ("place", "table", "column"),
    [
        ("three-table", "checkpoint_blobs", "type"),
        pytest.param("kagent", "lg_checkpoint_write", "value_type", marks=ENGINES),
        pytest.param("supabase", "langgraph_checkpoint_writes", "write", marks=ENGINES),
    ],
    indirect=["place"],
)
def test_tables_without_what_is_needed_are_refused(place: Harness, table: str, column: str) -> None:
    talk(place.kept_saver, "trip")
    plant(place.url, f"ALTER TABLE {table} DROP COLUMN {column}")
    refuses(place.url, "threads", "list", says=f"missing {table}.{column}")


@ENGINES
@pytest.mark.parametrize(
    ("place", "table", "body"),
    [
        ("postgres", "checkpoints", '{"channel_versions": 3}'),
        ("kagent", "lg_checkpoint", "abcde"),
        ("supabase", "langgraph_checkpoints", "[]"),
        ("supabase", "langgraph_checkpoints", '{"type": "msgpack", "data": "abcde"}'),
    ],
    indirect=["place"],
)
def test_a_body_of_no_saver_ends_no_command(place: Harness, table: str, body: str) -> None:
    talk(place.kept_saver, "trip", "other")
    plant(place.url, f"UPDATE {table} SET checkpoint = '{body}' WHERE thread_id = 'trip'")
    for words in (["threads", "list"], ["history", "trip"], ["show", "trip", "--raw"]):
        succeeds(place.url, *words)
    found = ckpt("-s", place.url, "doctor", "--deep", "-o", "json").out
    assert ("body-unreadable" in found) or (place.name == "postgres")
    check_damaged(place.url, step=5)


@ENGINES
@pytest.mark.parametrize("place", ["supabase"], indirect=True)
def test_a_job_that_removes_old_rows_does_not_take_a_new_head_for_one(place: SqlHarness) -> None:
    talk(place.kept_saver, "trip")
    begun = place.run("SELECT now()")
    made = ckpt("-s", place.url, "rollback", "trip", "~1", "--yes", "-o", "json").json
    query = "SELECT created_at FROM langgraph_checkpoints WHERE checkpoint_id = %s"
    assert place.run(query, made["checkpoint_id"]) > begun


@ENGINES
@pytest.mark.parametrize("place", ["kagent", "supabase"], indirect=True)
def test_langgraphs_tables_beside_others_are_chosen_by_layout(place: Harness) -> None:
    talk(place.kept_saver, "theirs")
    fill(place.url, "of langgraph")
    for url, thread_id in (
        (place.url, "of langgraph"),
        (f"{place.url}?layout={place.name}", "theirs"),
    ):
        (found,) = ckpt("-s", url, "threads", "list", "-o", "json").json
        assert found["thread_id"] == thread_id


# The saver's tables under names that an application gave them

QUESTIONS = (
    *(["threads", "list"], ["show", "trip"], ["show", "trip", "--tree"], ["history", "trip"]),
    *(["diff", "trip@~2", "trip"], ["grep", "from"], ["replay", "trip"]),
)
CHANGES = (
    *(["rollback", "trip", "--steps", "1"], ["fork", "trip", "head"]),
    *(["threads", "delete", "trip"], ["purge", "--older-than", "0s"]),
)
REASON = "tables with other names"
OWN = {
    "sqlite": ("Agent Checkpoints", "agent_writes"),
    "postgres": ("Agent Checkpoints", "agent_values", "agent_writes"),
}


def answers(store: str) -> list[Any]:
    """What is asked, without what depends on the types and names of columns, and on the time."""
    varying = ("bytes", "size", "free", "store", "sources")
    return [without(succeeds(store, *words, "-o", "json").json, *varying) for words in QUESTIONS]


@pytest.mark.parametrize("place", ["sqlite", *later("postgres")], indirect=True)
def test_tables_with_other_names(place: Harness, tmp_path: Path) -> None:
    talk(place.kept_saver, "trip")
    before, own = answers(place.url), OWN[place.name]
    usual = {"sqlite": ("checkpoints", "writes")}.get(
        place.name, ("checkpoints", "checkpoint_blobs", "checkpoint_writes")
    )
    with connected(place.url) as execute:
        for name, new in zip(usual, own, strict=True):
            execute(f'ALTER TABLE {name} RENAME TO "{new}"', [])
        if place.name == "sqlite":
            # A table of the application that has the saver's name.
            execute("CREATE TABLE checkpoints (id int)", [])
    url = place.url if "://" in place.url else f"sqlite:///{place.url}"
    listed = ",".join(own)
    store = f"{url}?tables={listed.replace(' ', '%20')}"
    assert answers(store) == before
    if place.name == "sqlite":
        assert answers(f"{store}&copy=1") == before
    else:
        assert "found 'Agent Checkpoints', agent_values" in ckpt("-s", url, "du").err
    config = tmp_path / "ckpt.toml"
    config.write_text(f'[stores.own]\nurl = "{url}"\ntables = "{listed}"\n')
    ckpt("--config", config, "-s", "own", "show", "trip", code=0)
    assert f"note: ckpt only reads this store: {REASON}" in ckpt("-s", store, "show", "trip").err
    for words in CHANGES:
        refuses(store, *words, "--yes", says=f"': {REASON}\nhint: ckpt only reads it; `ckpt copy")
    # The hint helps: the copy goes on.
    target = tmp_path / "copy.db"
    succeeds(store, "copy", "trip", "--to", target, "--create", "--yes")
    ckpt("-s", target, "rollback", "trip", "--steps", "1", "--yes", code=0)
    other = re.sub(r"Agent[^,]*", "one", store)
    refuses(other, "du", says="no table 'one'")
    made = ("copy", "trip", "--to", other, "--create", "--dry-run")
    refuses(target, *made, says="cannot make tables with other names")
    refuses(f"{url}?tables=agent_writes", "du", says=", ".join(usual), code=2)
