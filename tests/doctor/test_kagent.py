"""DeltaChannels in kagent's tables.

The threads in which faults are planted elsewhere have parallel tasks, of which kagent keeps one.
"""

from base64 import b64decode
from collections.abc import Iterator
from typing import Annotated, Any, TypedDict

import psycopg
import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.graph import END, START, StateGraph

from ckpt_backends.testing.library import config_of_thread
from ckpt_backends.testing.scenarios import compat
from tests.doctor.asking import codes
from tests.kit.planting.base import SERDE
from tests.kit.planting.messages import emptying
from tests.kit.savers.kagent import encoded, made, saver_on
from tests.kit.servers import Server, postgres_database

pytestmark = pytest.mark.engines


class State(TypedDict):
    messages: Annotated[
        list[AnyMessage],
        compat.DeltaChannel(compat.messages_delta_reducer, snapshot_frequency=1000),
    ]


def reply(state: State) -> dict[str, Any]:
    number = len(state["messages"])
    return {"messages": [AIMessage(f"answer {number}", id=f"ai-{number}")]}


@pytest.fixture
def url(postgres_server: Server) -> Iterator[str]:
    """A thread of three turns with one node."""
    with postgres_database(postgres_server) as database:
        found = made(database)
        with saver_on(found) as saver:
            builder = StateGraph(State).add_node("reply", reply)
            graph: Any = builder.add_edge(START, "reply").add_edge("reply", END).compile(saver)
            for turn in ("one", "two", "three"):
                message = HumanMessage(turn, id=turn)
                graph.invoke({"messages": [message]}, config_of_thread("chat"))
        yield found


def changed(url: str, statement: str, *values: Any) -> list[Any]:
    with psycopg.connect(url, autocommit=True) as connection:
        found = connection.execute(statement.encode(), values)
        return found.fetchall() if found.description else []


def test_a_delta_channel_without_its_first_values(url: str) -> None:
    assert codes(url, "chat") == []
    ids = changed(url, "SELECT checkpoint_id FROM lg_checkpoint ORDER BY checkpoint_id")
    for table in ("lg_checkpoint", "lg_checkpoint_write"):
        changed(url, f"DELETE FROM {table} WHERE checkpoint_id < %s", *ids[5])
    assert "delta-unanchored" in codes(url, "chat")


def test_a_list_that_releases_read_differently(url: str) -> None:
    ((idx, tag, text, at),) = changed(
        url,
        "SELECT write_idx, value_type, value, checkpoint_id FROM lg_checkpoint_write"
        " WHERE channel = 'messages' ORDER BY checkpoint_id DESC LIMIT 1",
    )
    answers = SERDE.loads_typed((tag, b64decode(text)))
    tag, data = SERDE.dumps_typed([emptying(answers[0]), *answers])
    changed(
        url,
        "UPDATE lg_checkpoint_write SET value_type = %s, value = %s"
        " WHERE checkpoint_id = %s AND write_idx = %s",
        *(tag, encoded(data), at, idx),
    )
    assert codes(url, "chat") == ["state-by-library"]
