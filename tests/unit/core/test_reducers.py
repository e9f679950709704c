"""Reducers make of writes what LangGraph makes, prove stored values, and restore lost ones."""

import json
import operator
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    HumanMessage,
    RemoveMessage,
    ToolMessageChunk,
)
from langgraph.channels import (
    BinaryOperatorAggregate,
    EphemeralValue,
    LastValue,
    NamedBarrierValue,
    Topic,
    UntrackedValue,
)
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.errors import EmptyChannelError
from langgraph.graph.message import add_messages
from langgraph.types import Overwrite

from ckpt_backends.codec import decode
from ckpt_backends.codec.edits import Reassembly
from ckpt_backends.codec.values import Cut, Tagged, Value
from ckpt_backends.model import CheckpointKey, TypedBytes, Write
from ckpt_cli.core.reducers import (
    ABSENT,
    CUSTOM,
    REDUCERS,
    Held,
    fold,
    is_complete,
    reducers_for,
    updates_of,
)
from ckpt_cli.core.reducers import held_fits as fits
from ckpt_cli.core.replay import (
    Check,
    Judgement,
    Pool,
    PossibleOrders,
    ReducerTally,
    SortedWrites,
    Verdict,
    WriteOrder,
    contributions,
    explain,
    has_foreign_text,
    judge,
    judge_thread,
    may_differ,
    orders_of_channel,
    possible_orders,
    recorded_orders,
    verdict_of,
)
from ckpt_cli.core.state import Body
from ckpt_cli.core.tasks import Step, TaskWrite
from ckpt_cli.core.values import same
from ckpt_cli.plans.repair import CannotRebuild, rebuild
from ckpt_cli.queries.replay import Lost
from tests.kit.cases import cases
from tests.kit.strategies import values as any_values

SERDE = JsonPlusSerializer()
words = st.sampled_from(["a", "b", "c", "x"])
numbers = st.integers(-5, 5) | st.floats(-5, 5).map(lambda x: round(x, 2))


def stored(value: Any) -> Value:
    """A value as a saver stores it, decoded."""
    return decode(TypedBytes(*SERDE.dumps_typed(value)))


def steps(writes: st.SearchStrategy[Any], most: int = 3) -> st.SearchStrategy[list[list[Any]]]:
    """What is written in each of some steps."""
    return st.lists(st.lists(writes, max_size=most), max_size=5)


def joined(kind: Any, operation: Callable[[Any, Any], Any]) -> Callable[[], Any]:
    return lambda: BinaryOperatorAggregate(kind, operation)


LISTS = st.lists(words | numbers, max_size=3)
MAKERS: dict[str, tuple[Callable[[], Any], st.SearchStrategy[list[list[Any]]]]] = {
    "last_value": (lambda: LastValue(Any), steps(words | LISTS, 1)),
    "any_value": (joined(Any, lambda _, new: new), steps(words | numbers)),
    "first_value": (joined(Any, lambda old, _: old), steps(words | numbers)),
    "append": (joined(list, operator.add), steps(LISTS)),
    "concat": (joined(str, operator.add), steps(st.text("ab", max_size=3))),
    "sum": (joined(int, operator.add), steps(numbers)),
    "max": (joined(int, max), steps(numbers)),
    "min": (joined(int, min), steps(numbers)),
    "dict_merge": (joined(dict, operator.or_), steps(st.dictionaries(words, numbers, max_size=3))),
    "set_union": (joined(set, operator.or_), steps(st.sets(words))),
    "topic": (lambda: Topic(str), steps(words | st.lists(words, max_size=2))),
    "ephemeral": (lambda: EphemeralValue(Any, guard=False), steps(words)),
    "barrier": (lambda: NamedBarrierValue(str, {"a", "b", "c", "x"}), steps(words)),
    "untracked": (lambda: UntrackedValue(Any, guard=False), steps(words)),
}


def held(channel: Any) -> Held:
    """What a checkpoint stores of a channel."""
    try:
        value = channel.checkpoint()
    except EmptyChannelError:
        return ABSENT
    return ABSENT if str(value) == "MISSING" or type(value) is object else stored(value)


@pytest.mark.parametrize("name", MAKERS)
@given(data=st.data())
def test_the_channel_of_the_library_holds_the_same(name: str, data: st.DataObject) -> None:
    make, strategy = MAKERS[name]
    channel, reducer = make(), REDUCERS[name]
    possible: list[Held] = [ABSENT]
    was_written = False
    for writes in data.draw(strategy):
        channel.update(writes)
        was_written = was_written or bool(writes)
        batch = [stored(value) for value in writes]
        possible = [one for base in possible for one in reducer.results(base, [batch])]
        if was_written:  # before, a checkpoint has no version of the channel, and no value
            assert any(fits(one, held(channel)) for one in possible), (possible, held(channel))
            possible = [one for one in possible if fits(one, held(channel))][:1]
    assert possible


ids = st.sampled_from(["1", "2", "3", None])
texts = st.text("xyz", max_size=4)
message_likes = st.one_of(
    st.builds(lambda text, one: HumanMessage(text, id=one), texts, ids),
    st.builds(lambda text, one: AIMessage(text, id=one), texts, ids),
    st.builds(lambda text, one: AIMessageChunk(content=text, id=one), texts, ids),
    st.builds(lambda text: ("user", text), texts),
    st.builds(lambda text: {"role": "assistant", "content": text}, texts),
    st.builds(lambda text, one: {"type": "human", "content": text, "id": one}, texts, ids),
    texts,
)
removals = st.sampled_from(["1", "2", "3", "__remove_all__"]).map(lambda one: RemoveMessage(id=one))


@given(st.lists(st.lists(st.lists(message_likes | removals, max_size=3), max_size=2), max_size=4))
def test_messages_merge_as_add_messages_does(turns: list[list[list[Any]]]) -> None:
    merged: Any = add_messages
    channel = BinaryOperatorAggregate(list, merged)
    reducer = REDUCERS["add_messages"]
    base: Held = ABSENT
    for writes in turns:
        before = [stored(one) for one in writes]
        try:
            channel.update(writes)
        except ValueError:  # a RemoveMessage of what is not there
            return
        (result,) = reducer.results(base, [before])
        if not writes:
            continue
        base = now = stored(channel.get())
        assert fits(result, now), (result, now)
        if is_complete(result):
            assert result is not ABSENT
            assert same(result, now)


@given(any_values, st.lists(any_values, max_size=3))
def test_no_reducer_fails_on_any_value(base: Value, writes: list[Value]) -> None:
    for reducer in REDUCERS.values():
        for result in reducer.results(base, [writes]):
            fits(result, base)


def test_a_changed_text_is_not_taken_for_the_written_one() -> None:
    (result,) = REDUCERS["add_messages"].results(ABSENT, [[stored(HumanMessage("one"))]])
    assert fits(result, stored([HumanMessage("one", id="given")]))
    assert not fits(result, stored([HumanMessage("two", id="given")]))
    assert not fits(result, stored([AIMessage("one", id="given")]))
    assert not fits(result, [Tagged("x.HumanMessage", None)])


@cases(
    "base writes merged name",
    (None, [[2], [3]], [2, 3], "append"),
    ([1], [2], [1, 2], "append"),
    ([], [], [], "append"),
    ({1}, [{2}], {1, 2}, "set_union"),
    ("old", ["new"], "new", "last_value"),
    ({"a": 1}, [{"b": 2}, {"a": None}], {"a": None, "b": 2}, "dict_merge"),
    ({"/a": {"content": "x"}}, [{"/a": None}], {}, "dict_patch"),
    (None, [], None, "last_value"),
    ([1], [[2], Overwrite([9]), [3]], [9, 3], "append"),
    # A pair that was written alone is read from a store as a list of two texts.
    (
        [HumanMessage("0", id="z")],
        [["user", "1"]],
        [HumanMessage("0", id="z"), HumanMessage("user"), HumanMessage("1")],
        "add_messages",
    ),
)
def test_a_fold(base: Any, writes: list[Any], merged: Any, name: str) -> None:
    got, reducer = fold(stored(base), [stored(write) for write in writes])
    assert reducer == name
    assert same(got, stored(merged))


CALL = {"name": "f", "args": {"x": 1}, "id": "c"}
OPENAI = {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}}
DICTS: list[dict[str, Any]] = [
    {"role": "tool", "content": "ok", "tool_call_id": "c", "other": 1},
    {"role": "tool", "content": "no", "tool_call_id": "c", "status": "error", "artifact": [1]},
    {"role": "assistant", "content": None, "tool_calls": [CALL, OPENAI], "name": "n"},
    {"role": "developer", "content": "be brief", "additional_kwargs": {"a": 1}},
    {"role": "system", "content": [{"type": "text"}], "response_metadata": {"b": 2}},
    {"type": "human", "role": "user", "content": "both"},
    {"type": "function", "content": "done", "name": "f"},
]
ENVELOPES: dict[str, Any] = {
    "HumanMessage": {},
    "AIMessageChunk": {},
    "ToolMessage": {"tool_call_id": "c"},
}


def test_written_messages_become_those_that_the_library_makes() -> None:
    written: list[Any] = [{**one, "id": f"dict {n}"} for n, one in enumerate(DICTS)]
    for name, more in ENVELOPES.items():
        fields = {"content": "x", "id": name, **more}
        written.append({"lc": 1, "type": "constructor", "id": ["m", name], "kwargs": fields})
    chunks: Any = [{**CALL, "args": "{}", "index": 0}]
    written.append(AIMessageChunk(content="part", tool_call_chunks=chunks, id="a"))
    written.append(ToolMessageChunk(content="part", tool_call_id="c", id="b"))
    assert same(fold([], [stored(written)])[0], stored(add_messages([], written)))


def test_a_reducer_that_is_told_and_does_not_apply_makes_way_for_what_is_likely() -> None:
    assert fold("old", ["new"], "append") == ("new", "last_value")


def test_members_of_sets_are_joined_once_each_by_type() -> None:
    members: list[Value] = list(range(60_000))
    base, write = (Tagged("builtins.set", members[at : at + 40_000]) for at in (0, 20_000))
    assert fold(base, [write]) == (Tagged("builtins.set", members), "set_union")
    base, write = Tagged("builtins.set", [1, True]), Tagged("builtins.set", [1.0, 1])
    assert same(fold(base, [write])[0], Tagged("builtins.set", [1, True, 1.0]))


Recorded = tuple[Held, list[Value], Held]
"""What it was, what was written, what is stored."""


def tally(*steps: Recorded) -> ReducerTally:
    found = ReducerTally()
    for n, (base, writes, stored) in enumerate(steps):
        tried = explain(base, {}, [([writes], False)], stored)
        found.add(Check("x", str(n), tried.mask, tried.applicable, len(writes)))
    return found


def last_two() -> ReducerTally:
    """A list of which only the last two items are kept."""
    steps: list[Recorded] = [([n - 1, n], [[n + 1]], [n, n + 1]) for n in range(5)]
    return tally(*steps)


def verdicts(found: ReducerTally, told: str | None = None) -> list[Verdict]:
    judgement = judge(found.masks, told)
    return [verdict_of(check, judgement)[0] for check in found.checks]


KINDS: list[Any] = [
    *(ABSENT, None, True, 3, 1.5, "user", b"x", [], ["user", "hello"], {}),
    *([{"type": "human", "content": "a", "id": "1"}], {"role": "user", "content": "a"}),
    *({"__overwrite__": 1}, Tagged("builtins.set", ["a"]), Cut(None, 0, "too long")),
    Tagged("langchain_core.messages.human.HumanMessage", {"content": "a", "id": "1"}),
]


@given(st.sampled_from(KINDS), st.lists(st.sampled_from(KINDS[1:]), max_size=2))
def test_only_reducers_that_do_not_apply_are_left_out(held: Held, batch: list[Held]) -> None:
    updates = updates_of([batch])  # type: ignore[list-item]  # none of them is absent
    tried = {reducer for _, reducer in reducers_for(held, updates)}
    left_out = [one for one in REDUCERS.values() if one not in tried]
    assert not any(one.results_of(held, updates) for one in left_out)


def test_only_what_no_reducer_explains_is_a_mismatch() -> None:
    match, mismatch = Verdict.MATCH, Verdict.MISMATCH
    steps: list[Recorded] = [(ABSENT, [[1]], [1]), ([1], [[2]], [1, 2])]
    steps += [([1, 2], [[3]], [1, 2, 3]), ([1, 2, 3], [[4]], [1, 2, 9])]
    assert verdicts(tally(*steps)) == [match, match, match, mismatch]
    # Nobody wrote it, and yet it changed.
    assert verdicts(tally((ABSENT, [1], 1), (1, [], 2))) == [match, mismatch]
    # Reducers of the application.
    texts = ["seed", "twotwo", "twotwo", "twotwo"]
    writes: list[list[Value]] = [["seed"], ["one", "twotwo"], ["seed"], ["one", "twotwo"]]
    olds: list[Held] = [ABSENT, *texts[:-1]]
    longest: list[Recorded] = list(zip(olds, writes, texts, strict=True))
    assert mismatch not in verdicts(tally(*longest))
    assert set(verdicts(last_two())) == {Verdict.UNVERIFIABLE}
    assert set(verdicts(last_two(), CUSTOM)) == {Verdict.UNVERIFIABLE}
    assert set(verdicts(last_two(), "append")) == {mismatch}


def test_a_reducer_that_once_cut_may_do_so_again() -> None:
    """Another value that is not explained is damage, if the steps after it are explained."""
    found = tally(
        ([], [[0]], [0]),
        ([0], [[1]], [0, 1]),
        ([0, 1], [[2]], [0, 1, 2]),
        ([0, 1, 2], [[3]], [2, 3]),
        ([2, 3], [[4]], [2, 3, 4]),
    )
    judgement = judge(found.masks)
    assert judgement.reducer == "append"
    assert not may_differ(found.checks, judgement)
    found.checks[3].cut = True
    assert may_differ(found.checks, judgement)


BODY = Body(4, None, {}, {}, {}, None)
STEP = Step((), (), (), (), assumed=False)


def write(task: str, *, channel: str = "log", second: int = 0, idx: int = 0) -> TaskWrite:
    at = datetime(2026, 4, 7, 12, tzinfo=UTC) + timedelta(seconds=second)
    key = CheckpointKey("t", "", "1")
    return TaskWrite(Write(key, task, "", idx, channel, 1, None, "node", at), "node", "")


def tasks_in(order: WriteOrder) -> str:
    return "".join(one.write.task_id for batch in order.batches for one in batch)


def made(*tasks: TaskWrite, ordered: bool) -> PossibleOrders:
    return PossibleOrders((WriteOrder((tasks,)),), ordered)


def test_every_order_of_tasks_is_tried_where_none_is_stored() -> None:
    abc = tuple(map(write, "abc"))
    orders = list(orders_of_channel(made(*abc, ordered=False), "log"))
    assert tasks_in(orders[0]) == "abc"
    assert {tasks_in(one) for one in orders} == set(map("".join, permutations("abc")))
    assert [one.assumed for one in orders] == [False] + [True] * 5
    (order,) = orders_of_channel(made(*abc, ordered=True), "log")
    assert (tasks_in(order), order.assumed) == ("abc", False)
    # No more than six tasks: seven have 5,040 orders.
    for names, number in (("abcdef", 720), ("abcdefg", 1)):
        tasks = map(write, names)
        assert len(list(orders_of_channel(made(*tasks, ordered=False), "log"))) == number
    # The writes of one task keep their order.
    abb = (write("a"), write("b", idx=0), write("b", idx=1))
    orders = list(orders_of_channel(made(*abb, ordered=False), "log"))
    assert {tasks_in(one) for one in orders} == {"abb", "bba"}
    batches = [[one.write for batch in order.batches for one in batch] for order in orders]
    assert [[one.idx for one in some if one.task_id == "b"] for some in batches] == [[0, 1]] * 2
    for times, is_ordered in (((1, 2, 3), True), ((1, 2, 2), False)):
        timed = [write(name, second=second) for name, second in zip("abc", times, strict=True)]
        found = recorded_orders(SortedWrites((), tuple(timed), (), ()))
        assert found.ordered is is_ordered
        assert [tasks_in(one) for one in found.ways] == ["abc"]


def test_a_parent_that_ran_twice_proves_nothing() -> None:
    writes = SortedWrites((), (write("a"),), (), ())

    def lacks(*, again: bool) -> str:
        return possible_orders(
            "loop", writes, STEP, BODY, BODY, again=again, skipped=False, takes_input=False
        ).lacking

    assert (lacks(again=False), "more than once" in lacks(again=True)) == ("", True)


@cases(
    "value sources expected",
    (["b"], [["a"], ["b"]], False),
    (["c"], [["a"], ["b"]], True),
    ("b c", ["a b c d"], False),
    (7, [3, 5], False),
    ({"a": {"b": 1}}, [{"a": {}}, {"b": "x"}], False),
    ({"other": 1}, [{"a": 1}], True),
    (Tagged("x.HumanMessage", {"content": "hi", "id": "made"}), [["user", "hi"]], False),
    (Tagged("x.HumanMessage", {"content": "ho", "id": "made"}), [["user", "hi"]], True),
)
def test_a_text_no_one_wrote_is_foreign(value: Any, sources: list[Any], expected: bool) -> None:
    assert has_foreign_text(value, sources) is expected


def test_an_overwrite_takes_the_place_of_all_writes_of_its_step() -> None:
    batch = [(wrote(None), stored(one)) for one in ([2], Overwrite([9]), [3])]
    after, found = contributions([1], [batch], "append")
    assert after == [9]
    assert [one.effect for one in found] == ["overwritten", "applied", "overwritten"]


def test_the_step_after_an_overwrite_may_give_its_messages_an_id() -> None:
    def message(text: str, message_id: str | None) -> Value:
        fields: Value = {"content": text, "type": "ai", "id": message_id}
        return Tagged("langchain_core.messages.ai.AIMessage", fields)

    replaced: Value = Tagged("langgraph.types.Overwrite", {"value": [message("one", None)]})
    more = message("two", "2")
    steps: list[Recorded] = [
        ([], [replaced], [message("one", "1")]),
        ([message("one", None)], [[more]], [message("one", "1"), more]),
    ]
    assert verdicts(tally(*steps), "add_messages") == [Verdict.MATCH] * 2
    steps = [([], [replaced], [message("another", "1")])]
    assert verdicts(tally(*steps), "add_messages") == [Verdict.MISMATCH]


def test_what_other_threads_tell_does_not_outvote_a_thread() -> None:
    pool = Pool()
    appended: list[Recorded] = [([*range(n)], [[n]], [*range(n + 1)]) for n in range(50)]
    pool.add("x", tally(*appended).masks)
    mixed = ReducerTally(masks=last_two().masks + tally(([1], [[2]], [1, 2])).masks)
    judgement = judge_thread(mixed.masks, pool.known("x", mixed.masks))
    assert all(verdict_of(it, judgement)[0] is Verdict.UNVERIFIABLE for it in last_two().checks)


NAME_IT = "name it with --reducer"
ORDERS = [[["b"], ["c"]], [["c"], ["b"]]]


def wrote(value: Any) -> TaskWrite:
    data = TypedBytes("json", json.dumps(value).encode())
    key = CheckpointKey("t", "", "1")
    return TaskWrite(Write(key, "1", "", 0, "log", len(data.data), data), "node", "")


def judged(*survivors: str, against: int = 0) -> Judgement:
    return Judgement(survivors, 1, against)


@cases(
    "judgement orders lacks why",
    (judged(), [[["b"]]], "", f"the reducer of the channel is unknown; {NAME_IT}"),
    (judged("append"), [[["b"]]], "the parent is not stored", "the parent is not stored"),
    (judged("append"), [[]], "", "what was written to it is not stored"),
    (
        *(judged("append", against=1), [[["b"]]], ""),
        f"the reducer of the channel is uncertain; {NAME_IT}",
    ),
    (judged("custom"), [[["b"]]], "", "the channel has a custom reducer"),
    (judged("dict_merge"), [[7]], "", "the recorded writes produce no value"),
    (
        *(judged("append", "last_value"), [[["b"]]], ""),
        "ambiguous: append and last_value both fit and produce different values;"
        " name the reducer with --reducer",
    ),
    (judged("append"), ORDERS, "", "the order of the writes is not stored"),
)
def test_a_value_that_does_not_follow_is_not_rebuilt(
    judgement: Judgement, orders: list[list[Any]], lacks: str, why: str
) -> None:
    ways = tuple(WriteOrder((tuple(map(wrote, one)),)) for one in orders)
    unread: Any = None
    lost = Lost(unread, unread, ways, lacks, Check("log", "2", 0, 0, len(orders[0])), None)
    base: Value = ["a"]
    with pytest.raises(CannotRebuild) as raised:
        rebuild(unread, lost, judgement, base, Reassembly(), "json")
    assert str(raised.value) == why


BIT = judged("append").mask
DIFFERS = "mismatch: stored value differs from what append produces"
ELSEWHERE = "unverifiable: append explains other steps, but not this one"
UNWRITTEN: dict[str, Any] = {"wrote": 0, "in_place": True}
EDITED: dict[str, Any] = {"edited": True, "followed": True}
BEYOND: dict[str, Any] = {"beyond": BIT, "followed": True}


@cases(
    "fields more told",
    ({"mask": BIT}, {}, "match: "),
    ({"mask": BIT}, {"doubted": True}, "unverifiable: no known reducer explains all"),
    ({"missing": 1}, {}, "mismatch: a write to it is missing"),
    ({"missing": 2}, {}, "mismatch: 2 writes to it are missing"),
    ({"missing": 1, "replaced": True}, {}, "unverifiable: the writes of update_state"),
    ({"lacking": "nothing is stored", "lost": True}, {}, "unverifiable: nothing is stored"),
    ({"lost": True}, {}, "mismatch: no value is stored for this version"),
    ({"replaced": True}, {}, "unverifiable: the writes of update_state"),
    *(({one: True, "shared": "b"}, {}, DIFFERS) for one in ("replaced", "later", "tidied")),
    ({"wrote": 0}, {}, "mismatch: changed although nothing was written to it"),
    ({"wrote": 0, "folded": 1}, {}, DIFFERS),
    (UNWRITTEN, {}, "unverifiable: changed without a write"),
    ({**UNWRITTEN, "shortened": True}, {}, "mismatch: changed although"),
    ({**UNWRITTEN, "shortened": True, "followed": True}, {}, "unverifiable: changed without"),
    ({**UNWRITTEN, "confirmed": BIT}, {}, "mismatch: changed although"),
    ({"later": True}, {}, "unverifiable: it differs only by what later steps wrote"),
    (EDITED, {}, "unverifiable: a part was changed that was there before"),
    ({"tidied": True}, {}, "unverifiable: it differs only by its oldest items"),
    (BEYOND, {}, ELSEWHERE),
    *(({**one, "confirmed": BIT}, {}, DIFFERS) for one in (EDITED, {"tidied": True}, BEYOND)),
    *(({one: True}, {}, DIFFERS) for one in ("edited", "gone", "foreign")),
    ({"beyond": BIT}, {}, DIFFERS),
    ({}, {}, DIFFERS),
    ({}, {"differs": True}, ELSEWHERE),
    ({}, {"differs": True, "chosen": True}, DIFFERS),
    *(({one: True}, {"differs": True}, DIFFERS) for one in ("gone", "foreign")),
    ({"confirmed": BIT}, {"differs": True, "support": 1}, DIFFERS),
)
def test_what_a_transition_proves(fields: dict[str, Any], more: dict[str, Any], told: str) -> None:
    check = Check("x", "1", **{"mask": 0, "applicable": 0, "wrote": 1, **fields})
    verdict, reason = verdict_of(check, judged("append")._replace(**more))
    assert f"{verdict}: {reason}".startswith(told)


def test_threads_are_put_together_as_long_as_one_reducer_explains_them() -> None:
    pool = Pool()
    appended = tally((ABSENT, [[1]], [1]), ([1], [[2]], [1, 2]))
    replaced = tally((ABSENT, [[1]], [1]), ([1], [[2]], [2]))
    for one in (appended, replaced, short := tally((ABSENT, [[1]], [1]))):
        pool.add("x", one.masks)
    for one in (appended, replaced):
        judgement = judge(pool.known("x", one.masks))
        assert all(verdict_of(check, judgement)[0] is Verdict.MATCH for check in one.checks)
    assert judge(short.masks).reducer is None
    assert judge(pool.known("x", short.masks)).reducer == "append"
