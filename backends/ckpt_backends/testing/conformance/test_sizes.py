"""The sizes that a store gives of threads, checkpoints, values and itself."""

from collections import Counter

from ckpt_backends.model import Checkpoint, CheckpointKey
from ckpt_backends.protocol import Store
from ckpt_backends.testing.conformance.answers import kinds_of_rows
from ckpt_backends.testing.filling import FilledStore
from ckpt_cli.core.state import read_body


def test_sizes_are_those_of_each_thread_in_the_order_asked_for(
    store: Store, filled: FilledStore
) -> None:
    asked = [*sorted(filled.threads, reverse=True), "no such thread", "\ud800"]
    assert store.sizes(asked) == [store.size(one) for one in asked]
    assert store.sizes([]) == []
    info = store.describe()
    assert info.free is None or (info.size is not None and 0 <= info.free < info.size)


def test_sizes_of_checkpoints_and_blobs_add_up_to_the_size_of_the_thread(
    store: Store, filled: FilledStore
) -> None:
    for thread_id in filled.threads:
        size = store.size(thread_id)
        parts = list(store.checkpoint_sizes(thread_id))
        blobs = list(store.blobs(thread_id))
        assert sum(one.checkpoints for _, one in parts) == size.checkpoints
        assert sum(one.writes for _, one in parts) == size.writes
        in_parts = sum(one.bytes for _, one in parts) + sum(n for _, n in blobs)
        if blobs or filled.harness.has_history:
            assert (len(blobs), in_parts) == (size.blobs, size.bytes)
        else:
            # Values of a shallow layout have no version to tell them by.
            assert in_parts <= size.bytes
        written: Counter[CheckpointKey] = Counter()
        for key, one in parts:
            written[key] += one.writes
        assert +written == Counter(one.key for one in store.writes(thread_id))
        assert {key for key, one in parts if one.checkpoints} == {
            one.key for one in store.checkpoints(thread_id)
        }
    assert list(store.checkpoint_sizes("no such thread")) == []


def test_size_counts_what_is_stored(store: Store, filled: FilledStore, thread_id: str) -> None:
    size = store.size(thread_id)
    checkpoints = list(store.checkpoints(thread_id, body=True, metadata=True))
    writes = list(store.writes(thread_id))
    stored = sum(len(part.data) for one in checkpoints for part in (one.body, one.metadata) if part)
    assert size.checkpoints == len(checkpoints)
    assert size.writes == len(writes)
    assert size.blobs == kinds_of_rows(store, filled, thread_id).count("value")
    values = sum(one.size for one in writes)
    if filled.harness.values_as_documents:
        assert stored + values < size.bytes < 10 * (stored + values)
    elif filled.harness.values_as_text:
        has_blobs = any(one.blobs is not None for one in checkpoints)
        whole = stored + values + (_shared(checkpoints) if has_blobs else 0)
        keys = size.checkpoints + size.writes + size.blobs
        assert whole < size.bytes < 1.5 * whole + 100 * keys
    elif all(one.blobs is None for one in checkpoints):
        assert size.bytes == stored + values
    else:
        # Bodies count as the engine keeps them; a value that checkpoints share counts once.
        assert values < size.bytes < 2 * stored + values + _shared(checkpoints)


def _shared(checkpoints: list[Checkpoint]) -> int:
    found = {
        (one.key.checkpoint_ns, name, read_body(one).versions[name]): blob.size
        for one in checkpoints
        for name, blob in (one.blobs or {}).items()
    }
    assert found
    return sum(found.values())


def test_usage_adds_up_to_the_size_of_each_thread_in_the_order_of_their_ids(
    store: Store, filled: FilledStore, thread_id: str
) -> None:
    used: dict[str, int] = {}
    usage = list(store.usage())
    for one in usage:
        used[one.thread_id] = used.get(one.thread_id, 0) + one.bytes
    assert list(used) == sorted(filled.threads, key=str.encode)
    sizes = {one: store.size(one) for one in used}
    assert used == {one: size.bytes for one, size in sizes.items()}
    part = [one for one in usage if one.thread_id == thread_id]
    assert sorted(store.usage(thread_id), key=str) == sorted(part, key=str)
    assert list(store.usage("no such")) == []
    number = sum(one.rows for one in part if one.column == "metadata")
    assert number == sizes[thread_id].checkpoints
