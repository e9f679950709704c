"""Repairs on each engine: what the official saver reads afterwards, and what an undo leaves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langgraph.types import Command

from ckpt_backends.changes import Change
from ckpt_backends.model import BlobKey
from ckpt_backends.open_for_writing import open_writable
from ckpt_backends.registry import open_store
from ckpt_backends.testing.harness import Harness
from ckpt_backends.url import parse_url
from ckpt_cli.reading.thread import ThreadReader
from tests.kit.command import ckpt
from tests.kit.opening import empty_store
from tests.kit.planting.steps import THREAD, graph, talk
from tests.kit.travelling import HARNESSES
from tests.repair.test_writes import CONFIG, Two

ENGINES = ("postgres", "mysql", "mongodb", "redis", "valkey", "dynamodb", "dev")
INLINE = ("mongodb", "redis", "plain_redis", "valkey", "dynamodb")
"""Those of which the savers store values inside checkpoints."""
APART = ("postgres", "mysql", "plain_redis_saver", "dev")
HEAD: Any = {"configurable": {"thread_id": THREAD}}

pytestmark = pytest.mark.engines


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Harness]:
    with empty_store(HARNESSES[request.param], request, tmp_path) as harness:
        yield harness


@pytest.mark.parametrize("place", ENGINES, indirect=True)
def test_a_used_answer_is_dropped(place: Harness) -> None:
    two = Two(place.kept_saver)
    two.make_stale()
    before = place.rows("t")
    done = ckpt("-s", place.url, "repair", "writes", "t", "--yes", "-o", "json")
    assert done.code == 0, done.err
    assert ckpt("-s", place.url, "undo", "t", "--yes").code == 0
    assert place.rows("t") == before
    done = ckpt("-s", place.url, "repair", "writes", "--all", "--yes", "-o", "json")
    assert done.code == 0, done.err
    given = {"configurable": done.json[0]["configurable"]}
    (question,) = two.graph.invoke(None, given)["__interrupt__"]
    assert question.value == "second?"
    answer = two.graph.invoke(Command(resume="no"), CONFIG)
    assert answer["log"] == ["yes and no", "paid"]
    assert two.ran == ["ask", "ask"]


def values(saver: Any) -> Any:
    """What the saver reads at the head. LangGraph 1.2 itself makes up for some missing values."""
    return saver.get_tuple(HEAD).checkpoint["channel_values"]


def drop(saver: Any, channel: str) -> None:
    """Store the head again without one of its values."""
    found = saver.get_tuple(HEAD)
    found.checkpoint["channel_values"].pop(channel)
    saver.put(found.parent_config, found.checkpoint, found.metadata, {})


@pytest.mark.parametrize(
    "channel", ["log", pytest.param("mood", marks=pytest.mark.slow), "messages"]
)
@pytest.mark.parametrize("place", INLINE, indirect=True)
def test_a_missing_value_of_the_head_is_restored(place: Harness, channel: str) -> None:
    saver = place.kept_saver
    talk(saver, turns=2)
    expected = values(saver)
    drop(saver, channel)
    assert channel not in values(saver)
    before = place.rows(THREAD)
    done = ckpt("-s", place.url, "repair", "values", THREAD, "--yes", "-o", "json")
    assert done.code == 0, done.err
    assert [one["channel"] for one in done.json["repaired"]] == [channel]
    assert values(saver) == expected
    assert graph(saver).get_state(HEAD).values[channel] == expected[channel]
    assert ckpt("-s", place.url, "undo", THREAD, "--yes").code == 0
    assert place.rows(THREAD) == before


@pytest.mark.parametrize("place", APART, indirect=True)
def test_a_value_that_is_stored_apart_is_stored_again_and_taken_back(place: Harness) -> None:
    saver = place.kept_saver
    talk(saver, turns=2)
    expected = values(saver)
    with open_store(place.url) as store:
        reader = ThreadReader(store, THREAD)
        heads = {"": reader.head("") or ""}
        version = str(reader.stored("", heads[""]).body.versions["log"])
    with open_writable(parse_url(place.url)) as writable:
        writable.apply(Change(THREAD, heads, removed_blobs=(BlobKey("", "log", version),)))
    damaged = place.rows(THREAD)
    assert "log" not in values(saver)
    done = ckpt("-s", place.url, "repair", "values", THREAD, "--yes", "-o", "json")
    assert done.code == 0, done.err
    assert [one["channel"] for one in done.json["repaired"]] == ["log"]
    assert values(saver) == expected
    undone = ckpt("-s", place.url, "undo", THREAD, "--yes", "-o", "json")
    assert [one["before"] for one in undone.json["threads"][0]["values"]] == ["missing"]
    assert place.rows(THREAD) == damaged
    assert "log" not in values(saver)
    assert ckpt("-s", place.url, "undo", THREAD, "--yes").code == 3
    done = ckpt("-s", place.url, "repair", "values", "--all", "--yes", "-o", "json")
    assert [one["state"] for one in done.json] == ["repaired"]
    assert ckpt("-s", place.url, "undo", THREAD, "--yes").code == 0
