"""`ckpt copy` to and from the documents of LangGraph.js in Redis."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from ckpt_backends.errors import StoreChanged
from ckpt_backends.model import CheckpointKey, Kind, Record, TypedBytes
from ckpt_backends.open_for_writing import create_store
from ckpt_backends.protocol import Store
from ckpt_backends.redis.engine import changes as receiving
from ckpt_backends.registry import open_store
from ckpt_backends.transfer.convert import Conversion
from ckpt_backends.transfer.copying import Arrival, records_of_rows, route
from ckpt_backends.transfer.form import CannotHold, Language
from ckpt_backends.transfer.sealing import AsStored
from ckpt_backends.url import parse_url
from tests.copy.round_trip import half, receive, stored_records, sum_of
from tests.kit.command import FIXTURES, ckpt
from tests.kit.plugin import redis_of_its_own
from tests.kit.savers.redis import dump
from tests.kit.stores import restore_javascript_keys

pytestmark = pytest.mark.engines

FOLDER = FIXTURES / "js-1.7.3"
SCENES = (
    "chat",
    "interrupt-nested",
    "interrupt-parallel",
    "fanout-send",
    "delta-often",
    "subgraph",
)


@pytest.fixture(scope="module")
def source() -> Iterator[str]:
    """A Redis with the threads of LangGraph.js."""
    with redis_of_its_own(modules=True) as server:
        restore_javascript_keys(FOLDER / "redis.jsonl.gz", server.url)
        yield server.url


@pytest.fixture
def target(redis_stack_url: str) -> str:
    """A Redis with the indexes of LangGraph.js, and no thread."""
    create_store(parse_url(redis_stack_url), Language.JAVASCRIPT)
    return redis_stack_url


def records_for(source: Store, layout: str, thread_id: str) -> list[Record]:
    """The parts of a thread in the form of a layout."""
    here = source.describe().layout
    way = route(here, layout, Language.JAVASCRIPT)
    records = records_of_rows(here, source.rows(thread_id))
    return list(Conversion(way.source, way.target, AsStored()).of_thread(records))


@pytest.fixture
def sent(source: str, target: str) -> dict[str, list[Record]]:
    """The parts of some threads, which the target has, too."""
    with open_store(source) as store:
        found = {name: records_for(store, "redis-js", name) for name in SCENES}
    receive(target, *(Arrival(name, parts) for name, parts in found.items()))
    return found


def test_what_is_read_back_equals_what_was_sent(target: str, sent: dict[str, list[Record]]) -> None:
    with open_store(target) as store:
        for name, parts in sent.items():
            assert sum_of(stored_records(store, name)) == sum_of(parts), name


def test_writes_keep_the_order_of_arrival(
    source: str, target: str, sent: dict[str, list[Record]]
) -> None:
    for name in sent:
        orders = []
        for url in (source, target):
            with open_store(url) as store:
                orders.append([(one.key, one.task_id, one.idx) for one in store.writes(name)])
        assert orders[0] == orders[1]


def test_checkpoints_have_the_flag_of_writes_only_if_they_have_some(
    source: str, target: str, sent: dict[str, list[Record]]
) -> None:
    here, there = contents(source, sent), contents(target, sent)
    assert here.keys() == there.keys()
    for name, (value, expires_at) in here.items():
        if name.startswith(b"write_keys_zset:"):
            assert {one for one, _ in value} == {one for one, _ in there[name][0]}
            continue
        ours, theirs = json.loads(there[name][0]), json.loads(value)
        if name.startswith(b"checkpoint:"):
            listed = name.replace(b"checkpoint:", b"write_keys_zset:")
            assert ours.pop("has_writes") == ("true" if listed in there else "false")
            del theirs["has_writes"]  # `put` may overwrite what `putWrites` set
        for changed in ("checkpoint_ts", "timestamp", "global_idx", "checkpoint", "checkpoint_id"):
            ours.pop(changed, None)
            theirs.pop(changed, None)
        assert (ours, there[name][1]) == (theirs, expires_at)


def contents(url: str, names: Iterable[str]) -> dict[bytes, Any]:
    starts = tuple(f":{name}:".encode() for name in names)
    return {name: found for name, found in dump(url).items() if any(one in name for one in starts)}


def test_a_large_thread_comes_in_one_piece_too(
    source: str, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receiving, "_AT_ONCE", 2000)
    with open_store(source) as store:
        records = records_for(store, "redis-js", "chat")
    receive(target, Arrival("chat", records))
    with open_store(target) as store:
        assert sum_of(stored_records(store, "chat")) == sum_of(records)
    with redis.Redis.from_url(target) as client:
        assert not list(client.scan_iter("ckpt-copy:*"))


def test_a_second_run_adds_what_is_new(source: str, target: str) -> None:
    with open_store(source) as store:
        records = records_for(store, "redis-js", "chat")
    early, late = half(records)
    receive(target, Arrival("chat", early))
    with open_store(target) as store:
        heads = {"": max(one.key.checkpoint_id for one in store.checkpoints("chat"))}
    with pytest.raises(StoreChanged):
        receive(target, Arrival("chat", late))
    receive(target, Arrival("chat", late, heads))
    with open_store(target) as store:
        assert sum_of(stored_records(store, "chat")) == sum_of(records)
        assert list(store.thread_faults("chat")) == []


@pytest.mark.parametrize(
    ("first", "second"), [({"a": [1]}, {"a": [2]}), ({"a": [1]}, {}), ({}, {"a": [1]})]
)
def test_two_values_of_one_version_are_refused(target: str, first: Any, second: Any) -> None:
    parts = [_checkpoint(1, first), _checkpoint(2, second)]
    with pytest.raises(CannotHold, match="channel 'a'"):
        receive(target, Arrival("t", parts))
    with open_store(target) as store:
        assert stored_records(store, "t") == []


def test_another_value_of_a_stored_version_is_refused(target: str) -> None:
    one, other = _checkpoint(1, {"a": [1]}), _checkpoint(2, {"a": [2]})
    receive(target, Arrival("t", [one]))
    with pytest.raises(CannotHold, match="channel 'a'"):
        receive(target, Arrival("t", [other], {"": one.key.checkpoint_id}))
    with open_store(target) as store:
        assert len(list(store.checkpoints("t"))) == 1


def _checkpoint(number: int, values: Any) -> Record:
    key = CheckpointKey("t", "", f"1f1e5ee4-fcba-6c9b-800{number}-111938b50809")
    body = {"v": 4, "id": key.checkpoint_id, "channel_values": values}
    body |= {"channel_versions": {"a": 3}, "versions_seen": {}}
    data = TypedBytes("json", json.dumps(body).encode())
    return Record.checkpoint(key, None, data, TypedBytes("json", b"{}"))


def test_what_redis_cannot_hold_is_refused(target: str) -> None:
    one = _checkpoint(1, {})
    write = Record.write(one.key, "task", "", 0, "a", TypedBytes("bytes", b"x"))
    with pytest.raises(CannotHold, match=r"write to 'a'.*'bytes'"):
        receive(target, Arrival("t", [one, write]))
    with pytest.raises(CannotHold, match="thread id"):
        receive(target, Arrival("t*", [one._replace(key=one.key._replace(thread_id="t*"))]))


def test_threads_come_back_from_a_file(source: str, target: str, tmp_path: Path) -> None:
    path = str(tmp_path / "copy.db")
    done = ckpt("-s", source, "copy", "--all", "--to", path, "--create", "--yes", "-o", "json")
    assert done.code in {0, 7}, done.err
    assert done.json["verified"]
    done = ckpt("-s", path, "copy", *SCENES, "--to", target, "--yes", "-o", "json")
    assert (done.code, done.json["verified"]) == (0, True), done.err
    for name in SCENES:
        for words in (["history"], ["show"]):
            answers = [
                ckpt("-s", one, *words, name, "-o", "json") for one in (source, path, target)
            ]
            assert answers[0].json == answers[1].json == answers[2].json


def test_a_thread_without_history_has_one_checkpoint(redis_stack_url: str) -> None:
    restore_javascript_keys(FOLDER / "redis-shallow.jsonl.gz", redis_stack_url)
    with open_store(redis_stack_url) as store:
        for name in [one.thread_id for one in store.threads()]:
            records = stored_records(store, name)
            told = {one.key: one for one in store.checkpoints(name, body=True)}
            for one in records:
                if one.kind is Kind.CHECKPOINT:
                    body = told.pop(one.key).body
                    assert body is not None
                    assert json.loads(body.data) == json.loads(one.value.data)
            assert told == {}
            heads = {one.key for one in records if one.kind is Kind.CHECKPOINT}
            writes = [one for one in records if one.kind is Kind.WRITE]
            assert {one.key for one in writes} <= heads
            stored = [one for one in store.writes(name) if one.key in heads]
            assert len(writes) == len(stored)


def test_new_indexes_are_those_of_the_saver(redis_stack_url: str) -> None:
    create_store(parse_url(redis_stack_url), Language.JAVASCRIPT)
    with redis.Redis.from_url(redis_stack_url, protocol=2) as client:
        found = {}
        for name in client.execute_command("FT._LIST"):
            about = client.execute_command("FT.INFO", name)
            fields = {one[3].decode(): one[5].decode() for one in about[7]}
            found[name.decode()] = (about[5][3][0].decode(), fields)
    place = dict.fromkeys(("thread_id", "checkpoint_ns", "checkpoint_id"), "TAG")
    assert found == {
        "checkpoints": (
            "checkpoint:",
            {
                **place,
                **{"parent_checkpoint_id": "TAG", "checkpoint_ts": "NUMERIC"},
                **{"has_writes": "TAG", "source": "TAG", "step": "NUMERIC"},
            },
        ),
        "checkpoint_blobs": (
            "checkpoint_blob:",
            {**place, "channel": "TAG", "version": "TAG", "type": "TAG"},
        ),
        "checkpoint_writes": (
            "checkpoint_write:",
            {**place, "task_id": "TAG", "idx": "NUMERIC", "channel": "TAG", "type": "TAG"},
        ),
    }
    with open_store(redis_stack_url) as store:
        assert store.describe().layout == "redis-js"


@pytest.mark.parametrize(("first", "second"), [({"a": [1]}, {}), ({}, {"a": [1]})])
def test_other_layouts_refuse_a_version_with_and_without_a_value(first: Any, second: Any) -> None:
    way = route("redis-js", "postgres", Language.JAVASCRIPT)
    conversion = Conversion(way.source, way.target, AsStored())
    with pytest.raises(CannotHold, match="channel 'a'"):
        list(conversion.of_thread([_checkpoint(1, first), _checkpoint(2, second)]))
    snapshot = {"a": {"lg_name": "DeltaSnapshot", "value": [1]}}
    found = [_checkpoint(n, snapshot if one else {}) for n, one in ((1, first), (2, second))]
    assert len(list(conversion.of_thread(found))) == 3
