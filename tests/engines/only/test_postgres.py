"""What only PostgreSQL has: roles, schemas, time limits, poolers, values kept apart."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any
from urllib.parse import quote

import psycopg
import pytest

from ckpt_backends.errors import StoreUnavailable
from ckpt_backends.postgres.connect import connect
from ckpt_backends.registry import open_store
from ckpt_backends.url import parse_url
from tests.engines.answers import COMMANDS, items_of, refuses
from tests.kit.agents.steps import fill, role
from tests.kit.command import ckpt
from tests.kit.servers import Server, postgres_database


@pytest.fixture(scope="module")
def filled_url(postgres_server: Server) -> Iterator[str]:
    """A database that these tests only read."""
    with postgres_database(postgres_server) as url:
        fill(url, "trip", "other")
        yield url


def run(url: str, statements: str) -> list[Any]:
    with psycopg.connect(url, autocommit=True) as admin:
        found = admin.execute(statements.encode())
        return found.fetchall() if found.description else []


def test_threads_are_listed_by_a_role_that_may_read_keys_alone(filled_url: str) -> None:
    """So no body, metadata, value or write is read for it: the server would refuse."""
    keys = """
        CREATE ROLE {role} LOGIN;
        GRANT SELECT (thread_id, checkpoint_ns, checkpoint_id) ON checkpoints TO {role};
    """
    with role(filled_url, keys) as url:
        with open_store(url) as store, open_store(filled_url) as full:
            assert [*store.threads(limit=50)] == [*store.threads()] == [*full.threads()]
            assert store.thread("trip") == full.thread("trip")
        refuses(url, "threads", "list", says="permission denied")


def test_a_thread_of_which_only_values_are_left_is_deleted(postgres_url: str) -> None:
    fill(postgres_url, "trip")
    for table in ("checkpoints", "checkpoint_writes"):
        run(postgres_url, f"DELETE FROM {table}")
    ckpt("-s", postgres_url, "threads", "delete", "trip", "--yes", code=0)
    with open_store(postgres_url) as store:
        assert not store.threads_with_rows(["trip"])


def test_lists_of_texts_arrive_as_they_are(filled_url: str) -> None:
    odd = ["", "NULL", "null", '"', "\\", "a,b", "{}", " x ", "\n\t", "\u2003", "é\U0001f600", "a"]
    with closing(connect(parse_url(f"{filled_url}?client_encoding=latin1"))) as connection:
        for texts in [odd, ["a"], ['"', '"'], [], *([one] for one in odd)]:
            assert connection.rows("SELECT %(texts)s::text[]", {"texts": texts}) == [(texts,)]


def test_the_servers_statement_timeout_is_kept(filled_url: str) -> None:
    limit = "ALTER ROLE {role} SET statement_timeout = '77ms';"
    with role(filled_url, settings=limit) as url, open_store(url) as store:
        rows: Callable[[str], Any] = store._database.rows  # type: ignore[attr-defined]
        assert rows("SELECT current_setting('statement_timeout')") == [("77ms",)]
        with pytest.raises(StoreUnavailable, match="statement_timeout"):
            rows("SELECT pg_sleep(5)")


def test_nothing_is_prepared_and_nothing_set_outside_the_transaction(filled_url: str) -> None:
    """What a pooler in transaction mode needs."""
    with open_store(filled_url) as store:
        driver = store._database.driver  # type: ignore[attr-defined]
        for _ in range(12):
            for thread in store.threads():
                list(store.checkpoints(thread.thread_id, body=True, values=True))
                list(store.writes(thread.thread_id, values=True))
                store.size(thread.thread_id)
                next(store.checkpoints("trip", checkpoint_ns=""))
                next(store.writes("trip"))
        rows = store._database.rows  # type: ignore[attr-defined]
        assert rows("SELECT count(*) FROM pg_prepared_statements") == [(0,)]
        ((left,),) = rows("SELECT count(*) FROM pg_cursors WHERE name LIKE 'ckpt%'")
        assert left < 5, "unfinished answers leave cursors behind"
        assert rows("SHOW transaction_isolation") == [("repeatable read",)]
        assert rows("SHOW transaction_read_only") == [("on",)]
        assert rows("SHOW jit") == [("off",)]
        driver.rollback()
        assert rows("SHOW search_path") != [("pg_catalog",)]
        assert rows("SHOW lock_timeout") == [("0",)]
        assert rows("SHOW jit") == [("on",)]


@pytest.mark.engines
def test_a_schema_is_named_or_found_on_the_search_path(postgres_url: str) -> None:
    run(postgres_url, 'CREATE SCHEMA "odd %schema"')
    path = quote('-csearch_path="odd\\ %schema"')
    fill(f"{postgres_url}?options={path}", "trip")
    for parameter in (f"schema={quote('odd %schema')}", f"options={path}"):
        found = items_of(f"{postgres_url}?{parameter}", "trip")
        assert found == ["in trip", "from a", "from b"], parameter
    refuses(postgres_url, "threads", "list", says="add ?schema=odd%20%25schema to the URL")
    ckpt("-s", f"{postgres_url}?schema=none", "threads", "list", code=4)


UUIDS = """
    ALTER TABLE checkpoints ALTER thread_id TYPE uuid USING thread_id::uuid,
        ALTER checkpoint_id TYPE uuid USING checkpoint_id::uuid,
        ALTER parent_checkpoint_id TYPE uuid USING parent_checkpoint_id::uuid;
    ALTER TABLE checkpoint_blobs ALTER thread_id TYPE uuid USING thread_id::uuid;
    ALTER TABLE checkpoint_writes ALTER thread_id TYPE uuid USING thread_id::uuid,
        ALTER checkpoint_id TYPE uuid USING checkpoint_id::uuid,
        ALTER task_id TYPE uuid USING task_id::uuid;
"""
AGENT_SERVER = UUIDS + "ALTER TABLE checkpoints ADD run_id uuid, DROP COLUMN type;"
TRIP, OTHER = (f"5f0c7d3{n}-0000-4000-8000-00000000000a" for n in "12")


def test_tables_of_the_agent_server_read_as_those_of_the_saver(postgres_url: str) -> None:
    """They have ids of the type uuid, and a server compares none of these with a text."""
    fill(postgres_url, TRIP, OTHER)
    reads = [[TRIP if word == "trip" else word for word in words] for words in COMMANDS]
    reads = [words for words in reads if words[0] not in ("stores", "du")]
    reads += [["show", TRIP.upper()], ["show", "--long", "odd"], ["du", "--by", "channel"]]
    expected = [ckpt("-s", postgres_url, *words, "-o", "json") for words in reads]
    run(postgres_url, AGENT_SERVER)
    for words, as_text in zip(reads, expected, strict=True):
        answer = ckpt("-s", postgres_url, *words, "-o", "json")
        assert (answer.code, answer.out) == (as_text.code, as_text.out), (words, answer.err)
    (found,) = ckpt("-s", postgres_url, "stores", "-o", "json").json
    assert found["saver"] == "LangGraph's Agent Server"
    assert "adding" not in found["capabilities"]
    for change in (["fork", TRIP, "head"], ["threads", "delete", TRIP]):
        refuses(postgres_url, *change, "--yes", says="these tables are of LangGraph's Agent Server")
    run(postgres_url, "ALTER TABLE checkpoints ADD type text, DROP COLUMN run_id")
    refuses(postgres_url, "threads", "delete", TRIP, "--yes", says="ids of the type uuid")


def test_the_size_of_partitioned_tables_is_that_of_their_partitions(postgres_url: str) -> None:
    fill(postgres_url, "trip")
    for table in ("checkpoints", "checkpoint_blobs", "checkpoint_writes"):
        partition = """
            CREATE TABLE new_{0} (LIKE {0} INCLUDING ALL) PARTITION BY HASH (thread_id);
            CREATE TABLE {0}_0 PARTITION OF new_{0} FOR VALUES WITH (MODULUS 2, REMAINDER 0)
                PARTITION BY HASH (checkpoint_ns);
            CREATE TABLE {0}_0_0 PARTITION OF {0}_0 FOR VALUES WITH (MODULUS 1, REMAINDER 0);
            CREATE TABLE {0}_1 PARTITION OF new_{0} FOR VALUES WITH (MODULUS 2, REMAINDER 1);
            INSERT INTO new_{0} SELECT * FROM {0};
            DROP TABLE {0}; ALTER TABLE new_{0} RENAME TO {0};
        """
        run(postgres_url, partition.format(table))
    ((stored,),) = run(
        postgres_url,
        "SELECT sum(pg_total_relation_size(oid))::bigint FROM pg_class"
        " WHERE relname ~ '^checkpoint(s|_blobs|_writes)_[01]' AND relkind = 'r'",
    )
    assert stored > 3 * 8192
    with open_store(postgres_url) as store:
        assert store.describe().size == stored
    assert f" {stored}\n" in ckpt("-s", postgres_url, "metrics").out


def test_all_savers_that_wrote_a_database_are_named(postgres_url: str) -> None:
    """An older release kept no values in a body; LangGraph.js numbers the versions."""
    fill(postgres_url, "trip")
    python = "langgraph-checkpoint-postgres before 2.0.23, and 2.0.23 or later"
    javascript = f"LangGraph.js (@langchain/langgraph-checkpoint-postgres) and {python}"
    for versions, says in (("{}", python), ('{"channel_versions": {"n": 1}}', javascript)):
        run(
            postgres_url,
            f"INSERT INTO checkpoints (thread_id, checkpoint_id, checkpoint) SELECT '{versions}',"
            f" checkpoint_id, checkpoint - 'channel_values' || '{versions}'::jsonb"
            " FROM checkpoints LIMIT 1",
        )
        with open_store(postgres_url) as store:
            assert store.describe().saver == says


def test_a_collation_that_is_not_of_code_points(postgres_server: Server) -> None:
    names = ["b", "B", "a", "Ä", "a-b", "ab", "_"]
    with ExitStack() as stack:
        try:
            made = postgres_database(postgres_server, "LOCALE_PROVIDER icu ICU_LOCALE 'en-US'")
            url = stack.enter_context(made)
        except psycopg.Error:
            url = stack.enter_context(postgres_database(postgres_server, "LOCALE 'C'"))
        fill(url, *names)
        with open_store(url) as store:
            threads = list(store.threads())
            assert [one.thread_id for one in threads] == names[::-1]
            assert list(store.threads(limit=3)) == threads[:3]
            for one in threads:
                index = [found.key.checkpoint_id for found in store.checkpoints(one.thread_id)]
                assert index == sorted(index, reverse=True)
                assert one.head == index[0]


def test_ids_that_cannot_be_stored_are_not_there(filled_url: str) -> None:
    with open_store(filled_url) as store:
        for odd in ("a\0b", "\udcff", "", "x" * 5000, "'; DROP TABLE x; --", "%s"):
            assert store.thread(odd) is None
            assert (store.namespaces(odd), store.size(odd).bytes) == ([], 0)
            assert list(store.checkpoints("trip", checkpoint_ids=[odd])) == []
            assert list(store.checkpoints("trip", checkpoint_ns=f"no{odd}")) == []
            assert list(store.writes("trip", channels=[odd], values=[odd])) == []
            assert store.sources(next(store.checkpoints("trip")).key)


@pytest.mark.engines
def test_a_server_without_connections_for_more_jobs(filled_url: str) -> None:
    with role(filled_url, settings="ALTER ROLE {role} CONNECTION LIMIT 1;") as url:
        refused = refuses(url, "grep", "--jobs", "2", "from", says="too many connections")
    assert "Traceback" not in refused.err
