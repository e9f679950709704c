"""What only DynamoDB has when threads are copied to or from it."""

import random
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from ckpt_backends.aws.dynamodb.records import records_of
from ckpt_backends.aws.dynamodb.write import DynamoWriter
from ckpt_backends.errors import Refused
from ckpt_backends.model import Kind, Record, TypedBytes
from ckpt_backends.open_for_writing import create_store
from ckpt_backends.registry import open_store
from ckpt_backends.testing.scenarios.catalog import SCENARIOS
from ckpt_backends.transfer.copying import Arrival, record_key
from ckpt_backends.transfer.form import CannotHold, Language
from ckpt_backends.url import parse_url
from tests.copy.round_trip import check_stored, receive, records_for, stored_records
from tests.kit.command import ckpt
from tests.kit.harness.dynamodb import DynamoDbHarness
from tests.kit.servers import Server

# The test server takes 10 ms of CPU time for each request.
pytestmark = pytest.mark.engines

ASKING = "interrupt-nested"
LONG = 120


@pytest.fixture
def place(dynamodb_server: Server, tmp_path: Path) -> Iterator[DynamoDbHarness]:
    with DynamoDbHarness(tmp_path, dynamodb_server) as made:
        yield made


def test_items_are_as_the_saver_stores_them(scenes: Path, place: DynamoDbHarness) -> None:
    receive(place.url, Arrival(ASKING, records_for(scenes, "dynamodb", ASKING)))
    before = place.items()
    thread = SCENARIOS[ASKING].thread_config()
    saved = next(place.kept_saver.list(thread))
    place.kept_saver.put(saved.parent_config or thread, saved.checkpoint, saved.metadata, {})
    assert place.items() == before


def test_a_new_table_is_as_the_template_makes_it(place: DynamoDbHarness) -> None:
    named = parse_url(place.url.replace(place.table, f"{place.table}-new"))
    create_store(named, Language.PYTHON)
    create_store(named, Language.PYTHON)
    new = place.client.describe_table(TableName=named.path)["Table"]
    old = place.client.describe_table(TableName=place.table)["Table"]
    for shown in ("KeySchema", "AttributeDefinitions"):
        assert new[shown] == old[shown]
    assert new["BillingModeSummary"]["BillingMode"] == "PAY_PER_REQUEST"
    told = place.client.describe_time_to_live(TableName=named.path)["TimeToLiveDescription"]
    assert told["AttributeName"] == "ttl"
    assert told["TimeToLiveStatus"] in {"ENABLED", "ENABLING"}
    assert ckpt("-s", str(named.raw), "threads", "list", "-o", "json").json == []
    place.client.delete_table(TableName=named.path)


def test_no_store_is_made_in_a_table_of_something_else(place: DynamoDbHarness) -> None:
    item = {"PK": {"S": "user#1"}, "SK": {"S": "profile"}}
    place.client.put_item(TableName=place.table, Item=item)
    with pytest.raises(Refused, match="holds other items"):
        create_store(parse_url(place.url), Language.PYTHON)
    assert place.items() == [item]


def test_times_to_live_are_kept_in_seconds(scenes: Path, place: DynamoDbHarness) -> None:
    ends = 1_900_000_000_000
    records = [one._replace(expires_at=ends) for one in records_for(scenes, "dynamodb", ASKING)]
    receive(place.url, Arrival(ASKING, records))
    assert {one["ttl"]["N"] for one in place.items()} == {"1900000000"}
    with open_store(place.url) as store:
        assert {one.expires_at for one in stored_records(store, ASKING)} == {ends}


def test_long_payloads_go_to_the_bucket_or_are_compressed(
    scenes: Path, place: DynamoDbHarness
) -> None:
    records = records_for(scenes, "dynamodb", ASKING)
    at = next(n for n, one in enumerate(records) if one.kind is Kind.WRITE)
    texts = b"words " * 70_000, random.Random(1).randbytes(500_000)
    records[at] = records[at]._replace(value=TypedBytes("bytes", texts[0]))
    name, _, _ = place.url.partition("&bucket=")
    receive(name, Arrival(ASKING, records))
    assert place.objects() == {}
    check_stored(place.url, ASKING, records)
    place.forget(ASKING)
    records[at] = records[at]._replace(value=TypedBytes("bytes", texts[1]))
    with pytest.raises(CannotHold, match="too long"):
        receive(name, Arrival(ASKING, records))
    assert place.items() == []
    receive(place.url, Arrival(ASKING, records))
    assert len(place.objects()) == 1
    check_stored(place.url, ASKING, records)


def long_thread(records: list[Record]) -> list[Record]:
    """As many checkpoints as no transaction can hold, with writes."""
    one = next(record for record in records if record.kind is Kind.CHECKPOINT)
    write = next(record for record in records if record.kind is Kind.WRITE)
    found: list[Record] = []
    for number in range(LONG):
        key = one.key._replace(thread_id="long", checkpoint_ns="", checkpoint_id=f"{number:05}")
        parent = f"{number - 1:05}" if number else None
        found += [one._replace(key=key, parent=parent), write._replace(key=key)]
    return found


class KilledError(BaseException):
    """A run that was killed."""


@pytest.mark.nightly
def test_killed_runs_are_completed_by_the_next_one(
    scenes: Path, place: DynamoDbHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each run here ends after one transaction."""
    records = long_thread(records_for(scenes, "dynamodb", "fanout-send"))
    transact = DynamoWriter.transact
    done: list[int] = []

    def once(self: Any, actions: Any) -> None:
        if done:
            raise KilledError
        transact(self, actions)
        done.append(len(actions))

    monkeypatch.setattr(DynamoWriter, "transact", once)
    seen: list[int] = []
    while not seen or seen[-1] < LONG:
        done.clear()
        with open_store(place.url) as store:
            there = store.thread("long")
            known = {record_key(one) for one in stored_records(store, "long")}
        head = there.head if there is not None else None
        seen.append(0 if there is None else there.checkpoints)
        missing = [one for one in records if record_key(one) not in known]
        with suppress(KilledError):
            receive(place.url, Arrival("long", missing, {"": head} if head else {}))
    # Nothing is seen until all payloads and writes are there, then the oldest hundred.
    assert sorted({*seen}) == [0, 100, LONG]
    check_stored(place.url, "long", records)


def test_a_payload_that_is_missing_is_not_copied(scenes: Path, place: DynamoDbHarness) -> None:
    receive(place.url, Arrival(ASKING, records_for(scenes, "dynamodb", ASKING)))
    chunk = next(one for one in place.items() if one["PK"]["S"].startswith("CHUNK_"))
    place.client.delete_item(TableName=place.table, Key={one: chunk[one] for one in ("PK", "SK")})
    with open_store(place.url) as store, pytest.raises(CannotHold, match="is missing"):
        list(records_of("dynamodb", store.rows(ASKING)))
