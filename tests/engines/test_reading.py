"""What reading promises of each engine: threads are listed from indexes, and nothing is written."""

import json
import random
import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
import pytest
from langgraph.checkpoint.sqlite import SqliteSaver

from ckpt_backends.model import CheckpointKey, ThreadBounds
from ckpt_backends.postgres.database import PostgresDatabase
from ckpt_backends.redis.engine.connection import READING
from ckpt_backends.registry import open_store
from ckpt_backends.sqlite.database import OpenedDatabase
from ckpt_backends.testing.harness import Harness
from ckpt_cli.core.tasks import is_surely_done
from tests.engines.answers import COMMANDS, PLANNED, items_of, refuses, succeeds, threads_of
from tests.kit.agents.steps import config_of, fill, graph_of, role, saver_of, talk
from tests.kit.command import ckpt
from tests.kit.harness import mysql
from tests.kit.harness.three_table import connected
from tests.kit.heads import CHANNELS, some_checkpoint

REDIS = ["redis", "redis-hash", "redis-plain", "valkey"]


OWNERS = {"kagent": ("user_id", "user_id"), "valkey-agentcore": ("actor_id", "actor")}
"""By layout, what names an owner in a config, and in a URL."""


@pytest.mark.engines
@pytest.mark.parametrize(
    "place", ["kagent", "agentcore", "agentcore on snapshots", "valkey-agentcore"], indirect=True
)
def test_a_thread_of_two_owners_needs_the_name_of_one(place: Harness) -> None:
    key, parameter = OWNERS.get(place.name, ("actor_id", "actor"))
    graph, configs = graph_of(place.kept_saver), dict[str, Any]()
    for owner in ("ann", "bob:b"):
        configs[owner] = config_of("both", **{key: owner})
        graph.invoke({"items": [f"of {owner}"]}, configs[owner])
    for words in (["threads", "list"], ["threads", "delete", "both", "--yes"]):
        assert f"?{parameter}=NAME" in refuses(place.url, *words, says="belongs to several").err
    joint = "&" if "?" in place.url else "?"
    ann, bob = (f"{place.url}{joint}{parameter}={quote(one)}" for one in configs)
    assert (items_of(ann, "both")[0], items_of(bob, "both")[0]) == ("of ann", "of bob:b")
    before = ckpt("-s", ann, "show", "both", "--writes", "--metadata", "-o", "json").json
    succeeds(bob, "rollback", "both", "--steps", "1", "--yes")
    assert [graph.get_state(one).next for one in configs.values()] == [(), ("b",)]
    succeeds(bob, "threads", "delete", "both", "--yes")
    # Of a session, the API of AgentCore still tells the actor when its events are gone.
    for url in (ann,) if place.name.startswith("agentcore") else (ann, place.url):
        assert threads_of(url) == ["both"]
        shown = ckpt("-s", url, "show", "both", "--writes", "--metadata", "-o", "json")
        assert shown.json == before


@pytest.mark.parametrize(
    ("place", "table"),
    [("sqlite", "checkpoints"), ("postgres", "public.checkpoints"), ("mysql", "checkpoints")],
    indirect=["place"],
)
def test_the_engine_itself_refuses_to_write(place: Harness, table: str) -> None:
    talk(place.kept_saver, "trip")
    with open_store(place.url) as store:
        rows: Any = store._database.rows  # type: ignore[attr-defined]
        with pytest.raises(Exception, match=r"(?i)read[- ]?only"):
            rows(f"DELETE FROM {table}", ())


LOCKED = {
    "postgres": ("LOCK TABLE checkpoints IN ACCESS EXCLUSIVE MODE", "_LOCK_TIMEOUT", "50ms"),
    "mysql": ("LOCK TABLES checkpoints WRITE", "_LOCK_SECONDS", 1),
}


@pytest.mark.parametrize("place", LOCKED, indirect=True)
def test_a_locked_table_says_so(place: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    statement, limit, seconds = LOCKED[place.name]
    talk(place.kept_saver, "trip")
    monkeypatch.setattr(f"ckpt_backends.{place.name}.connect.{limit}", seconds)
    with connected(place.url) as execute:
        execute(statement, [])
        refuses(place.url, "threads", "list", says="holds a lock")


def answers_all(place: Harness, url: str, *more: list[str]) -> None:
    """Run every command as a user who may only read, who cannot change anything."""
    before = place.fingerprint()
    for words in [*COMMANDS, *more]:
        succeeds(url, *words)
    refuses(url, "rollback", "trip", "~1", "--yes", says="permission denied")
    assert place.fingerprint() == before


@pytest.mark.engines
@pytest.mark.parametrize("place", ["postgres", "mysql"], indirect=True)
def test_a_user_that_may_only_select_can_run_every_command(place: Harness) -> None:
    talk(place.kept_saver, "trip", "other")
    with role(place.url) if place.name == "postgres" else mysql.user(place.url, "SELECT") as url:
        answers_all(place, url, *PLANNED, ["grep", "from", "--jobs", "2"])


@pytest.mark.parametrize("place", ["postgres", "mysql"], indirect=True)
def test_a_user_that_may_not_select_is_told_what_is_lacking(place: Harness) -> None:
    talk(place.kept_saver, "trip")
    none = role(place.url, "CREATE ROLE {role} LOGIN;")
    with none if place.name == "postgres" else mysql.user(place.url, "INSERT") as url:
        refuses(url, "threads", "list", says="SELECT")


@pytest.mark.parametrize("place", REDIS, indirect=True)
def test_only_commands_that_read_are_sent(place: Any) -> None:
    """The user has the right to these, and a time to live stays as it was."""
    talk(place.kept_saver, "trip", "other")
    for name in place.client.scan_iter():
        place.client.expire(name, 3600)
    rights = ["+@read", "+@connection", "+info", "-@write"]
    if place.server == "redis_stack":
        rights += ["+json.get", "+json.mget", "+json.type", "+json.debug"]
        rights += ["+ft._list", "+ft.info", "+ft.aggregate", "+ft.cursor"]
    place.client.execute_command("ACL", "SETUSER", "reader", "on", ">pw", "~*", *rights)
    place.client.config_resetstat()
    answers_all(place, place.url.replace("://", "://reader:pw@"))
    sent = {one.removeprefix("cmdstat_").upper() for one in place.client.info("commandstats")}
    assert "KEYS" not in sent
    # These are of the connections, of the refused change, and of this test.
    others = {"CLIENT|SETINFO", "CLIENT|SETNAME", "HELLO", "SELECT", "AUTH", "CONFIG|RESETSTAT"}
    others |= {"COMMAND", "PEXPIRETIME", "TYPE", "SCAN", "WATCH", "UNWATCH"}
    assert {one.replace("|", " ") for one in sent - others} <= READING


# How each SQL engine lists threads, as its EXPLAIN says: from key indexes, without values


TABLES = ("checkpoints", "checkpoint_writes", "checkpoint_blobs", "writes")
COPIES = 200
"""With so many threads and checkpoints, no engine reads a table because it is small."""
ASKING = ThreadBounds(head_channels=frozenset({"__interrupt__"}))


def _reads_table(query: str) -> bool:
    """Whether a query is about the saver's tables, not about their columns."""
    return any(table in query for table in TABLES) and "pragma_" not in query


def listing_plans(url: str, database: Any, explain: str, patch: pytest.MonkeyPatch) -> list[Any]:
    """The plan of each query on the saver's tables with which a store lists threads."""
    found: list[Any] = []
    rows = database.rows

    def told(name: str) -> Any:
        method = getattr(database, name)

        def asked(self: Any, query: str, values: Any, *rest: Any) -> Any:
            if _reads_table(query) and not query.startswith(explain):
                found.append(rows(self, f"{explain} {query}", values))
            return method(self, query, values, *rest)

        return asked

    with open_store(url) as store:
        for name in ("rows", "stream"):
            patch.setattr(database, name, told(name))
        assert len([*store.threads(limit=50)]) == 50
        assert len([*store.threads()]) > COPIES
        assert store.thread("trip") is not None
        assert [*store.threads_within(ASKING)] == []
    assert len(found) >= 4
    return found


def test_postgres_lists_from_indexes(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(postgres_url, "trip")
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        for table, columns in {
            "checkpoints": "checkpoint_ns, checkpoint_id || m, parent_checkpoint_id, type,"
            " checkpoint, metadata",
            "checkpoint_writes": "checkpoint_ns, checkpoint_id || m, task_id, idx, channel, type,"
            " blob, task_path",
        }.items():
            connection.execute(
                f"INSERT INTO {table} SELECT thread_id || n, {columns} FROM {table},"
                f" generate_series(1, {COPIES}) n, generate_series(1, 10) m"
            )
            for statement in ("VACUUM (FREEZE, ANALYZE)", "VACUUM"):
                # Index-only scans are planned only if the pages are known to be visible.
                connection.execute(f"{statement} {table}")
    scan = re.compile(rf"(\w+(?: \w+)*) Scan(?: Backward)?.* on (?:\w+\.)?({'|'.join(TABLES)})\b")
    # Then the server reads a whole table, or whole rows, only if no index holds what is asked.
    url = f"{postgres_url}?options=-cenable_seqscan%3Doff%20-cenable_bitmapscan%3Doff"
    for plan in listing_plans(url, PostgresDatabase, "EXPLAIN", monkeypatch):
        for kind, table in scan.findall("\n".join(line for (line,) in plan)):
            assert kind.endswith("Index Only" if table == "checkpoints" else "Index"), plan


def test_sqlite_lists_from_indexes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "agent.db"
    with SqliteSaver.from_conn_string(str(path)) as saver:
        graph_of(saver).invoke({"items": ["in"]}, {"configurable": {"thread_id": "trip"}})
    with sqlite3.connect(path) as connection:
        for table in ("checkpoints", "writes"):
            _, *names = (row[1] for row in connection.execute(f"PRAGMA table_info({table})"))
            connection.execute(
                f"INSERT INTO {table} WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1"
                f" FROM s WHERE n < {COPIES}) SELECT thread_id || n, {', '.join(names)}"
                f" FROM {table}, s"
            )
    connection.close()
    for plan in listing_plans(str(path), OpenedDatabase, "EXPLAIN QUERY PLAN", monkeypatch):
        for *_, step in plan:
            assert not step.startswith("SCAN") or "COVERING INDEX" in step or _is_result(step), step


def _is_result(step: str) -> bool:
    """Whether a step of SQLite's plan reads what another one found."""
    return step in {"SCAN t", "SCAN h", "SCAN CONSTANT ROW"}


# Outlines of heads

_HEADS = 1500
_COLUMNS = {
    "checkpoints": ("thread_id, checkpoint_id, checkpoint, metadata", "%s, %s, %s, %s"),
    "checkpoint_blobs": ("thread_id, channel, version, type", "%s, %s, %s, %s"),
}

_DONE: dict[str, Any] = {
    "v": 4,
    "channel_values": {"items": 1},
    "channel_versions": {"items": 3, "__start__": 2, "branch:to:a": 3},
    "versions_seen": {"__input__": {}, "__start__": {"__start__": 1}, "a": {"branch:to:a": 2}},
}


@pytest.mark.parametrize(
    ("server", "most"),
    [
        pytest.param("postgres", _HEADS // 2, marks=pytest.mark.engines),
        pytest.param("mysql", _HEADS, marks=pytest.mark.nightly),
    ],
)
def test_outlines_agree_with_heads(request: pytest.FixtureRequest, server: str, most: int) -> None:
    url: str = request.getfixturevalue(f"{server}_url")
    with (saver_of if server == "postgres" else mysql.saver_of)(url) as saver:
        saver.setup()
    hashed = {"mysql": (", checkpoint_ns_hash", ", UNHEX(MD5(''))")}.get(server, ("", ""))
    with connected(url) as execute:
        for table, rows in _made():
            columns, values = (
                one + more for one, more in zip(_COLUMNS[table], hashed, strict=True)
            )
            for row in rows:
                execute(f"INSERT INTO {table} ({columns}) VALUES ({values})", list(row))
    assert _number_of_outlines(url) <= most


def _made() -> Iterator[tuple[str, list[tuple[Any, ...]]]]:
    """The rows of heads: some at random, the others of a few that differ in one part each."""
    chance = random.Random(7)
    bodies = [json.loads(one.body.data) for one in map(some_checkpoint, [chance] * 9) if one.body]
    # And what differs in one part from a head after which nothing runs.
    bodies += [{**_DONE, name: one[name]} for one in bodies for name in _DONE] + [_DONE] * 9
    heads, blobs = list[tuple[Any, ...]](), list[tuple[Any, ...]]()
    for n in range(_HEADS):
        body = dict(chance.choice(bodies))
        versions = body["channel_versions"] or {}
        body["channel_versions"] = {
            name: chance.randrange(9) if isinstance(one, int) else one
            for name, one in versions.items()
        }
        source = chance.choice(["loop", "loop", "loop", "input"])
        heads.append((f"t{n}", "head", json.dumps(body), json.dumps({"source": source})))
        if chance.random() < 0.3:
            name, kind = chance.choice(CHANNELS), chance.choice(["null", "empty"])
            blobs.append((f"t{n}", name, str(body["channel_versions"].get(name, 1)), kind))
    yield "checkpoints", heads
    yield "checkpoint_blobs", blobs


def _number_of_outlines(url: str) -> int:
    with open_store(url) as store:
        keys = [CheckpointKey(f"t{n}", "", "head") for n in range(_HEADS)]
        whole = {one.key: one for one in store.checkpoints_at(keys, body=True, metadata=True)}
        outlines = list(store.outlines_at(keys))
    assert sorted(key for _, alike in outlines for key in alike) == sorted(whole)
    told = set()
    for outline, alike in outlines:
        says = is_surely_done(outline)
        told.add(says)
        assert {is_surely_done(whole[key]) for key in alike} == {says}, outline
    assert told == {True, False}
    return len(outlines)
