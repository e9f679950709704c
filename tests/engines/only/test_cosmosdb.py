"""What only Azure Cosmos DB has: an older saver, times to live, its errors, items of any form."""

import json
import sys
from functools import partial
from typing import Any

import pytest
from azure.cosmos import PartitionKey
from azure.cosmos.exceptions import CosmosHttpResponseError
from langgraph.types import Command

from ckpt_backends.cosmosdb.connect import explained
from ckpt_backends.errors import StoreUnavailable
from ckpt_backends.registry import open_store
from ckpt_backends.url import parse_url
from tests.engines.answers import refuses, succeeds
from tests.kit.agents.steps import config_of, graph_of, talk
from tests.kit.cases import cases
from tests.kit.command import ckpt
from tests.kit.connecting import QUOTED, shows_nothing
from tests.kit.harness.cosmosdb import CosmosHarness

pytestmark = pytest.mark.engines
LAYOUT = "cosmosdb"


def test_the_form_of_an_older_saver(place: CosmosHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """That of langgraph-checkpoint-cosmosdb, which makes its client by itself."""
    from langgraph_checkpoint_cosmosdb import CosmosDBSaver, cosmosdbSaver

    talk(place.seeing, "newer")
    plain = partial(cosmosdbSaver.CosmosClient, enable_endpoint_discovery=False)
    monkeypatch.setattr(cosmosdbSaver, "CosmosClient", plain)
    monkeypatch.setenv("COSMOSDB_ENDPOINT", place.endpoint)
    graph = graph_of(CosmosDBSaver(place.database, "checkpoints"), asks=True)
    graph.invoke({"items": ["in"]}, config_of("trip"))
    state = graph.get_state(config_of("trip"))
    shown = ckpt("-s", place.url, "show", "trip", "-o", "json").json
    assert shown["values"].items() <= state.values.items()
    (asked,) = ckpt("-s", place.url, "interrupts", "-o", "json").json
    assert asked["value"] == "sure?"
    for words in (["copy", "trip", "--as", "other"], ["rollback", "trip", "--steps", "1"]):
        succeeds(place.url, *words, "--yes")
    found = graph.invoke(Command(resume="yes"), config_of("other"))
    assert found["items"] == ["in", "from a", "yes"]
    assert graph.get_state(config_of("trip")).next == ("a",)
    assert graph.invoke(None, config_of("trip"))["items"] == ["in", "from a"]
    of_thread = [one for one in place.items() if "$newer$" not in one["id"]]
    assert {one["partition_key"].endswith("$$") for one in of_thread if "value" in one} == {True}
    before = place.items("newer")
    succeeds(place.url, "threads", "delete", "trip", "other", "--yes")
    assert place.items() == before


def test_a_checkpoint_tells_when_it_expires(place: CosmosHarness) -> None:
    talk(place.seeing, "trip")
    with open_store(place.url) as store:
        assert not store.keys_expire
    place.seeing.container = place.seeing.database.create_container(
        "short", PartitionKey("/partition_key"), default_ttl=3600
    )
    talk(place.seeing, "trip")
    stored = {one["id"]: one for one in place.seeing.container.read_all_items()}
    head = max(one for one in stored if one.startswith("checkpoint$"))
    place.seeing.container.upsert_item({**stored.pop(head), "ttl": -1})
    with open_store(place.url.replace("/checkpoints", "/short")) as store:
        keys = [one.key for one in store.checkpoints("trip")]
        found = {one.key: one for one in store.expiries("trip", "", [one[2] for one in keys])}
        times = store.expiry_times(keys)
    assert keys[0] not in found
    for key in keys[1:]:
        at = stored[f"checkpoint${'$'.join(key)}"]["_ts"] + 3600
        assert (times[key].timestamp(), found[key].at) == (at, times[key])
        assert found[key].writes_at is not None


@cases(
    "status says",
    (401, "the key is wrong"),
    (403, "access denied"),
    (429, "the container throttles requests"),
    (500, "answers 500"),
)
def test_an_answer_that_is_an_error(status: int, says: str) -> None:
    url = parse_url("cosmosdb://:QzRuYXJ5@account/a/b")
    with pytest.raises(StoreUnavailable, match=says) as refused, explained(url):
        raise CosmosHttpResponseError(status, "C4nary")  # type: ignore[no-untyped-call]
    assert "QzRuYXJ5" not in str(refused.value)
    shows_nothing(str(refused.value))


def test_what_does_not_open_says_why(place: CosmosHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(before: str, after: str, code: int, says: str) -> None:
        url = place.url.replace(before, after)
        shows_nothing(refuses(url, "threads", "list", says=says, code=code).err)

    talk(place.seeing, "trip")
    refused("/checkpoints", "/nosuch", 4, "no such database or container")
    refused("://", f"://:{QUOTED}@", 2, "the key is not base64")
    refused("://", "://C4@", 2, "an account has no users")
    place.seeing.database.create_container("other", partition_key=PartitionKey("/user"))
    refused("/checkpoints", "/other", 4, "its partition key is '/user'")
    same = place.seeing.database.create_container("same", PartitionKey("/partition_key"))
    ckpt("-s", place.url.replace("/checkpoints", "/same"), "threads", "list", code=0)
    same.upsert_item({"id": "1", "partition_key": "trip"})
    refused("/checkpoints", "/same", 4, "no checkpoints of CosmosDBSaver")
    monkeypatch.setitem(sys.modules, "azure.identity", None)
    refused("?", "?credential=default&", 2, "needs azure-identity")
    monkeypatch.delenv("COSMOSDB_KEY")
    refused("", "", 2, "no key")


@pytest.mark.in_ci('{"checkpoint": 5', '{"metadata": [')
@cases(
    "fields",
    *({name: 5} for name in ("checkpoint", "type", "metadata", "parent_checkpoint_id")),
    *({"checkpoint": "no base64"}, {"metadata": ["msgpack"]}, {"ttl": "soon"}, {"more": 1}),
    ids=json.dumps,
)
def test_items_of_other_forms_are_not_changed(place: CosmosHarness, fields: dict[str, Any]) -> None:
    talk(place.seeing, "trip")
    item = next(one for one in place.items("trip") if "metadata" in one)
    place.seeing.container.upsert_item({**item, **fields})
    before = place.items()
    for words in (["threads", "list"], ["history", "trip"], ["show", "trip"], ["doctor"]):
        assert ckpt("-s", place.url, *words).code in {0, 1, 4}
    ckpt("-s", place.url, "copy", "trip", "--as", "other", "--yes", code=4)
    assert place.items() == before
    succeeds(place.url, "threads", "delete", "trip", "--yes")
    assert place.items() == []


def test_items_of_others_are_left_alone(place: CosmosHarness) -> None:
    talk(place.seeing, "trip")
    others = [
        {"id": "checkpoint$trip$$1", "partition_key": "checkpoint$other$$"},
        {"id": "checkpoint$trip$$", "partition_key": "x"},
        {"id": "writes$trip$$1$task$first", "partition_key": "writes$trip$$1$"},
        {"id": "checkpoint", "partition_key": "checkpoint"},
    ]
    for one in others:
        place.seeing.container.upsert_item(one)
    listed = ckpt("-s", place.url, "threads", "list", "-o", "json").json
    assert [(one["thread_id"], one["checkpoints"]) for one in listed] == [("trip", 4)]
    succeeds(place.url, "threads", "delete", "trip", "--yes")
    assert place.items() == sorted(others, key=lambda one: (one["partition_key"], one["id"]))
