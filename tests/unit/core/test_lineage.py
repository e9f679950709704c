"""What comes from what: checkpoints, subgraph calls, values from writes, and ids of copies."""

import json
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpt_backends.codec.values import Value
from ckpt_backends.errors import Refused, Unsupported
from ckpt_backends.model import (
    NULL_TASK_ID,
    Checkpoint,
    CheckpointKey,
    TypedBytes,
    Write,
    make_id,
    step_of,
    ticks_at,
    time_of,
)
from ckpt_cli.core.forking import (
    check_body,
    copy_metadata,
    first_tick,
    form_of,
    greatest_version,
    mark_clone,
    next_name,
    next_version,
)
from ckpt_cli.core.lineage import (
    DEEPEST,
    NamespacePart,
    Parentage,
    depth_of,
    graph_of,
    innermost,
    is_in_call,
    is_stateful,
    is_subgraph_call,
    levels,
    namespace_in,
    namespace_kind,
)
from ckpt_cli.core.state import (
    BY,
    CHECKPOINTS,
    FROM,
    NAME,
    REASON,
    THREAD,
    WITH,
    WRITES,
    Body,
    read_body,
)
from ckpt_cli.core.tasks import TaskWrite
from ckpt_cli.core.value_origin import (
    TracedPath,
    applied_writes,
    is_caller,
    nodes_in_metadata,
    traced_path,
    value_at,
    writers,
)
from tests.kit.cases import cases

FORKED = Parentage({"f": "c", "e": "b", "d": "c", "c": "b", "b": "a", "a": None})
NODES = st.text("abc", min_size=1, max_size=3)
TASKS = st.none() | st.text("0123456789", min_size=1, max_size=3)


def _text(ids: Iterable[str]) -> str:
    return "".join(ids)


def test_ancestors_and_children_are_followed() -> None:
    assert (_text(FORKED.ancestors("f")), _text(FORKED.line("f"))) == ("cba", "fcba")
    assert _text(FORKED.ancestors("a")) == ""
    assert [*FORKED.line("missing")] == []
    assert (_text(FORKED.forward("a", None)), _text(FORKED.forward("a", "d"))) == ("bcf", "bcd")
    assert (_text(FORKED.forward("b", "e")), _text(FORKED.forward("a", "b"))) == ("e", "bcf")
    assert (_text(FORKED.forward("c", "e")), _text(FORKED.forward("d", None))) == ("f", "")
    assert (_text(FORKED.children("b")), _text(FORKED.children("f"))) == ("ce", "")
    assert (_text(FORKED.siblings("d")), _text(FORKED.siblings("c"))) == ("df", "ce")
    pruned = Parentage({"z": "gone", "y": "gone", "x": "other"})
    assert _text(pruned.siblings("z")) == "yz"
    assert pruned.parent("z") is None
    assert pruned.named_parent("z") == "gone"
    assert pruned.misses_parent("z")
    assert not FORKED.misses_parent("a")
    own = Parentage({"a": "a"})
    assert ([*own.line("a")], own.depths, [*own.loops()]) == (["a"], {"a": 0}, [["a"]])
    ring = Parentage({"d": "a", "a": "b", "b": "a", "e": None})
    assert ([*ring.loops()], _text(ring.line("d")), ring.tips) == ([["a", "b"]], "dab", ["d", "e"])
    assert ({*ring.depths}, len([*ring.forward("a", None)])) == ({*"abde"}, 1)


def test_the_branch_of_the_head_is_the_trunk_and_forks_beside_it_are_counted() -> None:
    assert (FORKED.tips, FORKED.forks) == (["f", "e", "d"], ["b", "c"])
    assert FORKED.depths == {"f": 0, "c": 0, "b": 0, "a": 0, "e": 1, "d": 1}
    older = Parentage({"e": "b", "f": "c", "d": "c", "c": "b", "b": "a", "a": None})
    assert older.trunk == {"a": "b", "b": "e", "c": "f"}
    assert Parentage({"b": "a", "d": "a", "c": "b", "a": None}).trunk["a"] == "b"
    assert older.depths == {"e": 0, "b": 0, "a": 0, "f": 1, "c": 1, "d": 2}


@given(st.lists(st.tuples(NODES, TASKS), min_size=1, max_size=5))
def test_namespaces_are_taken_apart_and_put_together(parts: list[tuple[str, str | None]]) -> None:
    ns, outer = "", ""
    for node, task_id in parts:
        outer, ns = ns, namespace_in(ns, node, task_id)
    assert innermost(ns) == NamespacePart(outer, *parts[-1])
    assert innermost(f"{ns}|3") == NamespacePart(outer, *parts[-1], "3")
    assert [(one.node, one.task_id) for one in levels(ns)] == parts
    assert levels(ns)[-1].outer == outer
    assert graph_of(ns) == tuple(node for node, _ in parts)
    assert namespace_kind(ns) == namespace_kind(f"{ns}|3") == "|".join(node for node, _ in parts)
    assert depth_of(ns) == len(parts)
    assert is_subgraph_call(ns) == (parts[-1][1] is not None)
    assert is_in_call(ns) == any(task_id is not None for _, task_id in parts) != is_stateful(ns)


def test_the_root_graph_is_no_call_and_a_hostile_namespace_is_cut() -> None:
    assert (levels(""), depth_of("")) == ([], 0)
    assert not is_subgraph_call("")
    assert not is_stateful("")
    assert len(levels("a:1|" * 10_000)) == DEEPEST


KEY = CheckpointKey("t", "", "1")


def wrote(node: str, value: Any, channel: str = "c", path: str = "", task: str = "") -> TaskWrite:
    data = TypedBytes("json", json.dumps(value).encode())
    return TaskWrite(Write(KEY, task or node, path, 0, channel, len(data.data), data), node, path)


def message(ident: str, content: str = "") -> dict[Value, Value]:
    return {"role": "user", "id": ident, "content": content}


def nodes(found: list[TaskWrite]) -> list[str | None]:
    return [one.node for one in found]


SEVERAL = [wrote("a", 1), wrote("b", 2), wrote("d", 2), wrote("e", 3)]
LISTS = [wrote("a", ["x"]), wrote("b", ["y", "z"])]
MAPS = [wrote("a", {"k": 1}), wrote("b", {"__overwrite__": {"l": 2}})]
SAID = [wrote("a", message("1")), wrote("b", [message("2"), message("3")])]


@cases(
    "written place value found",
    pytest.param([wrote("a", 1), wrote("b", 2, "o")], ["c"], 9, "a", id="one to the channel"),
    pytest.param(SEVERAL, ["c"], 2, "d", id="the last of several that fits"),
    pytest.param(SEVERAL, ["c"], 6, "abde", id="none fits"),
    pytest.param(LISTS, ["c", 3], "x", "a", id="an item that was appended"),
    pytest.param(MAPS, ["c", "k"], 1, "a", id="a key that was merged"),
    pytest.param(MAPS, ["c", "l"], 2, "b", id="a key that was overwritten"),
)
def test_value_writers(written: list[TaskWrite], place: list[Any], value: Any, found: str) -> None:
    assert nodes(writers(written, TracedPath(tuple(place)), value)) == [*found]
    # A message is found by its id.
    assert nodes(writers(SAID, TracedPath(("c", 0), "1"), None)) == ["a"]
    assert nodes(writers(SAID, TracedPath(("c", 2, "content"), "3"), "")) == ["b"]
    removed = [*SAID, wrote("d", {"type": "remove", "id": "3", "content": ""})]
    assert nodes(writers(removed, TracedPath(("c", 2), "3"), None)) == ["b"]
    removed = [wrote("a", message("1")), wrote("b", {"type": "remove", "id": "1", "content": ""})]
    assert nodes(writers(removed, TracedPath(("c", 0), "1"), None)) == ["a"]


def test_some_writes_are_not_those_of_a_step() -> None:
    written = [wrote("a", 1), wrote("b", 2, path="~__interrupt__, 0")]
    assert nodes(applied_writes(written, "loop")) == ["a"]
    assert nodes(applied_writes(written, "update")) == ["b"]
    assert applied_writes(written, "input") == []
    assert is_caller(wrote("", 1, task=NULL_TASK_ID))
    assert not is_caller(wrote("a", 1))
    writes: dict[Value, Value] = {"a": {"c": 1}, "b": {"d": 2}, "e": None}
    assert nodes_in_metadata({"writes": writes}, "c") == ["a"]
    assert (nodes_in_metadata({"writes": None}, "c"), nodes_in_metadata({}, "c")) == ([], [])


def test_a_place_is_followed_by_the_id_of_its_message_or_by_its_path() -> None:
    place = traced_path({"c": [message("1"), message("2", "x")]}, ("c", 1, "content"))
    assert place == TracedPath(("c", 1, "content"), "2")
    assert value_at({"c": [message("2", "y")]}, place) == (True, "y")
    assert value_at({"c": [message("2", "y"), message("2", "z")]}, place) == (True, "z")
    assert value_at({"c": [message("1")]}, place) == (False, None)
    place = traced_path({"c": {"a": [1, 2]}}, ("c", "a", 1))
    assert value_at({"c": {"a": [0, 5]}}, place) == (True, 5)
    others: list[dict[str, Value]] = [{}, {"c": {"a": []}}, {"c": 7}]
    for state in others:
        assert value_at(state, place) == (False, None)


NOW = datetime(2026, 4, 7, 10, 30, tzinfo=UTC)
FORK = CheckpointKey("t", "", make_id(ticks_at(NOW) - 10, 3, 7))
times = st.integers(0, 2**31).map(lambda seconds: datetime.fromtimestamp(seconds, UTC))
node_ids = st.integers(0, 2**48 - 1)


@given(times, st.integers(-8192, 8191), node_ids)
def test_an_id_holds_its_time_and_its_step(at: datetime, step: int, node: int) -> None:
    found = make_id(ticks_at(at), step, node)
    assert (time_of(found), step_of(found)) == (at, step)


@given(st.lists(st.tuples(st.integers(-(10**9), 10**9), node_ids), min_size=1), node_ids)
def test_a_new_id_is_greater_than_all_others(heads: list[tuple[int, int]], node: int) -> None:
    """Also where the clock went back: up to a hundred seconds, here."""
    ids = [make_id(ticks_at(NOW) + ahead, -1, other) for ahead, other in heads]
    assert make_id(first_tick(NOW, ids, force=False), 0, node) > max(ids)


def test_a_head_in_the_far_future_is_refused_unless_forced() -> None:
    head = make_id(ticks_at(NOW + timedelta(days=2)), 1, 1)
    with pytest.raises(Refused, match="dated in the future"):
        first_tick(NOW, [head], force=False)
    assert make_id(first_tick(NOW, [head], force=True), 1, 0) > head
    with pytest.raises(Refused):
        first_tick(NOW, [make_id((1 << 60) - 1, 1, 1)], force=True)
    with pytest.raises(Unsupported, match="was not made by LangGraph"):
        first_tick(NOW, [FORK.checkpoint_id, "ckpt_005"], force=True)


def body(**parts: object) -> TypedBytes:
    fields = {"v": 4, "ts": "2026-04-07T10:30:00+00:00", "id": "old", "channel_values": {"a": 1}}
    return TypedBytes("json", json.dumps({**fields, **parts}).encode())


def stored(**parts: object) -> Checkpoint:
    metadata = {"source": "loop", "step": 3, "writes": {}, "run_id": "r", "user": "Zoë"}
    text = json.dumps(metadata, ensure_ascii=False).encode()
    return Checkpoint(FORK, "parent", body(**parts), TypedBytes("json", text))


@cases(
    "ids name",
    (["ckpt_9", "ckpt_10"], "ckpt_11"),
    (["099", "98"], "100"),
    (["08", "10"], "11"),
    (["007", "006"], "008"),
    (["a1", "b2"], None),
    (["a1", "a"], None),
    (["9" * 19], None),
    ([FORK.checkpoint_id], None),
    ([make_id(ticks_at(NOW), 1, 1)], None),
)
def test_the_next_of_numbered_ids(ids: list[str], name: str | None) -> None:
    assert next_name(ids) == name


def test_a_new_version_is_greater_than_all_others() -> None:
    numbers = read_body(stored(channel_versions={"a": 12, "b": 3}))
    texts = read_body(stored(channel_versions={"a": f"{12:032}.0.5", "b": f"{3:032}.0.1"}))
    assert (next_version(numbers), next_version(numbers, 40)) == (13, 41)
    for above, expected in ((0, 13), (40, 41)):
        assert str(next_version(texts, above)).startswith(f"{expected:032}.")
    assert greatest_version([numbers, read_body(stored(channel_versions={"c": 13})), texts]) == 13


def test_a_copy_keeps_the_metadata_but_for_what_is_of_one_run_or_copy() -> None:
    ours = {FROM: "f", WITH: "w", WRITES: 3, THREAD: "t", CHECKPOINTS: 4}
    fields = {"run_id": "r", "writes": {}, "user": "Zoë", REASON: "why", **ours}
    for by, kept in ((NAME, {}), ("other", {REASON: "why"})):
        metadata = TypedBytes("json", json.dumps({**fields, BY: by}).encode())
        copied = json.loads(copy_metadata(metadata, {WITH: "new", "source": "fork"}).data)
        assert copied == {"user": "Zoë", BY: NAME, WITH: "new", "source": "fork", **kept}


def test_the_form() -> None:
    four, three = (read_body(stored(v=v)) for v in (4, 3))
    assert form_of(four, [], sibling=False)[0] == "child"
    assert form_of(four, [], sibling=True)[0] == "sibling"
    assert form_of(three, [], sibling=False)[0] == "sibling"
    form, why = form_of(four, ["log"], sibling=False)
    assert (form, "log" in why) == ("sibling", True)


@pytest.mark.parametrize("found", [body(v=5), body(v=0), TypedBytes("msgpack+aes", b"x")])
def test_a_body_that_is_not_known_is_refused(found: TypedBytes) -> None:
    checkpoint = stored()._replace(body=found)
    check_body(FORK, Body(1, None, {}, {}, {}, None))
    with pytest.raises(Unsupported):
        check_body(FORK, read_body(checkpoint))


@pytest.mark.parametrize("metadata", [b"", b"null", b"[1]", b"{broken"])
def test_metadata_that_cannot_be_read_is_replaced(metadata: bytes) -> None:
    marked = mark_clone(TypedBytes("json", metadata), "from", 1, 2, "why")
    assert json.loads(marked.data)["forked_from_thread"] == "from"
