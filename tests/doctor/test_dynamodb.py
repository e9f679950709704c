"""Faults of the times to live in a table of DynamoDB."""

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.doctor.asking import faults_of_all
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


def test_items_that_stay(place: DynamoDbHarness) -> None:
    graph_of(place.kept_saver).invoke({"items": ["in"]}, config_of("trip"))
    assert faults_of_all(place.url) == []
    place.ttl = 3600
    with place.saver() as saver:
        graph_of(saver).invoke({"items": ["in"]}, config_of("expiring"))
    (fault,) = faults_of_all(place.url)
    assert (fault.code, fault.thread_id) == ("ttl-partial", None)
    words = shlex.split(fault.fix)
    assert words[:3] == ["aws", "dynamodb", "update-time-to-live"]
    assert words[words.index("--table-name") + 1] == place.table
    place.client.update_time_to_live(
        TableName=place.table, TimeToLiveSpecification={"Enabled": True, "AttributeName": "ttl"}
    )
    assert faults_of_all(place.url) == []
    own = ids_of(place.url, "trip")[1]
    expires: Any = {":t": {"N": "4102444800"}}
    place.client.update_item(
        TableName=place.table,
        Key=entry(own),
        UpdateExpression="SET #ttl = :t",
        ExpressionAttributeNames={"#ttl": "ttl"},
        ExpressionAttributeValues=expires,
    )
    (fault,) = faults_of_all(place.url)
    assert (fault.code, fault.thread_id) == ("ttl-partial", "trip")
    assert (fault.checkpoint_ns, fault.checkpoint_id) == ("", own)
