"""What is erased from a server is in none of its rows, and what it may still hold is named."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from ckpt_backends.testing.harness import Harness
from tests.erase.canary import (
    CANARY,
    OTHER,
    THREAD,
    erase,
    fill,
    relation_files,
    still_there,
    table_files,
)
from tests.kit.command import ckpt
from tests.kit.harness.dynamodb import DynamoDbHarness
from tests.kit.harness.mysql import MySQLHarness
from tests.kit.harness.postgres import PostgresHarness
from tests.kit.harness.redis import RedisHarness
from tests.kit.opening import empty_store

pytestmark = pytest.mark.engines


def place_of(kind: type[Harness]) -> Any:
    """Return a fixture that opens an empty store of a layout."""

    @pytest.fixture
    def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Harness]:
        with empty_store(kind, request, tmp_path) as harness:
            yield harness

    return place


postgres = place_of(PostgresHarness)
mysql = place_of(MySQLHarness)
dynamodb = place_of(DynamoDbHarness)


@pytest.fixture
def redis(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RedisHarness]:
    """A server that writes an append-only file and a snapshot, which is not compressed."""
    with empty_store(RedisHarness, request, tmp_path) as harness:
        settings = {"appendonly": "yes", "save": "3600 1", "rdbcompression": "no"}
        for name, value in settings.items():
            harness.client.config_set(name, value)
        yield harness


def test_postgres_rewrites_its_tables(postgres: PostgresHarness) -> None:
    rows = fill(postgres)
    assert CANARY.encode() in relation_files(postgres.url)
    remains = erase(postgres.url, rewrite=True)
    assert 'VACUUM (FULL, ANALYZE) "public"."checkpoints"' in remains.done
    assert len(remains.done) == 4
    assert still_there(remains) == []
    assert CANARY.encode() not in relation_files(postgres.url)
    assert postgres.rows(OTHER) == rows
    assert {"write-ahead log", "backups"} <= {one.place for one in remains.places}


def test_postgres_names_what_it_does_not_overwrite(postgres: PostgresHarness) -> None:
    fill(postgres)
    assert ckpt("-s", postgres.url, "purge", "--match", THREAD, "--dry-run").code == 0
    postgres.connection.execute('CREATE TABLE "Runs.2" (thread_id text)')
    slot = f"slot_{postgres.connection.info.dbname.replace('-', '_')}"
    postgres.connection.execute("SELECT pg_create_physical_replication_slot(%s)", [slot])
    try:
        remains = erase(postgres.url)
    finally:
        postgres.connection.execute("SELECT pg_drop_replication_slot(%s)", [slot])
    assert remains.places[0].reason.startswith("Runs.2: ")
    assert "replication slots" in {one.place for one in remains.places}
    assert still_there(remains) == ["free space in tables and indexes"]


def test_postgres_names_what_older_transactions_see(postgres: PostgresHarness) -> None:
    fill(postgres)
    with psycopg.connect(postgres.url) as reader:
        reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        reader.execute("SELECT 1 FROM pg_class").fetchone()
        remains = erase(postgres.url, rewrite=True)
    assert 'table "public"."checkpoints"' in still_there(remains)
    assert CANARY.encode() in relation_files(postgres.url)


def test_mysql_rewrites_its_tables(mysql: MySQLHarness) -> None:
    rows = fill(mysql)
    assert CANARY.encode() in table_files(mysql.url)
    remains = erase(mysql.url, rewrite=True)
    assert [one.partition(" TABLE ")[0] for one in remains.done] == ["OPTIMIZE"] * 3
    assert still_there(remains) == []
    assert CANARY.encode() not in table_files(mysql.url)
    assert mysql.rows(OTHER) == rows
    assert "undo, redo and doublewrite files" in {one.place for one in remains.places}


def files_of_redis(harness: RedisHarness) -> bytes:
    """Return the bytes of all files of a server."""
    folder = Path(harness.client.config_get("dir")["dir"])
    return b"".join(one.read_bytes() for one in sorted(folder.rglob("*")) if one.is_file())


def poll(is_done: Callable[[], bool]) -> None:
    """Wait until something happens that a server does in the background."""
    until = time.monotonic() + 30
    while not is_done():
        assert time.monotonic() < until
        time.sleep(0.05)


def terms_of(harness: RedisHarness) -> list[Any]:
    """Return the thread ids in all search indexes."""
    ask = harness.client.execute_command
    return [ask("FT.TAGVALS", name, "thread_id") for name in ask("FT._LIST")]


def test_redis_writes_its_files_anew(redis: RedisHarness) -> None:
    rows = fill(redis)
    redis.client.save()
    assert files_of_redis(redis).count(CANARY.encode()) > 20
    remains = erase(redis.url)
    assert CANARY not in repr(redis.fingerprint())
    assert CANARY not in repr(terms_of(redis))
    # Redis deletes the old append-only file a moment later.
    poll(lambda: CANARY.encode() not in files_of_redis(redis))
    assert redis.rows(OTHER) == rows
    assert remains.done == ("FT.DEBUG GC_FORCEINVOKE", "BGREWRITEAOF", "BGSAVE")
    assert still_there(remains) == []


def test_redis_waits_for_a_snapshot_that_is_being_written(redis: RedisHarness) -> None:
    """The garbage collector cannot start meanwhile, and does not say so."""
    fill(redis)
    redis.client.config_set("rdb-key-save-delay", 5000)
    try:
        redis.client.bgsave()
        erase(redis.url)
    finally:
        redis.client.config_set("rdb-key-save-delay", 0)
    assert CANARY not in repr(terms_of(redis))


def test_redis_names_what_the_server_refuses(redis: RedisHarness) -> None:
    fill(redis)
    refused = ["-bgrewriteaof", "-bgsave", "-config", "-ft.debug"]
    redis.client.execute_command("ACL", "SETUSER", "eraser", "on", ">x", "~*", "+@all", *refused)
    remains = erase(redis.url.replace("//", "//eraser:x@"))
    places = {one.place for one in remains.places}
    assert {"append-only file", "snapshots (RDB files)", "search indexes"} <= places
    assert remains.done == ()


def items_of(harness: DynamoDbHarness) -> str:
    """Return all items of a table, and all objects of its bucket."""
    found = [harness.client.scan(TableName=harness.table)["Items"]]
    found += [
        harness.s3.get_object(Bucket=harness.table, Key=one["Key"])["Body"].read()
        for one in harness.s3.list_objects_v2(Bucket=harness.table).get("Contents", ())
    ]
    return repr(found)


def test_dynamodb_names_what_aws_keeps(dynamodb: DynamoDbHarness) -> None:
    rows = fill(dynamodb)
    table = {"TableName": dynamodb.table}
    recovery = {"PointInTimeRecoveryEnabled": True}
    dynamodb.client.update_continuous_backups(**table, PointInTimeRecoverySpecification=recovery)
    dynamodb.client.create_backup(**table, BackupName="nightly")
    versioning = {"Status": "Enabled"}
    dynamodb.s3.put_bucket_versioning(Bucket=dynamodb.table, VersioningConfiguration=versioning)
    assert CANARY in items_of(dynamodb)
    remains = erase(dynamodb.url)
    assert CANARY not in items_of(dynamodb)
    assert dynamodb.rows(OTHER) == rows
    places = {one.place for one in remains.places}
    # The server of the tests cannot be asked about Kinesis.
    assert places == {
        *("point-in-time recovery", "backups of the table", "older versions of objects in S3"),
        *("streams in Kinesis", "storage of AWS", "backups"),
    }
