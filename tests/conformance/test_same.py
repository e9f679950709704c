"""One conversation, written by the official savers into all the stores, is the same in each."""

import json
import logging
import re
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, TypedDict
from unittest.mock import patch

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph.message import add_messages
from langgraph.types import Command, interrupt

from ckpt_backends.testing.harness import Harness
from ckpt_cli.session import Session
from tests.kit.agents.small import chain
from tests.kit.command import ckpt
from tests.kit.harness import HARNESSES
from tests.kit.opening import own_server

pytestmark = pytest.mark.engines
THREAD, LOST = "trip", "0c5ee4a1-6f5f-4b45-9d2c-3b3b8f8d6d11"
_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\b[0-9a-f]{32}\b")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT[0-9:.]+Z")
_ACTOR = re.compile(r', \\"metadata\\": \{\\"actor_id\\": \\"[^"]*\\"\}')
"""The same in a call that is printed."""
COMPARED = [
    harness
    for harness in HARNESSES
    if harness.has_history
    and harness.has_writes
    and harness.recording is None
    and not harness.values_only
    # Its saver keeps the answer beside the writes of the task.
    and "command-input" not in harness.skipped_scenarios
]


SOME = {"sqlite", "postgres", "mysql", "mongodb", "redis", "redis-plain", "valkey", "dynamodb"}


class State(TypedDict):
    messages: Annotated[list[Any], add_messages]
    hotel: str


def conversation(saver: Any) -> None:
    """A question that is answered, a second turn, a fork of the first, and a thread that fails."""

    def plan(state: State) -> Any:
        if state["messages"][-1].content == "Atlantis":
            raise LookupError("no flight to Atlantis")
        number = len(state["messages"])
        return {"messages": [AIMessage(f"plan {number}", id=f"ai-{number}")]}

    def choose(state: State) -> Any:
        return {"hotel": interrupt({"question": "Which hotel?", "after": state["hotel"]})}

    graph = chain(State, {"plan": plan, "choose": choose}).compile(checkpointer=saver)
    config = {"configurable": {"thread_id": THREAD}}
    for name, hotel in (("Kyoto", "Ryokan"), ("Nara", "Inn")):
        said = {"messages": [HumanMessage(name, id=name)], "hotel": "none yet"}
        graph.invoke(said, config, durability="sync")
        graph.invoke(Command(resume=hotel), config, durability="sync")
    graph.update_state(config, {"hotel": "Grand"}, as_node="choose")
    graph.invoke({"messages": [HumanMessage("Osaka", id="Osaka")]}, config, durability="sync")
    config = {"configurable": {"thread_id": LOST}}
    said = {"messages": [HumanMessage("Atlantis", id="Atlantis")], "hotel": "none yet"}
    with suppress(LookupError):
        graph.invoke(said, config, durability="sync")


@pytest.fixture(scope="module", params=["some", pytest.param("all", marks=pytest.mark.nightly)])
def urls(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, str]]:
    """The same conversation in each store, or in one of each way to store it."""
    logging.disable(logging.WARNING)
    found = {}
    with ExitStack() as stack:
        for kind in (one for one in COMPARED if request.param == "all" or one.name in SOME):
            server = stack.enter_context(own_server(kind, request))
            harness: Harness = kind(tmp_path_factory.mktemp(f"same-{kind.name}"), server)
            stack.callback(harness.close)
            with warnings.catch_warnings(), harness.saver() as saver:
                warnings.simplefilter("ignore")
                conversation(saver)
            found[harness.name] = harness.url
        logging.disable(logging.NOTSET)
        yield found


LATER = datetime.now(UTC) + timedelta(hours=1)


def told(url: str, *words: str) -> str:
    """An answer in JSON, in which ids are numbered in their order, and times left out."""
    with patch.object(Session, "now", LATER):  # Whether a thread is busy depends on its age.
        answer = json.dumps(_common(ckpt("-s", url, *words).json), sort_keys=True)
    numbers: dict[str, str] = {}
    text = _ACTOR.sub("", _TIME.sub("<time>", answer))
    return _ID.sub(lambda match: numbers.setdefault(match[0], f"<id {len(numbers)}>"), text)


ANSWERS = [
    ["show", THREAD, "--tree", "-o", "json"],
    ["history", THREAD, "-o", "json"],
    ["diff", THREAD, "-o", "json"],
    ["diff", f"{THREAD}@~3", "-o", "json"],
    ["interrupts", "-o", "json"],
    ["errors", "-o", "json"],
    ["threads", "list", "-o", "json"],
    ["messages", THREAD, "-o", "json"],
    ["grep", "Ryokan", "-o", "json"],
    ["blame", THREAD, "hotel", "-o", "json"],
    ["replay", THREAD, "--verify", "-o", "json"],
    ["rollback", THREAD, "--steps", "4", "--dry-run", "-o", "json"],
]
VARYING = {
    *("bytes", "ref", "versions", "size", "url", "configurable", "change", "undo"),
    *("task_path", "tables"),
    "error",  # RedisSaver with JSON stores the class of an exception, and not its message.
    "actor_id",  # AgentCoreValkeySaver stores it in the metadata.
}
"""Keys whose values hang on the layout."""


@pytest.mark.parametrize("words", ANSWERS, ids=lambda words: words[0])
def test_every_store_answers_alike(urls: dict[str, str], words: list[str]) -> None:
    answers = {name: json.loads(told(url, *words)) for name, url in urls.items()}
    expected = answers["sqlite"]
    assert expected
    for name, found in answers.items():
        assert found == expected, name


def _common(value: Any) -> Any:
    if isinstance(value, dict) and "$type" in value:
        # Redis stores objects under an old path of their class, and without their defaults.
        kept = {key: _common(value[key]) for key in ("content", "id", "value") if key in value}
        return {"$type": value["$type"].rpartition(".")[2], **kept}
    if isinstance(value, dict):
        return {key: _common(one) for key, one in value.items() if key not in VARYING}
    return [_common(one) for one in value] if isinstance(value, list) else value
