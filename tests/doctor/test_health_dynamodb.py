"""Faults of the times to live in a table of DynamoDB."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ckpt_backends.model import Fault
from ckpt_backends.registry import open_store
from tests.kit.agents.steps import config_of, graph_of
from tests.kit.command import ids_of
from tests.kit.harness.dynamodb import DynamoDbHarness, entry
from tests.kit.servers import Server

pytestmark = pytest.mark.engines


@pytest.fixture
def place(dynamodb_server: Server, tmp_path: Path) -> Iterator[DynamoDbHarness]:
    """An empty table."""
    with DynamoDbHarness(tmp_path, dynamodb_server) as made:
        yield made


def found(place: DynamoDbHarness) -> list[Fault]:
    """All faults of a store."""
    with open_store(place.url) as store:
        every = list(store.faults())
        for thread_id in store.suspect_threads():
            every += store.thread_faults(thread_id)
    return every


def test_items_that_stay_in_spite_of_a_time_to_live_are_named(place: DynamoDbHarness) -> None:
    graph_of(place.kept_saver).invoke({"items": ["in"]}, config_of("trip"))
    assert found(place) == []
    place.ttl = 3600
    with place.saver() as saver:
        graph_of(saver).invoke({"items": ["in"]}, config_of("expiring"))
    (fault,) = found(place)
    assert (fault.code, fault.thread_id) == ("ttl-partial", None)
    words = shlex.split(fault.fix)
    assert words[:3] == ["aws", "dynamodb", "update-time-to-live"]
    assert words[words.index("--table-name") + 1] == place.table
    place.client.update_time_to_live(
        TableName=place.table, TimeToLiveSpecification={"Enabled": True, "AttributeName": "ttl"}
    )
    assert found(place) == []
    own = ids_of(place.url, "trip")[1]
    expires: Any = {":t": {"N": "4102444800"}}
    place.client.update_item(
        TableName=place.table,
        Key=entry(own),
        UpdateExpression="SET #ttl = :t",
        ExpressionAttributeNames={"#ttl": "ttl"},
        ExpressionAttributeValues=expires,
    )
    (fault,) = found(place)
    assert (fault.code, fault.thread_id) == ("ttl-partial", "trip")
    assert (fault.checkpoint_ns, fault.checkpoint_id) == ("", own)


def test_threads_whose_keys_contradict_each_other_are_suspect(place: DynamoDbHarness) -> None:
    for name in ("trip", "hole", "sound"):
        config: Any = config_of(name)
        graph_of(place.kept_saver).invoke({"items": ["in"]}, config)
    hole = {**entry(ids_of(place.url, "hole")[1]), "PK": {"S": "CHECKPOINT_hole"}}
    place.client.delete_item(TableName=place.table, Key=hole)
    with open_store(place.url) as store:
        assert list(store.suspect_threads()) == ["hole"]
    for own in ids_of(place.url, "trip"):
        place.client.delete_item(TableName=place.table, Key=entry(own))
    with open_store(place.url) as store:
        assert list(store.suspect_threads()) == ["hole", "trip"]
        assert {one.thread_id for one in store.threads()} == {"hole", "sound"}
        assert list(store.writes("trip"))
