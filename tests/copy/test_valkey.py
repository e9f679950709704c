"""What only ValkeySaver has when threads are copied to or from it."""

import json
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ckpt_backends.errors import Refused
from ckpt_backends.model import Kind, TypedBytes
from ckpt_backends.open_for_writing import create_store
from ckpt_backends.redis.engine import changes as receiving
from ckpt_backends.registry import open_store
from ckpt_backends.transfer.copying import Arrival
from ckpt_backends.transfer.form import CannotHold, Language
from ckpt_backends.url import parse_url
from tests.copy.round_trip import (
    check_round_trip,
    half,
    in_order,
    newest_of,
    receive,
    records_for,
    sqlite_source,
    stored_records,
)
from tests.kit.command import ckpt
from tests.kit.harness.valkey import ValkeyHarness
from tests.kit.opening import empty_store

pytestmark = pytest.mark.engines

THREAD = "fanout-send"
START = "{fanout-send}:"


@pytest.fixture(scope="module")
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ValkeyHarness]:
    with empty_store(ValkeyHarness, request, tmp_path_factory.mktemp("valkey")) as made:
        yield made


@pytest.fixture
def place(server: ValkeyHarness) -> ValkeyHarness:
    """An empty server."""
    server.client.flushall()
    return server


def url_of(place: ValkeyHarness) -> str:
    """The URL of a store that may be empty."""
    return f"{place.url}?layout=valkey"


def test_lists_are_as_the_saver_makes_them(scenes: Path, place: ValkeyHarness) -> None:
    for name in check_round_trip(scenes, url_of(place), "valkey"):
        for ns in place._namespaces(name):
            ids = place._ids(name, ns)
            assert ids == sorted(ids, reverse=True)


def test_a_copy_is_made_in_an_empty_database_only(scenes: Path, place: ValkeyHarness) -> None:
    words = ("-s", scenes, "copy", THREAD, "--yes", "--to")
    assert ckpt(*words, place.url).code == 4
    assert ckpt(*words, place.url, "--create").code == 0
    assert ckpt(*words, place.url, "--create").code == 0
    assert ckpt("-s", place.url, "threads", "list", "-o", "json").json[0]["thread_id"] == THREAD
    place.client.flushall()
    place.client.set("session:1", "x")
    with pytest.raises(Refused, match="has other keys"):
        create_store(parse_url(place.url), Language.PYTHON)
    assert place.client.dbsize() == 1


def test_writes_are_in_the_order_of_the_tasks(scenes: Path, place: ValkeyHarness) -> None:
    """The saver stores no paths. So the order in which it returns writes is that of the paths."""
    records = records_for(scenes, "valkey", THREAD)
    random.Random(2).shuffle(records)
    receive(url_of(place), Arrival(THREAD, records))
    with open_store(str(scenes)) as store:
        wanted: dict[str, list[tuple[str, int]]] = {}
        for one in store.writes(THREAD):
            wanted.setdefault(one.key.checkpoint_id, []).append((one.task_id, one.idx))
    assert any(len({task for task, _ in some}) > 1 for some in wanted.values())
    for own, some in wanted.items():
        stored = json.loads(place.client.get(f"writes:{START}:{own}"))
        assert [(one["task_id"], one["idx"]) for one in stored] == some


def test_times_to_live_are_kept(scenes: Path, place: ValkeyHarness) -> None:
    ends = round(time.time() + 3600) * 1000
    records = [one._replace(expires_at=ends) for one in records_for(scenes, "valkey", THREAD)]
    receive(url_of(place), Arrival(THREAD, records))
    assert {place.client.pexpiretime(name) for name in place.client.scan_iter()} == {ends}
    with open_store(place.url) as store:
        assert {one.expires_at for one in stored_records(store, THREAD)} == {ends}
    at = next(n for n, one in enumerate(records) if one.kind is Kind.CHECKPOINT)
    records[at] = records[at]._replace(expires_at=None)
    place.client.flushall()
    receive(url_of(place), Arrival(THREAD, records))
    assert place.client.pttl(f"thread:{START}") == -1


@pytest.mark.parametrize("data", [b'{"score": NaN}', b'{"n": 18446744073709551616}', rb'"\ud800"'])
def test_metadata_that_the_saver_cannot_read_is_refused(
    data: bytes, scenes: Path, place: ValkeyHarness
) -> None:
    records = records_for(scenes, "valkey", THREAD)
    at = next(n for n, record in enumerate(records) if record.kind is Kind.CHECKPOINT)
    records[at] = records[at]._replace(metadata=TypedBytes("json", data))
    with pytest.raises(CannotHold, match="metadata of checkpoint"):
        receive(url_of(place), Arrival(THREAD, records))
    assert place.client.dbsize() == 0


@pytest.mark.parametrize("ns", ["b}:c", "\ud800"])
def test_keys_of_other_threads_are_refused(ns: str, scenes: Path, place: ValkeyHarness) -> None:
    records = [
        one._replace(key=one.key._replace(checkpoint_ns=ns))
        for one in records_for(scenes, "valkey", THREAD)
    ]
    with pytest.raises(CannotHold):
        receive(url_of(place), Arrival(THREAD, records))
    assert place.client.dbsize() == 0


def test_a_list_in_another_order_is_refused(scenes: Path, place: ValkeyHarness) -> None:
    """The saver loads another head than those of other layouts would."""
    receive(url_of(place), Arrival(THREAD, records_for(scenes, "valkey", THREAD)))
    newest = place.client.lpop(f"thread:{START}")
    place.client.rpush(f"thread:{START}", newest)
    with open_store(place.url) as store, pytest.raises(CannotHold, match="order of their ids"):
        stored_records(store, THREAD)
    place.client.lpush(f"thread:{START}", newest)
    place.client.delete(f"checkpoint:{START}:{newest.decode()}")
    with open_store(place.url) as store, pytest.raises(CannotHold, match="has expired"):
        stored_records(store, THREAD)


def test_an_order_that_another_layout_would_change_is_refused(
    place: ValkeyHarness, tmp_path: Path
) -> None:
    """The saver keeps the order of arrival; a DeltaChannel is rebuilt in this order."""
    name = "delta-rarely"
    records = records_for(sqlite_source(tmp_path / "delta.db", [name]), "valkey", name)
    receive(url_of(place), Arrival(name, records))
    for is_turned in (False, True):
        several = 0
        for key in place.client.scan_iter("writes:*"):
            stored = json.loads(place.client.get(key))
            stored.sort(key=lambda one: (one["task_id"], one["idx"]), reverse=is_turned)
            place.client.set(key, json.dumps(stored))
            several += len({one["task_id"] for one in stored if one["channel"] == "items"}) > 1
        assert several
        with open_store(place.url) as store:
            assert records_for(store, "valkey", name)
            if not is_turned:
                assert records_for(store, "sqlite", name)
                continue
            with pytest.raises(CannotHold, match="parallel tasks wrote to channel 'items'"):
                records_for(store, "sqlite", name)


def test_a_thread_is_copied_to_a_cluster(
    scenes: Path, cluster_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All keys of a thread are in one slot."""
    url = f"{cluster_url.replace('redis://', 'valkey://')}?layout=valkey"
    records = records_for(scenes, "valkey", THREAD)
    early, late = half(records)
    receive(url, Arrival(THREAD, early))
    monkeypatch.setattr(receiving, "_AT_ONCE", 100)
    receive(url, Arrival(THREAD, late, {"": newest_of(early)}))
    with open_store(url) as store:
        assert in_order(stored_records(store, THREAD)) == in_order(records)
