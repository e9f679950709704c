"""Each pair of layouts is tested, or refused with its reason.

Threads that were copied are the same to LangGraph and to `ckpt`. The conformance suite shows for
each layout that they go on.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import product
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from ckpt_backends.codec.lossless import pack_lossless, unpack_lossless
from ckpt_backends.declaration import bundled
from ckpt_backends.errors import Unsupported
from ckpt_backends.model import Kind, Record
from ckpt_backends.registry import open_store
from ckpt_backends.testing.conformance.comparison import Known, check_thread
from ckpt_backends.testing.filling import quiet
from ckpt_backends.testing.harness import Harness
from ckpt_backends.testing.scenarios import truth
from ckpt_backends.testing.scenarios.catalog import SCENARIOS
from ckpt_backends.transfer.bodies import open_body
from ckpt_backends.transfer.copying import RecordsSum, languages_of, refusal, route
from ckpt_backends.transfer.form import Language, Place
from ckpt_cli.reading.thread import TriggerInference
from tests.copy.round_trip import copy_all, stored_records, sum_of
from tests.kit.command import FIXTURES, ckpt, copy_store
from tests.kit.harness.postgres import PostgresHarness
from tests.kit.harness.sqlite import SqliteHarness
from tests.kit.official import PLAIN, difference, what_is_read
from tests.kit.pairs import (
    JAVASCRIPT,
    JAVASCRIPT_PAIRS,
    PAIRS,
    PYTHON,
    CopyPair,
    Places,
    Sources,
    count_alike,
    form_of,
)
from tests.kit.stores import restore_rows


@pytest.mark.in_ci("sqlite to sqlite", "postgres to")
@pytest.mark.parametrize("pair", PAIRS)
def test_a_copied_thread_is_the_same(pair: CopyPair, sources: Sources, places: Places) -> None:
    source = sources(pair.source, pair.only)
    with places(pair.target) as target:
        skipped = copy_all(source.harness, target)
        # kagent has room for the writes of one task at a checkpoint, and these threads for more.
        others = {name for name, why in skipped.items() if "two tasks wrote number" not in why}
        assert others <= may_be_skipped(source.harness, target), skipped
        names = [name for name in source.read if name not in skipped]
        assert names
        for name in names:
            assert difference(what_is_read(target, name), source.read[name], name) == ""
        ckpt("-s", source.harness.url, "copy", "--to", target.url, "--yes", *names[:3], code=0)
        if pair.comes_back:
            _check_the_way_back(source.harness, target, names, places)


def may_be_skipped(source: Harness, target: Harness) -> frozenset[str]:
    """The threads that a target cannot hold as they are, or that its saver cannot store either.

    In a body, a bytearray becomes bytes. Only pickles have tuples, such as a message that was given
    as a role and a text. RedisSaver stores exceptions in a form that it reads as a dict, and
    what it makes of an application's class depends on the class. Its JSON cannot hold all keys,
    floats, named tuples and enums. Without task paths, parallel writes have an order that other
    savers do not keep.
    """
    if source.stores_pickles:
        return frozenset({"chat", "chat-edited", "fork-chat", "root-messages"} | PLAIN)
    apart = form_of(source.name).values is not Place.BODY
    changed = apart and form_of(target.name).values is Place.BODY
    found = set(target.failing_scenarios | target.skipped_scenarios)
    if changed:
        found.add("zoo-bytes")
    if source.omits_defaults:
        found |= {"zoo-dataclass"} | {name for name in SCENARIOS if "error" in name}
    if target.omits_defaults:
        found |= {"zoo-dataclass", "zoo-keys", "zoo-floats", "zoo-namedtuple", "zoo-enum"}
    if not source.has_task_paths or source.writes_by_arrival:
        found |= {name for name in SCENARIOS if name.startswith("delta")}
    return frozenset(found)


def loses_deltas(source: Harness, target: Harness, name: str) -> bool:
    """Return whether a saver loses earlier writes of DeltaChannels, or replays them in an order of
    its own.
    """
    keeps_order = source.has_task_paths and target.has_task_paths
    return name.startswith("delta") and not (source.has_history and keeps_order)


def _check_the_way_back(source: Harness, target: Harness, names: list[str], places: Places) -> None:
    """Copy back into a new store of the source's layout. The same bytes come back if both sides
    have the same serializer, and the same values otherwise. Where values are apart, bodies do not
    keep the order of the channels; where metadata is JSON, PostgreSQL and MySQL keep none of keys.
    These two have plain values in bodies, but keep apart those that come from a place of their own.
    """
    here, there = form_of(source.name), form_of(target.name)
    if not here.receives:
        return
    is_same = (
        here.serializer is there.serializer
        and count_alike(source.name, target.name)
        and here.has_task_paths is there.has_task_paths
        and there.has_task_paths >= here.has_task_paths
        and (here.values, there.values) != (Place.APART_BUT_PLAIN, Place.APART)
    )
    any_order = here.values is not there.values or here.metadata_type != there.metadata_type
    with places(type(source)) as back:
        skipped = copy_all(target, back)
        assert skipped.keys() <= may_be_skipped(target, back), skipped
        for name in names:
            if name in skipped or loses_deltas(target, back, name):
                continue
            # PostgreSQL and MySQL store the snapshot of a DeltaChannel with all checkpoints of its
            # version, and bodies with only one of them.
            if is_same and not name.startswith("delta"):
                came = digests(back, name, any_order=any_order)
                assert came == digests(source, name, any_order=any_order), name
            else:
                assert difference(what_is_read(back, name), what_is_read(source, name), name) == ""


def digests(harness: Harness, thread_id: str, *, any_order: bool) -> RecordsSum:
    """What all parts of a thread hold; with `any_order`, the same for every order of keys."""
    with open_store(harness.url) as store:
        records = stored_records(store, thread_id)
    if not any_order:
        return sum_of(records)
    return sum_of(map(sorted_metadata, records), any_order=True)


def sorted_metadata(record: Record) -> Record:
    metadata = record.metadata
    if metadata.type != "msgpack":
        return record
    found = dict(sorted(unpack_lossless(metadata.data).items()))
    return record._replace(metadata=metadata._replace(data=pack_lossless(found)))


LAYOUTS = [layout for backend in bundled() for layout in backend.layouts]
VARIANTS = {"redis-hash-colon": "redis-hash"}
"""Layouts that differ from another one in the names of keys only."""


def allowed(language: Language) -> set[tuple[str, str]]:
    return {pair for pair in product(LAYOUTS, LAYOUTS) if not refusal(*pair, language)}


def test_each_pair_is_tested_and_each_layout_is_a_source_or_says_why_not() -> None:
    tested = {(one.values[0].source.name, one.values[0].target.name) for one in PAIRS}
    wanted = {(VARIANTS.get(source, source), target) for source, target in allowed(Language.PYTHON)}
    assert wanted == tested
    tested = {(str(one.values[0]), str(one.values[1])) for one in JAVASCRIPT_PAIRS}
    assert allowed(Language.JAVASCRIPT) == tested
    for layout in LAYOUTS:
        known = languages_of(layout) or refusal(layout, "sqlite", Language.PYTHON)
        assert known, layout
        assert layout in PYTHON or layout in VARIANTS or "js" in layout.split("-")


def test_each_refused_pair_has_a_reason() -> None:
    for source, target, language in product(LAYOUTS, LAYOUTS, Language):
        if reason := refusal(source, target, language):
            with pytest.raises(Unsupported, match="cannot copy from") as raised:
                route(source, target, language)
            assert reason in raised.value.message


FOLDER = FIXTURES / "js-1.7.3"
TWO_BRANCHES = ("fork-", "delta-fork-")
"""LangGraph.js gives equal versions to the values of two branches, which only bodies can hold."""
NOT_AS_JSON = {"zoo-bytes", "zoo-undefined", "zoo-numbers", "delta-often"}
"""Values that not every store of LangGraph.js has in the same form."""
# LangGraph.js takes the answer to one of two questions for the task's output.
KNOWN = Known(waiting={"interrupt-second": ["ask"]})
Filled: TypeAlias = Callable[[str], AbstractContextManager[tuple[str, dict[str, Any]]]]


@pytest.fixture
def filled(places: Places, tmp_path: Path) -> Filled:
    """Return a function that yields the URL of a store of LangGraph.js, and its truth."""

    @contextmanager
    def store(layout: str) -> Iterator[tuple[str, dict[str, Any]]]:
        if layout == "sqlite":
            truth = json.loads((FOLDER / "truth.json").read_text("utf-8"))["threads"]
            yield str(copy_store(FOLDER / "store.db", tmp_path)), truth
            return
        with places(JAVASCRIPT[layout]) as harness:
            if layout == "postgres":
                restore_rows(FOLDER / "postgres.jsonl.gz", harness.url)
                truth = json.loads((FOLDER / "postgres.truth.json").read_text("utf-8"))["threads"]
            else:
                harness.restore_recording()
                truth = harness.recorded_truth()
            yield harness.url, truth

    return store


@pytest.mark.in_ci("sqlite to redis-js", "mongodb-js to")
@pytest.mark.parametrize(("source", "target"), JAVASCRIPT_PAIRS)
def test_a_thread_of_javascript_reads_as_it_was(
    source: str, target: str, filled: Filled, places: Places
) -> None:
    with filled(source) as (url, truth), places(JAVASCRIPT[target]) as place:
        words = ["copy", "--all", "--to", place.url, "--create", "--yes", "-o", "json"]
        done = ckpt("-s", url, *words)
        assert done.code in {0, 7}, done.err
        report = json.loads(done.out)
        assert report["verified"]
        skipped = {one["thread_id"]: one["reason"] for one in report["skipped"]}
        lacking = {
            one
            for one in skipped
            if place.accepts_thread_id(one)
            and not one.startswith(TWO_BRANCHES)
            and not (source == "langgraph-dev-js" and "in an order" in skipped[one])
        }
        assert lacking <= NOT_AS_JSON | place.skipped_scenarios, skipped
        failures: list[str] = []
        # No other store has the order in which parallel writes arrived.
        loses_order = JAVASCRIPT[source].writes_by_arrival
        with open_store(place.url) as store:
            assert store.describe().layout == target
            inference = TriggerInference(store)
            for thread_id, thread in truth.items():
                if thread_id in skipped or (loses_order and "delta" in thread_id):
                    continue
                try:
                    check_thread(store, thread_id, thread, KNOWN, inference)
                except AssertionError as error:
                    failures.append(str(error)[:400])
        assert not failures, "\n\n".join(failures)


ON_SQLITE = ("lg-0.2.14-json", "lg-0.2.14", "lg-0.2.70", "lg-0.6.11", "lg-1.0.10", "lg-1.2.22")
REFUSED = {"postgres": {"zoo-floats", "zoo-text", "zoo-bytes"}, "sqlite": {"zoo-bytes"}}
"""Threads whose metadata or plain values a target cannot store. LangGraph 0.2 wrote bytes in a form
of JSON that no release reads."""


def check_copied(source: Harness, target: Harness) -> None:
    """Copy a store. What the newest library reads of the source, it reads of the target."""
    skipped = copy_all(source, target)
    assert skipped.keys() <= REFUSED.get(target.name, set()), skipped
    with open_store(source.url) as store:
        names = [one.thread_id for one in store.threads() if one.thread_id not in skipped]
    assert len(names) > 50
    with quiet():
        for name in names:
            try:
                expected = history(source, name)
            except Exception:  # the newest saver cannot read this thread of an older one
                continue
            assert difference(history(target, name), expected, name) == ""


def history(harness: Harness, name: str) -> Any:
    graph = SCENARIOS[name].build(harness.corrected_saver(harness.kept_saver))
    config: Any = {"configurable": {"thread_id": name}}
    return [truth.encode_snapshot(one) for one in graph.get_state_history(config)]


@pytest.mark.engines
@pytest.mark.in_ci("lg-0.2.14-json", "lg-0.2.70")
@pytest.mark.parametrize("era", ON_SQLITE)
def test_an_older_file_is_copied_there_and_back(era: str, places: Places, tmp_path: Path) -> None:
    store = copy_store(FIXTURES / era / "store.db", tmp_path)
    with SqliteHarness.at(str(store)) as source, places(PostgresHarness) as target:
        check_copied(source, target)
        with places(SqliteHarness) as back:
            check_copied(target, back)
            if era in {"lg-0.2.14", "lg-0.2.70"}:  # which read them there
                assert pending_sends(back) == pending_sends(source)
                assert any(pending_sends(back))


def pending_sends(harness: Harness) -> list[Any]:
    with open_store(harness.url) as store:
        records = stored_records(store, "fanout-send")
    bodies = (one for one in records if one.kind is Kind.CHECKPOINT)
    return [open_body(one.value, "it").fields.get("pending_sends") for one in bodies]
