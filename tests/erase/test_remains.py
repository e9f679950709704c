"""What is erased is in no file, row or freed block, and what may still hold it is named."""

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from redis import Redis

from ckpt_backends.app_sessions import AppSession
from ckpt_backends.changes import BACKUPS, FREED_BLOCKS, Remains, Removal
from ckpt_backends.errors import StoreChanged, Unsupported
from ckpt_backends.mongodb.engine import write as mongodb
from ckpt_backends.mysql import database as on_mysql
from ckpt_backends.open_for_writing import open_writable, open_writable_sessions
from ckpt_backends.overwriting import OldFiles, overwrite_and_remove
from ckpt_backends.postgres import database as on_postgres
from ckpt_backends.postgres.connect import Notice
from ckpt_backends.registry import open_sessions, open_store
from ckpt_backends.testing.harness import Harness
from ckpt_backends.url import parse_url
from tests.erase.person import CANARY, configure, unpacked
from tests.kit.agents.steps import graph_of
from tests.kit.cases import cases
from tests.kit.command import ckpt
from tests.kit.harness.dynamodb import DynamoDbHarness
from tests.kit.harness.langgraph_dev import DevHarness
from tests.kit.harness.mysql import MySQLHarness
from tests.kit.harness.postgres import PostgresHarness
from tests.kit.harness.redis import RedisHarness, dump
from tests.kit.harness.sqlite import SqliteHarness
from tests.kit.opening import empty_store
from tests.kit.savers.redis_threads import ContextState, fill_plain, save
from tests.kit.servers import mysql_connection

THREAD, OTHER = f"{CANARY}-thread", "neighbour"


def fill(harness: Harness) -> None:
    """Run a graph in two threads: one with the canary in all that the saver stores of it."""
    with harness.saver() as saver:
        graph = graph_of(saver)
        for thread, text in ((THREAD, CANARY), (OTHER, "harmless")):
            config = {"configurable": {"thread_id": thread}, "metadata": {"user": f"{text} user"}}
            for number in (1, 2):
                graph.invoke({"items": [f"{text} {number}"]}, config)


def erase(harness: Harness, url: str = "", *, rewrite: bool = False) -> Remains:
    """Erase the thread, and no row of its neighbour. Returns what the store says about it."""
    parsed, rows = parse_url(url or harness.url), harness.rows(OTHER)
    with open_store(parsed) as store:
        thread = store.thread(THREAD)
        assert thread is not None
        writes = store.size(THREAD).writes
    removal = Removal(THREAD, thread.last_at, thread.checkpoints, writes)
    with open_writable(parsed) as writable:
        writable.begin_erasure()
        (removed,) = writable.remove([removal])
        assert not removed.skipped
        remains = writable.erase_remains(rewrite=rewrite)
    assert harness.rows(OTHER) == rows
    return remains


def still_there(remains: Remains) -> list[str]:
    """Return the places that a later run, or one with `rewrite`, could erase."""
    return [one.place for one in remains.places if one.is_reachable or one.needs_rewrite]


def relation_files(url: str) -> bytes:
    """Return the bytes of all tables and indexes of a database, as they are on disk."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CHECKPOINT")
        ((folder, number),) = connection.execute(
            "SELECT current_setting('data_directory'), oid FROM pg_database"
            " WHERE datname = current_database()"
        ).fetchall()
    files = sorted((Path(folder) / "base" / str(number)).iterdir())
    return b"".join(one.read_bytes() for one in files)


def table_files(url: str) -> bytes:
    """Return the bytes of the files of a database's tables, as they are on disk."""
    with closing(mysql_connection(url)) as connection, connection.cursor() as cursor:
        cursor.execute("FLUSH TABLES checkpoints, checkpoint_blobs, checkpoint_writes FOR EXPORT")
        cursor.execute("SELECT CONCAT(@@datadir, DATABASE())")
        ((folder,),) = cursor.fetchall()
        found = b"".join(one.read_bytes() for one in sorted(Path(folder).glob("*.ibd")))
        cursor.execute("UNLOCK TABLES")
        return found


def place_of(kind: type[Harness]) -> Any:
    """Return a fixture that opens an empty store of a layout."""

    @pytest.fixture
    def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Harness]:
        with empty_store(kind, request, tmp_path) as harness:
            yield harness

    return place


postgres, mysql = place_of(PostgresHarness), place_of(MySQLHarness)
dynamodb, dev, sqlite = place_of(DynamoDbHarness), place_of(DevHarness), place_of(SqliteHarness)


@pytest.fixture
def redis(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RedisHarness]:
    """A server that writes an append-only file and a snapshot, which is not compressed."""
    with empty_store(RedisHarness, request, tmp_path) as harness:
        for name, value in {"appendonly": "yes", "save": "3600 1", "rdbcompression": "no"}.items():
            harness.client.config_set(name, value)
        yield harness


@pytest.mark.engines
def test_postgres_rewrites_its_tables(postgres: PostgresHarness) -> None:
    fill(postgres)
    assert CANARY.encode() in relation_files(postgres.url)
    remains = erase(postgres, rewrite=True)
    assert 'VACUUM (FULL, ANALYZE) "public"."checkpoints"' in remains.done
    assert (len(remains.done), still_there(remains)) == (4, [])
    assert CANARY.encode() not in relation_files(postgres.url)
    assert {"write-ahead log", "backups"} <= {one.place for one in remains.places}


@pytest.mark.engines
def test_postgres_names_what_it_does_not_overwrite(postgres: PostgresHarness) -> None:
    fill(postgres)
    ckpt("-s", postgres.url, "purge", "--match", THREAD, "--dry-run", code=0)
    postgres.connection.execute('CREATE TABLE "Runs.2" (thread_id text)')
    slot = f"slot_{postgres.connection.info.dbname.replace('-', '_')}"
    postgres.connection.execute("SELECT pg_create_physical_replication_slot(%s)", [slot])
    try:
        remains = erase(postgres)
    finally:
        postgres.connection.execute("SELECT pg_drop_replication_slot(%s)", [slot])
    assert remains.places[0].reason.startswith("Runs.2: ")
    assert "replication slots" in {one.place for one in remains.places}
    assert still_there(remains) == ["free space in tables and indexes"]


@pytest.mark.engines
def test_postgres_names_what_older_transactions_see(postgres: PostgresHarness) -> None:
    fill(postgres)
    with psycopg.connect(postgres.url) as reader:
        reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        reader.execute("SELECT 1 FROM pg_class").fetchone()
        remains = erase(postgres, rewrite=True)
    assert 'table "public"."checkpoints"' in still_there(remains)
    assert CANARY.encode() in relation_files(postgres.url)


@pytest.mark.engines
def test_mysql_rewrites_its_tables(mysql: MySQLHarness) -> None:
    fill(mysql)
    assert CANARY.encode() in table_files(mysql.url)
    remains = erase(mysql, rewrite=True)
    assert [one.partition(" TABLE ")[0] for one in remains.done] == ["OPTIMIZE"] * 3
    assert still_there(remains) == []
    assert CANARY.encode() not in table_files(mysql.url)
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


@pytest.mark.engines
def test_redis_writes_its_files_anew(redis: RedisHarness) -> None:
    fill(redis)
    redis.client.save()
    assert files_of_redis(redis).count(CANARY.encode()) > 20
    remains = erase(redis)
    assert CANARY not in repr(redis.fingerprint())
    assert CANARY not in repr(terms_of(redis))
    # Redis deletes the old append-only file a moment later.
    poll(lambda: CANARY.encode() not in files_of_redis(redis))
    assert remains.done == ("FT.DEBUG GC_FORCEINVOKE", "BGREWRITEAOF", "BGSAVE")
    assert still_there(remains) == []


@pytest.mark.engines
def test_redis_waits_for_a_snapshot_that_is_being_written(redis: RedisHarness) -> None:
    """The garbage collector cannot start meanwhile, and does not say so."""
    fill(redis)
    redis.client.config_set("rdb-key-save-delay", 5000)
    try:
        redis.client.bgsave()
        erase(redis)
    finally:
        redis.client.config_set("rdb-key-save-delay", 0)
    assert CANARY not in repr(terms_of(redis))


@pytest.mark.engines
def test_redis_names_what_the_server_refuses(redis: RedisHarness) -> None:
    fill(redis)
    refused = ["-bgrewriteaof", "-bgsave", "-config", "-ft.debug"]
    redis.client.execute_command("ACL", "SETUSER", "eraser", "on", ">x", "~*", "+@all", *refused)
    remains = erase(redis, redis.url.replace("//", "//eraser:x@"))
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


@pytest.mark.engines
def test_dynamodb_names_what_aws_keeps(dynamodb: DynamoDbHarness) -> None:
    fill(dynamodb)
    table = {"TableName": dynamodb.table}
    recovery = {"PointInTimeRecoveryEnabled": True}
    dynamodb.client.update_continuous_backups(**table, PointInTimeRecoverySpecification=recovery)
    dynamodb.client.create_backup(**table, BackupName="nightly")
    versioning = {"Status": "Enabled"}
    dynamodb.s3.put_bucket_versioning(Bucket=dynamodb.table, VersioningConfiguration=versioning)
    assert CANARY in items_of(dynamodb)
    remains = erase(dynamodb)
    assert CANARY not in items_of(dynamodb)
    places = {one.place for one in remains.places}
    # The server of the tests cannot be asked about Kinesis.
    assert places == {
        *("point-in-time recovery", "backups of the table", "older versions of objects in S3"),
        *("streams in Kinesis", "storage of AWS", "backups"),
    }


# Files

TEXT = b"the secret of anna"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "facts.json"
    path.write_bytes(TEXT)
    return path


def replace(path: Path) -> None:
    """Replace a file, as applications do."""
    other = path.with_suffix(".new")
    other.write_bytes(b"new")
    other.replace(path)


def test_a_removed_file_is_overwritten_unless_it_has_another_name(file: Path) -> None:
    with file.open("rb") as opened:
        assert overwrite_and_remove(file) == ()
        assert opened.read() == bytes(len(TEXT))
    file.write_bytes(TEXT)
    backup = file.with_name("backup.json")
    os.link(file, backup)
    (remaining,) = overwrite_and_remove(file)
    assert "another name" in remaining.reason
    assert backup.read_bytes() == TEXT
    assert not file.exists()


def test_a_link_is_not_followed(file: Path) -> None:
    link = file.with_name("link.json")
    link.symlink_to(file)
    with pytest.raises(OSError, match="symbolic"):
        overwrite_and_remove(link)
    assert file.read_bytes() == TEXT


def test_a_replaced_file_is_overwritten(file: Path) -> None:
    with OldFiles() as old, file.open("rb") as opened:
        old.hold(file, "facts")
        replace(file)
        # The descriptor of this test would count as a reader.
        copy = os.open(f"/proc/self/fd/{opened.fileno()}", os.O_PATH)
        opened.close()
        assert old.remains().done == ("overwrite facts",)
        assert Path(f"/proc/self/fd/{copy}").read_bytes() == bytes(len(TEXT))
        os.close(copy)
    assert file.read_bytes() == b"new"


def test_a_file_in_use_or_not_replaced_is_left(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ckpt_backends.overwriting._WAIT_SECONDS", 0.0)
    with OldFiles() as old:
        old.hold(file, "facts")
        assert old.remains() == Remains(places=(FREED_BLOCKS, BACKUPS))
    assert file.read_bytes() == TEXT
    with OldFiles() as old, file.open("rb") as opened:
        old.hold(file, "facts")
        replace(file)
        remains = old.remains()
        assert opened.read() == TEXT
    assert remains.places[0].reason == "another process has it open"
    backup = file.with_name("backup.json")
    os.link(file, backup)
    with OldFiles() as old:
        old.hold(file, "facts")
        old.hold(file.with_name("missing"), "notes")
        replace(file)
        reasons = [one.reason for one in old.remains().places]
    assert reasons[0].startswith("it cannot be overwritten: ")
    assert reasons[1].startswith("the file has another name")
    assert backup.read_bytes() == b"new"


def test_the_files_of_langgraph_dev_are_overwritten(dev: DevHarness) -> None:
    fill(dev)
    assert dev.rows(OTHER)
    url = dev.url  # to ask for it stores the files again
    names = [one.name for one in sorted(dev.path.iterdir())]
    left = dev.path / f"{names[0]}.tmp"
    left.write_bytes(CANARY.encode())
    os.utime(left, (0, 0))
    kept = [os.open(one, os.O_PATH) for one in sorted(dev.path.iterdir())]
    remains = erase(dev, url)
    assert (still_there(remains), len(remains.done)) == ([], 3)
    for one in kept:
        assert CANARY.encode() not in Path(f"/proc/self/fd/{one}").read_bytes()
        os.close(one)
    assert sorted(one.name for one in dev.path.iterdir()) == names
    assert all(CANARY.encode() not in one.read_bytes() for one in dev.path.iterdir())


@pytest.mark.parametrize("mode", ["wal", "persist"])
def test_no_file_holds_an_erased_thread(sqlite: SqliteHarness, tmp_path: Path, mode: str) -> None:
    fill(sqlite)
    sqlite.connection.execute("CREATE TABLE runs (run_id text, thread_id text)")
    sqlite.connection.execute(f"PRAGMA journal_mode = {mode}")
    sqlite.connection.execute("PRAGMA secure_delete = OFF")
    # Deleted by the application, without overwriting.
    sqlite.copy(THREAD, f"{THREAD}2")
    sqlite.connection.execute("DELETE FROM checkpoints WHERE thread_id = ?", [f"{THREAD}2"])
    sqlite.connection.execute("DELETE FROM writes WHERE thread_id = ?", [f"{THREAD}2"])
    sqlite.connection.commit()
    assert CANARY.encode() in unpacked(tmp_path)
    remains = erase(sqlite)
    assert remains.places[0].place == "other tables with thread ids"
    assert remains.places[0].reason.startswith("runs: ")
    log = ["wal_checkpoint(TRUNCATE)"] if mode == "wal" else []
    assert remains.done == ("secure_delete=ON", "VACUUM", *log)
    assert still_there(remains) == []
    assert CANARY.encode() not in unpacked(tmp_path)


def test_samples_of_keys_are_erased_too(sqlite: SqliteHarness, tmp_path: Path) -> None:
    """A SQLite with ENABLE_STAT4 keeps some keys of each index in a table."""
    fill(sqlite)
    run = sqlite.connection.execute
    run("CREATE TABLE samples (tbl, idx, neq, nlt, ndlt, sample)")
    run("INSERT INTO samples VALUES ('writes', 'i', '1', '1', '1', ?)", [CANARY.encode()])
    sqlite.connection.commit()
    run("PRAGMA writable_schema = ON")
    run(
        "UPDATE sqlite_master SET name = 'sqlite_stat4', tbl_name = 'sqlite_stat4',"
        " sql = replace(sql, 'samples', 'sqlite_stat4') WHERE name = 'samples'"
    )
    run("PRAGMA writable_schema = RESET")
    sqlite.connection.commit()
    assert "ANALYZE" in erase(sqlite).done
    assert CANARY.encode() not in unpacked(tmp_path)


# What servers say about their logs and replicas


class Answers:
    """A connection that answers queries by a part of their text."""

    def __init__(self, answers: Mapping[str, list[tuple[Any, ...]]]) -> None:
        self._answers = answers

    def attempt(self, query: str, **_: object) -> list[tuple[Any, ...]] | None:
        return next((rows for part, rows in self._answers.items() if part in query), None)


@cases(
    "answers places",
    (
        {"per_table": [(0,)], "log_bin": [(1,)], "SLAVE": [(1,), (2,)], "histogram": [(1,)]},
        ["shared tablespace (ibdata1)", "binary log", "replicas", "histograms of columns"],
    ),
    ({}, ["binary log", "replicas"]),
)
def test_places_of_mysql(answers: Any, places: list[str]) -> None:
    connection: Any = Answers(answers)
    found = [one.place for one in on_mysql._elsewhere(connection)]
    assert found == ["undo, redo and doublewrite files", *places]


@cases(
    "answers archive places",
    (
        {"archive": [("on",)], "stat_replication": [(2,)], "slots": [(1,)]},
        "archive_mode: on",
        ["standby servers", "replication slots"],
    ),
    ({}, "archive_mode: unknown", ["standby servers", "replication slots"]),
)
def test_places_of_postgres(answers: Any, archive: str, places: list[str]) -> None:
    connection: Any = Answers(answers)
    log, *others = on_postgres._elsewhere(connection)
    assert archive in log.reason
    assert [one.place for one in others] == places


@cases(
    "hello places",
    ({}, []),
    (
        {"setName": "rs0", "hosts": ["a", "b"], "passives": ["c"]},
        ["oplog", "other members of the replica set"],
    ),
    ({"msg": "isdbgrid"}, ["oplog", "shards"]),
)
def test_places_of_mongodb(hello: dict[str, Any], places: list[str]) -> None:
    found = [one.place for one in mongodb._elsewhere(hello)]
    assert found == ["journal and older versions of documents", *places]


@cases(
    "said expected",
    ("0 dead row versions cannot be removed yet.", ""),
    ("1 dead row version cannot be removed yet.", "1 removed rows"),
    ("tuples: 3 removed, 4 remain, 2 are dead but not yet removable", "2 removed rows"),
    ("0 Zeilen können noch nicht entfernt werden", "does not say"),
)
def test_rows_that_vacuum_keeps(said: str, expected: str) -> None:
    found = on_postgres._still_seen([Notice(said, is_warning=False)])
    assert expected in found
    assert bool(found) == bool(expected)


# Sessions of an application


@pytest.fixture
def url(redis_url: str) -> str:
    for user, session in (("ann", "s1"), ("ann", "s2"), ("bob", "s1")):
        save(redis_url, ContextState(session, user, "trip"))
    with Redis.from_url(redis_url) as client:
        client.set("research_context:ann:other", "no session")
    return redis_url


def sessions_of(url: str, user: str) -> list[AppSession]:
    with open_sessions(parse_url(url)) as sessions:
        return [one for one in sessions.sessions() if one.user_id == user]


@pytest.mark.engines
def test_the_sessions_of_a_user_are_removed(url: str) -> None:
    before = dump(url)
    found = sessions_of(url, "ann")
    with open_writable_sessions(parse_url(url)) as writable:
        # A list has sessions without their fields.
        assert writable.remove([found[0], found[1]._replace(fields={})]) == 2
        places = {one.place for one in writable.erase_remains().places}
    assert "memory of a running application" in places
    gone = {b"research_context:ann:s1", b"research_context:ann:s2"}
    assert dump(url) == {name: one for name, one in before.items() if name not in gone}


@pytest.mark.engines
def test_a_changed_session_stays_with_all_others(url: str) -> None:
    found, name = sessions_of(url, "ann"), "research_context:ann:s1"
    with Redis.from_url(url) as client:
        for change in (
            lambda: save(url, ContextState("s1", "ann", "trip", current_step=2)),
            lambda: client.delete(name),
            lambda: client.set(name, "no session"),
        ):
            change()
            before = dump(url)
            with open_writable_sessions(parse_url(url)) as writable, pytest.raises(StoreChanged):
                writable.remove(found)
            assert dump(url) == before


@pytest.mark.engines
def test_a_store_without_sessions(sample: str) -> None:
    with pytest.raises(Unsupported, match="no sessions"):
        open_writable_sessions(parse_url(str(sample)))


@pytest.mark.engines
def test_sessions_of_a_cluster(cluster_url: str) -> None:
    from redis.cluster import RedisCluster

    with RedisCluster.from_url(cluster_url) as client:
        for number in range(4):
            session = {"session_id": f"s{number}", "user_id": "ann"}
            client.set(f"my_context:ann:s{number}", json.dumps(session))
        client.set("other", "kept")
        with open_writable_sessions(parse_url(cluster_url)) as writable:
            assert writable.remove(sessions_of(cluster_url, "ann")) == 4
            assert writable.erase_remains().places
        assert list(client.scan_iter()) == [b"other"]


@pytest.mark.engines
def test_sessions_go_with_their_thread_or_their_user(
    redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    fill_plain(redis_url, "trip", "other", "third")
    save(redis_url, ContextState("s1", CANARY, "trip"))
    save(redis_url, ContextState("s2", "someone", "other"))
    before = dump(redis_url)
    save(redis_url, ContextState("s3", CANARY, None))  # type: ignore[arg-type]
    configure(tmp_path, redis_url)
    words = ("-s", "a", "erase", "--subject", CANARY, "--receipt", "receipt.json", "--yes")
    found = ckpt(*words, "-o", "json").json
    numbers = {one["kind"]: one["items"] for one in found["places"] if one["state"] == "erased"}
    assert numbers == {"sessions": 2, "threads": 1}
    left = dump(redis_url)
    assert CANARY not in repr(left)
    assert left == {name: one for name, one in before.items() if name in left}
    verify = ("-s", "a", "erase", "--verify", "receipt.json")
    ckpt(*verify, code=0)
    save(redis_url, ContextState("s4", "new", "trip"))
    ckpt(*verify, code=1)
    ckpt("-s", "a", "erase", "other", "--yes", code=0)
    assert "someone" not in repr(dump(redis_url))
    assert "third" in repr(dump(redis_url))
