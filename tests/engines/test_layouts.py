"""Layouts are told by what is stored: others are refused, and what no saver makes is only read."""

import pytest

from ckpt_backends.testing.harness import Harness
from tests.kit.agents.steps import talk
from tests.kit.command import ckpt
from tests.kit.savers.mongodb import Place
from tests.kit.savers.redis_threads import client
from tests.kit.savers.three_table import connected

TYPED = """CREATE TABLE checkpoints (thread_id text, checkpoint_ns text, checkpoint text,
    metadata jsonb);
CREATE TABLE checkpoint_blobs (thread_id text, checkpoint_ns text, channel text, type text,
    blob bytea);
CREATE TABLE checkpoint_writes (thread_id text, checkpoint_ns text, checkpoint_id text,
    task_id text, idx int, channel text, type text, blob bytea)"""
EARLY = "CREATE TABLE checkpoints (thread_id text, thread_ts text)"
LESS = "CREATE TABLE checkpoints (thread_id text, checkpoint_id text)"


def plant(url: str, planted: str) -> None:
    """Run statements of SQL or a command of Redis, or fill a collection of MongoDB."""
    if url.startswith("redis"):
        client(url).execute_command(*planted.split())
    elif url.startswith("mongodb"):
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
        ("postgres", EARLY, "thread_ts"),
        ("postgres", LESS, "missing checkpoints."),
        ("postgres", TYPED, "checkpoints.checkpoint of type jsonb"),
        ("mysql", "SELECT 1", "no tables at all"),
        ("mysql", "CREATE TABLE songs (name text)", "found songs"),
        ("mysql", LESS, "missing checkpoints."),
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
    answer = ckpt("-s", url, "threads", "list")
    assert (answer.code, says in answer.err) == (4, True), answer.err


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
    assert ckpt("-s", f"{url}?layout={place.name}", "threads", "list").code == 0
    refused = ckpt("-s", f"{url}?layout={other}", "threads", "list")
    assert (refused.code, f"it holds '{place.name}'" in refused.err) == (4, True), refused.err


TAGGED = "ALTER TABLE checkpoints ALTER org_id DROP DEFAULT; CREATE TABLE checkpoint_tags (n text)"
CHARS = "org_id CHAR(36) NOT NULL DEFAULT 'x'"


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
def test_tables_with_an_own_column_are_read_and_not_changed(
    place: Harness, planted: str, saver: str, says: str
) -> None:
    talk(place.kept_saver, "trip")
    plant(place.url, planted)
    shown = ckpt("-s", place.url, "show", "trip", "-o", "json").json
    assert shown["values"]["items"] == ["in trip", "from a", "from b"]
    (found,) = ckpt("-s", place.url, "stores", "-o", "json").json
    assert found["saver"].endswith(saver)
    for change in (["copy", "trip@head", "--as", "new"], ["threads", "delete", "trip"]):
        refused = ckpt("-s", place.url, *change, "--yes")
        assert (refused.code, says in refused.err) == (4, True), refused.err
        assert "`ckpt copy THREAD --to STORE`" in refused.err
