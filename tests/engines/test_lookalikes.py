"""Servers that speak PostgreSQL's or MySQL's protocol and lack some of their features.

Most have no package that tests could install. So a proxy makes the real PostgreSQL or MariaDB
refuse what they refuse, with their error codes.
"""

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest

from ckpt_backends.mysql.database import engine_of as engine_of_mysql
from ckpt_backends.mysql.database import is_lookalike
from ckpt_backends.postgres.database import engine_of
from tests.engines.answers import COMMANDS, refuses, succeeds, without
from tests.kit.agents import steps as agent
from tests.kit.cases import cases
from tests.kit.command import ckpt, first_now
from tests.kit.harness import mysql
from tests.kit.hostile.rewriting_proxy import Rewrites, rewriting
from tests.kit.servers import Server, mysql_database, postgres_database

WRITING = [["rollback", "trip", "~1", "--yes"], ["threads", "delete", "other", "--yes"]]
REFUSE = """
    CREATE SCHEMA lookalike;
    CREATE FUNCTION lookalike.refuse(said text) RETURNS int LANGUAGE plpgsql AS
        $$ BEGIN RAISE EXCEPTION USING ERRCODE = '0A000', MESSAGE = said; END $$;
    CREATE FUNCTION lookalike.nothing(bigint) RETURNS void LANGUAGE sql AS '';
"""
_BALANCED = r"(?:[^()]|\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))*"
"""An expression with up to three levels of parentheses."""
COCKROACHDB: Rewrites = [
    (
        r"\bversion\(\)",
        "'CockroachDB CCL v25.2.0 (x86_64-pc-linux-gnu, built 2025/05/12, go1.23.7)'::text",
    ),
    # github.com/cockroachdb/cockroach/issues/86017: 42883, unknown function
    ("pg_total_relation_size", "unknown_pg_total_relation_size"),
    # pkg/sql/vtable/pg_catalog.go: "PgCatalogStats is an empty table"
    (r"JOIN pg_stats s", "JOIN (SELECT * FROM pg_stats WHERE false) s"),
    # INT is INT8, so sums are of type DECIMAL.
    (rf"COALESCE\(SUM\(({_BALANCED})\), 0\)(?!::)", r"COALESCE(SUM((\1)::numeric), 0)"),
    # github.com/cyrilgdn/terraform-provider-postgresql/issues/277: 42883 until 26.2
    ("pg_advisory_xact_lock", "unknown_pg_advisory_xact_lock"),
    # There is no LOCK TABLE: 42601, syntax error.
    ("LOCK TABLE", "LOCKED TABLE"),
]
OLD_COCKROACHDB: Rewrites = [
    *COCKROACHDB,
    # github.com/cockroachdb/cockroach/issues/87012: the mode is ignored in the extended protocol
    ("^(BEGIN.*)READ ONLY", r"\1"),
]
YUGABYTEDB: Rewrites = [
    (r"\bversion\(\)", "'PostgreSQL 11.2-YB-2.20.1.0-b0 on x86_64-pc-linux-gnu, 64-bit'::text"),
    # github.com/yugabyte/yugabyte-db/issues/7185
    (r"pg_total_relation_size\((?:c\.)?oid\)", "0"),
    # github.com/yugabyte/yugabyte-db/issues/18954
    (
        r"pg_advisory_xact_lock\((.*?)\)",
        r"lookalike.refuse('advisory locks are not yet implemented' || left(\1::text, 0))",
    ),
    # github.com/yugabyte/yugabyte-db/issues/16079
    ("LOCK TABLE.*", "SELECT lookalike.refuse('SHARE ROW EXCLUSIVE not supported yet')"),
]
SILENCED_YUGABYTEDB: Rewrites = [
    *YUGABYTEDB[:2],
    # github.com/yugabyte/yugabyte-db/issues/19974: yb_silence_advisory_locks_not_supported_error
    (r"pg_advisory_xact_lock", "lookalike.nothing"),
    ("LOCK TABLE.*", "SELECT 1"),
]
POSTGRES = {
    "cockroachdb": COCKROACHDB,
    "cockroachdb-22.1": OLD_COCKROACHDB,
    "yugabytedb": YUGABYTEDB,
    "yugabytedb-silenced": SILENCED_YUGABYTEDB,
}


def _signal(number: int, said: str) -> str:
    return f"SIGNAL SQLSTATE '42000' SET MYSQL_ERRNO = {number}, MESSAGE_TEXT = '{said}'"


def _noop(what: str) -> str:
    """The error of TiDB unless `tidb_enable_noop_functions` is on."""
    return _signal(1235, f"function {what} has only noop implementation in tidb now")


TIDB: Rewrites = [
    (r"SELECT VERSION\(\)", "SELECT '8.0.11-TiDB-v7.5.0'"),
    # github.com/pingcap/tidb/issues/34626
    ("^SET SESSION TRANSACTION READ ONLY", _noop("READ ONLY")),
    # docs.pingcap.com/tidb/stable/sql-statement-start-transaction: one characteristic only
    ("^START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY", _signal(1064, "syntax error")),
]
OLD_TIDB: Rewrites = [
    *TIDB,
    # github.com/pingcap/tidb/issues/14994
    (r"^SELECT (GET_LOCK|IS_USED_LOCK).*", _noop("get_lock")),
]
NOOP_TIDB: Rewrites = [
    TIDB[0],
    TIDB[2],
    # With tidb_enable_noop_functions, READ ONLY is accepted and ignored, and so are locks.
    ("^SET SESSION TRANSACTION READ ONLY", "SET @nothing = 1"),
    (r"^SELECT GET_LOCK.*", "SELECT 1"),
    (r"^SELECT IS_USED_LOCK.*", "SELECT NULL"),
]
VITESS: Rewrites = [
    (r"SELECT VERSION\(\)", "SELECT '8.0.30-Vitess'"),
    # github.com/vitessio/vitess/issues/3637: no options of START TRANSACTION
    ("^START TRANSACTION WITH.*", _signal(1105, "syntax error")),
    # The proxy's connection has another number than the server's.
    (r"CONNECTION_ID\(\)", "(CONNECTION_ID() + 1)"),
]
MYSQL = {"tidb": TIDB, "tidb-6.1": OLD_TIDB, "tidb-noop": NOOP_TIDB, "vitess": VITESS}


@pytest.fixture(scope="module")
def postgres_filled(postgres_server: Server) -> Iterator[str]:
    """A PostgreSQL database that is only read."""
    with postgres_database(postgres_server) as url:
        agent.fill(url, "trip", "other")
        with psycopg.connect(url, autocommit=True) as admin:
            admin.execute(REFUSE.encode())
        yield url


@pytest.fixture(scope="module")
def mysql_filled(mysql_server: Server) -> Iterator[str]:
    """A MariaDB database that is only read."""
    with mysql_database(mysql_server, "COLLATE utf8mb4_bin") as url:
        mysql.fill(url, "trip", "other", exact=True)
        yield url


def same_answers(url: str, other: str, name: str) -> None:
    for words in (one for one in COMMANDS if one != ["stores"]):
        answers = []
        for one in (url, other):
            answer = succeeds(one, *words, "-o", "json")
            password = urlsplit(one).password
            printed = one.replace(f":{password}@", ":***@") if password else one
            told = json.loads(answer.out.replace(printed, "URL"))
            answers.append(without(told, "size", "free"))  # Not every engine reports these.
        assert answers[0] == answers[1], words
    info = described(other)
    enforced = "enforced_read_only" in info["capabilities"]
    assert enforced is (name in {"cockroachdb", "yugabytedb", "yugabytedb-silenced"})
    assert enforced is not any("read-only" in note for note in info["notes"])
    assert "enforced_read_only" in described(url)["capabilities"]


def refuses_changes(url: str) -> None:
    for words in WRITING:
        refuses(url, *words, says="ckpt reads this store")


def changes(url: str) -> None:
    succeeds(url, *WRITING[0])
    succeeds(url, "undo", "trip", "--yes")


def described(url: str) -> Any:
    (found,) = ckpt("-s", url, "stores", "-o", "json").json
    return found


@pytest.mark.in_ci("cockroachdb")
@pytest.mark.parametrize("name", first_now(POSTGRES))
def test_what_speaks_postgresqls_protocol(postgres_filled: str, name: str) -> None:
    with rewriting(postgres_filled, POSTGRES[name]) as url:
        same_answers(postgres_filled, url, name)
        assert described(url).get("size") is None
        refuses_changes(url)
    with rewriting(postgres_filled, []) as url:  # It is the locks that are missing.
        changes(url)


@pytest.mark.in_ci("vitess")
@pytest.mark.parametrize("name", first_now(MYSQL))
def test_what_speaks_mysqls_protocol(mysql_filled: str, name: str) -> None:
    with rewriting(mysql_filled, MYSQL[name]) as url:
        same_answers(mysql_filled, url, name)
        if name != "tidb":
            refuses_changes(url)
            return
        # TiDB has named locks, so checkpoints can be added. It does not lock ranges: "Differences
        # from MySQL InnoDB" in docs.pingcap.com/tidb/stable/pessimistic-transaction
        changes(url)
        refuses(url, *WRITING[1], says="TiDB 7.5.0 (MySQL 8.0.11) may not have")


@cases(
    "version engine",
    (
        "PostgreSQL 15.5 (Debian 15.5-0+deb12u1) on x86_64",
        "PostgreSQL 15.5 (Debian 15.5-0+deb12u1)",
    ),
    ("CockroachDB CCL v22.2.17 (aarch64, built 2023/11/20 16:09:42)", "CockroachDB CCL v22.2.17"),
    ("PostgreSQL 15.2-YB-2.25.0.0-b0 on x86", "YugabyteDB 2.25.0.0-b0 (PostgreSQL 15.2)"),
    ("", ""),
)
def test_the_engine_is_named_as_what_it_is(version: str, engine: str) -> None:
    assert engine_of(version) == engine


@cases(
    "version engine",
    ("8.0.36-0ubuntu0.22.04.1", "MySQL 8.0.36-0ubuntu0.22.04.1"),
    ("10.11.18-MariaDB-0+deb12u1", "MariaDB 10.11.18"),
    ("8.0.30-Vitess", "Vitess (MySQL 8.0.30)"),
    ("8.0.11-TiDB-v7.5.0", "TiDB 7.5.0 (MySQL 8.0.11)"),
    ("5.7.25-OceanBase seekdb-v1.4.0.0", "OceanBase seekdb 1.4.0.0 (MySQL 5.7.25)"),
)
def test_the_mysql_engine_is_named_as_what_it_is(version: str, engine: str) -> None:
    assert engine_of_mysql(version) == engine
    assert is_lookalike(engine) is not engine.startswith(("MySQL", "MariaDB"))
