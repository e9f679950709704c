"""What reading promises of each engine: no thread for another, one moment, nothing is written."""

from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from ckpt_backends.redis.engine.connection import READING
from ckpt_backends.registry import open_store
from ckpt_backends.testing.chance import Chance
from ckpt_backends.testing.harness import Harness
from ckpt_cli.queries.tail import Tail
from tests.engines.answers import items_of, refuses, succeeds, threads_of
from tests.engines.commands import COMMANDS, PLANNED
from tests.engines.places import HOSTILE
from tests.kit.agents.steps import config_of, graph_of, role, talk
from tests.kit.command import ckpt, ids_of, later
from tests.kit.savers import mysql
from tests.kit.savers.three_table import connected
from tests.thread_tests.recording import failures, place_of, record_on, write

REDIS = ["redis", "redis-hash", *later("redis-plain", "valkey")]


@pytest.mark.engines
@pytest.mark.parametrize(
    "place",
    [
        *("redis", "kaflow"),
        *(
            pytest.param(one, marks=pytest.mark.nightly)
            for one in ("redis-hash", "redis-plain", "valkey", "mongodb", "dynamodb", "firestore")
        ),
    ],
    indirect=True,
)
def test_threads_never_leak_into_one_another(place: Harness, chance: Chance) -> None:
    # The test server of DynamoDB takes minutes for all of them, and others half a minute for
    # changes of all. The suite deletes each neighbour there, and `test_removal.py` all of Redis.
    few = next(chance.rounds()).sample(HOSTILE, 5)
    names = few if place.name == "dynamodb" else HOSTILE
    changed = few if place.name in {"redis", "mongodb", "kaflow"} else names
    talk(place.kept_saver, *names)
    with open_store(place.url) as store:
        before = {one.thread_id: one for one in store.threads()}
        assert before.keys() == set(names)
        for thread_id in names:
            found = store.thread(thread_id)
            assert found == before[thread_id]
            assert (found.checkpoints, found.namespaces) == (4, 1), thread_id
            assert {one.key.thread_id for one in store.checkpoints(thread_id)} == {thread_id}
            writers = {one.key.thread_id for one in store.writes(thread_id)}
            assert writers == ({thread_id} if place.has_writes else set())
            assert store.size(thread_id).checkpoints == 4
            assert {one.thread_id for one in store.usage(thread_id)} == {thread_id}
        assert store.thread("\ud800") is None
    stored = stored_in(place)
    for thread_id in changed:
        shown = ckpt("-s", place.url, "show", "-o", "json", "--", thread_id)
        assert shown.json["values"]["items"] == [f"in {thread_id}", "from a", "from b"]
        succeeds(place.url, "rollback", "--at", "~1", "--yes", "--", thread_id)
        with open_store(place.url) as store:
            after = {one.thread_id: one for one in store.threads()}
        assert {one for one in after if after[one] != before[one]} == {thread_id}
        assert ckpt("-s", place.url, "undo", "--yes", "--", thread_id).code == 0
        assert stored_in(place) == stored, thread_id


def stored_in(place: Harness) -> Any:
    """What a store holds, but for the number of the last checkpoint in plain Redis."""
    found = place.fingerprint()
    if place.name == "redis-plain":
        assert isinstance(found, dict)
        del found[b"lg:seq"]
    return found


@pytest.mark.parametrize(
    "place", ["redis", "redis-hash", "mongodb", *later("kaflow")], indirect=True
)
def test_checkpoints_are_followed_as_they_come(place: Harness) -> None:
    talk(place.kept_saver, "trip")
    with open_store(place.url) as store:
        tail = Tail(store, "trip", None, all_ns=not place.has_writes)
        first = [one.moment.key.checkpoint_id for one in tail.last(2)]
        assert tail.new() == []
        talk(place.kept_saver, "trip")
        new = [one.moment.key.checkpoint_id for one in tail.new()]
    ids = ids_of(place.url, "trip")
    assert (first, new) == (ids[5:3:-1], ids[3::-1])


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


@pytest.mark.engines
@pytest.mark.parametrize("place", ["postgres", "redis", "mongodb"], indirect=True)
def test_threads_become_tests_that_pass(place: Harness, tmp_path: Path) -> None:
    # The saver of Redis does not give objects of Pydantic back to the graph.
    names = ("loop", "asking", "sending", *(() if place.name == "redis" else ("models", "records")))
    with place.saver() as saver:
        for name in names:
            record_on(saver, name)
    for name in names:
        found = write(place.url, tmp_path / "tests", name, place_of(name))
        assert (found.left_out, failures(found.path)) == ([], {}), name
