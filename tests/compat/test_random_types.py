"""Random states and changes of them: what is harmed is never called ok, and the same is silent."""

import operator
from collections.abc import Mapping, Sequence
from dataclasses import field, make_dataclass
from pathlib import Path
from random import Random
from typing import Annotated, Any, Literal, NamedTuple, TypedDict

import pytest
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt
from pydantic import create_model

from ckpt_backends.testing.chance import Chance
from tests.kit.agents.edges import merged
from tests.kit.agents.small import running
from tests.kit.probing import CONFIG, judged, told_of

KINDS: Mapping[str, tuple[Any, Sequence[Any], Any]] = {
    "text": (str, ["v", "a"], str),
    "number": (int, [3], int),
    "list": (list[str], [["v"], []], list),
    "dict": (dict[str, int], [{"a": 1}, {}], dict),
    "optional": (str | None, ["v", None], str | None),
    "literal": (Literal["a", "b"], ["a", "b"], str),
    "added": (Annotated[list[str], operator.add], [["v"]], list),
    "sum": (Annotated[int, operator.add], [3], int),
    "merged": (Annotated[dict[str, Any], merged], [{"a": 1}], dict),
}
"""The type of a key, values of it, and what they are."""
FORMS = ("typeddict", "pydantic", "dataclass")
LOG = Annotated[list[str], operator.add]


class Shape(NamedTuple):
    """A state: its form, and the kind of each key; keys that have no default."""

    form: str
    keys: Mapping[str, str]
    required: frozenset[str] = frozenset()


def schema_of(shape: Shape) -> Any:
    types = {name: KINDS[kind][0] for name, kind in shape.keys.items()}
    if shape.form == "typeddict":
        return TypedDict("State", {"log": LOG, **types}, total=False)  # type: ignore[operator]
    if shape.form == "pydantic":
        given: Any = {
            name: (one, ... if name in shape.required else KINDS[shape.keys[name]][1][0])
            for name, one in types.items()
        }
        return create_model("State", log=(LOG, []), **given)
    fields: list[Any] = [(name, types[name]) for name in sorted(shape.required)]
    fields.append(("log", LOG, field(default_factory=list)))
    fields += [
        (name, one, field(default=None))
        for name, one in types.items()
        if name not in shape.required
    ]
    return make_dataclass("State", fields)


def graph_of(shape: Shape, *, asks: bool) -> Any:
    """A graph that stops at a question, or at the end, and writes all keys behind it."""
    built: Any = StateGraph(schema_of(shape))
    written = {name: KINDS[kind][1][0] for name, kind in shape.keys.items()}
    built.add_node("ask", lambda _: {"log": [interrupt("q") if asks else "said"]})
    built.add_node("write", lambda _: {"log": ["wrote"], **(written if asks else {})})
    built.add_node("again", lambda _: {"log": ["again"], **written})
    built.add_edge(START, "ask").add_edge("ask", "write")
    built.add_conditional_edges(
        "write", lambda _: "again" if asks else "__end__", {"again": "again", "__end__": "__end__"}
    )
    return built


def shaped(dice: Random) -> Shape:
    keys = {f"k{n}": dice.choice(list(KINDS)) for n in range(dice.randint(1, 3))}
    form = dice.choice(FORMS)
    required = frozenset(one for one in keys if form != "typeddict" and dice.random() < 0.2)
    return Shape(form, keys, required)


def changed(shape: Shape, dice: Random) -> Shape:
    key, other = dice.choice(list(shape.keys)), dice.choice(list(KINDS))
    match dice.choice(("same", "retype", "retype", "retype", "remove", "rename", "add", "form")):
        case "retype":
            return shape._replace(keys={**shape.keys, key: other})
        case "remove":
            keys = {name: one for name, one in shape.keys.items() if name != key}
            return shape._replace(keys=keys, required=shape.required - {key})
        case "rename":
            keys = {("n" if name == key else name): one for name, one in shape.keys.items()}
            required = {"n" if name == key else name for name in shape.required}
            return Shape(shape.form, keys, frozenset(required))
        case "add":
            is_required = shape.form != "typeddict" and dice.random() < 0.5
            more = frozenset({"n"} if is_required else ())
            return Shape(shape.form, {**shape.keys, "n": other}, shape.required | more)
        case "form":
            form = dice.choice(FORMS)
            return Shape(form, shape.keys, shape.required if form != "typeddict" else frozenset())
    return shape


def resumed(path: Path, shape: Shape, *, asks: bool) -> dict[str, Any]:
    """Go on with a copy of a thread; return the state before. Raises what LangGraph raises."""
    copy = path.with_name("copy.db")
    copy.write_bytes(path.read_bytes())
    with running(copy, graph_of(shape, asks=asks)) as agent:
        stored = agent.checkpointer.get(CONFIG)["channel_values"]
        state = agent.get_state(CONFIG).values
        before = {name: one for name, one in state.items() if name in stored}  # and no default
        agent.invoke(Command(resume="yes") if asks else {"log": ["more"]}, CONFIG)
    return before


def is_harmed(path: Path, shape: Shape, new: Shape, *, asks: bool) -> bool:
    """Whether the official library raises, drops a key, or reads a value of another type."""
    before = resumed(path, shape, asks=asks)
    try:
        after = resumed(path, new, asks=asks)
    except Exception:
        return True
    if any(name not in after for name in before):
        return True
    kept = {one: new.keys[one] for one in before if one in new.keys}
    if any(kind == "literal" and after[one] not in ("a", "b") for one, kind in kept.items()):
        return True
    return not all(isinstance(after[one], KINDS[kind][2]) for one, kind in kept.items())


def tried(dice: Random, folder: Path) -> tuple[bool, str, object] | None:
    """Whether one random thread is harmed, and what `ckpt` says."""
    folder.mkdir()
    shape, path, asks = shaped(dice), folder / "s.db", dice.random() < 0.5
    given = {
        name: dice.choice(KINDS[kind][1])
        for name, kind in shape.keys.items()
        if name in shape.required or dice.random() < 0.7
    }
    with running(path, graph_of(shape, asks=asks)) as agent:
        agent.invoke({"log": ["begin"], **given}, CONFIG, durability="sync")
    new = changed(shape, dice)
    try:
        harmed = is_harmed(path, shape, new, asks=asks)
    except ValueError:
        return None
    found = judged(path, graph_of(new, asks=asks), graph_of(shape, asks=asks))
    if new == shape:
        assert found.findings == []
    return harmed, str(found.verdict), (asks, given, shape, new, found.findings)


@pytest.mark.parametrize("seed", range(3))
def test_no_harm_is_called_ok(tmp_path: Path, seed: int) -> None:
    assert told_of(tried, (Random(f"{seed} {number}") for number in range(12)), tmp_path)


@pytest.mark.nightly
def test_little_is_called_harmed_that_is_not(tmp_path: Path, chance: Chance) -> None:
    seen = told_of(tried, chance.rounds(60), tmp_path)
    alarms = sum(seen[False, one] for one in ("breaks", "loses", "repeats", "changes"))
    assert alarms <= max(1, sum(seen.values()) * 0.01), seen
