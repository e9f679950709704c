"""What adapters have in common: derived queries, checked answers, archived rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.resources import as_file, files
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Unpack

import pytest

from ckpt_backends.base import BaseStore
from ckpt_backends.errors import Refused, StoreChanged, Unreadable, Unsupported
from ckpt_backends.model import (
    BlobKey,
    Checkpoint,
    CheckpointKey,
    StoreInfo,
    Thread,
    ThreadSize,
    Write,
)
from ckpt_backends.protocol import CheckpointOptions, Store, WriteOptions
from ckpt_backends.registry import open_store
from ckpt_backends.rows import Cell, Restored, Row, compare, is_part, sql_key
from ckpt_backends.servers import checked

if TYPE_CHECKING:
    from ckpt_backends.protocol import Store


KEY = ("thread_id", "checkpoint_ns", "checkpoint_id")
COLUMNS = {
    "writes": {*KEY, "task_id", "idx", "channel", "type", "value", "task_path"},
    "checkpoints": {*KEY, "parent_checkpoint_id", "type", "checkpoint", "metadata"},
}


class FiveQueries(BaseStore):
    """A store that only has the abstract methods; a real store answers them."""

    columns = COLUMNS

    def __init__(self, inner: Store) -> None:
        self._inner = inner

    def describe(self) -> StoreInfo:
        return self._inner.describe()

    def threads(self, *, limit: int | None = None) -> Iterator[Thread]:
        return self._inner.threads(limit=limit)

    def checkpoints(
        self, thread_id: str, **options: Unpack[CheckpointOptions]
    ) -> Iterator[Checkpoint]:
        return self._inner.checkpoints(thread_id, **options)

    def writes(self, thread_id: str, **options: Unpack[WriteOptions]) -> Iterator[Write]:
        return self._inner.writes(thread_id, **options)

    def rows(self, thread_id: str) -> Iterator[Row]:
        return self._inner.rows(thread_id)

    def close(self) -> None:
        self._inner.close()


@pytest.fixture(scope="module")
def stores() -> Iterator[tuple[Store, Store]]:
    with (
        as_file(files("ckpt_cli.data") / "sample.db") as path,
        open_store(str(Path(path))) as real,
        FiveQueries(real) as derived,
    ):
        yield real, derived


def test_each_thread(stores: tuple[Store, Store]) -> None:
    real, derived = stores
    ids = [one.thread_id for one in real.threads()]
    assert derived.sizes([*ids, "nosuch"]) == real.sizes([*ids, "nosuch"])
    for one in (*ids, "nosuch"):
        assert derived.thread(one) == real.thread(one)
        assert derived.size(one) == real.size(one)
        assert derived.namespaces(one) == real.namespaces(one)
        assert _sizes(derived, one) == _sizes(real, one)
        assert set(derived.usage(one)) == set(real.usage(one))
        assert list(derived.blobs(one)) == list(real.blobs(one)) == []
        assert list(derived.expiries(one, "", ())) == list(real.expiries(one, "", ()))
        rows = list(real.rows(one))
        assert list(derived.own_rows(one, rows)) == list(real.own_rows(one, rows))
        assert [*map(derived.row_key, rows)] == [*map(real.row_key, rows)]


def test_the_whole_store(stores: tuple[Store, Store]) -> None:
    real, derived = stores
    assert set(derived.usage()) == set(real.usage())
    order = [one.thread_id for one in derived.usage()]
    assert order == sorted(order)
    assert list(derived.notes()) == list(real.notes())


@pytest.mark.parametrize("values", [False, True, ["messages"]])
def test_by_keys(stores: tuple[Store, Store], values: bool | list[str]) -> None:
    real, derived = stores
    keys = [one.key for thread in real.threads() for one in real.checkpoints(thread.thread_id)][::2]
    for read in (False, True):
        found = derived.checkpoints_at(keys, body=read, metadata=read)
        assert _by_key(found) == _by_key(real.checkpoints_at(keys, body=read, metadata=read))
    for channels in (None, ["messages", "nosuch"]):
        found_writes = derived.writes_at(keys, channels=channels, values=values)
        assert _writes(found_writes) == _writes(
            real.writes_at(keys, channels=channels, values=values)
        )


def test_a_row_of_another_thread_is_refused(stores: tuple[Store, Store]) -> None:
    real, derived = stores
    thread = next(real.threads()).thread_id
    with pytest.raises(Refused):
        list(derived.own_rows("other", real.rows(thread)))
    for row in (Row("blobs", {"thread_id": "other"}), Row("writes", {"key": "other"})):
        with pytest.raises((Refused, Unsupported)):
            list(derived.own_rows("other", [row]))


def _sizes(store: Store, thread_id: str) -> dict[CheckpointKey, tuple[int, int, int]]:
    found: dict[CheckpointKey, tuple[int, int, int]] = {}
    for key, one in store.checkpoint_sizes(thread_id):
        checkpoints, writes, size = found.get(key, (0, 0, 0))
        found[key] = (checkpoints + one.checkpoints, writes + one.writes, size + one.bytes)
    return found


def _by_key(found: Iterator[Checkpoint]) -> dict[CheckpointKey, Checkpoint]:
    return {one.key: one for one in found}


def _writes(found: Iterator[Write]) -> dict[CheckpointKey, list[Write]]:
    kept: dict[CheckpointKey, list[Write]] = {}
    for one in found:
        kept.setdefault(one.key, []).append(one)
    return kept


@checked("size", "size_of", "keys", "checkpoints")
class Answering:
    """A store that returns what a server sent."""

    _url = SimpleNamespace()

    def __init__(self, sent: Any) -> None:
        self._sent = sent

    def size(self) -> ThreadSize:
        return ThreadSize(1, self._sent, 0)

    def size_of(self, store: Store | None) -> ThreadSize:
        return ThreadSize(1, self._sent, 0)

    def keys(self) -> Iterator[BlobKey]:
        yield BlobKey("", "messages", self._sent)

    def checkpoints(self) -> Iterator[Checkpoint]:
        yield Checkpoint(CheckpointKey("a", "", self._sent), None)


@pytest.mark.parametrize(
    ("right", "wrong", "ask"),
    [
        pytest.param(2, "2", Answering.size, id="of a named tuple"),
        pytest.param("1", 1, lambda it: next(it.keys()), id="of an item"),
        pytest.param(2, "2", lambda it: it.size_of(None), id="with a parameter of no known type"),
        pytest.param("1", 1, lambda it: next(it.checkpoints()), id="of a dataclass"),
    ],
)
def test_a_field_with_a_wrong_type_is_refused(
    right: Any, wrong: Any, ask: Callable[[Answering], Any]
) -> None:
    assert str(right) in str(ask(Answering(right)))
    with pytest.raises(Unreadable):
        ask(Answering(wrong))


def ids(*names: str) -> dict[str, Cell]:
    """The members of a list of Redis."""
    return {f".{place}": name for place, name in enumerate(names)}


@pytest.mark.parametrize(
    ("stored", "archived", "expected"),
    [
        ("c", "abc", True),
        ("ac", "abc", True),
        ("a", "abc", True),
        ("abc", "abc", False),
        ("ca", "abc", False),
        ("cd", "abc", False),
        ("c", "abac", False),
    ],
)
def test_a_part_of_a_list_has_its_order(stored: str, archived: str, expected: bool) -> None:
    assert is_part("list", ids(*stored), ids(*archived)) is expected


@pytest.mark.parametrize(
    ("stored", "expected"),
    [({".a": "1"}, True), ({".a": "2"}, False), ({".a": "1", ".c": "3"}, False)],
)
def test_a_part_of_a_sorted_set_has_its_scores(stored: dict[str, Cell], expected: bool) -> None:
    assert is_part("zset", stored, {".a": "1", ".b": "2"}) is expected
    assert not is_part("hash", stored, {".a": "1", ".b": "2"})


def test_compare_counts_what_would_be_restored() -> None:
    old, new = ({"thread_id": "a", "checkpoint_id": one, "value": one} for one in ("1", "2"))
    rows = [Row("checkpoints", old), Row("checkpoints", new)]
    assert compare(rows, [rows[0]], sql_key) == Restored(added=1, there=1)
    with pytest.raises(StoreChanged, match="different contents"):
        compare(rows, [Row("checkpoints", {**old, "value": "x"})], sql_key)
