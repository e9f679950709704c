"""Each pair of layouts is tested, or refused with its reason.

Threads that were copied are the same to LangGraph and to `ckpt`, and go on in the same way.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from ckpt_backends.codec.lossless import unpack_lossless
from ckpt_backends.declaration import bundled
from ckpt_backends.errors import Unsupported
from ckpt_backends.model import Kind, TypedBytes
from ckpt_backends.registry import open_store
from ckpt_backends.testing.harness import Harness
from ckpt_backends.testing.scenarios.catalog import SCENARIOS
from ckpt_backends.transfer.bodies import open_body
from ckpt_backends.transfer.convert import without_order
from ckpt_backends.transfer.copying import languages_of, record_key, records_of_rows, refusal, route
from ckpt_backends.transfer.form import Language, Place
from tests.copy.round_trip import copy_all
from tests.kit.command import FIXTURES, ckpt
from tests.kit.differing import difference
from tests.kit.harness.langgraph_dev import DevHarness
from tests.kit.official import PLAIN, Source, what_follows, what_is_read
from tests.kit.pairs import (
    JAVASCRIPT_PAIRS,
    PAIRS,
    PYTHON,
    CopyPair,
    Places,
    Sources,
    count_alike,
    form_of,
)

COMMANDS = (["history"], ["show"], ["show", "--tree"], ["messages"], ["interrupts"], ["errors"])
"""Commands of one thread, whose answers must be the same on both sides."""

STOPPING = ("interrupt", "error", "functional", "fork-asking", "update-asking")
"""Threads that stop in the middle of a step."""


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
            _check_answers(source, target, name)
        again = ckpt("-s", source.harness.url, "copy", "--to", target.url, "--yes", *names[:3])
        assert again.code == 0, again.err
        if pair.comes_back:
            _check_the_way_back(source.harness, target, names, places)
        for name in names:
            if loses_deltas(source.harness, target, name):
                continue
            given = source.inputs[name]
            follows, resumed = what_follows(target, name, name, given), source.resumed[name]
            if source.harness.omits_defaults or target.omits_defaults:
                follows, resumed = _without_causes(follows), _without_causes(resumed)
            if not source.harness.has_writes and name.startswith(STOPPING):
                continue  # The saver of the source forgets which tasks have finished.
            if "supabase" in {target.name, source.harness.name} and name == "interrupt-second":
                continue  # SupabaseSaver cannot store a second answer of a task.
            assert difference(follows, resumed, name) == ""


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


def _without_causes(follows: Any) -> Any:
    """What follows in a thread, of errors only which tasks have one: RedisSaver reads a new error
    as a dict.
    """
    if isinstance(follows, list):
        return [_without_causes(one) for one in follows]
    if not isinstance(follows, dict) or follows.keys() != {"values", "next", "tasks"}:
        return follows
    tasks = [json.loads(one) for one in follows["tasks"]]
    left = [json.dumps([name, error != "None", *asked]) for name, error, *asked in tasks]
    return {**follows, "tasks": sorted(left)}


def lists_by_scan(place: Harness) -> bool:
    with open_store(place.url) as store:
        return store.lists_by_scan


def _check_answers(filled: Source, target: Harness, name: str) -> None:
    """Check that `ckpt` says the same of a thread on both sides."""
    source = filled.harness
    without = {"user"}  # Only some layouts store whose a thread is.
    if source.omits_defaults or target.omits_defaults:
        without |= {"values", "type", "value", "bytes"}
    if name.startswith("functional") and any(map(lists_by_scan, (source, target))):
        return  # The name of a task is learnt from other threads, which are not listed for that.
    if not (source.has_task_paths and target.has_task_paths):
        without |= {"next_paths", "path"}
        if name.startswith("functional"):
            return  # Only paths name the nodes of such a graph.
    if name.startswith("delta"):
        # Where values are stored apart, all checkpoints of a version have its snapshot.
        without |= {"rebuilt"}
    for words in COMMANDS if source.has_writes else (["messages"],):
        if words == ["show"] and loses_deltas(source, target, name):
            continue  # The source says that a value is lost. The copy does not know that.
        theirs = filled.answer(*words, "-o", "json", "--", name)
        ours = ckpt("-s", target.url, *words, "-o", "json", "--", name)
        assert ours.code == theirs.code, (words, name)
        if ours.code in {0, 1}:
            ours_left, theirs_left = (_without(without, one.json) for one in (ours, theirs))
            assert difference(ours_left, theirs_left, f"{words} {name}: ") == ""
        else:
            assert ours.err.splitlines()[-1:] == theirs.err.splitlines()[-1:]


def _without(names: set[str], answer: Any) -> Any:
    """An answer without some fields: RedisSaver stores objects without their default values, and
    some savers store no task paths.
    """
    if isinstance(answer, list):
        return [_without(names, one) for one in answer]
    if not isinstance(answer, dict):
        return answer
    return {name: _without(names, value) for name, value in answer.items() if name not in names}


def _check_the_way_back(source: Harness, target: Harness, names: list[str], places: Places) -> None:
    """Copy back into a new store of the source's layout. The same bytes come back if both sides
    have the same serializer, and the same values otherwise.
    """
    here, there = form_of(source.name), form_of(target.name)
    if not here.receives:
        return
    is_same = (
        here.serializer is there.serializer
        and count_alike(source.name, target.name)
        and here.has_task_paths is there.has_task_paths
        and there.has_task_paths >= here.has_task_paths
    )
    with places(type(source)) as back:
        skipped = copy_all(target, back)
        assert skipped.keys() <= may_be_skipped(target, back), skipped
        for name in names:
            if name in skipped or loses_deltas(target, back, name):
                continue
            # PostgreSQL and MySQL store the snapshot of a DeltaChannel with all checkpoints of its
            # version, and bodies with only one of them.
            if is_same and not name.startswith("delta"):
                assert difference(stored(back, name), stored(source, name), name, exact=True) == ""
            else:
                assert difference(what_is_read(back, name), what_is_read(source, name), name) == ""


def stored(harness: Harness, thread_id: str) -> dict[Any, Any]:
    """All parts of a thread, by key, without the order of members of JSON and of sets."""
    with open_store(harness.url) as store:
        rows = store.rows(thread_id)
        return {
            record_key(record): {
                name: _told(name, cell) if record.kind is Kind.CHECKPOINT else _plain(cell)
                for name, cell in record._asdict().items()
            }
            for record in records_of_rows(harness.name, rows)
        }


def _told(name: str, cell: Any) -> Any:
    """A part of a checkpoint. Engines that parse JSON order the names of metadata anew."""
    if name == "value":
        return _opened(cell)
    if name == "metadata" and cell.type == "msgpack":
        return unpack_lossless(cell.data)
    return _plain(cell)


def _plain(cell: Any) -> Any:
    if not isinstance(cell, TypedBytes):
        return cell
    if cell.type == "json":
        return json.loads(cell.data)
    return [cell.type, without_order(cell)]


def _opened(body: TypedBytes) -> Any:
    """A body that was taken apart."""
    found = open_body(body, "a checkpoint")
    return {"fields": found.fields, "values": {n: _plain(one) for n, one in found.values.items()}}


LAYOUTS = [layout for backend in bundled() for layout in backend.layouts]
VARIANTS = {"redis-hash-colon": "redis-hash"}
"""Layouts that differ from another one in the names of keys only."""


def allowed(language: Language) -> set[tuple[str, str]]:
    return {
        (source, target)
        for source in LAYOUTS
        for target in LAYOUTS
        if not refusal(source, target, language)
    }


def test_each_pair_of_python_is_tested() -> None:
    tested = {(one.values[0].source.name, one.values[0].target.name) for one in PAIRS}
    wanted = {(VARIANTS.get(source, source), target) for source, target in allowed(Language.PYTHON)}
    assert wanted == tested


def test_each_pair_of_javascript_is_tested() -> None:
    tested = {(str(one.values[0]), str(one.values[1])) for one in JAVASCRIPT_PAIRS}
    assert allowed(Language.JAVASCRIPT) == tested


def test_each_layout_is_a_source_or_says_why_not() -> None:
    for layout in LAYOUTS:
        known = languages_of(layout) or refusal(layout, "sqlite", Language.PYTHON)
        assert known, layout
        assert layout in PYTHON or layout in VARIANTS or "js" in layout.split("-")


@pytest.mark.parametrize("language", list(Language))
def test_each_refused_pair_has_a_reason(language: Language) -> None:
    for source in LAYOUTS:
        for target in LAYOUTS:
            reason = refusal(source, target, language)
            if reason:
                with pytest.raises(Unsupported, match="cannot copy from") as raised:
                    route(source, target, language)
                assert reason in raised.value.message


def check_refused(source: str | Path, target: str) -> None:
    answer = ckpt("-s", source, "copy", "--all", "--to", target, "--yes", "-o", "json")
    assert answer.code == 4
    error: dict[str, Any] = json.loads(answer.err)
    assert error["error"] == "unsupported"
    assert "cannot copy from" in error["message"]


def test_threads_of_javascript_are_refused_by_a_store_of_python(places: Places) -> None:
    with places(DevHarness) as target:
        target.add("a thread")
        check_refused(FIXTURES / "js-1.7.3" / "store.db", target.url)
