"""What a store of any layout receives, it reads back part for part."""

import os
import random
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from ckpt_backends.aws.dynamodb.records import records_of
from ckpt_backends.aws.dynamodb.write import DynamoWriter
from ckpt_backends.errors import Refused, StoreChanged, StoreUnavailable, Unsupported
from ckpt_backends.langgraph_dev import files
from ckpt_backends.model import Kind, Record, TypedBytes
from ckpt_backends.open_for_writing import create_store
from ckpt_backends.registry import open_store
from ckpt_backends.testing.filling import quiet
from ckpt_backends.testing.harness import Harness
from ckpt_backends.testing.scenarios.catalog import SCENARIOS
from ckpt_backends.transfer.bodies import close_body, open_body
from ckpt_backends.transfer.copying import Arrival, record_key
from ckpt_backends.transfer.form import CannotHold, Language
from ckpt_backends.url import parse_url
from tests.copy.round_trip import (
    check_round_trip,
    check_stored,
    half,
    newest_of,
    receive,
    records_for,
    run_scenarios,
    stored_records,
)
from tests.kit.command import ckpt
from tests.kit.harness.dynamodb import DynamoDbHarness
from tests.kit.harness.langgraph_dev import FileSaver, stored
from tests.kit.pairs import PYTHON, Places, creating, form_of
from tests.kit.servers import Server

FEW = ("interrupt-nested", "fanout-send", "two\nlines")
"""Threads for DynamoDB, whose test server takes 10 ms of CPU time for each request."""
PARALLEL = {"fanout-send", "error-parallel", "delta-often", "subgraph-stateful"}
"""Threads of which kagent cannot hold all writes: it has room for those of one task."""


def url_of(place: Harness) -> str:
    """The URL of a store that may be empty, of which Redis does not tell the layout."""
    return f"{place.url}?layout={place.name}" if place.name in {"redis", "valkey"} else place.url


LAYOUTS = [
    pytest.param(one, marks=() if one in {"sqlite", "langgraph-dev"} else pytest.mark.engines)
    for one in PYTHON
    if one.partition("-")[0] != "three" and form_of(one).receives
]


@pytest.fixture
def place(request: pytest.FixtureRequest, places: Places) -> Iterator[Harness]:
    """An empty store of each layout that can receive threads."""
    with places(PYTHON[request.param]) as made:
        if creating(made):
            create_store(parse_url(made.url), Language.PYTHON)
        yield made


@pytest.mark.parametrize("place", LAYOUTS, indirect=True)
def test_what_is_received_is_read_back_record_for_record(scenes: Path, place: Harness) -> None:
    names = {*FEW} if place.name == "dynamodb" else {*SCENARIOS} - place.skipped_scenarios
    left_out = PARALLEL if place.name == "kagent" else set()
    for name in check_round_trip(scenes, url_of(place), place.name, names - left_out):
        config: Any = {"configurable": {"thread_id": name, "checkpoint_ns": ""}}
        with quiet(), place.saver() as saver:
            assert SCENARIOS[name].build(saver).get_state(config).values, name
            versions = saver.get_tuple(config).checkpoint["channel_versions"]
            # It raises if another saver has counted.
            assert saver.get_next_version(max(versions.values()), None)


@pytest.mark.parametrize(
    "place", [one for one in LAYOUTS if one.values != ("kagent",)], indirect=True
)
def test_a_thread_that_went_on_gets_the_rest_and_only_that(
    scenes: Path, place: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ckpt_backends.sql.write._ROWS", 1)  # each row is sent at once
    thread, url = "fanout-send", url_of(place)
    records = records_for(scenes, place.name, thread)
    early, late = half(records)
    # One more write at a checkpoint that is there with other writes.
    writes = [one for one in early if one.kind is Kind.WRITE]
    again = next(one for one in writes if [other.key for other in writes].count(one.key) > 1)
    early.remove(again)
    late.append(again)

    def stopping() -> Iterator[Record]:
        yield from early
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        receive(url, Arrival(thread, stopping()))
    check_stored(url, thread, [])
    receive(url, Arrival(thread, early))
    newest = newest_of(early)
    for heads in ({}, {"": "another"}):
        with pytest.raises(StoreChanged):
            receive(url, Arrival(thread, late, heads))
    check_stored(url, thread, early)
    receive(url, Arrival(thread, late, {"": newest}))
    check_stored(url, thread, records)
    with open_store(url) as store:
        found = store.thread(thread)
        assert found is not None
        assert found.head == newest_of(records) > newest
        assert list(store.thread_faults(thread)) == []


pytestmark = pytest.mark.filterwarnings("ignore")

FILES = files.NAMES


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = tmp_path / "project" / ".langgraph_api"
    create(found)
    return found


def create(path: Path) -> None:
    create_store(parse_url(f"langgraph-dev:///{path}"), Language.PYTHON)


def test_a_new_folder_is_as_the_server_makes_it(folder: Path, tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    FileSaver(theirs).sync()
    assert stored(folder) == stored(theirs)
    assert not {*os.listdir(folder)} - {*FILES}
    before = stored(folder)
    create(folder)
    create(folder.parent)
    assert stored(folder) == before
    assert ckpt("-s", folder, "threads", "list", "-o", "json").json == []


def test_a_folder_is_made_only_where_nothing_else_is(tmp_path: Path) -> None:
    (tmp_path / ".langgraph_api").mkdir()
    (tmp_path / ".langgraph_api" / "notes.txt").write_text("mine")
    with pytest.raises(Refused, match=r"notes\.txt"):
        create(tmp_path)
    (tmp_path / ".langgraph_api" / "notes.txt").unlink()
    (tmp_path / ".langgraph_api" / "store.pckl").write_text("theirs")
    with pytest.raises(StoreUnavailable, match="is running"):
        create(tmp_path)
    os.utime(tmp_path / ".langgraph_api" / "store.pckl", (0, 0))
    create(tmp_path)
    assert {*os.listdir(tmp_path / ".langgraph_api")} == {*FILES, "store.pckl"}


def test_nothing_is_received_while_the_server_runs(scenes: Path, folder: Path) -> None:
    before = stored(folder)
    (folder / ".langgraph_ops.pckl").write_bytes(b"")
    result = ckpt("-s", scenes, "copy", "--all", "--to", folder, "--yes")
    assert result.code != 0
    assert "langgraph dev is running" in result.err
    (folder / ".langgraph_ops.pckl").unlink()
    assert stored(folder) == before


def test_all_threads_of_a_call_are_added_or_none(scenes: Path, folder: Path) -> None:
    first, second = (records_for(scenes, "langgraph-dev", one) for one in ("chat", "zoo-nested"))
    before = stored(folder)
    write = next(one for one in first if one.kind is Kind.WRITE)
    far = Record.write(write.key, write.task_id, "", 1 << 40, write.channel, write.value)
    with pytest.raises(CannotHold, match="has the index"):
        receive(folder, Arrival("zoo-nested", second), Arrival("chat", [*first, far]))
    assert stored(folder) == before


def test_versions_keep_the_type_that_bodies_have(scenes: Path, folder: Path) -> None:
    """Releases of LangGraph before 0.2 counted versions in integers."""
    records = records_for(scenes, "langgraph-dev", "chat")
    texts = sorted({one.version for one in records if one.kind is Kind.VALUE})
    for at, record in enumerate(records):
        if record.kind is Kind.VALUE:
            records[at] = record._replace(version=str(texts.index(record.version) + 1))
        elif record.kind is Kind.CHECKPOINT:
            body = open_body(record.value, "")
            versions = body.fields["channel_versions"]
            body.fields["channel_versions"] = {
                name: texts.index(one) + 1 for name, one in versions.items()
            }
            records[at] = record._replace(value=close_body(body, "msgpack", "", has_values=False))
    receive(folder, Arrival("chat", records))
    with pytest.raises(StoreChanged):  # what is there is not added again
        receive(folder, Arrival("chat", records, {"": newest_of(records)}))
    saver = FileSaver(folder)
    assert {type(key[3]) for key in saver.blobs} == {int}
    newest = saver.get_tuple({"configurable": {"thread_id": "chat"}})
    assert newest is not None
    assert newest.checkpoint["channel_values"]
    # The saver makes namespaces by asking for them.
    assert saver.storage["chat"]["a namespace that is new"] == {}
    check_stored(folder, "chat", records)


def test_old_folders_are_read_and_not_written(scenes: Path, tmp_path: Path, folder: Path) -> None:
    """langgraph-checkpoint before 2.1 stored values in bodies, and had no third file."""
    old = tmp_path / "old" / ".langgraph_api"
    saver = FileSaver(old)
    run_scenarios(saver, "chat")
    config: Any = {"configurable": {"thread_id": "chat", "checkpoint_ns": ""}}
    values = {one.checkpoint["id"]: one.checkpoint["channel_values"] for one in saver.list(config)}
    rows = saver.storage["chat"][""]
    for one in list(saver.list(config)):
        _, metadata, parent = rows[one.checkpoint["id"]]
        rows[one.checkpoint["id"]] = saver.serde.dumps_typed(one.checkpoint), metadata, parent
    saver.sync()
    (old / FILES[2]).unlink()
    ckpt("-s", old, "copy", "chat", "--to", folder, "--yes", code=0)
    there = FileSaver(folder)
    found = {one.checkpoint["id"]: one.checkpoint["channel_values"] for one in there.list(config)}
    assert found == values
    with pytest.raises(Unsupported, match=r"before 2\.1"):
        check_round_trip(scenes, old, "langgraph-dev")


# DynamoDB, whose test server takes 10 ms of CPU time for each request

ASKING = "interrupt-nested"


@pytest.fixture
def dynamodb(dynamodb_server: Server, tmp_path: Path) -> Iterator[DynamoDbHarness]:
    with DynamoDbHarness(tmp_path, dynamodb_server) as made:
        yield made


@pytest.mark.engines
def test_items_are_as_the_saver_stores_them(scenes: Path, dynamodb: DynamoDbHarness) -> None:
    receive(dynamodb.url, Arrival(ASKING, records_for(scenes, "dynamodb", ASKING)))
    before = dynamodb.items()
    thread = SCENARIOS[ASKING].thread_config()
    saved = next(dynamodb.kept_saver.list(thread))
    dynamodb.kept_saver.put(saved.parent_config or thread, saved.checkpoint, saved.metadata, {})
    assert dynamodb.items() == before


@pytest.mark.engines
def test_a_new_table_is_as_the_template_makes_it(dynamodb: DynamoDbHarness) -> None:
    named = parse_url(dynamodb.url.replace(dynamodb.table, f"{dynamodb.table}-new"))
    create_store(named, Language.PYTHON)
    create_store(named, Language.PYTHON)
    new = dynamodb.client.describe_table(TableName=named.path)["Table"]
    old = dynamodb.client.describe_table(TableName=dynamodb.table)["Table"]
    for shown in ("KeySchema", "AttributeDefinitions"):
        assert new[shown] == old[shown]
    assert new["BillingModeSummary"]["BillingMode"] == "PAY_PER_REQUEST"
    told = dynamodb.client.describe_time_to_live(TableName=named.path)["TimeToLiveDescription"]
    assert told["AttributeName"] == "ttl"
    assert told["TimeToLiveStatus"] in {"ENABLED", "ENABLING"}
    assert ckpt("-s", str(named.raw), "threads", "list", "-o", "json").json == []
    dynamodb.client.delete_table(TableName=named.path)


@pytest.mark.engines
def test_no_store_is_made_in_a_table_of_something_else(dynamodb: DynamoDbHarness) -> None:
    item = {"PK": {"S": "user#1"}, "SK": {"S": "profile"}}
    dynamodb.client.put_item(TableName=dynamodb.table, Item=item)
    with pytest.raises(Refused, match="holds other items"):
        create_store(parse_url(dynamodb.url), Language.PYTHON)
    assert dynamodb.items() == [item]


@pytest.mark.engines
def test_times_to_live_are_kept_in_seconds(scenes: Path, dynamodb: DynamoDbHarness) -> None:
    ends = 1_900_000_000_000
    records = [one._replace(expires_at=ends) for one in records_for(scenes, "dynamodb", ASKING)]
    receive(dynamodb.url, Arrival(ASKING, records))
    assert {one["ttl"]["N"] for one in dynamodb.items()} == {"1900000000"}
    with open_store(dynamodb.url) as store:
        assert {one.expires_at for one in stored_records(store, ASKING)} == {ends}


@pytest.mark.engines
def test_long_payloads_go_to_s3_or_are_compressed(scenes: Path, dynamodb: DynamoDbHarness) -> None:
    records = records_for(scenes, "dynamodb", ASKING)
    at = next(n for n, one in enumerate(records) if one.kind is Kind.WRITE)
    texts = b"words " * 70_000, random.Random(1).randbytes(500_000)
    records[at] = records[at]._replace(value=TypedBytes("bytes", texts[0]))
    name, _, _ = dynamodb.url.partition("&bucket=")
    receive(name, Arrival(ASKING, records))
    assert dynamodb.objects() == {}
    check_stored(dynamodb.url, ASKING, records)
    dynamodb.forget(ASKING)
    records[at] = records[at]._replace(value=TypedBytes("bytes", texts[1]))
    with pytest.raises(CannotHold, match="too long"):
        receive(name, Arrival(ASKING, records))
    assert dynamodb.items() == []
    receive(dynamodb.url, Arrival(ASKING, records))
    assert len(dynamodb.objects()) == 1
    check_stored(dynamodb.url, ASKING, records)


class KilledError(BaseException):
    """A run that was killed."""


@pytest.mark.engines
def test_killed_runs_are_completed_by_the_next_one(
    scenes: Path, dynamodb: DynamoDbHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each run here ends after one transaction, which holds a part of the thread."""
    records = records_for(scenes, "dynamodb", "chat")
    transact, done, seen = DynamoWriter.transact, list[object](), list[int]()

    def once(self: Any, actions: Any) -> None:
        if done:
            raise KilledError
        transact(self, actions)
        done.append(actions)

    monkeypatch.setattr(DynamoWriter, "transact", once)
    monkeypatch.setattr("ckpt_backends.aws.dynamodb.write._MOST_ACTIONS", 4)
    missing = records
    while missing:
        done.clear()
        with open_store(dynamodb.url) as store:
            there = store.thread("chat")
            known = {record_key(one) for one in stored_records(store, "chat")}
        seen.append(0 if there is None else there.checkpoints)
        missing = [one for one in records if record_key(one) not in known]
        with suppress(KilledError):
            heads = {} if there is None else {"": str(there.head)}
            receive(dynamodb.url, Arrival("chat", missing, heads))
    # Nothing is seen until all payloads and writes are there, then the oldest checkpoints.
    assert seen == sorted(seen)
    assert seen[1] == 0 < len({*seen}) - 2
    check_stored(dynamodb.url, "chat", records)


@pytest.mark.engines
def test_a_missing_payload_is_not_copied(scenes: Path, dynamodb: DynamoDbHarness) -> None:
    receive(dynamodb.url, Arrival(ASKING, records_for(scenes, "dynamodb", ASKING)))
    chunk = next(one for one in dynamodb.items() if one["PK"]["S"].startswith("CHUNK_"))
    dynamodb.client.delete_item(
        TableName=dynamodb.table, Key={one: chunk[one] for one in ("PK", "SK")}
    )
    with open_store(dynamodb.url) as store, pytest.raises(CannotHold, match="is missing"):
        list(records_of("dynamodb", store.rows(ASKING)))
