"""`ckpt copy` to and from Redis: documents of RedisSaver and LangGraph.js, hashes, and Valkey."""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import langgraph_checkpoint_plainredis
import pytest
import redis
from langgraph.checkpoint.redis import RedisSaver

from ckpt_backends.errors import Refused, Unsupported
from ckpt_backends.model import CheckpointKey, Kind, Record, TypedBytes
from ckpt_backends.open_for_writing import create_store
from ckpt_backends.redis.engine import changes as receiving
from ckpt_backends.registry import open_store
from ckpt_backends.rows import Cell, Row
from ckpt_backends.transfer.convert import Conversion
from ckpt_backends.transfer.copying import Arrival, records_of_rows, route
from ckpt_backends.transfer.form import CannotHold, Language
from ckpt_backends.transfer.sealing import AsStored
from ckpt_backends.url import parse_url
from tests.copy.round_trip import (
    check_round_trip,
    check_stored,
    check_told,
    half,
    newest_of,
    receive,
    records_for,
    run_scenarios,
    sqlite_source,
    stored_records,
    sum_of,
)
from tests.kit.cases import cases
from tests.kit.command import FIXTURES, ckpt, later
from tests.kit.harness.redis import dump
from tests.kit.plugin import redis_of_its_own
from tests.kit.savers.redis_threads import client
from tests.kit.stores import restore_javascript_keys, restore_keys

SCENES = (
    *("chat", "interrupt-nested", "fanout-send", "subgraph-stateful", "delta-often"),
    "two\nlines",
)
ID = "1f1e5ee4-fcba-6c9b-800{}-111938b50809"


@pytest.fixture(scope="module")
def source() -> Iterator[str]:
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


@pytest.mark.parametrize("most", [None, 2000])
def test_the_keys_are_those_of_the_saver(
    most: int | None, source: str, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of a large thread come in one piece, too."""
    if most is not None:
        monkeypatch.setattr(receiving, "_AT_ONCE", most)
    check_round_trip(source, target, "redis")
    # Nothing is left of the names that documents had first, nor of their times to live.
    assert contents(target) == contents(source)


def contents(
    url: str, thread: str = "", leaving_out: frozenset[str] = frozenset()
) -> dict[bytes, Any]:
    """The contents of all keys of a thread, without times and whether there are writes."""
    found: dict[bytes, Any] = {}
    left_out = leaving_out | {"has_writes", "checkpoint_ts"}
    documents = (b"checkpoint:", b"checkpoint_write:", b"checkpoint_blob:")
    for name, (held, expires_at) in dump(client_url(url)).items():
        value: Any = {one for one, _ in held} if name.startswith(b"write_keys_zset:") else held
        if name.startswith(documents):
            value = {key: one for key, one in json.loads(held).items() if key not in left_out}
        if thread.encode() in name:
            found[name] = value, expires_at
    return found


@pytest.fixture(params=["redis", "valkey"])
def place_of(request: pytest.FixtureRequest) -> tuple[str, str]:
    """A layout, and the URL of its empty place."""
    if request.param == "redis":
        return request.param, request.getfixturevalue("target")
    return request.param, f"{request.getfixturevalue('redis_url')}?layout=valkey"


def test_a_stopped_copy_of_a_large_thread_shows_nothing(
    place_of: tuple[str, str], scenes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receiving, "_AT_ONCE", 2000)
    layout, url = place_of
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


def test_all_keys_of_a_thread_expire_if_parts_do(place_of: tuple[str, str], scenes: Path) -> None:
    at, (layout, url) = 4_000_000_000_000, place_of
    records = [one._replace(expires_at=at) for one in records_for(scenes, layout, "fanout-send")]
    receive(url, Arrival("fanout-send", records))
    with client(client_url(url)) as connected:
        names = list(connected.scan_iter())
        assert {connected.execute_command("PEXPIRETIME", name) for name in names} == {at}
    check_stored(url, "fanout-send", records)
    with open_store(url) as store:
        assert list(store.thread_faults("fanout-send")) == []


def test_late_older_checkpoints_leave_the_head(place_of: tuple[str, str], scenes: Path) -> None:
    layout, url = place_of
    records = records_for(scenes, layout, THREAD)
    early, late = half(records)
    head = newest_of(records)
    receive(url, Arrival(THREAD, late))
    receive(url, Arrival(THREAD, early, {"": head}))
    check_stored(url, THREAD, records)
    with open_store(url) as store:
        assert list(store.thread_faults(THREAD)) == []
        found = store.thread(THREAD)
        assert found is not None
        assert found.head == head
    if layout == "valkey":
        with client(client_url(url)) as connected:
            ids = connected.lrange(f"thread:{{{THREAD}}}:", 0, -1)
        assert ids == sorted(ids, reverse=True)


@cases("parts whole", ((5, 9, 7), [("PEXPIREAT", b"list", 9)]), ((5, None, 7), []))
def test_the_list_of_writes_outlasts_each(parts: tuple[int | None, ...], whole: list[Any]) -> None:
    listed = receiving.ListOfWrites()
    for one in parts:
        listed.add(b"write", 0, one)
    assert [one for one in listed.commands(b"list") if one[0] != "ZADD"] == whole


@cases(
    "value words",
    (b"[" * 128 + b"]" * 128, "127 levels"),
    (b"18446744073709551616", "64 bits"),
    (b'"\\ud800"', "surrogate"),
)
def test_what_the_engine_would_change_is_refused(target: str, value: bytes, words: str) -> None:
    body = TypedBytes("redis-json", b'{"v":4,"channel_values":{"x":' + value + b"}}")
    key = CheckpointKey("t", "", ID.format(2))
    part = Record.checkpoint(key, None, body, TypedBytes("redis-json", b"{}"))
    with pytest.raises(CannotHold, match=words):
        receive(target, Arrival("t", [part]))
    with client(client_url(target)) as connected:
        assert not list(connected.scan_iter())


@pytest.mark.in_ci("lg-0.4.10")
@pytest.mark.parametrize("era", ["lg-0.4.10", "lg-0.6.11", "lg-1.0.3", "lg-1.0.10"])
@pytest.mark.engines
def test_records_of_older_releases_are_what_the_store_tells(redis_stack_url: str, era: str) -> None:
    restore_keys(FIXTURES / "redis" / era / "store.jsonl.gz", redis_stack_url)
    with open_store(redis_stack_url) as store:
        for name in [one.thread_id for one in store.threads()]:
            check_told(store, name, stored_records(store, name))


def test_new_indexes_are_those_of_the_saver(redis_stack_url: str, source: str) -> None:
    create_store(parse_url(redis_stack_url), Language.PYTHON)
    assert indexes(redis_stack_url) == indexes(source)
    with open_store(redis_stack_url) as store:
        assert (store.describe().layout, list(store.threads())) == ("redis", [])
    receive(redis_stack_url, Arrival("chat", records_for(source, "redis", "chat")))
    create_store(parse_url(redis_stack_url), Language.PYTHON)
    with pytest.raises(Refused, match="layout 'redis'"):
        create_store(parse_url(redis_stack_url), Language.JAVASCRIPT)


def indexes(url: str) -> dict[bytes, Any]:
    with client(client_url(url)) as connected:
        return {
            name: connected.execute_command("FT.INFO", name)[2:8]
            for name in connected.execute_command("FT._LIST")
        }


def test_no_indexes_are_made_beside_other_keys_or_without_a_search_module(
    redis_stack_url: str, redis_url: str
) -> None:
    with client(redis_stack_url) as connected:
        connected.set("session:1", "x")
        with pytest.raises(Refused, match="not empty"):
            create_store(parse_url(redis_stack_url), Language.PYTHON)
        assert connected.execute_command("FT._LIST") == []
    with pytest.raises(Unsupported, match="RediSearch"):
        create_store(parse_url(redis_url), Language.PYTHON)


@pytest.mark.engines
def test_a_cluster_takes_threads_whose_keys_share_a_slot(source: str, cluster_url: str) -> None:
    url = f"{cluster_url}?layout=redis"
    records = records_for(source, "redis", "chat")
    with pytest.raises(Unsupported, match="cluster"):
        receive(url, Arrival("chat", records))
    check_stored(url, "chat", [])
    together = [one._replace(key=one.key._replace(thread_id="{chat}")) for one in records]
    receive(url, Arrival("{chat}", together))
    check_stored(url, "{chat}", together)


# Hashes


@pytest.fixture
def rows(redis_url: str) -> list[Row]:
    run_scenarios(langgraph_checkpoint_plainredis.RedisSaver(url=redis_url), "chat")
    with open_store(redis_url) as store:
        return list(store.rows("chat"))


def test_archives_with_the_registry_at_another_place_are_read(rows: list[Row]) -> None:
    early = [one for one in rows if one.table in {"checkpoint_blobs", "writes"}]
    late = [one for one in rows if one not in early]
    expected = list(records_of_rows("redis-plain", rows))
    assert list(records_of_rows("redis-plain", [*early, *late])) == expected


def test_rows_that_others_would_read_in_another_way_are_refused(rows: list[Row]) -> None:
    def other(table: str, told: Any) -> Cell:
        if table == "idx":
            return "1000"
        return json.dumps({**json.loads(told), "ns": "other"}).encode()

    for table, why in (("idx", "stored last"), ("threads", "no namespace")):
        changed = list(rows)
        for number, one in enumerate(rows):
            if one.table == table:
                own = min(name for name in one.cells if name.startswith("."))
                changed[number] = Row(table, {**one.cells, own: other(table, one.cells[own])})
        with pytest.raises(CannotHold, match=why):
            list(records_of_rows("redis-plain", changed))


def test_a_field_without_a_place_is_refused() -> None:
    cells = {"key": "checkpoint:t:__empty__:1", "type": "ReJSON-RL", "expires_at": None}
    document: dict[str, Any] = {"thread_id": "t", "checkpoint_ns": "__empty__"}
    document |= {"checkpoint_id": "1", "checkpoint": {}, "metadata": "{}", "has_writes": False}
    for extra in ({"tenant": "a"}, {"run_id": "r1"}):
        row = Row("checkpoint", {**cells, "value": json.dumps({**document, **extra})})
        with pytest.raises(CannotHold, match=r"tenant|run id"):
            list(records_of_rows("redis", [row]))
    cells = {"key": "checkpoint$t$$1", "type": "hash", "expires_at": None}
    known = {".type": b"msgpack", ".checkpoint": b"\x80", ".metadata": b"{}"}
    (found,) = records_of_rows("redis-hash", [Row("checkpoint", {**cells, **known})])
    assert found.kind is Kind.CHECKPOINT
    cells_of_write = {**cells, "key": "writes$t$$1$task$0", ".channel": b"a", ".type": b"null"}
    (found,) = records_of_rows("redis-hash", [Row("writes", cells_of_write)])
    assert (found.kind, found.task_id, found.channel) == (Kind.WRITE, "task", "a")
    row = Row("checkpoint", {**cells, **known, ".tenant": b"a"})
    with pytest.raises(CannotHold, match="'tenant'"):
        list(records_of_rows("redis-hash", [row]))


# LangGraph.js

OF_JS = frozenset({"timestamp", "global_idx", "checkpoint", "checkpoint_id"})
"""Where documents of LangGraph.js tell times, and what is in their names and in records."""
JS_SCENES = ("chat", "interrupt-nested", "interrupt-parallel", "fanout-send", "delta-often")


@pytest.fixture(params=later("redis-js"))
def javascript(redis_stack_url: str) -> str:
    """A Redis with the indexes of LangGraph.js, and no thread."""
    create_store(parse_url(redis_stack_url), Language.JAVASCRIPT)
    return redis_stack_url


def test_documents_are_those_of_langgraph_js_in_their_order(javascript: str) -> None:
    with redis_of_its_own(modules=True) as server:
        restore_javascript_keys(FIXTURES / "js-1.7.3" / "redis.jsonl.gz", server.url)
        for name in JS_SCENES:
            records = records_for(server.url, "redis-js", name, Language.JAVASCRIPT)
            receive(javascript, Arrival(name, records))
            orders = []
            for url in (server.url, javascript):
                with open_store(url) as store:
                    assert sum_of(stored_records(store, name)) == sum_of(records), name
                    orders.append([(one.key, one.task_id, one.idx) for one in store.writes(name)])
            assert orders[0] == orders[1]
            here, there = (contents(one, f":{name}:", OF_JS) for one in (server.url, javascript))
            assert here == there
    with redis.Redis.from_url(javascript) as connected:
        for name in connected.scan_iter("checkpoint:*"):
            has_writes = connected.exists(name.replace(b"checkpoint:", b"write_keys_zset:"))
            told = connected.execute_command("JSON.GET", name, "has_writes")
            assert json.loads(told) == ("true" if has_writes else "false")


def _checkpoint(number: int, values: Any) -> Record:
    key = CheckpointKey("t", "", ID.format(number))
    body = {"v": 4, "id": key.checkpoint_id, "channel_values": values}
    body |= {"channel_versions": {"a": 3}, "versions_seen": {}}
    data = TypedBytes("json", json.dumps(body).encode())
    return Record.checkpoint(key, None, data, TypedBytes("json", b"{}"))


def test_what_redis_cannot_hold_of_langgraph_js_is_refused(javascript: str) -> None:
    one, other = _checkpoint(1, {"a": [1]}), _checkpoint(2, {"a": [2]})
    write = Record.write(one.key, "task", "", 0, "a", TypedBytes("bytes", b"x"))
    for parts, why in (
        ([one, other], "channel 'a'"),
        ([one, _checkpoint(2, {})], "channel 'a'"),
        ([_checkpoint(1, {}), other], "channel 'a'"),
        ([one, write], r"write to 'a'.*'bytes'"),
    ):
        with pytest.raises(CannotHold, match=why):
            receive(javascript, Arrival("t", parts))
        check_stored(javascript, "t", [])
    with pytest.raises(CannotHold, match="thread id"):
        receive(javascript, Arrival("t*", [one._replace(key=one.key._replace(thread_id="t*"))]))
    receive(javascript, Arrival("t", [one]))
    with pytest.raises(CannotHold, match="channel 'a'"):
        receive(javascript, Arrival("t", [other], {"": one.key.checkpoint_id}))
    with open_store(javascript) as store:
        assert len(list(store.checkpoints("t"))) == 1


def test_new_indexes_are_those_of_langgraph_js(javascript: str) -> None:
    found = {}
    with redis.Redis.from_url(javascript, protocol=2) as connected:
        for name in connected.execute_command("FT._LIST"):
            about = connected.execute_command("FT.INFO", name)
            fields = {one[3].decode(): one[5].decode() for one in about[7]}
            found[name.decode()] = (about[5][3][0].decode(), fields)
    place = dict.fromkeys(("thread_id", "checkpoint_ns", "checkpoint_id"), "TAG")
    of_checkpoints = {"parent_checkpoint_id": "TAG", "checkpoint_ts": "NUMERIC"}
    of_checkpoints |= {"has_writes": "TAG", "source": "TAG", "step": "NUMERIC"}
    of_writes = {"task_id": "TAG", "idx": "NUMERIC", "channel": "TAG", "type": "TAG"}
    of_blobs = {"channel": "TAG", "version": "TAG", "type": "TAG"}
    assert found == {
        "checkpoints": ("checkpoint:", place | of_checkpoints),
        "checkpoint_blobs": ("checkpoint_blob:", place | of_blobs),
        "checkpoint_writes": ("checkpoint_write:", place | of_writes),
    }
    with open_store(javascript) as store:
        assert store.describe().layout == "redis-js"


@pytest.mark.engines
@cases("first second", ({"a": [1]}, {}), ({}, {"a": [1]}))
def test_other_layouts_refuse_a_version_with_and_without_a_value(first: Any, second: Any) -> None:
    way = route("redis-js", "postgres", Language.JAVASCRIPT)
    conversion = Conversion(way.source, way.target, AsStored())
    with pytest.raises(CannotHold, match="channel 'a'"):
        list(conversion.of_thread([_checkpoint(1, first), _checkpoint(2, second)]))
    snapshot = {"a": {"lg_name": "DeltaSnapshot", "value": [1]}}
    found = [_checkpoint(n, snapshot if one else {}) for n, one in ((1, first), (2, second))]
    assert len(list(conversion.of_thread(found))) == 3


# Valkey

THREAD = "fanout-send"
START = "{fanout-send}:"


@pytest.fixture(params=["valkey"])
def place(redis_url: str) -> Iterator[Any]:
    with client(redis_url) as connected:
        url = f"{redis_url.replace('redis:', 'valkey:')}?layout=valkey"
        yield SimpleNamespace(url=url, client=connected)


def test_a_copy_is_made_in_an_empty_database_only(scenes: Path, place: Any) -> None:
    url = client_url(place.url)
    words = ("-s", scenes, "copy", THREAD, "--yes", "--to")
    ckpt(*words, url, code=4)
    for _ in range(2):
        ckpt(*words, url, "--create", code=0)
    assert ckpt("-s", url, "threads", "list", "-o", "json").json[0]["thread_id"] == THREAD
    place.client.flushall()
    place.client.set("session:1", "x")
    with pytest.raises(Refused, match="has other keys"):
        create_store(parse_url(url), Language.PYTHON)
    assert place.client.dbsize() == 1


def test_writes_are_in_the_order_of_the_tasks(scenes: Path, place: Any) -> None:
    """The saver stores no paths. So the order in which it returns writes is that of the paths."""
    records = records_for(scenes, "valkey", THREAD)
    random.Random(2).shuffle(records)
    receive(place.url, Arrival(THREAD, records))
    wanted: dict[str, list[tuple[str, int]]] = {}
    with open_store(str(scenes)) as store:
        for one in store.writes(THREAD):
            wanted.setdefault(one.key.checkpoint_id, []).append((one.task_id, one.idx))
    assert any(len({task for task, _ in some}) > 1 for some in wanted.values())
    for own, some in wanted.items():
        stored = json.loads(place.client.get(f"writes:{START}:{own}"))
        assert [(one["task_id"], one["idx"]) for one in stored] == some


def test_a_thread_of_which_a_part_stays_does_not_expire(scenes: Path, place: Any) -> None:
    found = records_for(scenes, "valkey", THREAD)
    records = [one._replace(expires_at=4_000_000_000_000) for one in found]
    at = next(n for n, one in enumerate(records) if one.kind is Kind.CHECKPOINT)
    records[at] = records[at]._replace(expires_at=None)
    receive(place.url, Arrival(THREAD, records))
    assert place.client.pttl(f"thread:{START}") == -1


def test_what_the_saver_cannot_read_or_finds_elsewhere_is_refused(scenes: Path, place: Any) -> None:
    records = records_for(scenes, "valkey", THREAD)
    at = next(n for n, record in enumerate(records) if record.kind is Kind.CHECKPOINT)
    refused = [
        [one._replace(key=one.key._replace(checkpoint_ns=ns)) for one in records]
        for ns in ("b}:c", "\ud800")
    ]
    for data in (b'{"score": NaN}', b'{"n": 18446744073709551616}', rb'"\ud800"'):
        odd = records[at]._replace(metadata=TypedBytes("json", data))
        refused.append([*records[:at], odd, *records[at + 1 :]])
    for parts in refused:
        with pytest.raises(CannotHold):
            receive(place.url, Arrival(THREAD, parts))
        assert place.client.dbsize() == 0


def test_a_list_in_another_order_is_refused(scenes: Path, place: Any) -> None:
    """The saver loads another head than those of other layouts would."""
    receive(place.url, Arrival(THREAD, records_for(scenes, "valkey", THREAD)))
    newest = place.client.lpop(f"thread:{START}")
    place.client.rpush(f"thread:{START}", newest)
    with open_store(place.url) as store, pytest.raises(CannotHold, match="order of their ids"):
        stored_records(store, THREAD)
    place.client.lpush(f"thread:{START}", newest)
    place.client.delete(f"checkpoint:{START}:{newest.decode()}")
    with open_store(place.url) as store, pytest.raises(CannotHold, match="has expired"):
        stored_records(store, THREAD)


def test_an_order_that_others_would_change_is_refused(place: Any, tmp_path: Path) -> None:
    """The saver keeps the order of arrival; a DeltaChannel is rebuilt in this order."""
    name = "delta-rarely"
    records = records_for(sqlite_source(tmp_path / "delta.db", [name]), "valkey", name)
    receive(place.url, Arrival(name, records))
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


@pytest.mark.engines
def test_a_large_thread_goes_on_in_a_cluster(
    scenes: Path, cluster_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All keys of a thread are in one slot."""
    url = f"{cluster_url.replace('redis://', 'valkey://')}?layout=valkey"
    records = records_for(scenes, "valkey", THREAD)
    early, late = half(records)
    receive(url, Arrival(THREAD, early))
    monkeypatch.setattr(receiving, "_AT_ONCE", 100)
    receive(url, Arrival(THREAD, late, {"": newest_of(early)}))
    check_stored(url, THREAD, records)
