"""What only Bedrock AgentCore Memory has: actors, two forms, and an API that only appends."""

from base64 import b64encode
from typing import Any

import pytest

from ckpt_backends.testing.encrypted import KEY, key_of
from tests.engines.answers import refuses, succeeds
from tests.kit.agentcore_memory import MEMORY, Failure
from tests.kit.agents.steps import config_of, graph_of
from tests.kit.command import ckpt
from tests.kit.harness.agentcore import AgentCoreHarness

pytestmark = [
    pytest.mark.engines,
    pytest.mark.parametrize("place", ["agentcore", "agentcore on snapshots"], indirect=True),
]


def run(place: AgentCoreHarness) -> Any:
    graph = graph_of(place.kept_saver)
    graph.invoke({"items": ["in"]}, config_of("trip"))
    return graph


def test_its_errors_are_explained(place: AgentCoreHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """What errors of AWS have in common, `test_dynamodb.py` shows."""
    run(place)
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    for error, says in {
        "AccessDeniedException": "access denied, bedrock-agentcore:ListActors is not allowed",
        "ThrottledException": "the service throttles requests",
    }.items():
        place.memory.failures = [("ListActors", Failure(400, error))] * 4
        refuses(place.url, "threads", "list", says=says)
        place.memory.failures = []
    for place_of, other, says, code in (
        (MEMORY, "other-0123456789", "no such memory in this region", 4),
        (MEMORY, "short", "not the id of a memory", 2),
        ("://", "://me:secret@", "must not contain credentials", 2),
    ):
        url = place.url.replace(place_of, other)
        assert "secret" not in refuses(url, "threads", "list", says=says, code=code).err


def test_a_change_only_appends_and_values_that_are_named_stay(place: AgentCoreHarness) -> None:
    graph = run(place)
    values = graph.get_state(config_of("trip")).values
    events = {one for _, some in place.stored() for one in some}
    ckpt("-s", place.url, "rollback", "trip", "--steps", "1", "--yes", code=0)
    assert events <= {one for _, some in place.stored() for one in some}
    graph.invoke(None, config_of("trip"))
    # A conversation without checkpoints is no thread.
    said = {"conversational": {"content": {"text": "hello"}, "role": "USER"}}
    place.kept_saver.checkpoint_event_client.client.create_event(
        memoryId=MEMORY, actorId="ann", sessionId="talk", eventTimestamp=0, payload=[said]
    )
    before = [one for one in place.stored() if one[0][2] == "talk"]
    succeeds(place.url, "purge", "--keep-last", "1", "--yes")
    (listed,) = ckpt("-s", place.url, "threads", "list", "-o", "json").json
    assert (listed["thread_id"], listed["checkpoints"]) == ("trip", 1)
    assert graph.get_state(config_of("trip")).values == values
    ckpt("-s", place.url, "threads", "delete", "trip", "--yes", code=0)
    assert place.stored() == before


def test_a_session_without_events_makes_nobody_an_actor(place: AgentCoreHarness) -> None:
    run(place)
    events = place.memory.events
    events |= {(one[0], "bob", one[2]): dict(some) for one, some in events.items()}
    refuses(place.url, "threads", "list", says="belongs to several actors, such as 'ann' and 'bob'")
    for gone in ("ann", "bob"):
        succeeds(f"{place.url}&actor={gone}", "threads", "delete", "trip", "--yes")
        left = ckpt("-s", place.url, "threads", "list", "-o", "json").json
        assert [one["thread_id"] for one in left] == ["trip"] * (gone == "ann")


def test_an_erased_value_is_in_no_event(place: AgentCoreHarness) -> None:
    graph = graph_of(place.kept_saver)
    graph.invoke({"items": ["secret-4711"]}, config_of("trip"))
    ckpt("-s", place.url, "erase", "--value", "trip:items[0]", "--yes", code=0)
    text = repr(place.stored())
    assert all(
        b64encode(b"x" * shift + b"secret-4711")[4:-4].decode() not in text for shift in range(3)
    )
    assert graph.get_state(config_of("trip")).values["items"][0] != "secret-4711"


def test_an_encrypted_thread_is_copied_with_its_values(
    place: AgentCoreHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANGGRAPH_AES_KEY", KEY.decode())
    with key_of(place, KEY):
        graph = run(place)
        succeeds(place.url, "copy", "trip", "--as", "new", "--yes")
        there, copied = (graph.get_state(config_of(one)).values for one in ("trip", "new"))
    assert copied == there


@pytest.mark.nightly
def test_many_large_values_are_several_events(place: AgentCoreHarness) -> None:
    graph = graph_of(place.kept_saver)
    graph.invoke({"items": ["x" * 3_000_000] * 2}, config_of("trip"))
    succeeds(place.url, "copy", "trip", "--as", "new", "--yes")
    assert graph.get_state(config_of("new")).values == graph.get_state(config_of("trip")).values
