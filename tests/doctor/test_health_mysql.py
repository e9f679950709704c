"""Faults of MySQL: each is planted by a statement, and mended by the statement that is printed."""

from __future__ import annotations

from collections.abc import Iterator
from time import sleep

import pytest

from ckpt_backends.registry import open_store
from ckpt_backends.sql import health
from tests.backends import test_mysql
from tests.doctor.engine_health import faults, only
from tests.servers import Server, mysql_connection, mysql_database


@pytest.fixture(scope="module")
def mended_url(mysql_server: Server) -> Iterator[str]:
    """A database whose faults are mended again."""
    with mysql_database(mysql_server) as url:
        test_mysql.fill(url, "trip")
        yield url


PLANTED_ON_MYSQL = {
    "DROP INDEX checkpoint_blobs_thread_id_idx ON checkpoint_blobs": (
        "index-missing",
        "table 'checkpoint_blobs' has no index 'checkpoint_blobs_thread_id_idx' (thread_id)",
    ),
    "DROP INDEX checkpoints_checkpoint_id_idx ON checkpoints": (
        "index-missing",
        "table 'checkpoints' has no index 'checkpoints_checkpoint_id_idx' (checkpoint_id)",
    ),
    "ALTER TABLE checkpoints DROP PRIMARY KEY": (
        "index-missing",
        "table 'checkpoints' has no primary key"
        " (thread_id, checkpoint_ns_hash, checkpoint_id), which saving needs",
    ),
    "ALTER TABLE checkpoint_writes DROP COLUMN task_path": (
        "schema-old",
        "table 'checkpoint_writes' has no column 'task_path', so the saver cannot read",
    ),
    "DELETE FROM checkpoint_migrations WHERE v IN (0, 20)": (
        "schema-old",
        "'checkpoint_migrations' records migration 21, but not 0, 20",
    ),
}


@pytest.mark.engines
@pytest.mark.parametrize("planted", PLANTED_ON_MYSQL)
def test_what_a_mysql_database_lost_is_named_and_mended(mended_url: str, planted: str) -> None:
    test_mysql.run(mended_url, planted)
    found = only(mended_url)
    assert (found.code, found.detail) == PLANTED_ON_MYSQL[planted]
    test_mysql.run(mended_url, found.fix)
    assert faults(mended_url) == []


@pytest.mark.engines
def test_a_user_that_may_only_read_the_three_tables_sees_faults(mended_url: str) -> None:
    with test_mysql.user(mended_url, "SELECT") as url:
        assert faults(url) == []
        test_mysql.run(mended_url, "DROP INDEX checkpoints_thread_id_idx ON checkpoints")
        test_mysql.run(mended_url, only(url).fix)
        assert faults(url) == []


@pytest.mark.engines
@pytest.mark.parametrize("last", [4, 7, 8, 11, 14, 17, 18, 21])
def test_a_mysql_database_of_any_release_has_no_fault(
    mysql_url: str, mended_url: str, last: int
) -> None:
    test_mysql.migrated(mysql_url, last, mended_url)
    with open_store(mysql_url) as store:
        assert list(store.faults()) == []
        assert last < 17 or list(store.thread_faults("trip")) == []


@pytest.mark.engines
def test_rows_that_the_saver_does_not_find_are_named(mysql_url: str) -> None:
    test_mysql.fill(mysql_url, "o'trip", "other")
    wrong = "checkpoint_ns_hash = UNHEX(MD5('x')) WHERE thread_id = 'o''trip'"
    ((newest,),) = test_mysql.run(mysql_url, "SELECT MAX(checkpoint_id) FROM checkpoints")
    ((head, task),) = test_mysql.run(
        mysql_url,
        "SELECT checkpoint_id, task_id FROM checkpoint_writes WHERE thread_id = 'o''trip'"
        " ORDER BY checkpoint_id DESC LIMIT 1",
    )
    test_mysql.run(
        mysql_url,
        f"UPDATE checkpoints SET {wrong} AND checkpoint_id = '{head}'",
        f"UPDATE checkpoint_writes SET {wrong} AND checkpoint_id = '{head}'",
        f"UPDATE checkpoint_blobs SET {wrong} AND channel = 'items'",
        "COMMIT",
    )
    assert newest != head
    with open_store(mysql_url) as store:
        assert list(store.suspect_threads()) == ["o'trip"]
        found = list(store.thread_faults("o'trip"))
        assert list(store.thread_faults("other")) == []
    assert {one.code for one in found} == {"index-stale"}
    assert {(one.checkpoint_ns, one.checkpoint_id, one.channel, one.task_id) for one in found} == {
        ("", head, None, None),
        ("", head, None, task),
        ("", None, "items", None),
    }
    test_mysql.run(mysql_url, *(one.fix for one in found), "COMMIT")
    with open_store(mysql_url) as store:
        assert list(store.thread_faults("o'trip")) == []
        assert list(store.suspect_threads()) == []
    test_mysql.run(
        mysql_url, f"UPDATE checkpoint_blobs SET {wrong} AND channel = 'items'", "COMMIT"
    )
    with open_store(mysql_url) as store:
        assert list(store.suspect_threads()) == ["o'trip"]


@pytest.mark.engines
@pytest.mark.filterwarnings("ignore:ShallowPyMySQLSaver")
def test_what_a_shallow_mysql_database_lost_is_named(mysql_url: str) -> None:
    from langgraph.checkpoint.mysql.pymysql import ShallowPyMySQLSaver

    with mysql_connection(mysql_url) as connection:
        ShallowPyMySQLSaver(connection).setup()
    assert faults(mysql_url) == []
    for planted in (
        "DROP INDEX checkpoint_writes_thread_id_idx ON checkpoint_writes",
        "ALTER TABLE checkpoint_blobs DROP PRIMARY KEY",
        "ALTER TABLE checkpoint_writes DROP COLUMN task_path",
        "DELETE FROM checkpoint_migrations WHERE v = 3",
    ):
        test_mysql.run(mysql_url, planted)
        test_mysql.run(mysql_url, only(mysql_url).fix)
        assert faults(mysql_url) == []


@pytest.mark.engines
def test_unused_space_of_a_table_is_named(mended_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "LARGE", 1 << 12)
    fill = (
        "INSERT INTO checkpoint_writes (thread_id, checkpoint_ns_hash, checkpoint_id, task_id, idx,"
        " channel, `blob`) SELECT 'new', UNHEX(MD5('')), seq, '', 0, '', REPEAT('x', 100000)"
        " FROM seq_1_to_200"
    )
    test_mysql.run(mended_url, fill, "COMMIT")
    test_mysql.run(mended_url, "DELETE FROM checkpoint_writes WHERE thread_id = 'new'", "COMMIT")
    found = []
    for _ in range(200):
        # The server frees the pages in the background.
        if found := faults(mended_url):
            break
        sleep(0.1)
    assert [one.code for one in found] == ["space-free"]
    assert "of table 'checkpoint_writes' are unused" in found[0].detail
    assert found[0].fix == "OPTIMIZE TABLE checkpoint_writes;"
    test_mysql.run(mended_url, found[0].fix)
    assert faults(mended_url) == []
