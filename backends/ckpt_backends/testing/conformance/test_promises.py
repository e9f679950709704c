"""Each promise in `ckpt_backends.protocol`, asked of every store."""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import pairwise, product
from typing import Any

import pytest

from ckpt_backends.codec import decode, decode_checkpoint, to_json
from ckpt_backends.codec.stored import is_findable, is_findable_in_any_case
from ckpt_backends.model import (
    USERS,
    Capability,
    Checkpoint,
    CheckpointKey,
    Thread,
    ThreadBounds,
    Write,
    is_reserved,
    time_of,
)
from ckpt_backends.protocol import Store
from ckpt_backends.registry import open_store
from ckpt_backends.testing.conformance.answers import kinds_of_rows
from ckpt_backends.testing.filling import FilledStore
from ckpt_cli.core.search import compile_pattern, search
from ckpt_cli.core.state import read_body
from ckpt_cli.reading.states import StateTimeline, read_state
from ckpt_cli.reading.thread import ThreadReader

NEVER = datetime.min.replace(tzinfo=UTC)


@pytest.fixture
def asking(filled: FilledStore) -> str:
    """A thread whose head waits for an answer."""
    return (
        "interrupt-alone"
        if "interrupt-nested" in filled.harness.skipped_scenarios
        else "interrupt-nested"
    )


def history(filled: FilledStore, thread_id: str) -> dict[str, list[str]]:
    """Checkpoint ids by namespace, newest first, as the official library gives them."""
    found = filled.threads[thread_id]["history"]
    return {ns: [one["checkpoint_id"] for one in rows] for ns, rows in found.items()}


def test_describe_names_layout_and_place(store: Store, filled: FilledStore, thread_id: str) -> None:
    info = store.describe()
    assert info.layout, "describe() must name the layout"
    assert info.engine, "describe() must name the engine and its version"
    assert info.saver, "describe() must name the saver that wrote the store"
    assert info.url in filled.harness.url or filled.harness.url in info.url
    assert list(info.notes) == list(store.notes())
    assert list(store.hidden_rows()) == []
    key = next(store.checkpoints(thread_id)).key
    assert any(key.checkpoint_id in source for source in store.sources(key))
    store.close()
    store.close()


def test_threads_gives_every_thread_once_newest_first(store: Store, filled: FilledStore) -> None:
    threads = list(store.threads())
    ids = sorted(one.thread_id for one in threads)
    assert ids == sorted(filled.threads), "threads() must give each thread once"
    newest = [one.last_at for one in threads if one.last_at is not None]
    assert len(newest) == len(threads), "each thread must have its last_at"
    is_newest_first = all(left >= right for left, right in pairwise(newest))
    assert is_newest_first, "threads() must list the newest thread first"
    assert list(store.threads(limit=3)) == threads[:3], "threads(limit=3) must be the newest three"
    for thread in threads:
        rows = history(filled, thread.thread_id)
        every = [one for ids in rows.values() for one in ids]
        head = rows[""][0] if rows.get("") else None
        assert thread.head == head, "head must be the checkpoint that the saver loads"
        assert thread.checkpoints == len(every), "checkpoints must count those of all namespaces"
        assert thread.namespaces == len(rows)
        told = filled.harness.times(thread.thread_id) or (time_of(min(every)), time_of(max(every)))
        assert (thread.first_at, thread.last_at) == told
        assert store.thread(thread.thread_id) == thread, "thread() must equal what threads() gives"
        found: dict[str, list[str]] = {}
        for one in store.checkpoints(thread.thread_id):
            found.setdefault(one.key.checkpoint_ns, []).append(one.key.checkpoint_id)
        assert found == rows, "checkpoints() must give the newest of each namespace first"
        spaces = store.namespaces(thread.thread_id)
        assert spaces == sorted(rows), "namespaces() must be sorted, the root as ''"


def some_bounds(threads: Sequence[Thread]) -> Iterator[ThreadBounds]:
    """Yield bounds of each kind, and of several kinds together."""
    ids, middle = [one.thread_id for one in threads], threads[len(threads) // 2]
    for asked in ([], ids[:2], [ids[0], "no such", "\ud800"], [*ids, *map(str, range(600))]):
        yield ThreadBounds(ids=frozenset(asked))
    for prefix in ("l", middle.thread_id, "LINEAR", "%", "4", "\ud800"):
        yield ThreadBounds(prefix=prefix)
    yield ThreadBounds(since=middle.last_at)
    yield ThreadBounds(until=middle.last_at)
    yield ThreadBounds(since=middle.last_at, until=middle.last_at, ids=frozenset(ids[1:]))
    yield ThreadBounds(since=datetime(1, 1, 1, tzinfo=UTC), until=datetime(9999, 1, 1, tzinfo=UTC))
    yield ThreadBounds(users=frozenset({"nobody", *filter(None, [middle.user])}))
    both = frozenset({"__interrupt__", "__error__"})
    for channels in (both, frozenset({"__interrupt__"}), frozenset({"no such"}), frozenset[str]()):
        yield ThreadBounds(head_channels=channels)
    yield ThreadBounds(head_channels=both, until=middle.last_at, prefix=middle.thread_id[:1])
    yield ThreadBounds(head_channels=both, ids=frozenset(ids[::2]))


def test_threads_within_bounds_are_those_of_the_list(store: Store) -> None:
    threads = list(store.threads())
    written: dict[str, set[str]] = {one.thread_id: set() for one in threads}
    for thread in threads:
        head = [] if thread.head is None else [thread.head]
        for one in store.writes(thread.thread_id, checkpoint_ns="", checkpoint_ids=head):
            written[thread.thread_id].add(one.channel)
    for bounds in some_bounds(threads):
        channels = bounds.head_channels
        wanted = [
            one
            for one in filter(bounds.admits, threads)
            if channels is None or channels & written[one.thread_id]
        ]
        assert list(store.threads_within(bounds)) == wanted, bounds


def test_checkpoints_with_a_key_have_it_in_metadata(store: Store, filled: FilledStore) -> None:
    ids = [*filled.threads, "no such"]
    stored = [each for one in ids for each in store.checkpoints(one, metadata=True)]
    known = [(one.key, decode(one.metadata)) for one in stored if one.metadata is not None]
    for key in ("step", "user_id", "langgraph", "no such", "é"):
        wanted = {place for place, have in known if isinstance(have, dict) and key in have}
        found = list(store.metadata_with(ids, key))
        assert {one.key for one in found} == wanted, key
        assert all(one.metadata is not None for one in found)
        newest: dict[str, str] = {}
        for place in wanted:
            newest[place.thread_id] = max(place.checkpoint_id, newest.get(place.thread_id, ""))
        found = list(store.metadata_with(ids, key, newest=True))
        assert {one.key.thread_id: one.key.checkpoint_id for one in found} == newest, key
        assert len(found) == len(newest)


def test_thread_ids_are_those_with_the_prefix_in_order(store: Store, filled: FilledStore) -> None:
    for prefix in ("", "l", "linear", "LINEAR", "%", "*", "no such"):
        fitting = sorted(one for one in filled.threads if one.startswith(prefix))
        assert list(store.thread_ids(prefix, limit=999)) == fitting
        assert list(store.thread_ids(prefix, limit=1)) == fitting[:1]
        for one in fitting[:1]:
            assert list(store.thread_ids(prefix, after=one, limit=999)) == fitting[1:]


def test_a_thread_that_is_not_there_is_none(store: Store) -> None:
    for missing in ("", "no such", "linea", "LINEAR", "linear%", "*"):
        assert store.thread(missing) is None, "a thread id is data: no pattern, no prefix, no case"
        assert (store.namespaces(missing), list(store.checkpoints(missing))) == ([], [])
        assert (list(store.writes(missing)), store.size(missing).bytes) == ([], 0)


def test_checkpoints_of_one_namespace_and_by_id_are_only_those(
    store: Store, filled: FilledStore, thread_id: str
) -> None:
    for namespace, ids in history(filled, thread_id).items():
        found = store.checkpoints(thread_id, checkpoint_ns=namespace)
        assert [one.key.checkpoint_id for one in found] == ids
    ids = history(filled, thread_id)[""]
    assert (Capability.HISTORY in store.describe().capabilities) == (len(ids) > 1)
    asked = [ids[0], "gone", *ids[2:3]]
    some = list(store.checkpoints(thread_id, checkpoint_ns="", checkpoint_ids=asked))
    assert [one.key.checkpoint_id for one in some] == [ids[0], *ids[2:3]]
    every = list(store.checkpoints(thread_id))
    ids = [one.key.checkpoint_id for one in every]
    # Ids that are not there fall between those that are, so that these come in several chunks.
    asked = [*ids, *(f"{one[:-1]}{n:04}" for one in ids for n in range(300))]
    assert list(store.checkpoints(thread_id, checkpoint_ids=asked)) == every
    writes = list(store.writes(thread_id, checkpoint_ids=asked))
    # A layout without history may still hold writes of a checkpoint that is gone.
    assert writes == [one for one in store.writes(thread_id) if one.key.checkpoint_id in ids]


def test_bodies_and_metadata_are_read_only_where_asked_for(store: Store, thread_id: str) -> None:
    def parts(one: Checkpoint) -> tuple[bool, bool]:
        return one.body is not None, one.metadata is not None

    assert {parts(one) for one in store.checkpoints(thread_id)} == {(False, False)}
    assert {parts(one) for one in store.checkpoints(thread_id, body=True)} == {(True, False)}
    assert {parts(one) for one in store.checkpoints(thread_id, metadata=True)} == {(False, True)}


def test_writes_come_in_the_order_of_the_protocol(store: Store, filled: FilledStore) -> None:
    for thread_id in filled.threads:
        writes = list(store.writes(thread_id))
        keys = [one.key for one in writes]
        assert keys == sorted(keys), "writes() must be in the order of their checkpoints"
        if filled.harness.writes_by_arrival:
            continue
        assert {one.at is not None for one in writes} <= {filled.harness.values_only}
        places = [(one.key, one.at or NEVER, one.task_path, one.task_id, one.idx) for one in writes]
        assert places == sorted(places), "writes of a checkpoint: by task path, task id, idx"


def test_checkpoints_and_writes_of_many_are_as_of_each(store: Store, filled: FilledStore) -> None:
    stored = [one.key for thread_id in filled.threads for one in store.checkpoints(thread_id)]
    # Every other one: what was not asked for must not come.
    newest = stored[::2]
    wanted = {*newest}
    missing = [
        newest[0]._replace(thread_id="no such thread"),
        newest[0]._replace(thread_id="\ud800"),
        newest[0]._replace(checkpoint_ns="no such namespace"),
        newest[0]._replace(checkpoint_id=stored[-1].checkpoint_id),
    ]
    asked = [*newest, *missing]
    kinds = product((False, True), repeat=2)
    reads: list[dict[str, Any]] = [{"body": body, "metadata": meta} for body, meta in kinds]
    reads += [{"body": True, "values": values} for values in (True, ["items"])]
    for options in reads:
        one_by_one = {
            one.key: one
            for thread_id in filled.threads
            for one in store.checkpoints(thread_id, **options)
            if one.key in wanted
        }
        found = list(store.checkpoints_at(asked, **options))
        assert {one.key: one for one in found} == one_by_one
        assert len(found) == len(one_by_one)
    for channels, values in ((None, False), (None, True), (None, ["__interrupt__"]), (["x"], True)):
        written: dict[CheckpointKey, list[Write]] = {key: [] for key in newest}
        for thread_id in filled.threads:
            for one in store.writes(thread_id, channels=channels, values=values):
                written.setdefault(one.key, []).append(one)
        grouped: dict[CheckpointKey, list[Write]] = {key: [] for key in newest}
        for write in store.writes_at(asked, channels=channels, values=values):
            grouped[write.key].append(write)
        assert grouped == {key: written[key] for key in newest}
    assert not [*store.checkpoints_at([]), *store.writes_at([])]


def test_write_values_are_read_as_asked_for(store: Store, filled: FilledStore, asking: str) -> None:
    everything = list(store.writes(asking, values=True))
    assert bool(everything) == filled.harness.has_writes
    assert all(one.value is not None for one in everything)
    assert all(one.size == len(one.value.data) for one in everything if one.value is not None)
    assert all(one.value is None for one in store.writes(asking))
    some = list(store.writes(asking, values=["__interrupt__"]))
    assert [one.task_id for one in some] == [one.task_id for one in everything]
    read = {one.channel for one in some if one.value is not None}
    assert read == ({"__interrupt__"} if filled.harness.has_questions else set())
    found = {one.channel for one in store.writes(asking, channels=["__interrupt__"])}
    assert found == ({"__interrupt__"} if filled.harness.has_questions else set())


def test_rows_are_all_that_a_thread_has_its_checkpoints_last(
    store: Store, filled: FilledStore, thread_id: str
) -> None:
    size, kinds = store.size(thread_id), kinds_of_rows(store, filled, thread_id)
    # Values that are kept apart, and what only names others, are rows of their own.
    own = [one for one in kinds if one in {"checkpoint", "write"}]
    writes = size.writes
    if filled.harness.writes_in_one_row:
        writes = len({one.key for one in store.writes(thread_id)})
    wanted = ["write"] * writes + ["checkpoint"] * size.checkpoints
    assert own == wanted, "rows() must give each write, and then each checkpoint"
    if "value" in kinds:
        first = next(one for one in kinds if one != "index")
        assert first == "value", "rows() must give values before what names them"
    assert list(store.rows("no such thread")) == []


def test_values_kept_apart_are_read_only_where_asked_for(store: Store, thread_id: str) -> None:
    def read(values: bool | list[str]) -> set[str]:
        found: set[str] = set()
        for one in store.checkpoints(thread_id, body=True, values=values):
            for name, blob in (one.blobs or {}).items():
                if blob.value is not None:
                    assert (blob.size, blob.type) == (len(blob.value.data), blob.value.type)
                    found.add(name)
        return found

    everything = read(True)
    assert all(one.blobs is None for one in store.checkpoints(thread_id))
    if not everything:
        pytest.skip("keeps no values apart")
    own = ("__", "branch:", "join:", "start:")
    control = {name for name in everything if name.startswith(own) and name not in USERS}
    users = sorted(everything - control)
    assert users
    assert read(False) == control
    assert read(users[:1]) == control | set(users[:1])


def test_threads_that_may_hold_a_text_have_all_matches(store: Store, filled: FilledStore) -> None:
    ids = [*filled.threads, "no such thread"]
    find = compile_pattern(r"\w{4,}", fixed=False, ignore_case=False)
    texts: dict[str, set[str]] = {}
    for thread_id in filled.threads:
        for write in store.writes(thread_id, values=True):
            if write.value is not None:
                for match in search(decode(write.value), find):
                    if match is not None and is_findable(match.line):
                        texts.setdefault(match.line, set()).add(thread_id)
    for text, having in sorted(texts.items(), key=lambda one: not one[0].isdigit())[:20]:
        found = store.threads_that_may_hold(ids, [text, "nowhere in this store"])
        assert having <= found <= {*ids}, f"must give each thread with {text!r}, and no other"
        if is_findable_in_any_case(text):
            found = store.threads_that_may_hold(ids, [text.swapcase()], ignore_case=True)
            assert having <= found, f"threads_that_may_hold() must find {text!r} in any case"


def test_threads_that_are_not_suspect_have_keys_that_fit_together(store: Store) -> None:
    suspects = list(store.suspect_threads())
    assert len(set(suspects)) == len(suspects)
    for thread_id in {one.thread_id for one in store.threads()}.difference(suspects):
        assert list(store.thread_faults(thread_id)) == []
        if Capability.HISTORY not in store.describe().capabilities:
            continue  # without a history, parents and checkpoints with writes are not stored
        checkpoints = list(store.checkpoints(thread_id))
        known = {one.key for one in checkpoints}
        for one in checkpoints:
            if (parent := one.parent_checkpoint_id) is not None:
                assert one.key._replace(checkpoint_id=parent) in known
                assert parent < one.key.checkpoint_id
        assert {one.key for one in store.writes(thread_id)} <= known


def test_answers_are_of_one_moment_until_refresh(filled: FilledStore) -> None:
    new = "written-later"
    with open_store(filled.harness.url) as opened:
        assert opened.thread(new) is None
        if filled.harness.excludes_writers:
            opened.refresh()
        filled.harness.add(new)
        try:
            assert filled.harness.excludes_writers or opened.thread(new) is None
            opened.refresh()
            assert opened.thread(new) is not None
        finally:
            opened.refresh()
            filled.harness.forget(new)
        opened.refresh()
        assert opened.thread(new) is None


def test_a_timeline_has_the_states_of_every_checkpoint(store: Store, filled: FilledStore) -> None:
    for thread_id, truth in filled.threads.items():
        reader = ThreadReader(store, thread_id)
        for ns in truth["history"]:
            points = {
                one.checkpoint.key.checkpoint_id: one.values for one in StateTimeline(reader, ns)
            }
            assert list(points) == [one.key.checkpoint_id for one in reversed(reader.index(ns))]
            for moment in reader.moments(ns, state=True):
                state = read_state(reader, moment)
                told = {
                    name: value
                    for name, value in state.values.items()
                    if not state.rebuilt.get(name, "").startswith("with the caller's")
                }
                got = points[moment.key.checkpoint_id]
                assert {name: to_json(got[name]) for name in told} == {
                    name: to_json(value) for name, value in told.items()
                }, (thread_id, ns, moment.number)


def test_outlines_tell_which_channels_have_a_value(store: Store, filled: FilledStore) -> None:
    keys = [one.key for thread_id in filled.threads for one in store.checkpoints(thread_id)]
    missing = keys[0]._replace(checkpoint_id="none")
    whole = {one.key: one for one in store.checkpoints_at(keys, body=True, metadata=True)}
    found = list(store.outlines_at([*keys, missing]))
    assert Counter(key for _, alike in found for key in alike) == Counter(whole.keys())
    for outline, alike in found:
        assert _outline(outline) == _outline(whole[outline.key])
        assert _triggers(outline) == _triggers(whole[outline.key])
        assert outline.key in alike
        assert {_shape(whole[key]) for key in alike} == {_shape(outline)}
    assert not [*store.outlines_at([])]


def _outline(one: Checkpoint) -> Checkpoint:
    return one._replace(blobs=None, missing=frozenset())


def _triggers(one: Checkpoint) -> set[str] | None:
    """The channels with a blob that LangGraph controls itself by, or that a node has seen."""
    body: Any = decode_checkpoint(one.body) if one.body else None
    seen = body.get("versions_seen", {}) if isinstance(body, dict) else {}
    read = {channel for channels in seen.values() for channel in channels}
    if one.blobs is None:
        return None
    return {name for name in one.blobs if name in read or is_reserved(name)}


def _shape(one: Checkpoint) -> str:
    """What an outline tells about each checkpoint that it stands for."""
    body: Any = decode_checkpoint(one.body) if one.body else None
    body = body if isinstance(body, dict) else {}
    metadata: Any = decode(one.metadata) if one.metadata else {}
    values, versions = body.get("channel_values", {}), body.get("channel_versions", {})
    parts = (
        body.get("v"),
        metadata.get("source"),
        {*values, *(_triggers(one) or ())},
        {channel: type(version) for channel, version in versions.items()},
        {node: {*seen} for node, seen in body.get("versions_seen", {}).items()},
        values.get("__pregel_tasks"),
    )
    return repr([sorted(part, key=repr) if isinstance(part, set) else part for part in parts])


def test_sizes_are_of_each_thread_in_the_order_asked_for(store: Store, filled: FilledStore) -> None:
    asked = [*sorted(filled.threads, reverse=True), "no such thread", "\ud800"]
    assert store.sizes(asked) == [store.size(one) for one in asked]
    assert store.sizes([]) == []
    info = store.describe()
    assert info.free is None or (info.size is not None and 0 <= info.free < info.size)


def test_sizes_of_rows_add_up_to_that_of_the_thread(store: Store, filled: FilledStore) -> None:
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
    assert (size.checkpoints, size.writes) == (len(checkpoints), len(writes))
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
    assert sum(one.rows for one in part if one.column == "metadata") == sizes[thread_id].checkpoints
