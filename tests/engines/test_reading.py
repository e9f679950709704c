"""What reading promises of each engine: no thread for another, one moment, nothing is written."""

from typing import Any
from urllib.parse import quote

import pytest

from ckpt_backends.redis.engine.connection import READING
from ckpt_backends.registry import open_store
from ckpt_backends.testing.harness import Harness
from tests.engines.answers import COMMANDS, PLANNED, items_of, refuses, succeeds, threads_of
from tests.kit.agents.steps import config_of, graph_of, role, talk
from tests.kit.command import ckpt, later
from tests.kit.harness import mysql
from tests.kit.harness.three_table import connected

REDIS = ["redis", "redis-hash", *later("redis-plain", "valkey")]


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
        refused = refuses(place.url, *words, says="belongs to several")
        assert f"?{parameter}=NAME" in refused.err
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
