"""`show --tree` and `show --svg` draw a thread; each row tells what its step changed."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, TypedDict
from xml.etree import ElementTree

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.graph.message import add_messages

from ckpt_backends.model import Status
from ckpt_backends.url import parse_url
from ckpt_cli.core.tree import Skeleton, StepDetails, TreeLayout, plan_tree
from ckpt_cli.queries import tree as trees
from ckpt_cli.queries.thread_operations import ThreadOperations
from ckpt_cli.queries.tree import TreeReader, TreeShape, forked
from ckpt_cli.reading.store import Opening
from ckpt_cli.reading.thread import ThreadReader
from ckpt_cli.render import tree_pictures as svg
from ckpt_cli.render.text import Ui
from ckpt_cli.render.tree_pictures import MOST_ROWS, draw_tree, svg_lines
from ckpt_cli.render.values import changes_text, summary
from tests.kit.agents.small import chain, run
from tests.kit.command import ckpt
from tests.kit.trees import tree_of

SVG = "{http://www.w3.org/2000/svg}"
HELLO: Any = {"messages": [HumanMessage("Hello")], "budget": 120}


class Chat(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], add_messages]
    budget: int


def told(path: Path, *, redact: bool = False) -> list[tuple[int | None, str, int]]:
    """Step, summary and tokens of each checkpoint, oldest first."""
    opening = Opening(parse_url(str(path)), redact=redact)
    with opening.open(lambda _: None) as store:
        reader, operations = ThreadReader(store, "t"), ThreadOperations(opening, "t")
        whole = TreeReader(reader, operations, lambda value: summary(value, 60))
        tree = whole.read(TreeShape(nest=True, unfold=True))
    found = [tree.details[key] for key in sorted(tree.plan.shown)]
    return [(one.step, changes_text(one.changes), one.tokens) for one in found]


def answer(text: str) -> AIMessage:
    usage: Any = {"input_tokens": 40, "output_tokens": 2, "total_tokens": 42}
    return AIMessage(text, usage_metadata=usage)


def test_input_messages_values_and_tokens_are_told(path: Path) -> None:
    run(path, chain(Chat, {"node": lambda _: {"messages": answer("Hi!"), "budget": 90}}), HELLO)
    assert told(path) == [
        (-1, "+1 human: Hello, budget → 120", 0),
        (0, "", 0),
        (1, "+1 ai: Hi!, budget 120 → 90", 42),
    ]
    # Nothing is told of values that are redacted.
    hidden = [text for _, text, _ in told(path, redact=True)]
    assert hidden == ["budget, messages +1", "", "budget, messages +1"]


def test_a_list_that_is_written_again_is_not_new(path: Path) -> None:
    again = {"node": lambda state: {"messages": [*state["messages"], answer("Hi!")]}}
    run(path, chain(Chat, again), HELLO)
    assert told(path)[-1] == (1, "+1 ai: Hi!", 42)


def test_large_writes_are_not_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    long = {"node": lambda _: {"messages": answer("much " * 40), "budget": 90}}
    run(path, chain(Chat, long), HELLO)
    monkeypatch.setattr(trees, "_LARGEST", 150)
    assert told(path)[-1] == (1, "budget 120 → 90, messages +1", 0)


def test_writes_of_one_of_two_runs_are_told_of_neither() -> None:
    children = [Skeleton("", name, "a", source="loop") for name in "bc"]
    assert forked(children) == {("", "a")}
    assert forked([children[0], Skeleton("", "d", "a", source="fork")]) == frozenset()


def test_a_tree_is_the_same_if_less_is_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = {name: lambda _: {"budget": 90} for name in "abcdef"}
    run(path, chain(Chat, nodes), *({"budget": number} for number in range(3)))
    words = ("-s", path, "show", "t", "--tree")
    whole = ckpt(*words).out
    monkeypatch.setattr(trees, "_LARGE", 0)
    assert ckpt(*words).out == whole


def test_the_tree_unfolds_the_checkpoint_that_is_named(sample: Path) -> None:
    folded, named = (
        ckpt("-s", sample, "show", one, "--tree", "-o", "table").out
        for one in ("trip-to-kyoto", "trip-to-kyoto@step:1")
    )
    assert ("b328" in folded, "b328" in named) == (False, True)


def texts(picture: ElementTree.Element) -> list[str]:
    """Return the lines of text in a picture."""
    return ["".join(one.itertext()) for one in picture.iter(f"{SVG}text")]


def draw(plan: TreeLayout, name: str = "a") -> ElementTree.Element:
    details = {key: StepDetails(ran=(name,), questions=(name,)) for key in plan.shown}
    lines = svg_lines(tree_of(name, plan, details, {}, (Status.DONE,)), Ui(datetime.now(UTC)))
    return ElementTree.fromstring("\n".join(line.text for line in lines))


def test_a_picture_shows_what_the_tree_shows(sample: Path) -> None:
    picture = ElementTree.fromstring(ckpt("-s", sample, "show", "trip-to-kyoto", "--svg").out)
    assert (picture.tag, picture[0].text) == (f"{SVG}svg", "Checkpoints of thread trip-to-kyoto")
    assert "20 checkpoints · 2 branches · 1 subgraph call · done" in (picture[1].text or "")
    shown = [one for one in texts(picture) if not one.startswith("20")]
    assert "f169  12  reply → END  ● head" in shown
    drawn = ckpt("-s", sample, "show", "trip-to-kyoto", "--tree", "-o", "table").out.splitlines()
    # Below the header and the date, above the hint.
    for line, printed in zip(shown, drawn[3:-2], strict=True):
        assert line.split()[0] in printed


def test_each_checkpoint_is_joined_to_its_parent(sample: Path) -> None:
    words = ("show", "trip-to-kyoto", "--svg", "--unfold", "--ns", "")
    picture = ElementTree.fromstring(ckpt("-s", sample, *words).out)
    edges = [one.get("d", "") for one in picture.iter(f"{SVG}path") if one.get("class") == "edge"]
    # One for each checkpoint but the first; a curve for each that leaves its column.
    assert (len(edges), sum("Q" in one for one in edges)) == (15, 1)


@pytest.mark.parametrize("name", ["<script>x</script>", "]]>&amp;\"'", "\x00\u202e\ufffe\ud800"])
def test_labels_stay_text(name: str) -> None:
    picture = draw(plan_tree([Skeleton("", "1", None, marked=True)]), name)
    assert [one.tag for one in picture.iter() if "script" in one.tag] == []
    visible = name.translate({0: "\\x00", 0x202E: "\\u202e", 0xFFFE: "\\ufffe", 0xD800: "\\ud800"})
    assert any(visible in one for one in texts(picture))


def test_long_runs_are_folded_and_large_trees_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    def skeletons(number: int, parent: Any) -> list[Skeleton]:
        keys = [f"{n:05}" for n in range(number)]
        return [Skeleton("", key, keys[parent(n)] if n else None) for n, key in enumerate(keys)]

    assert len(texts(draw(plan_tree(skeletons(10_000, lambda n: n - 1))))) < 10
    plan = plan_tree(skeletons(2_000, lambda n: 0))
    left_out = 2_000 - MOST_ROWS
    assert draw_tree(tree_of("a", plan, {}, {}), UTC).left_out == left_out
    picture = draw(plan)
    assert f"{left_out} earlier rows left out" in texts(picture)[0]
    assert len(list(picture.iter(f"{SVG}circle"))) == MOST_ROWS
    # Each checkpoint has a child that ends there, and one from which the next fork comes.
    monkeypatch.setattr(svg, "_LANES", 5)
    deep = draw(plan_tree(skeletons(63, lambda n: (n - 1) // 2)))
    places = [float(one.get("cx", "-1")) for one in deep.iter(f"{SVG}circle")]
    assert 0 < min(places) <= max(places) < float(deep.get("width", "0"))
