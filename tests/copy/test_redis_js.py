"""`ckpt copy` to and from the documents of LangGraph.js in Redis."""

import json
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
import redis

from ckpt_backends.model import CheckpointKey, Record, TypedBytes
from ckpt_backends.open_for_writing import create_store
from ckpt_backends.registry import open_store
from ckpt_backends.transfer.convert import Conversion
from ckpt_backends.transfer.copying import Arrival, route
from ckpt_backends.transfer.form import CannotHold, Language
from ckpt_backends.transfer.sealing import AsStored
from ckpt_backends.url import parse_url
from tests.copy.round_trip import check_only_heads, receive, records_for, stored_records, sum_of
from tests.kit.command import FIXTURES
from tests.kit.plugin import redis_of_its_own
from tests.kit.savers.redis import dump
from tests.kit.stores import restore_javascript_keys

pytestmark = pytest.mark.engines

FOLDER = FIXTURES / "js-1.7.3"
SCENES = (
    *("chat", "interrupt-nested", "interrupt-parallel", "fanout-send", "delta-often"),
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


def records(source: str, thread_id: str) -> list[Record]:
    return records_for(source, "redis-js", thread_id, Language.JAVASCRIPT)


@pytest.fixture
def sent(source: str, target: str) -> dict[str, list[Record]]:
    """The parts of some threads, which the target has, too."""
    found = {name: records(source, name) for name in SCENES}
    receive(target, *(Arrival(name, parts) for name, parts in found.items()))
    with open_store(target) as store:
        for name, parts in found.items():
            assert sum_of(stored_records(store, name)) == sum_of(parts), name
    return found


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


def test_a_thread_without_history_has_one_checkpoint(redis_stack_url: str) -> None:
    restore_javascript_keys(FOLDER / "redis-shallow.jsonl.gz", redis_stack_url)
    with open_store(redis_stack_url) as store:
        for name in [one.thread_id for one in store.threads()]:
            check_only_heads(store, name)


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
