"""`show` says how a thread stands, how it goes on, and what a checkpoint holds."""

import json
import sqlite3
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, TypedDict
from xml.etree import ElementTree

import ormsgpack
import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.graph import MessagesState
from langgraph.graph.message import add_messages
from langgraph.types import Command, interrupt

from ckpt_backends.model import Status
from ckpt_backends.url import parse_url
from ckpt_cli.core.tree import Skeleton, StepDetails, TreeLayout, plan_tree
from ckpt_cli.queries import tree as trees
from ckpt_cli.queries.thread_operations import ThreadOperations
from ckpt_cli.queries.tree import TreeReader, TreeShape, forked
from ckpt_cli.reading.store import Opening
from ckpt_cli.reading.thread import ThreadReader
from ckpt_cli.render import tree_pictures as svg
from ckpt_cli.render.show import literal
from ckpt_cli.render.text import Ui
from ckpt_cli.render.tree_pictures import MOST_ROWS, draw_tree, svg_lines
from ckpt_cli.render.values import changes_text, summary
from tests.commands.words import refusals
from tests.kit.agents import failing as agents
from tests.kit.agents.small import Log, beside, chain, run, saver_of
from tests.kit.command import FIXTURES, ckpt, copy_store
from tests.kit.reports import data_of
from tests.kit.trees import tree_of

NS = "gather:327f5b0c-fb49-2f94-f06b-bcf8dbedd1ac"
INNER = NS + "|search_web:e58bae74-7f73-bd9f-19d7-17113e0f48e8"


def show(store: Path, *words: str) -> Any:
    return ckpt("-s", store, "show", *words, "-o", "json").json


def shown(store: Path, *words: str) -> list[str]:
    return ckpt("-s", store, "show", *words, "-o", "table").out.splitlines()


def test_a_thread_begins_with_why_it_stands_and_how_it_goes_on(sample: Path) -> None:
    lines = shown(sample, "invoice-import")
    labels = [one.split(maxsplit=1)[0] for one in lines if one[:1].strip()]
    urgent = ["thread", "status", "next", "error", "resume", "config", "or", "join"]
    whole = ["ckpt", "parent", "step", "created", "active", "size"]
    assert labels == [*urgent, *whole, "file:", "text:"]
    assert "         uses the saved result of extract_lines without running it" in lines
    # Of an earlier checkpoint, only what holds there.
    lines = shown(sample, "trip-to-kyoto@~1")
    assert not [one for one in lines if one.startswith(("status", "resume", "created", "size"))]
    found = show(sample, "trip-to-kyoto@~1")
    assert {"head", "first_at", "checkpoints", "runs", "resume"}.isdisjoint(found)


def test_json_has_what_needs_more_than_the_head_only_with_long(sample: Path) -> None:
    short, long = (show(sample, "trip-to-kyoto", *more) for more in ([], ["--long"]))
    (listed,) = ckpt(*("-s", sample, "threads", "list", "--match", "trip*", "-o", "json")).json
    assert long.keys() - short.keys() == {"bytes", "all_writes", "in_namespaces"}
    assert long == {**long, **short, **{name: listed[name] for name in listed if name != "next"}}
    spaces = [(one["checkpoint_ns"][:7], one["checkpoints"]) for one in long["in_namespaces"]]
    assert (spaces, long["all_writes"]) == ([("", 16), ("planner", 4)], 48)


def test_raw_gives_the_stored_bytes_and_a_namespace_is_found_as_it_is_shown(sample: Path) -> None:
    assert show(sample, "trip-to-kyoto", "step:3") == show(sample, "trip-to-kyoto@step:3")
    answer = ckpt("-s", sample, "show", "refund-4711", "--raw")
    assert ormsgpack.unpackb(answer.raw, ext_hook=lambda *_: None)["v"] == 4
    outer, inner = "gather:327f5b0c…", "search_web:e58bae74…"
    for text, expected in ((outer, NS), (f"{outer}|{inner}", INNER), (inner, INNER)):
        assert show(sample, "research-agent", "--ns", text)["checkpoint_ns"] == expected


def test_a_thread_without_a_root_names_its_namespaces(path: Path) -> None:
    """An application may give its own `checkpoint_ns` to the saver."""
    with saver_of(path) as saver:
        for ns in ("worker", "two words"):
            config: Any = {"configurable": {"thread_id": "-named", "checkpoint_ns": ns}}
            saver.put(config, empty_checkpoint(), {"source": "input", "step": -1}, {})
    for words in ("show", "history", "diff", "timeline", "rollback --steps 1", "repair messages"):
        told = ckpt("-s", path, *words.split(), "--", "-named", code=3)
        assert "no checkpoint in the root namespace; its namespaces: " in told.err
        assert "'worker'" in told.err
        assert f"`ckpt -s {path} show --ns 'two words' -- -named` shows" in told.err
    named = ("-o", "json", "--", "-named")
    assert ckpt("-s", path, "show", "--ns", "worker", *named).json["checkpoint_ns"] == "worker"
    assert len(ckpt("-s", path, "history", "--all-ns", *named).json) == 2


def test_the_printed_call_resumes_the_thread(path: Path) -> None:
    """As somebody runs it who pastes it; each `...` becomes an answer."""
    thread = "the 'first' \"thread\" \\ of\nanna"
    world = agents.fill(path, agents.two_questions, thread, marks=2)
    lines = ckpt("-s", path, "show", thread).out.splitlines()
    assert "         answers the 2 questions" in lines
    printed = {line[:9].strip(): line[9:] for line in reversed(lines)}
    call = printed["resume"].replace(": ...", ": 'yes'")
    with agents.running(path, agents.two_questions, world) as graph:
        names = {"graph": graph, "Command": Command, "config": eval(printed["config"], {})}
        assert eval(call, names)["log"] == ["yes", "yes"]


def test_a_hostile_interrupt_id_is_only_text_in_the_printed_call() -> None:
    for text in ('": __import__("os").abort(), "', "\\", "'", "a\nb", "\u202e", "\ud800", "é😀"):
        assert eval(literal(text, is_javascript=False), {"__builtins__": {}}) == text


def test_writes_that_an_input_dropped_say_so(path: Path) -> None:
    asking = {"fine": lambda _: {"log": ["fine"]}, "ask": lambda _: {"log": [interrupt("sure?")]}}
    run(path, beside(Log, asking), {"log": []}, {"log": ["again"]})
    assert show(path, "t@step:0", "--writes")["writes_dropped"] is True
    assert "dropped: a new input came" in "\n".join(shown(path, "t@step:0", "--writes"))
    assert "writes_dropped" not in show(path, "t", "--writes")
    (found,) = ckpt("-s", path, "grep", "fine", "-o", "json").json
    assert (found["in"], found["node"]) == ("write", "fine")


def test_what_is_not_known_has_a_reason_and_what_is_saved_is_named(tmp_path: Path) -> None:
    old = copy_store(FIXTURES / "lg-0.2.14" / "store.db", tmp_path)
    said = "next     unknown: this store does not say which nodes read the last values"
    assert said in shown(old, "linear")
    said = "         runs the failed task again; the store does not say whether others run"
    assert said in shown(old, "error")
    assert [show(old, one)["resume"]["runs"] for one in ("linear", "error")] == [None, None]
    store = copy_store(FIXTURES / "lg-1.2.22" / "store.db", tmp_path)
    assert "__previous__: 19  saved for the next run" in shown(store, "functional")


TEXTS = ["user: hi", "user: alone", "user: dict"]


def _without_writes(path: Path) -> Path:
    with sqlite3.connect(path) as db:
        db.execute("DELETE FROM writes")
    return path


@pytest.mark.parametrize("has_writes", [True, False])
def test_an_input_is_shown_by_each_command(path: Path, has_writes: bool) -> None:
    graph = chain(MessagesState, {"talk": lambda _: {"messages": [AIMessage("yes")]}})
    given: list[Any] = [[("user", "hi")], ("user", "alone"), [{"role": "user", "content": "dict"}]]
    run(path, graph, *({"messages": messages} for messages in given))
    inputs = path if has_writes else _without_writes(path)
    tree = shown(inputs, "t", "--tree")
    page = json.dumps(data_of(ckpt("-s", inputs, "report", "t").out))
    assert [one for one in TEXTS if f'["Input", "{one}"]' not in page] == []
    history = ckpt("-s", inputs, "history", "t", "-o", "json").json
    rows = [one for one in reversed(history) if one["source"] == "input"]
    for row, text in zip(rows, TEXTS, strict=True):
        assert any(f"+1 {text}" in line for line in tree)
        at, said = f"t@{row['checkpoint_id']}", text.partition(": ")[2]
        lines = "\n".join(shown(inputs, at))
        assert said in lines[lines.index("\ninput") :]
        assert said in str(show(inputs, at)["input"])
    first = ckpt("-s", inputs, "messages", f"t@{rows[0]['checkpoint_id']}", "-o", "json")
    assert (first.json[-1]["content"], "the next step takes in" in first.err) == ("hi", True)
    table = ckpt("-s", _without_writes(inputs), "history", "t", "-o", "table").out
    assert [one for one in TEXTS if one not in table] == []


def test_an_input_is_taken_from_the_metadata(tmp_path: Path) -> None:
    """LangGraph before 0.5 stores it there, too."""
    path = _without_writes(copy_store(FIXTURES / "lg-0.2.70" / "store.db", tmp_path))
    lines = "\n".join(shown(path, "chat", "--tree"))
    assert "+2 human: Opening hours?" in lines
    assert "+1 user: Danke" in lines


test_wrong_words_are_refused = refusals(
    ("show -dash", 2, "goes after `--`"),
    ("show trip-to-kyoto --tree --writes", 2, "--tree draws a whole thread"),
    ("show trip-to-kyoto --unfold", 2, "add --tree"),
    ("show trip-to-kyoto --path a..b", 2, "cannot read path"),
    ("show trip-to-kyoto --at step:x", 2, "'step:x' is not a step"),
    ("show trip-to-kyoto --at 2026-99-99", 2, "is not a time"),
    ("show trip-to-kyoto@head step:1", 2, "cannot show two checkpoints"),
    ("show trip-to-kyoto@~1 --long", 2, "describes a thread, not a checkpoint"),
    ("show nobody", 3, "no thread 'nobody'"),
    ("show trip-to", 3, "did you mean 'trip-to-kyoto'?"),
    ("show trip-to-kyoto@zzzz", 3, "newest first:"),
    ("show trip-to-kyoto@1f1e", 3, "is ambiguous: 16 checkpoints"),
    ("show trip-to-kyoto@~99", 3, "~13 is the oldest"),
    ("show trip-to-kyoto@tip:9", 3, "tip:0 to tip:1"),
    ("show trip-to-kyoto@3", 3, "did you mean step:3?"),
    ("show trip-to-kyoto --as-of 2020-01-01", 3, "its first checkpoint is from"),
    ("show trip-to-kyoto --ns gone", 3, "no namespace 'gone'"),
    ("show trip-to-kyoto --channel gone", 3, "its channels: booking"),
    ("show trip-to-kyoto --path messages[99]", 3, "a list of 10 items"),
    ("show trip-to-kyoto --path x --channel y", 2, "--path cannot be combined with"),
)


# The tree


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


def test_input_messages_and_values_tell_a_step(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage: Any = {"input_tokens": 40, "output_tokens": 2, "total_tokens": 42}
    answer = AIMessage("Hi! " + "much " * 40, usage_metadata=usage)
    # The list is written again, which is not new.
    node = {"node": lambda state: {"messages": [*state["messages"], answer], "budget": 90}}
    run(path, chain(Chat, node), HELLO)
    first, asked, (step, text, tokens) = told(path)
    assert [first, asked] == [(-1, "+1 human: Hello, budget → 120", 0), (0, "", 0)]
    assert text.startswith("+1 ai: Hi! much much")
    assert (step, text.endswith(", budget 120 → 90"), tokens) == (1, True, 42)
    # Nothing is told of values that are redacted, and large writes are not read.
    hidden = [text for _, text, _ in told(path, redact=True)]
    assert hidden == ["budget, messages +1", "", "budget, messages +1"]
    monkeypatch.setattr(trees, "_LARGEST", 150)
    assert told(path)[-1] == (1, "budget 120 → 90, messages +1", 0)


def test_writes_of_one_of_two_runs_are_told_of_neither() -> None:
    children = [Skeleton("", name, "a", source="loop") for name in "bc"]
    assert forked(children) == {("", "a")}
    assert forked([children[0], Skeleton("", "d", "a", source="fork")]) == frozenset()


def test_a_tree_is_the_same_if_less_is_read_and_unfolds_what_is_named(
    path: Path, monkeypatch: pytest.MonkeyPatch, sample: Path
) -> None:
    nodes = {name: lambda _: {"budget": 90} for name in "abcdef"}
    run(path, chain(Chat, nodes), *({"budget": number} for number in range(3)))
    words = ("-s", path, "show", "t", "--tree")
    whole = ckpt(*words).out
    monkeypatch.setattr(trees, "_LARGE", 0)
    assert ckpt(*words).out == whole
    # The tree unfolds the checkpoint that is named.
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
    # Each checkpoint is joined to its parent.
    words = ("show", "trip-to-kyoto", "--svg", "--unfold", "--ns", "")
    picture = ElementTree.fromstring(ckpt("-s", sample, *words).out)
    edges = [one.get("d", "") for one in picture.iter(f"{SVG}path") if one.get("class") == "edge"]
    # One for each checkpoint but the first; a curve for each that leaves its column.
    assert (len(edges), sum("Q" in one for one in edges)) == (15, 1)


def test_long_runs_are_folded_and_large_trees_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    def skeletons(number: int, parent: Any) -> list[Skeleton]:
        keys = [f"{n:05}" for n in range(number)]
        return [Skeleton("", key, keys[parent(n)] if n else None) for n, key in enumerate(keys)]

    # Labels stay text.
    shown = texts(draw(plan_tree(skeletons(1, str)), "<script>]]>&amp;\"'\x00\u202e\ufffe\ud800"))
    assert any(r"""<script>]]>&amp;"'\x00\u202e\ufffe\ud800""" in one for one in shown)
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
