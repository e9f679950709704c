"""Removing and putting back: no key is left, none of another thread goes, none is lost."""

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import count
from typing import Any

import pytest
from redis.client import Pipeline

from ckpt_backends.aws.agentcore import write as agentcore
from ckpt_backends.changes import GONE, MOVED, Change
from ckpt_backends.cosmosdb.connect import CosmosItems
from ckpt_backends.erasing.formats import Erasure
from ckpt_backends.erasing.thread import ThreadEraser
from ckpt_backends.errors import StoreChanged
from ckpt_backends.firestore.write import WritableFirestore
from ckpt_backends.objects import Objects
from ckpt_backends.objects.write import WritableObjectStore
from ckpt_backends.objectstorage.engine.objects import FileObjects
from ckpt_backends.objectstorage.engine.records import name_of
from ckpt_backends.open_for_writing import open_writable
from ckpt_backends.redis.engine.layout import LOCK
from ckpt_backends.registry import open_store
from ckpt_backends.rows import RowEdit
from ckpt_backends.sql.write import SqlRows
from ckpt_backends.testing.harness import Harness
from ckpt_backends.testing.official import drive
from ckpt_backends.testing.scenarios.catalog import SCENARIOS
from ckpt_backends.url import parse_url
from tests.engines.answers import refuses, succeeds, threads_of
from tests.kit.agents.steps import config_of, graph_of, talk
from tests.kit.command import ckpt, ids_of
from tests.kit.savers.redis_threads import client, removal_of

REDIS = ["redis", "redis-hash", "redis-plain", "valkey"]
HOUR = 3_600_000
HOSTILE = [
    *("a", "a:b", "a:b:c", "A", "a$b", "a$", "a*", "a[bc]", "a,b", "ab", "a?", "a\\b"),
    *("a:__empty__", "a:", 'o"b', "a\nb", "100%", "$ne", "$where", ".*", "^a", "a.b", "\u00e4"),
    *("a}", "a}:x", "a}:x:y", "{a", "{}", "}", "a}:b}:c", "x}::1", "a#", "a#b", "#a", "a##"),
]
"""Thread ids of which a pattern, a split or an index might take one for another."""
SHARED = {b"", b"lg:seq", b"lg:threads", LOCK}
"""Keys of a Redis that no thread has for itself."""


def names(place: Any) -> set[bytes]:
    """Return the names of the keys of a Redis, but for those in `SHARED`."""
    return {*place.client.scan_iter(count=1000)} - SHARED


def held(place: Harness) -> dict[bytes, Any]:
    """Return the keys of a Redis with what they hold, but for those in `SHARED`."""
    found: Any = place.fingerprint()
    return {name: one for name, one in found.items() if name not in SHARED}


def before_call(
    patch: pytest.MonkeyPatch, name: str, act: Callable[[], object], time: int = 1
) -> list[object]:
    """Do something once, before the driver of Redis begins to watch keys ("watch") or to send a
    transaction ("multi") for the first or another time. Return what is filled then.
    """
    original, done, times = getattr(Pipeline, name), list[object](), count(1)

    def late(pipe: Any, *given: Any) -> Any:
        if next(times) == time:
            done.append(None)
            act()
        return original(pipe, *given)

    patch.setattr(Pipeline, name, late)
    return done


def items(place: Harness, thread_id: str = "trip") -> list[str]:
    """What the official saver reads."""
    found: list[str] = graph_of(place.kept_saver).get_state(config_of(thread_id)).values["items"]
    return found


@pytest.mark.engines
@pytest.mark.parametrize(
    "place",
    ["redis", "redis-hash", "redis-shallow", "redis-hash-colon", "redis-plain", "valkey"],
    indirect=True,
)
def test_each_thread_goes_alone_and_wholly(place: Any) -> None:
    """Its keys are those that came with it; that the others keep theirs is seen now and then."""
    owned, there, url = {}, set[bytes](), f"{place.url}?layout={place.name}"
    for thread_id in HOSTILE:
        talk(place.kept_saver, thread_id)
        owned[thread_id] = names(place) - there
        there |= owned[thread_id]
    before = held(place)
    assert before.keys() == there
    for number, thread_id in enumerate(HOSTILE):
        succeeds(url, "threads", "delete", "--yes", "--", thread_id)
        there -= owned[thread_id]
        assert names(place) == there, thread_id
        if number % 9 == 0:
            assert held(place) == {name: before[name] for name in there}, thread_id
    assert there == set()


@pytest.mark.parametrize("moment", ["watch", "multi"])
@pytest.mark.parametrize("what", ["checkpoint", "writes"])
@pytest.mark.parametrize("place", ["redis", "redis-plain", "valkey"], indirect=True)
def test_a_thread_that_goes_on_in_the_last_moment_stays(
    place: Harness, what: str, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the look at its keys, or just before the transaction."""
    saver = place.kept_saver
    talk(saver, "trip", "other")
    removals = [removal_of(place.url, name) for name in ("trip", "other", "trip")]
    head = saver.get_tuple(config_of("trip"))
    before = held(place)

    def go_on() -> None:
        if what == "writes":
            saver.put_writes(head.config, [("items", ["late"])], "task")
        else:
            talk(saver, "trip")

    happened = before_call(monkeypatch, moment, go_on)
    with open_writable(parse_url(place.url)) as writable:
        done = writable.remove(removals)
        assert happened
        assert [one.skipped for one in done] == [MOVED, "", MOVED]
        assert [one.skipped for one in writable.remove(removals[1:2])] == [GONE]
    assert {name for name in before if b"trip" in name} <= held(place).keys()
    assert items(place) == ["in trip", "from a", "from b"] * (1 if what == "writes" else 2)


@pytest.mark.parametrize("place", ["redis-plain"], indirect=True)
def test_what_goes_meanwhile_is_not_copied(place: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """After it was found, and before it is watched."""
    talk(place.kept_saver, "trip")
    with open_store(place.url) as store:
        first = list(store.checkpoints("trip"))[-1].key.checkpoint_id
    (name,) = (one for one in held(place) if re.search(rf":cp?:.*{first}$", one.decode()))
    happened = before_call(monkeypatch, "watch", lambda: client(place.url).delete(name), 2)
    answer = ckpt("-s", place.url, "copy", "trip", "--as", "twin", "--yes")
    assert happened
    assert (answer.code, "nothing was written" in answer.err) == (6, True), answer.err
    assert not any(b"twin" in one for one in held(place))


@pytest.mark.parametrize("place", REDIS, indirect=True)
def test_a_saver_writing_meanwhile_wins(place: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    talk(place.kept_saver, "trip")
    # Nothing names a checkpoint of the hashes, so theirs are counted before the transaction.
    moment = "watch" if place.name == "redis-hash" else "multi"
    happened = before_call(monkeypatch, moment, lambda: talk(place.kept_saver, "trip"))
    answer = ckpt("-s", place.url, "rollback", "trip", "~1", "--yes")
    assert happened
    assert answer.code == 6, answer.err
    with open_store(place.url) as store:
        assert store.size("trip").checkpoints == 8


class Broken(Exception):
    """Stands for the end of the process."""


@pytest.mark.parametrize("asks", [False, True])
@pytest.mark.parametrize("place", ["redis", "redis-plain", "valkey"], indirect=True)
def test_what_a_break_leaves_is_found_and_goes_with_the_next_run(
    place: Harness, monkeypatch: pytest.MonkeyPatch, asks: bool
) -> None:
    """After each of its transactions: the pointers go first, the root's head last."""
    for module in ("redis.engine.changes", "redis.engine.layout", "apps.plainredis.layout"):
        monkeypatch.setattr(f"ckpt_backends.{module}.KEYS_AT_ONCE", 4)
    multi, most = Pipeline.multi, 1000

    def broken(pipe: Any) -> None:
        nonlocal most
        most -= 1
        if most == -1:
            raise Broken
        multi(pipe)

    monkeypatch.setattr(Pipeline, "multi", broken)
    words = ["purge", "--match", "trip", "--include-interrupted", "--yes", "-o", "json"]
    left: list[int] = []
    for steps in range(1, 20):
        talk(place.kept_saver, "trip", asks=asks)
        removal = removal_of(place.url, "trip")
        most = steps
        try:
            with open_writable(parse_url(place.url)) as writable:
                writable.remove([removal])
        except Broken:
            left.append(len(held(place)))
        if not held(place):
            break
        most = 1000
        assert not [name for name in held(place) if name.startswith(b"checkpoint_latest")]
        (listed,) = ckpt("-s", place.url, "threads", "list", "-o", "json").json
        assert listed["thread_id"] == "trip"
        assert listed["status"] == ("interrupted" if asks else "done")
        again = ckpt("-s", place.url, *words)
        assert again.json["removed"]["threads"] == 1, again.err
        assert held(place) == {}
    assert len(left) >= 2
    assert left == sorted(left, reverse=True)
    assert held(place) == {}


def expiring(place: Any, thread_id: str) -> dict[bytes, Any]:
    """Let the keys of a thread expire in an hour. Return what is held then."""
    for name in held(place):
        if thread_id.encode() in name:
            place.client.pexpire(name, HOUR)
    return held(place)


@pytest.mark.parametrize("place", REDIS, indirect=True)
def test_times_to_live_are_carried(place: Harness) -> None:
    talk(place.kept_saver, "trip")
    before = expiring(place, "trip")
    succeeds(place.url, "rollback", "trip", "~2", "--yes")
    ckpt("-s", place.url, "copy", "trip@head", "--as", "copy", "--yes", code=0)
    after = held(place)
    oldest = min(expires for _, expires in before.values())
    assert len(after) > len(before)
    assert all(abs(after[name][1] - oldest) < 60_000 for name in after.keys() - before.keys())
    for thread_id in ("copy", "trip"):
        ckpt("-s", place.url, "undo", thread_id, "--yes", code=0)
    assert {name: one for name, (one, _) in held(place).items()} == {
        name: one for name, (one, _) in before.items()
    }


@pytest.mark.engines
@pytest.mark.parametrize(
    "place",
    [
        *("mongodb", "redis-hash", "redis-plain", "valkey"),
        *("dynamodb", "firestore", "objectstorage", "agentcore"),
    ],
    indirect=True,
)
def test_only_what_is_as_read_is_replaced(place: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a thread that is too large for one request."""
    for name, most in (
        ("redis.engine.write._AT_ONCE", 100),
        ("mongodb.engine.write._AT_ONCE", 100),
        ("firestore.write._MOST", (1 << 20) + 100),
    ):
        monkeypatch.setattr(f"ckpt_backends.{name}", most)
    talk(place.kept_saver, "trip")
    before = place.fingerprint()
    with open_store(place.url) as store:
        eraser = ThreadEraser(store.describe().layout, Erasure(frozenset({"from a"})), None)
        first, *others = eraser.edits(list(store.rows("trip")))
    with open_writable(parse_url(place.url)) as writable:
        with pytest.raises(StoreChanged):
            writable.replace("trip", [RowEdit(first.new, first.stored)])
        assert place.fingerprint() == before
        writable.replace("trip", [first, *others])
    assert items(place)[::2] == ["in trip", "from b"]
    assert items(place)[1] != "from a"


@pytest.mark.engines
@pytest.mark.parametrize(
    "place",
    [
        *("mysql", "mongodb", "redis", "redis-hash", "valkey"),
        *("dynamodb", "firestore", "objectstorage", "agentcore"),
    ],
    indirect=True,
)
def test_a_change_of_what_is_not_there_is_not_carried_out(place: Harness) -> None:
    """The head has another id, or more writes, or what is removed or relied on is gone."""
    talk(place.kept_saver, "trip", asks=True)
    with open_store(place.url) as store:
        head, parent = [one.key for one in store.checkpoints("trip")][:2]
        number = len(list(store.writes("trip", checkpoint_ids=[head.checkpoint_id])))
    before, gone = place.fingerprint(), head._replace(checkpoint_id=head.checkpoint_id[::-1])
    heads = {"": head.checkpoint_id}
    changes = [
        Change("trip", {"": parent.checkpoint_id}, removed={head: number}),
        Change("trip", heads, removed={head: number - 1}),
        Change("trip", heads, removed={gone: 0}),
        Change("trip", heads, removed={head: number}, relied_on=(gone,)),
    ]
    with open_writable(parse_url(place.url)) as writable:
        for one in changes[: -1 if place.name.startswith("redis") else None]:
            with pytest.raises(StoreChanged):
                writable.apply(one)
            assert place.fingerprint() == before
        writable.apply(replace(changes[0], heads=heads))
    assert ids_of(place.url, "trip")[0] == parent.checkpoint_id


# Stores that record a change before they carry it out


def objects_of(place: Harness) -> Objects:
    return (CosmosItems if place.name == "cosmosdb" else FileObjects)(parse_url(place.url))


@pytest.mark.engines
@pytest.mark.parametrize("place", ["objectstorage", "cosmosdb"], indirect=True)
def test_what_a_killed_run_began_is_completed_or_taken_back(place: Harness) -> None:
    talk(place.kept_saver, "trip")
    before, objects = place.fingerprint(), objects_of(place)
    known = {one.path for one in objects.names("trip")}
    ckpt("-s", place.url, "rollback", "trip", "head", "--yes", code=0)
    (added,) = {one.path for one in objects.names("trip")} - known
    objects.begin([added, f"{added}missing"], [])
    (thread,) = ckpt("-s", place.url, "threads", "list", "-o", "json").json
    assert len(ids_of(place.url, "trip")) == thread["checkpoints"] == 4
    talk(place.kept_saver, "other")
    ckpt("-s", place.url, "threads", "delete", "other", "--yes", code=0)
    assert place.fingerprint() == before
    # What it removed is gone, and the next change removes the rest.
    talk(place.kept_saver, "other")
    objects.begin([], [one.path for one in objects.names("trip")])
    assert threads_of(place.url) == ["other"]
    ckpt("-s", place.url, "threads", "delete", "other", "--yes", code=0)
    assert not place.fingerprint()


@pytest.mark.engines
@pytest.mark.parametrize(
    ("place", "step", "words"),
    [
        ("objectstorage", (WritableObjectStore, "insert"), "rollback trip ~1"),
        ("objectstorage", (WritableObjectStore, "_store_all"), "rollback trip ~1"),
        ("objectstorage", (WritableObjectStore, "delete"), "threads delete trip"),
        ("firestore", (WritableFirestore, "insert"), "rollback trip ~1"),
        ("firestore", (WritableFirestore, "delete"), "threads delete trip"),
        ("postgres", (SqlRows, "confirm"), "rollback trip ~1"),
        ("mysql", (SqlRows, "confirm"), "rollback trip ~1"),
        ("agentcore", (agentcore._Rows, "add"), "rollback trip ~1"),
        ("agentcore", (agentcore._Rows, "remove"), "threads delete trip"),
    ],
    indirect=["place"],
)
def test_what_a_saver_stores_between_two_requests_wins(
    place: Harness, monkeypatch: pytest.MonkeyPatch, step: tuple[Any, str], words: str
) -> None:
    """After the look at the thread, or before the new checkpoint is there."""
    talk(place.kept_saver, "trip")
    kind, name = step
    original = getattr(kind, name)

    def late(self: Any, *given: Any) -> Any:
        monkeypatch.setattr(kind, name, original)
        talk(place.kept_saver, "trip")
        return original(self, *given)

    monkeypatch.setattr(kind, name, late)
    assert ckpt("-s", place.url, *words.split(), "--yes").code in {6, 7}
    assert len(ids_of(place.url, "trip")) == 8
    assert items(place) == ["in trip", "from a", "from b"] * 2


@pytest.mark.engines
@pytest.mark.parametrize("place", ["objectstorage", "cosmosdb"], indirect=True)
def test_a_run_may_go_on_from_a_new_checkpoint(
    place: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk(place.kept_saver, "trip")
    store_all = WritableObjectStore._store_all

    def followed(self: Any, paths: Iterable[str]) -> None:
        monkeypatch.setattr(WritableObjectStore, "_store_all", store_all)
        store_all(self, paths)
        talk(place.kept_saver, "trip")

    monkeypatch.setattr(WritableObjectStore, "_store_all", followed)
    ckpt("-s", place.url, "rollback", "trip", "~1", "--yes", code=0)
    with open_store(place.url) as store:
        found = list(store.checkpoints("trip"))
    ids = {one.key.checkpoint_id for one in found}
    assert {one.parent_checkpoint_id for one in found} - ids == {None}
    assert len(ids) == 9
    # Not from one that only gets a write.
    with open_store(place.url) as store:
        row = next(one for one in store.rows("trip") if one.table == "writes")
    monkeypatch.setattr(WritableObjectStore, "_store_all", followed)
    with open_writable(parse_url(place.url)) as writable:
        assert isinstance(writable, WritableObjectStore)
        with pytest.raises(StoreChanged), writable.transaction():
            writable.insert(replace(row, cells={**row.cells, "checkpoint_id": max(ids)}))


@pytest.mark.engines
@pytest.mark.parametrize("place", ["objectstorage"], indirect=True)
def test_a_head_is_stored_and_removed_last(place: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """So a killed run leaves an earlier state of the thread to its saver."""
    drive(place.kept_saver, SCENARIOS["subgraph"])
    write, remove, seen = FileObjects.write, FileObjects.remove, list[str]()

    def watched(self: Any, path: str, data: bytes) -> None:
        seen.append(path)
        write(self, path, data)

    def emptied(self: Any, paths: Any) -> None:
        seen.extend(listed := list(paths))
        remove(self, listed)

    monkeypatch.setattr(FileObjects, "write", watched)
    monkeypatch.setattr(FileObjects, "remove", emptied)
    for words in ("copy subgraph --as twin", "threads delete twin"):
        seen.clear()
        succeeds(place.url, *words.split(), "--yes")
        found = [one for path in seen if (one := name_of(path)) is not None]
        whole = [one.key for one in found if one.task is None]
        assert whole == [one.key for one in found[-len(whole) :]]
        assert whole == sorted(whole, key=lambda one: (not one.checkpoint_ns, one.checkpoint_id))
        assert len({one.checkpoint_ns for one in whole}) == 3


@pytest.mark.engines
@pytest.mark.parametrize("place", ["objectstorage-s3", "cosmosdb"], indirect=True)
def test_a_change_waits_for_the_lock(place: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    talk(place.kept_saver, "trip")
    monkeypatch.setattr("ckpt_backends.objects._PATIENCE", 0.0)
    before, objects, delete = place.fingerprint(), objects_of(place), ("threads", "delete", "trip")
    with objects.lock():
        refuses(place.url, *delete, "--yes", says="lock of a killed run")
    assert place.fingerprint() == before
    objects.write(f"{objects.own}lock", b"")
    monkeypatch.setattr("ckpt_backends.objects._HELD", -1.0)
    monkeypatch.setattr("ckpt_backends.objects._PATIENCE", 9.0)
    succeeds(place.url, *delete, "--yes")
    assert not place.fingerprint()
