"""The shape of a thread: what is drawn under what, what is folded, and how it is drawn."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone
from itertools import product
from typing import Any, cast

import pytest

from ckpt_backends.model import Status, make_id, ticks_at
from ckpt_cli.core.refs import short_refs
from ckpt_cli.core.tree import (
    CallRow,
    FoldRow,
    Key,
    SectionRow,
    Skeleton,
    StepDetails,
    StepRow,
    TreeLayout,
    plan_tree,
    undecided,
)
from ckpt_cli.render.text import Ui, cell_len, safe_text
from ckpt_cli.render.tree import tree_lines
from ckpt_cli.render.tree_pictures import mermaid_lines
from tests.kit.cases import cases
from tests.kit.trees import tree_of


def chain(ids: str, ns: str = "", under: str | None = None) -> list[Skeleton]:
    """One checkpoint per letter, each the child of the one before."""
    return [
        Skeleton(ns, own, parent, step, source="loop", ran=("work",), tasks=(f"task-{own}",))
        for step, (own, parent) in enumerate(zip(ids, [under, *ids], strict=False))
    ]


def sketch(plan: TreeLayout) -> list[str]:
    """Rows in short: lanes, then the ids."""
    lines = []
    for row in plan.rows:
        if isinstance(row, StepRow):
            sign = "-" if row.branch else ""
            tip = " head" if row.head else " tip" if row.last else ""
            lines.append(f"{row.lanes}{sign}{row.id}{tip}")
        elif isinstance(row, FoldRow):
            lines.append(f"{row.lanes}:{''.join(row.ids)}")
        elif isinstance(row, CallRow):
            lines.append(f"{row.lanes}({' '.join(row.namespaces)} {len(row.keys)})")
        else:
            lines.append(f"[{row.ns}]")
    return lines


def forked_from(target: str, parent: str | None = "a") -> list[Skeleton]:
    return [*chain("abc"), Skeleton("", "x", parent, 2, source="fork", forked_from=target)]


def calls(*marked: int) -> list[Skeleton]:
    """Five calls of one node in one step."""
    many = tuple(f"t{n}" for n in range(5))
    inside = [Skeleton(f"n:t{n}", f"x{n}", None, marked=n in marked) for n in range(5)]
    return [Skeleton("", "a", None, tasks=many), *chain("b", under="a"), *inside]


FORKED = [*chain("abc"), *chain("xy", under="a")]
BRANCHES = {"abcd": None, "pq": "b", "st": "p", "z": "a"}
BRANCHED = [item for ids, up in BRANCHES.items() for item in chain(ids, under=up)]
STEPS = chain("abcdefghijklm")
STEPS[4] = Skeleton("", "e", "d", 4, source="input", tasks=("t",))
STEPS[8] = Skeleton("", "i", "h", 8, source="loop", ran=("x",), marked=True)
AB = chain("ab")
CALLED = [*chain("abcd"), *chain("xyz", ns="research:task-b")]
TWICE = [*AB, *chain("y", ns="n:task-a"), *chain("z", ns="n:task-a|1")]
INNER = "mid:task-a|in:task-x"
IN_CALL = f"| |({INNER} 1)/| | z head"
OUTER = [*AB, *chain("xy", ns="mid:task-a"), *chain("z", ns=INNER)]
PLACED = [*AB, Skeleton("research:unknown", "x", None, parents={"": "a"})]
LOST = [*AB, *chain("x", ns="research:lost"), *chain("y", ns="memory")]
IN_MEMORY = "|(memory|in:task-x 1)"
STATEFUL = [*AB, *chain("xy", ns="memory"), *chain("z", ns="memory|in:task-x")]
ALONE = [*chain("abc", ns="research:t"), *chain("x", ns="research:t|in:task-b")]
FIVE = [f"|(n:t{n} 1)" for n in range(5)]
DEEP = "|" * 100_000 + "a:b"
NEST: dict[str, Any] = {"nest": True}
SHAPES: dict[str, tuple[list[Skeleton], dict[str, Any], str]] = {
    "plain steps fold": (chain("abcdef"), {}, "a/:bcde/f head"),
    "two steps are not worth a fold": (chain("abcd"), {}, "a/b/c/d head"),
    "inputs and questions never fold": (STEPS, {}, "a/:bcd/e/:fgh/i/:jkl/m head"),
    "the branch of the newest is the trunk": (FORKED, {}, "a/|-b/|c tip/x/y head"),
    "that of the head is": (FORKED, {"heads": {"": "c"}}, "a/|-x/|y tip/b/c head"),
    "branches of branches": (BRANCHED, {}, "a/|-b/||-c/||d tip/|p/||-q tip/|s/|t tip/z head"),
    "a sibling fork under its target": (forked_from("b"), {}, "a/b/|-c tip/x head"),
    "a sibling fork of the first": (forked_from("a", None), {}, "a/|-b/|c tip/x head"),
    "no sibling: it is gone": (forked_from("gone"), {}, "a/|-b/|c tip/x head"),
    "no sibling: it is no parent's": (forked_from("c"), {}, "a/|-b/|c tip/x head"),
    "no sibling: itself": (forked_from("x"), {}, "a/|-b/|c tip/x head"),
    "its own parent": ([*chain("a", under="a"), *chain("b", under="a")], {}, "a/b head"),
    "a call under its task": (CALLED, {}, "a/b/|(research:task-b 3)/c/d head"),
    "a nested call": (CALLED, NEST, "a/b/|(research:task-b 3)/| x/| y/| z head/c/d head"),
    "a second call beside the first": (TWICE, {}, "a/|(n:task-a 1)/|(n:task-a|1 1)/b head"),
    "a call in a call is counted": (OUTER, {}, "a/|(mid:task-a 3)/b head"),
    "a call in a call, nested": (OUTER, NEST, f"a/|(mid:task-a 3)/| x/{IN_CALL}/| y head/b head"),
    "a call placed by its metadata": (PLACED, {}, "a/|(research:unknown 1)/b head"),
    "a call without a caller": (LOST, {}, "a/b head/[memory]/y head/[research:lost]/x head"),
    "a call of a stateful one": (STATEFUL, {}, f"a/b head/[memory]/x/{IN_MEMORY}/y head"),
    "one namespace alone": (ALONE, {}, "a/b/|(research:t|in:task-b 1)/c head"),
    "quiet calls share a row": (calls(), {}, "a/|(n:t0 n:t1 n:t2 n:t3 n:t4 5)/b head"),
    "calls of which one asks": (calls(3), {}, f"a/{'/'.join(FIVE)}/b head"),
    "nested for ever": ([*chain("a"), *chain("b", DEEP)], {}, f"a head/[{DEEP}]/b head"),
    "a missing parent": ([*AB, *chain("xy", under="pruned")], {}, "a/b tip/x/y head"),
    "a loop of parents": (chain("abc", under="c"), {}, "a/b/c head"),
    "nothing": ([], {}, ""),
}


@pytest.mark.parametrize("name", SHAPES)
def test_the_rows_of_a_tree(name: str) -> None:
    items, how, rows = SHAPES[name]
    assert "/".join(sketch(plan_tree(items, **how))) == rows


def test_a_plan_counts_what_it_has() -> None:
    plan = plan_tree(chain("abcdef"))
    assert (plan.shown, plan.folded) == ((("", "a"), ("", "f")), 4)
    fold = plan.rows[1]
    assert isinstance(fold, FoldRow)
    assert (fold.ran, fold.parent, fold.all_known) == ((("work", 4),), "a", True)
    some = plan_tree([*chain("ab"), Skeleton("", "c", "b", 2), *chain("def", under="c")]).rows[1]
    assert isinstance(some, FoldRow)
    assert (some.ran, some.all_known) == ((("work", 3),), False)
    assert plan_tree(FORKED).branches == 2
    lost, alone = plan_tree(LOST), plan_tree(ALONE)
    assert lost.calls == 1
    assert [row.call for row in lost.rows if isinstance(row, SectionRow)] == [False, True]
    assert (alone.ns, alone.branches, alone.calls) == ("research:t", 1, 1)
    assert plan_tree([]) == TreeLayout((), (), 0, 0, 0, 0)


def test_undecided_are_the_checkpoints_where_a_run_may_have_begun() -> None:
    items = [Skeleton("", own, up, tasks=("t",)) for own, up in zip("bcdef", "abcde", strict=True)]
    items += [Skeleton("", "a", None, marked=True), Skeleton("", "x", "c", tasks=("t",))]
    items += [Skeleton("", "g", "f", 7), Skeleton("", "h", "g", 8), Skeleton("", "i", "h", 10)]
    assert {own for _, own in undecided(items)} == {"a", "b", "d", "x", "h", "i"}
    assert undecided(chain("abc")) == []


def test_a_long_thread_and_deep_branches_are_planned_and_lose_their_outermost_lanes() -> None:
    items = [Skeleton("", f"{n:06}", f"{n - 1:06}" if n else None, n) for n in range(2_000)]
    items += [Skeleton("", f"{n:06}", f"{3999 - n:06}") for n in range(2000, 4000)]
    plan = plan_tree(items)
    steps = [row for row in plan.rows if isinstance(row, StepRow)]
    assert max(row.depth for row in steps) == 1_999
    assert max(len(row.lanes) for row in steps) <= 12
    texts = drawn(
        plan, dict.fromkeys(plan.shown, StepDetails()), {one.checkpoint_id: "" for one in items}
    )
    assert max(map(cell_len, texts)) <= 80
    assert any(text.startswith("⋯ │ │") for text in texts)


# Pictures ------------------------------------------------------------------------------------

START = datetime(2026, 11, 21, 10, 42, 0, tzinfo=UTC)


@dataclass
class Thread:
    """A thread made by hand; checkpoints are named by the ends of their ids, two seconds apart."""

    items: list[Skeleton] = field(default_factory=list)
    nodes: dict[Key, StepDetails] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)
    now: datetime = START
    last: dict[str, str] = field(default_factory=dict)

    def add(
        self, name: str, *ran: str, ns: str = "", under: str | None = None, **facts: Any
    ) -> None:
        """A checkpoint after the last one of its namespace, or under a named one."""
        parent = self.ids.get(under, under) if under is not None else self.last.get(ns)
        steps = {item.checkpoint_id: item.step for item in self.items}
        above = steps.get(parent or "")
        step = facts.pop("step", -1 if above is None else above + 1)
        own = make_id(ticks_at(self.now), step, int(name, 16))
        tasks = facts.pop("tasks", ())
        target = facts.get("forked_from")
        node = StepDetails(at=self.now, step=step, ran=ran, **{"source": "loop", **facts})
        node = node._replace(forked_from=self.ids.get(target, target) if target else None)
        is_marked = bool(node.questions or node.errors or node.answered)
        self.items.append(
            Skeleton(ns, own, parent, step, node.source, ran, tasks, is_marked, node.forked_from)
        )
        self.nodes[ns, own] = node
        self.ids[name] = self.last[ns] = own
        self.now += timedelta(seconds=2)

    def picture(
        self, *, heads: Mapping[str, str] = {}, nest: bool = False, **how: Any
    ) -> list[str]:
        plan = plan_tree(self.items, nest=nest, heads=heads)
        shown = {key: self.nodes[key] for key in plan.shown}
        refs = short_refs(list(dict.fromkeys(item.checkpoint_id for item in self.items)))
        return drawn(plan, shown, refs, **how)


def drawn(
    plan: TreeLayout,
    details: Mapping[Key, StepDetails],
    refs: Mapping[str, str],
    *,
    thread_id: str = "trip",
    status: str = "",
    **options: Any,
) -> list[str]:
    tree = tree_of(thread_id, plan, details, refs, [cast("Status", status)] if status else [])
    return [line.text for line in tree_lines(tree, Ui(START, width=80)._replace(**options))]


def begun(*, tasks: tuple[str, ...] = ()) -> Thread:
    thread = Thread()
    thread.add("aa01", source="input", writes=1)
    thread.add("aa02", "__start__", writes=1, tasks=tasks)
    return thread


def test_branches_forks_and_what_a_step_asked_stand_under_it() -> None:
    thread = begun()
    thread.add("bb01", "plan", "worker", "worker", answered=2, writes=7)
    thread.add("bb02", "two", next=("sum", "sum"), errors=("TimeoutError('30 s')",), writes=1)
    thread.add("cc01", source="fork", under="bb01", forked_from="bb01")
    thread.add("cc02", "two", next=())
    thread.add("dd01", source="update", under="aa02", problem="its body cannot be read")
    thread.add("dd02", "one", next=("two",), questions=("Refund 89.00 EUR?", "Sure?\n"))
    picture = r"""
thread trip   8 checkpoints · 3 branches · interrupted

◆ aa01 -1  input                             1 write  10:42:00
○ aa02  0  __start__                         1 write  10:42:02
├─○ bb01  1  plan, worker ×2  ✓ 2 answered  7 writes  10:42:04
│ ├─○ bb02  2  two → sum ×2  ○ tip           1 write  10:42:06
│ │   ✗ TimeoutError('30 s')
│ ◇ cc01  2  fork of bb01                             10:42:08
│ ○ cc02  3  two → END  ○ tip                         10:42:10
◇ dd01  1  update                                     10:42:12
│ ! its body cannot be read
● dd02  2  one → two  ● head                          10:42:14
  ? Refund 89.00 EUR?
  ? Sure?\n
"""
    assert "\n".join(thread.picture(status="interrupted")) == picture.strip("\n")
    in_ascii = "\n".join(thread.picture(unicode=False))
    assert in_ascii.isascii()
    for part in ("thread trip   8 checkpoints, 3 branches", "> aa01", "|-o bb01", "| |   x T"):
        assert part in in_ascii
    for part in ("~ cc01  2  fork", "o tip", "* dd02  2  one -> two  * head", "+ 2 answered"):
        assert part in in_ascii


def test_parents_that_are_gone_or_form_a_loop_are_named_and_ids_never_cut() -> None:
    thread = Thread()
    thread.add("aa07", "agent", under="1f1e5fa1-9b4d-6402-bfff-0000deadbeef", step=4, writes=1)
    assert thread.picture()[2] == "┆ its parent deadbeef is not stored"
    loop = begun()
    loop.items[0] = loop.items[0]._replace(parent_checkpoint_id=loop.ids["aa02"])
    assert loop.picture()[2] == "┆ its parents form a loop"
    lines = begun().picture(thread_id="x" * 100)
    assert lines[:3] == ["thread", "x" * 80, "x" * 20 + "   2 checkpoints"]
    thread = begun()
    refs = {thread.ids["aa01"]: "r" * 78, thread.ids["aa02"]: "s" * 30}
    texts = drawn(plan_tree(thread.items), thread.nodes, refs)
    assert any("r" * 78 in text for text in texts)
    assert any("s" * 30 in text and "10:42:02" in text for text in texts)


def research() -> Thread:
    thread = begun(tasks=("9c1e2b07-aaaa",))
    outer = "research:9c1e2b07-aaaa"
    inner = f"{outer}|fetch:17e0aa55-bbbb"
    thread.add("dd01", ns=outer, source="input", writes=1, tasks=("17e0aa55-bbbb",))
    thread.add("ee01", ns=inner, source="input", writes=1)
    thread.add("ee02", "get", ns=inner, next=())
    thread.add("dd02", "fetch", ns=outer, next=())
    thread.add("aa03", "research", next=())
    thread.add("ff01", "remember", ns="memory", next=())
    return thread


def test_a_subgraph_call_is_one_line_or_its_own_tree_and_a_stateful_one_a_section() -> None:
    assert research().picture()[4:] == [
        "│ ╰ research:9c1e2b07…  4 checkpoints · done  10:42:04–10:42:10",
        "● aa03  1  research → END  ● head                      10:42:12",
        "",
        "memory   1 checkpoint · keeps its state between calls",
        "● ff01 -1  remember → END  ● head                      10:42:14",
    ]
    assert research().picture(nest=True)[4:8] == [
        "│ ╰ research:9c1e2b07…  4 checkpoints   10:42:04–10:42:10",
        "│   ◆ dd01 -1  input                    1 write  10:42:04",
        "│   │ ╰ fetch:17e0aa55…  2 checkpoints  10:42:06–10:42:08",
        "│   │   ◆ ee01 -1  input                1 write  10:42:06",
    ]
    alone = research()
    alone.items = [item for item in alone.items if item.checkpoint_ns.startswith("research")]
    assert "thread trip · research:9c1e2b07…   4 checkpoints" in alone.picture()[0]


def test_calls_and_questions_inside_them_stand_under_their_step() -> None:
    tasks = tuple(f"{n}c1e2b07-aaaa" for n in range(5))
    thread = begun(tasks=tasks)
    for n, task in enumerate(tasks):
        thread.add(f"dd0{n}", ns=f"research:{task}", source="input", next=())
    assert "  ╰ research ×5  5 checkpoints · done  10:42:04–10:42:12" in thread.picture()
    for status, errors in (("pending", ()), ("error", ("E",))):
        thread = begun(tasks=("1",))
        thread.add("dd01", ns="call:1", errors=errors, next=("x",))
        assert f"╰ call:1  1 checkpoint · {status}" in "\n".join(thread.picture())
    thread = begun(tasks=("9c1e2b07-aaaa",))
    facts: dict[str, Any] = {"writes": 1, "questions": ("Go on?",)}
    thread.nodes["", thread.ids["aa02"]] = StepDetails(
        START, 0, "loop", next=("research",), **facts
    )
    thread.add("dd01", ns="research:9c1e2b07-aaaa", source="input", next=("ask",), **facts)
    assert thread.picture()[3:] == [
        "● aa02  0  ? → research  ● head            1 write  10:42:00",
        "  ? Go on?",
        "  ╰ research:9c1e2b07…  1 checkpoint · interrupted  10:42:04",
    ]


def test_days_are_named_where_they_change() -> None:
    thread = begun()
    thread.now += timedelta(hours=15)
    thread.add("aa03", "agent", writes=1)
    thread.add("bb01", "tools", next=())
    thread.now += timedelta(days=30)
    thread.add("cc01", under="aa03", source="fork", next=("tools",))
    later = START + timedelta(days=40)
    assert thread.picture(now=later, zone=timezone(timedelta(hours=2)))[4:] == [
        "○ aa02  0  __start__    1 write  12:42:02",
        "│                         Sun 22 Nov 2026",
        "○ aa03  1  agent        1 write  03:42:04",
        "├─○ bb01  2  tools → END  ○ tip  03:42:06",
        "│                         Tue 22 Dec 2026",
        "● cc01  2  fork → tools  ● head  03:42:08",
    ]
    over_midnight = begun()
    for n in range(3):
        over_midnight.now += timedelta(hours=6)
        over_midnight.add(f"b{n}00", "agent")
    over_midnight.add("cc01", "agent", next=())
    over_midnight.items[3] = over_midnight.items[3]._replace(ran=None)
    assert "┊ 4 steps  agent ×2, …  10:42:02–04:42:08 +1d" in over_midnight.picture()


# Mermaid flowcharts, which no data can break out of ------------------------------------------


def chart(
    items: list[Skeleton], nodes: dict[str, StepDetails] | None = None, **how: Any
) -> list[str]:
    plan = plan_tree(items, **how)
    details = {key: (nodes or {}).get(key[1], StepDetails(ran=("work",))) for key in plan.shown}
    refs = {item.checkpoint_id: item.checkpoint_id for item in items}
    return [line.text for line in mermaid_lines(tree_of("", plan, details, refs), Ui(START))]


def body(lines: list[str]) -> list[str]:
    return [line.strip() for line in lines if not line.startswith("  class")]


def test_steps_forks_folds_and_calls_are_boxes_with_arrows() -> None:
    items = [Skeleton("", own, up, source="loop") for own, up in zip("bcdef", "abcde", strict=True)]
    items += [Skeleton("", "a", None, source="input"), Skeleton("", "z", "e", source="fork")]
    nodes = {
        "a": StepDetails(source="input", step=-1),
        "f": StepDetails(ran=("agent",), next=("pay",), questions=("Pay 3?",), errors=("E",)),
        "z": StepDetails(source="fork", forked_from="e", next=()),
    }
    lines = chart(items, nodes)
    assert body(lines) == [
        "flowchart TD",
        'n0(["a<br/>-1  input"])',
        'n1["3 steps"]',
        'n2["e<br/>work"]',
        'n3["f<br/>agent → pay<br/>○ tip<br/>? Pay 3?<br/>✗ E"]',
        'n4{{"z<br/>fork of e → END<br/>● head"}}',
        *("n0 --> n1", "n1 --> n2", "n2 -.-> n3", "n2 --> n4"),
    ]
    classes = ["n1 folded", "n3 question", "n3 error", "n4 head"]
    assert lines[-4:] == [f"  class {one}" for one in classes]
    assert body(chart([])) == ["flowchart TD"]
    items = [Skeleton("", "a", None, tasks=("t",)), Skeleton("", "b", "a")]
    items += [Skeleton("sub:t", "x", None), Skeleton("memory", "m", None)]
    box, *others = body(chart(items))[2:]
    assert box == 'n1[["sub#58;t<br/>1 checkpoint"]]'
    assert others[1] == 'subgraph n3["memory<br/>1 checkpoint"]'
    assert others[3:] == ["end", "n0 -.- n1", "n0 --> n2"]
    assert body(chart(items, nest=True))[3:6] == [
        'subgraph n1["sub#58;t<br/>1 checkpoint"]',
        'n2["x<br/>work → ?"]',
        "end",
    ]


LABEL = r'"(?:[\w .,?×→·…✓✗●○-]|#\d+;|<br/>)*"'
BOX = rf"n\d+(?:\[{LABEL}\]|\(\[{LABEL}\]\)|\{{\{{{LABEL}\}}\}}|\[\[{LABEL}\]\])"
LINE = re.compile(
    rf"flowchart TD|  (?:  )?{BOX}|  subgraph n\d+\[{LABEL}\]|  end"
    r"|  n\d+ (?:-->|-\.->|-\.-) n\d+"
    r"|  classDef (?:head|question|error|folded) [\w#,:\- ]+"
    r"|  class n\d+ (?:head|question|error|folded)"
)
HOSTILE = ["\x1b[31mred\r\n\x9b\u202e[bold]x[/bold]\x00", '"]', "<br/>", "%%{init}%%", "日" * 60]


@cases("text", *HOSTILE, ids=ascii)
def test_no_data_widens_a_line_or_breaks_out_of_a_label(text: str) -> None:
    facts: Any = {"ran": (text,) * 2, "next": (text,), "questions": (text,), "errors": (text,)}
    step = StepDetails(START, 1, "fork", forked_from="a", problem=text, **facts)
    inner = f"{text}:task-a"
    items = [*chain("ab"), *chain("cd", inner), *chain("e", f"{inner}|{text}:task-c")]
    items += chain("fgh", text)
    refs = short_refs([one.checkpoint_id for one in items])
    for nest, unfold, width in product((False, True), (False, True), (80, 130)):
        plan = plan_tree(items, nest=nest, unfold=unfold)
        shown = dict.fromkeys(plan.shown, step)
        for one in drawn(plan, shown, refs, thread_id=text * 9, width=width):
            assert cell_len(one) <= width
            assert safe_text(one) == one
        details = dict.fromkeys([one.checkpoint_id for one in items], step)
        for one in chart(items, details, nest=nest, unfold=unfold):
            assert LINE.fullmatch(one), one
