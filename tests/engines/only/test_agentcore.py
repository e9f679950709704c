"""What only Bedrock AgentCore Memory has: actors, two forms, and an API that only appends."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kit.agentcore_memory import MEMORY, Failure
from tests.kit.agents.steps import config_of, graph_of
from tests.kit.command import ckpt
from tests.kit.harness.agentcore import AgentCoreHarness, AgentCoreSnapshotHarness

pytestmark = pytest.mark.engines

FORMS = [AgentCoreHarness, AgentCoreSnapshotHarness]


@pytest.fixture(params=FORMS, ids=["legacy", "snapshot"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[AgentCoreHarness]:
    with request.param(tmp_path) as made:
        yield made


@pytest.fixture
def legacy(tmp_path: Path) -> Iterator[AgentCoreHarness]:
    with AgentCoreHarness(tmp_path) as made:
        yield made


def run(place: AgentCoreHarness, thread_id: str = "trip", actor: str = "ann") -> Any:
    graph = graph_of(place.kept_saver)
    config = config_of(thread_id)
    config["configurable"]["actor_id"] = actor
    graph.invoke({"items": ["in"]}, config)
    return graph


def refused(place: AgentCoreHarness, url: str = "") -> str:
    answer = ckpt("-s", url or place.url, "threads", "list")
    assert answer.code in {2, 3, 4}, answer
    assert "secret" not in answer.err
    return answer.err


# Opening


def test_what_keeps_a_memory_from_being_read_is_said(
    legacy: AgentCoreHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(legacy)
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    for code, said in {
        "AccessDeniedException": "access denied, bedrock-agentcore:ListActors is not allowed",
        "ThrottledException": "the service throttles requests",
        "ExpiredTokenException": "the credentials have expired",
    }.items():
        legacy.memory.failures = [("ListActors", Failure(400, code))] * 4
        assert said in refused(legacy)
        legacy.memory.failures = []
    other = legacy.url.replace(MEMORY, "other-0123456789")
    assert "no such memory in this region" in refused(legacy, other)
    away = f"agentcore://{MEMORY}?region=eu-central-1&endpoint=http://127.0.0.1:1"
    assert "the endpoint cannot be reached\nhint: check ?region=NAME" in refused(legacy, away)
    assert "not the id of a memory" in refused(legacy, legacy.url.replace(MEMORY, "short"))
    away = legacy.url.replace("agentcore://", "agentcore://me:secret@")
    assert "must not contain credentials" in refused(legacy, away)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    assert "no AWS credentials found" in refused(legacy)


def test_a_thread_of_two_actors_needs_the_name_of_one(place: AgentCoreHarness) -> None:
    run(place)
    run(place, actor="bob:b")
    assert "belongs to several actors" in refused(place)
    before = [(at, {**events}) for at, events in place.stored() if at[1] == "ann"]
    of_bob = f"{place.url}&actor=bob%3Ab"
    (listed,) = ckpt("-s", of_bob, "threads", "list", "-o", "json").json
    assert (listed["thread_id"], listed["checkpoints"]) == ("trip", 4)
    assert ckpt("-s", of_bob, "threads", "delete", "trip", "--yes").code == 0
    assert place.stored() == before


def test_a_conversation_without_checkpoints_is_no_thread(place: AgentCoreHarness) -> None:
    run(place)
    said = {"conversational": {"content": {"text": "hello"}, "role": "USER"}}
    place.kept_saver.checkpoint_event_client.client.create_event(
        memoryId=MEMORY, actorId="ann", sessionId="talk", eventTimestamp=0, payload=[said]
    )
    (listed,) = ckpt("-s", place.url, "threads", "list", "-o", "json").json
    assert listed["thread_id"] == "trip"


# Time travel and removal


def test_the_saver_goes_on_from_a_rollback(place: AgentCoreHarness) -> None:
    graph = run(place)
    before = dict(place.stored())
    events = {one for some in before.values() for one in some}
    assert ckpt("-s", place.url, "rollback", "trip", "--steps", "1", "--yes").code == 0
    assert events <= {one for _, some in place.stored() for one in some}, "it only appends"
    assert graph.get_state(config_of("trip")).next == ("b",)
    graph.invoke(None, config_of("trip"))
    assert graph.get_state(config_of("trip")).values["items"] == ["in", "from a", "from b"]


def test_values_that_the_rest_of_a_thread_names_stay(place: AgentCoreHarness) -> None:
    graph = run(place)
    values = graph.get_state(config_of("trip")).values
    words = ("purge", "--keep-last", "1", "--yes")
    done = ckpt("-s", place.url, *words)
    assert done.code == 0, done.err
    (listed,) = ckpt("-s", place.url, "threads", "list", "-o", "json").json
    assert listed["checkpoints"] == 1
    assert graph.get_state(config_of("trip")).values == values
    assert ckpt("-s", place.url, "threads", "delete", "trip", "--yes").code == 0
    assert place.stored() == []


def test_an_erased_value_is_in_no_event(place: AgentCoreHarness) -> None:
    from base64 import b64encode

    graph = graph_of(place.kept_saver)
    graph.invoke({"items": ["secret-4711"]}, config_of("trip"))
    assert ckpt("-s", place.url, "erase", "--value", "trip:items[0]", "--yes").code == 0
    text = repr(place.stored())
    assert all(
        b64encode(b"x" * shift + b"secret-4711")[4:-4].decode() not in text for shift in range(3)
    )
    assert graph.get_state(config_of("trip")).values["items"][0] != "secret-4711"


@pytest.mark.nightly
def test_many_large_values_are_several_events(place: AgentCoreHarness) -> None:
    graph = graph_of(place.kept_saver)
    graph.invoke({"items": ["x" * 3_000_000] * 2}, config_of("trip"))
    done = ckpt("-s", place.url, "copy", "trip", "--as", "new", "--yes")
    assert done.code == 0, done.err
    assert graph.get_state(config_of("new")).values == graph.get_state(config_of("trip")).values
