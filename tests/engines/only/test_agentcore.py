"""What only Bedrock AgentCore Memory has: actors, two forms, and an API that only appends."""

from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.engines.answers import succeeds
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


@pytest.mark.parametrize("place", FORMS[:1], indirect=True)
def test_what_keeps_a_memory_from_being_read_is_said(
    place: AgentCoreHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(place)
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    for code, said in {
        "AccessDeniedException": "access denied, bedrock-agentcore:ListActors is not allowed",
        "ThrottledException": "the service throttles requests",
    }.items():
        place.memory.failures = [("ListActors", Failure(400, code))] * 4
        assert said in refused(place)
        place.memory.failures = []
    other = place.url.replace(MEMORY, "other-0123456789")
    assert "no such memory in this region" in refused(place, other)
    away = f"agentcore://{MEMORY}?region=eu-central-1&endpoint=http://127.0.0.1:1"
    assert "the endpoint cannot be reached\nhint: check ?region=NAME" in refused(place, away)
    assert "not the id of a memory" in refused(place, place.url.replace(MEMORY, "short"))
    away = place.url.replace("agentcore://", "agentcore://me:secret@")
    assert "must not contain credentials" in refused(place, away)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    assert "no AWS credentials found" in refused(place)


def test_a_thread_of_two_actors_needs_the_name_of_one(place: AgentCoreHarness) -> None:
    run(place)
    # A conversation without checkpoints is no thread.
    said = {"conversational": {"content": {"text": "hello"}, "role": "USER"}}
    place.kept_saver.checkpoint_event_client.client.create_event(
        memoryId=MEMORY, actorId="ann", sessionId="talk", eventTimestamp=0, payload=[said]
    )
    (listed,) = ckpt("-s", place.url, "threads", "list", "-o", "json").json
    assert listed["thread_id"] == "trip"
    run(place, actor="bob:b")
    assert "belongs to several actors" in refused(place)
    before = [(at, {**events}) for at, events in place.stored() if at[1] == "ann"]
    of_bob = f"{place.url}&actor=bob%3Ab"
    (listed,) = ckpt("-s", of_bob, "threads", "list", "-o", "json").json
    assert (listed["thread_id"], listed["checkpoints"]) == ("trip", 4)
    assert ckpt("-s", of_bob, "threads", "delete", "trip", "--yes").code == 0
    assert place.stored() == before


# Time travel and removal


def test_a_change_only_appends_and_values_that_the_rest_of_a_thread_names_stay(
    place: AgentCoreHarness,
) -> None:
    graph = run(place)
    values = graph.get_state(config_of("trip")).values
    events = {one for _, some in place.stored() for one in some}
    assert ckpt("-s", place.url, "rollback", "trip", "--steps", "1", "--yes").code == 0
    assert events <= {one for _, some in place.stored() for one in some}
    graph.invoke(None, config_of("trip"))
    succeeds(place.url, "purge", "--keep-last", "1", "--yes")
    (listed,) = ckpt("-s", place.url, "threads", "list", "-o", "json").json
    assert listed["checkpoints"] == 1
    assert graph.get_state(config_of("trip")).values == values
    assert ckpt("-s", place.url, "threads", "delete", "trip", "--yes").code == 0
    assert place.stored() == []


def test_an_erased_value_is_in_no_event(place: AgentCoreHarness) -> None:
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
    succeeds(place.url, "copy", "trip", "--as", "new", "--yes")
    assert graph.get_state(config_of("new")).values == graph.get_state(config_of("trip")).values
