"""`ckpt copy` to and from Redis: documents of RedisSaver, hashes, and those of plainredis."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import langgraph_checkpoint_plainredis
import pytest
import redis
from langgraph.checkpoint.redis import RedisSaver, ShallowRedisSaver

from ckpt_backends.errors import Refused, StoreChanged, Unsupported
from ckpt_backends.model import CheckpointKey, Kind, Record, TypedBytes
from ckpt_backends.open_for_writing import create_store
from ckpt_backends.redis.engine import changes as receiving
from ckpt_backends.registry import open_store
from ckpt_backends.rows import Row
from ckpt_backends.testing.filling import quiet
from ckpt_backends.testing.scenarios.catalog import SCENARIOS
from ckpt_backends.testing.scenarios.running import ScenarioRun
from ckpt_backends.transfer.copying import Arrival, records_of_rows
from ckpt_backends.transfer.form import CannotHold, Language
from ckpt_backends.url import parse_url
from tests.copy.round_trip import (
    check_only_heads,
    check_round_trip,
    check_told,
    half,
    in_order,
    newest_of,
    receive,
    records_for,
    run_scenarios,
    stored_records,
    sum_of,
)
from tests.kit.command import FIXTURES, later
from tests.kit.plugin import redis_of_its_own
from tests.kit.savers.redis import PlainRedisSaver, dump
from tests.kit.savers.redis_threads import client
from tests.kit.stores import restore_keys

SCENES = (
    *("chat", "interrupt-nested", "fanout-send", "subgraph-stateful", "delta-often"),
    "two\nlines",
)


@pytest.fixture(scope="module")
def source(request: pytest.FixtureRequest) -> Iterator[str]:
    """A Redis with threads of RedisSaver."""
    with redis_of_its_own(modules=True) as server:
        with RedisSaver.from_conn_string(server.url) as saver:
            saver.setup()
            run_scenarios(saver, *SCENES)
        yield server.url


@pytest.fixture
def target(redis_stack_url: str) -> str:
    """A Redis with the indexes of RedisSaver, and no thread."""
    with RedisSaver.from_conn_string(redis_stack_url) as saver:
        saver.setup()
    return f"{redis_stack_url}?layout=redis"


def client_url(url: str) -> str:
    return url.partition("?")[0]


def test_the_keys_are_those_of_the_saver(source: str, target: str) -> None:
    check_round_trip(source, target, "redis")
    assert contents(target) == contents(source)


def contents(url: str) -> dict[bytes, Any]:
    """The contents of all keys that the saver wrote, without times and the flag of writes."""
    found: dict[bytes, Any] = {}
    for name, (value, expires_at) in dump(url.partition("?")[0]).items():
        if name.startswith(b"checkpoint:"):
            fields = json.loads(value)
            del fields["has_writes"], fields["checkpoint_ts"]
            found[name] = fields, expires_at
        elif name.startswith(b"checkpoint_write:"):
            found[name] = json.loads(value), expires_at
        elif name.startswith(b"write_keys_zset:"):
            found[name] = {member for member, _ in value}, expires_at
        else:
            found[name] = value, expires_at
    return found


def test_a_large_thread_comes_in_one_piece_too(
    source: str, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receiving, "_AT_ONCE", 2000)
    check_round_trip(source, target, "redis")
    # Nothing is left of the names that documents had first, nor of their times to live.
    assert contents(target) == contents(source)
    assert listed(target) == listed(source)


def listed(url: str) -> set[str]:
    """The checkpoints that RedisSaver lists."""
    with RedisSaver.from_conn_string(client_url(url)) as saver:
        saver.setup()
        found = [one.config["configurable"] for one in saver.list(None)]
    return {f"{one['thread_id']} {one['checkpoint_ns']} {one['checkpoint_id']}" for one in found}


@pytest.mark.parametrize("layout", ["redis", *later("valkey")])
def test_a_stopped_copy_of_a_large_thread_shows_nothing(
    layout: str,
    source: str,
    scenes: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(receiving, "_AT_ONCE", 2000)
    if layout == "redis":
        url = request.getfixturevalue("target")
        records = records_for(source, layout, "chat")
    else:
        url = f"{request.getfixturevalue('redis_url')}?layout=valkey"
        records = records_for(scenes, layout, "chat")

    def stopping() -> Iterator[Record]:
        yield from records[:-2]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        receive(url, Arrival("chat", stopping()))
    with open_store(url) as store:
        assert store.thread("chat") is None
        assert stored_records(store, "chat") == []
    with client(client_url(url)) as connected:
        left = list(connected.scan_iter())
        assert left
        assert all(connected.pttl(name) > 0 for name in left)
        # What is left is not in the way of the next run.
        receive(url, Arrival("chat", records))
        with open_store(url) as store:
            assert sum_of(stored_records(store, "chat")) == sum_of(records)
        assert not list(connected.scan_iter("ckpt-copy:*"))


def test_a_second_run_moves_the_pointer(source: str, target: str) -> None:
    records = records_for(source, "redis", "chat")
    early, late = half(records)
    receive(target, Arrival("chat", early))
    pointer = b"checkpoint_latest:chat:__empty__"
    assert contents(target)[pointer][0].endswith(newest_of(early).encode())
    with pytest.raises(StoreChanged):
        receive(target, Arrival("chat", records))
    receive(target, Arrival("chat", late, {"": newest_of(early)}))
    assert contents(target)[pointer][0].endswith(newest_of(records).encode())


def test_all_keys_of_a_thread_expire_if_its_parts_do(source: str, target: str) -> None:
    at = 4_000_000_000_000
    found = records_for(source, "redis", "fanout-send")
    records = [one._replace(expires_at=at) for one in found]
    receive(target, Arrival("fanout-send", records))
    with client(client_url(target)) as connected:
        names = list(connected.scan_iter())
        assert {connected.execute_command("PEXPIRETIME", name) for name in names} == {at}
    with open_store(target) as store:
        assert in_order(stored_records(store, "fanout-send")) == in_order(records)
        assert list(store.thread_faults("fanout-send")) == []


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (b"[" * 120 + b"]" * 120, "127 levels"),
        (b"18446744073709551616", "64 bits"),
        (b'"\\ud800"', "surrogate"),
    ],
)
def test_what_the_engine_would_change_is_refused(target: str, value: bytes, words: str) -> None:
    key = CheckpointKey("t", "", "1f1e5ee4-fcba-6c9b-8002-111938b50809")
    deep = value * 1 if value[:1] != b"[" else b"[" * 8 + value + b"]" * 8
    body = TypedBytes("redis-json", b'{"v":4,"channel_values":{"x":' + deep + b"}}")
    part = Record.checkpoint(key, None, body, TypedBytes("redis-json", b"{}"))
    with pytest.raises(CannotHold, match=words):
        receive(target, Arrival("t", [part]))
    with client(client_url(target)) as connected:
        assert not list(connected.scan_iter())


@pytest.mark.in_ci("lg-0.4.10", "lg-1.0.10")
@pytest.mark.parametrize("era", ["lg-0.4.10", "lg-0.6.11", "lg-1.0.3", "lg-1.0.10"])
@pytest.mark.engines
def test_records_of_older_releases_are_what_the_store_tells(redis_stack_url: str, era: str) -> None:
    restore_keys(FIXTURES / "redis" / era / "store.jsonl.gz", redis_stack_url)
    with open_store(redis_stack_url) as store:
        for name in [one.thread_id for one in store.threads()]:
            check_told(store, name, stored_records(store, name))


def test_a_thread_without_history_has_one_checkpoint_and_its_writes(redis_stack_url: str) -> None:
    with ShallowRedisSaver.from_conn_string(redis_stack_url) as saver:
        saver.setup()
        run_scenarios(saver, "interrupt-nested")
    with open_store(redis_stack_url) as store:
        check_only_heads(store, "interrupt-nested")


def test_a_field_without_a_place_is_refused() -> None:
    cells = {"key": "checkpoint:t:__empty__:1", "type": "ReJSON-RL", "expires_at": None}
    document: dict[str, Any] = {"thread_id": "t", "checkpoint_ns": "__empty__"}
    document |= {"checkpoint_id": "1", "checkpoint": {}, "metadata": "{}", "has_writes": False}
    for extra in ({"tenant": "a"}, {"run_id": "r1"}):
        row = Row("checkpoint", {**cells, "value": json.dumps({**document, **extra})})
        with pytest.raises(CannotHold, match=r"tenant|run id"):
            list(records_of_rows("redis", [row]))


def test_new_indexes_are_those_of_the_saver(redis_stack_url: str, source: str) -> None:
    create_store(parse_url(redis_stack_url), Language.PYTHON)
    assert indexes(redis_stack_url) == indexes(source)
    with open_store(redis_stack_url) as store:
        assert store.describe().layout == "redis"
        assert list(store.threads()) == []
    create_store(parse_url(redis_stack_url), Language.PYTHON)
    check_round_trip(source, redis_stack_url, "redis")
    create_store(parse_url(redis_stack_url), Language.PYTHON)
    with pytest.raises(Refused, match="layout 'redis'"):
        create_store(parse_url(redis_stack_url), Language.JAVASCRIPT)


def indexes(url: str) -> dict[bytes, Any]:
    """The definition and the fields of each search index."""
    with client(client_url(url)) as connected:
        return {
            name: connected.execute_command("FT.INFO", name)[2:8]
            for name in connected.execute_command("FT._LIST")
        }


def test_no_indexes_are_made_beside_other_keys(redis_stack_url: str) -> None:
    with client(redis_stack_url) as connected:
        connected.set("session:1", "x")
        with pytest.raises(Refused, match="not empty"):
            create_store(parse_url(redis_stack_url), Language.PYTHON)
        assert connected.execute_command("FT._LIST") == []


def test_without_a_search_module_no_store_is_made(redis_url: str) -> None:
    with pytest.raises(Unsupported, match="RediSearch"):
        create_store(parse_url(redis_url), Language.PYTHON)


@pytest.mark.engines
def test_a_cluster_takes_threads_whose_keys_share_a_slot(source: str, cluster_url: str) -> None:
    url = f"{cluster_url}?layout=redis"
    records = records_for(source, "redis", "chat")
    with pytest.raises(Unsupported, match="cluster"):
        receive(url, Arrival("chat", records))
    with open_store(url) as store:
        assert stored_records(store, "chat") == []
    together = [one._replace(key=one.key._replace(thread_id="{chat}")) for one in records]
    receive(url, Arrival("{chat}", together))
    with open_store(url) as store:
        assert in_order(stored_records(store, "{chat}")) == in_order(together)


PLAIN_SCENES = ("interrupt-nested", "fanout-send", "chat")


@pytest.fixture(params=["redis-hash", "redis-hash-colon", "redis-plain"])
def rows(request: pytest.FixtureRequest, redis_url: str) -> Iterator[dict[str, list[Row]]]:
    """The rows of some threads of a layout; the last one is `a:b`."""
    with redis.Redis.from_url(redis_url) as client:
        saver: Any = PlainRedisSaver(client, "$" if request.param == "redis-hash" else ":")
        if request.param == "redis-plain":
            saver = langgraph_checkpoint_plainredis.RedisSaver(url=redis_url)
        with quiet():
            for name in (*PLAIN_SCENES, "a:b"):
                one = SCENARIOS.get(name) or SCENARIOS["interrupt-nested"]
                config = one.thread_config()
                config["configurable"] = {**config["configurable"], "thread_id": name}
                one.drive(ScenarioRun(one.build(saver), config, {}))
    with open_store(redis_url) as store:
        assert store.describe().layout == request.param
        yield {name: list(store.rows(name)) for name in (*PLAIN_SCENES, "a:b")}


def test_records_are_what_the_store_tells(
    rows: dict[str, list[Row]], redis_url: str, request: pytest.FixtureRequest
) -> None:
    with open_store(redis_url) as store:
        layout = store.describe().layout
        for name, some in rows.items():
            records = list(records_of_rows(layout, some))
            check_told(store, name, records)
            blobs = {key for key, _ in store.blobs(name)}
            assert len(blobs) == sum(one.kind is Kind.VALUE for one in records)


def plain_rows(redis_url: str) -> list[Row]:
    """The rows of a thread of langgraph-checkpoint-plainredis."""
    saver = langgraph_checkpoint_plainredis.RedisSaver(url=redis_url)
    run_scenarios(saver, "chat")
    with open_store(redis_url) as store:
        return list(store.rows("chat"))


def test_archives_with_the_registry_at_another_place_are_read(redis_url: str) -> None:
    rows = plain_rows(redis_url)
    early = [one for one in rows if one.table in {"checkpoint_blobs", "writes"}]
    late = [one for one in rows if one not in early]
    expected = list(records_of_rows("redis-plain", rows))
    assert list(records_of_rows("redis-plain", [*early, *late])) == expected


def test_a_head_that_others_would_not_find_is_refused(redis_url: str) -> None:
    rows = plain_rows(redis_url)
    (at,) = [number for number, one in enumerate(rows) if one.table == "idx"]
    cells = dict(rows[at].cells)
    oldest = min(name for name in cells if name.startswith("."))
    rows[at] = Row("idx", {**cells, oldest: "1000"})
    with pytest.raises(CannotHold, match="stored last"):
        list(records_of_rows("redis-plain", rows))


def test_a_value_of_no_namespace_is_refused(redis_url: str) -> None:
    rows = plain_rows(redis_url)
    for number, one in enumerate(rows):
        if one.table == "threads":
            ((own, told),) = ((n, c) for n, c in one.cells.items() if n.startswith("."))
            assert isinstance(told, bytes)
            other = json.dumps({**json.loads(told), "ns": "other"}).encode()
            rows[number] = Row("threads", {**one.cells, own: other})
    with pytest.raises(CannotHold, match="no namespace"):
        list(records_of_rows("redis-plain", rows))


def test_an_unknown_field_of_a_hash_is_refused() -> None:
    cells = {"key": "checkpoint$t$$1", "type": "hash", "expires_at": None}
    known = {".type": b"msgpack", ".checkpoint": b"\x80", ".metadata": b"{}"}
    (found,) = records_of_rows("redis-hash", [Row("checkpoint", {**cells, **known})])
    assert found.kind is Kind.CHECKPOINT
    with pytest.raises(CannotHold, match="'tenant'"):
        list(
            records_of_rows("redis-hash", [Row("checkpoint", {**cells, **known, ".tenant": b"a"})])
        )
