"""The picture of a thread, as text."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpt_backends.model import Status, time_of
from ckpt_cli.core.refs import short_refs
from ckpt_cli.core.tree import Key, Skeleton, StepDetails, StepRow, TreeLayout, plan_tree
from ckpt_cli.render.text import Ui, cell_len
from ckpt_cli.render.tree import tree_lines
from tests.kit.trees import tree_of

START = datetime(2026, 11, 21, 10, 42, 0, tzinfo=UTC)


def make_id(name: str, at: datetime, step: int) -> str:
    """A UUIDv6 that ends with `name`."""
    ticks = (at - datetime(1582, 10, 15, tzinfo=UTC)) // timedelta(microseconds=1) * 10
    high, low = divmod(ticks, 1 << 12)
    text = f"{high:012x}"
    return f"{text[:8]}-{text[8:]}-6{low:03x}-{0x8000 | step & 0x3FFF:04x}-{name:0>12}"


def is_harmless(text: str) -> bool:
    """No controls, line separators or bidi marks."""
    kinds = {unicodedata.category(char) for char in text}
    marks = {unicodedata.bidirectional(char) for char in text}
    return not kinds & {"Cc", "Zl", "Zp"} and not marks & {"LRE", "RLE", "LRO", "RLO", "PDF"}


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
        own = make_id(name, self.now, step)
        tasks = facts.pop("tasks", ())
        target = facts.get("forked_from")
        node = StepDetails(at=self.now, step=step, ran=ran, **{"source": "loop", **facts})
        node = node._replace(forked_from=self.ids.get(target, target) if target else None)
        self.items.append(
            Skeleton(
                checkpoint_ns=ns,
                checkpoint_id=own,
                parent_checkpoint_id=parent,
                step=step,
                source=node.source,
                ran=ran,
                tasks=tasks,
                marked=bool(node.questions or node.errors or node.answered),
                forked_from=node.forked_from,
            )
        )
        self.nodes[ns, own] = node
        self.ids[name] = self.last[ns] = own
        self.now += timedelta(seconds=2)

    def picture(
        self,
        *,
        unfold: bool = False,
        nest: bool = False,
        heads: Mapping[str, str] = {},
        **options: Any,
    ) -> list[str]:
        plan = plan_tree(self.items, unfold=unfold, nest=nest, heads=heads)
        shown = {key: self.nodes[key] for key in plan.shown}
        refs = short_refs(list(dict.fromkeys(item.checkpoint_id for item in self.items)))
        return drawn(plan, shown, refs, **options)


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
    ui = Ui(START, width=80)._replace(**options)
    return [line.text for line in tree_lines(tree, ui)]


def begun(*, writes: int = 1) -> Thread:
    thread = Thread()
    thread.add("aa01", source="input", writes=writes)
    thread.add("aa02", "__start__", writes=writes)
    return thread


def check(lines: Sequence[str], picture: str) -> None:
    assert "\n".join(lines).strip() == picture.strip("\n")


def test_a_short_thread_is_one_line_per_checkpoint() -> None:
    thread = begun()
    thread.add("aa03", "agent", next=())
    check(
        thread.picture(status="done"),
        """
thread trip   3 checkpoints · done

◆ aa01 -1  input       1 write  10:42:00
○ aa02  0  __start__   1 write  10:42:02
● aa03  1  agent → END  ● head  10:42:04
""",
    )


def test_plain_steps_fold_into_one_line_between_the_turns() -> None:
    thread = begun()
    for n in range(3):
        thread.add(f"b{n}0a", "agent")
        thread.add(f"b{n}0b", "tools", "tools")
    thread.add("cc01", source="input", writes=2)
    thread.add("cc02", "agent", next=())
    check(
        thread.picture(),
        """
thread trip   10 checkpoints

◆ aa01 -1  input               1 write  10:42:00
┊ 7 steps  agent ×3, tools ×6  10:42:02–10:42:14
◆ cc01  7  input              2 writes  10:42:16
● cc02  8  agent → END  ● head          10:42:18

┊ 7 plain steps folded; --unfold shows all
""",
    )


def test_a_fold_says_when_not_all_its_nodes_are_known() -> None:
    thread = begun()
    for n in range(3):
        thread.add(f"b{n}00", "agent")
    thread.items[-1] = thread.items[-1]._replace(ran=None)
    thread.add("cc01", "agent")
    assert "┊ 4 steps  agent ×2, …" in "\n".join(thread.picture())


def test_an_abandoned_branch_stands_under_the_fork() -> None:
    thread = begun()
    thread.add("aa03", "agent", writes=2)
    thread.add("bb01", "tools", writes=1)
    thread.add("bb02", "agent", next=("tools",))
    thread.add("cc01", source="update", under="aa03", writes=1)
    thread.add("cc02", "agent", next=())
    check(
        thread.picture(),
        """
thread trip   7 checkpoints · 2 branches

◆ aa01 -1  input          1 write  10:42:00
○ aa02  0  __start__      1 write  10:42:02
○ aa03  1  agent         2 writes  10:42:04
├─○ bb01  2  tools        1 write  10:42:06
│ ○ bb02  3  agent → tools  ○ tip  10:42:08
◇ cc01  2  update         1 write  10:42:10
● cc02  3  agent → END  ● head     10:42:12
""",
    )


def test_a_fork_written_as_a_sibling_stands_under_its_target() -> None:
    thread = begun()
    thread.add("aa03", "agent", writes=2)
    thread.add("bb01", "tools", next=())
    thread.add("cc01", source="fork", under="aa02", forked_from="aa03", writes=1)
    thread.add("cc02", "agent", next=("tools",))
    check(
        thread.picture(),
        """
thread trip   6 checkpoints · 2 branches

◆ aa01 -1  input         1 write  10:42:00
○ aa02  0  __start__     1 write  10:42:02
○ aa03  1  agent        2 writes  10:42:04
├─○ bb01  2  tools → END  ○ tip   10:42:06
◇ cc01  1  fork of aa03  1 write  10:42:08
● cc02  2  agent → tools  ● head  10:42:10
""",
    )


def test_branches_of_branches_stand_further_in() -> None:
    thread = begun()
    thread.add("bb01", "one")
    thread.add("bb02", "two", next=())
    thread.add("cc01", source="fork", under="bb01", forked_from="bb01")
    thread.add("cc02", "two", next=())
    thread.add("dd01", source="fork", under="aa02", forked_from="aa02")
    thread.add("dd02", "one", next=("two",))
    check(
        thread.picture(),
        """
thread trip   8 checkpoints · 3 branches

◆ aa01 -1  input        1 write  10:42:00
○ aa02  0  __start__    1 write  10:42:02
├─○ bb01  1  one                 10:42:04
│ ├─○ bb02  2  two → END  ○ tip  10:42:06
│ ◇ cc01  2  fork of bb01        10:42:08
│ ○ cc02  3  two → END  ○ tip    10:42:10
◇ dd01  1  fork of aa02          10:42:12
● dd02  2  one → two  ● head     10:42:14
""",
    )


def test_parallel_tasks_are_counted() -> None:
    thread = begun()
    thread.add("aa03", "plan", writes=7)
    thread.add("aa04", "worker", "worker", "worker", "audit", writes=1, next=("sum", "sum"))
    check(
        thread.picture(),
        """
thread trip   4 checkpoints

◆ aa01 -1  input                              1 write  10:42:00
○ aa02  0  __start__                          1 write  10:42:02
○ aa03  1  plan                              7 writes  10:42:04
● aa04  2  worker ×3, audit → sum ×2  ● head  1 write  10:42:06
""",
    )


def research() -> Thread:
    thread = begun()
    outer = "research:9c1e2b07-aaaa"
    inner = f"{outer}|fetch:17e0aa55-bbbb"
    thread.items[-1] = thread.items[-1]._replace(tasks=("9c1e2b07-aaaa",))
    thread.add("dd01", ns=outer, source="input", writes=1, tasks=("17e0aa55-bbbb",))
    thread.add("ee01", ns=inner, source="input", writes=1)
    thread.add("ee02", "get", ns=inner, next=())
    thread.add("dd02", "fetch", ns=outer, next=())
    thread.add("aa03", "research", next=())
    return thread


def test_a_subgraph_call_is_one_line_under_its_step() -> None:
    check(
        research().picture(),
        """
thread trip   7 checkpoints · 2 subgraph calls

◆ aa01 -1  input                              1 write  10:42:00
○ aa02  0  __start__                          1 write  10:42:02
│ ╰ research:9c1e2b07…  4 checkpoints · done  10:42:04–10:42:10
● aa03  1  research → END  ● head                      10:42:12
""",
    )


def test_a_subgraph_call_can_show_its_own_tree() -> None:
    check(
        research().picture(nest=True),
        """
thread trip   7 checkpoints · 2 subgraph calls

◆ aa01 -1  input                        1 write  10:42:00
○ aa02  0  __start__                    1 write  10:42:02
│ ╰ research:9c1e2b07…  4 checkpoints   10:42:04–10:42:10
│   ◆ dd01 -1  input                    1 write  10:42:04
│   │ ╰ fetch:17e0aa55…  2 checkpoints  10:42:06–10:42:08
│   │   ◆ ee01 -1  input                1 write  10:42:06
│   │   ● ee02  0  get → END                     10:42:08
│   ● dd02  0  fetch → END                       10:42:10
● aa03  1  research → END  ● head                10:42:12
""",
    )


def test_a_subgraph_call_alone_has_a_head() -> None:
    thread = research()
    thread.items = [item for item in thread.items if item.checkpoint_ns]
    check(
        thread.picture(),
        """
thread trip · research:9c1e2b07…   4 checkpoints · 1 subgraph call

◆ dd01 -1  input                           1 write  10:42:04
│ ╰ fetch:17e0aa55…  2 checkpoints · done  10:42:06–10:42:08
● dd02  0  fetch → END  ● head                      10:42:10
""",
    )


def test_many_calls_of_one_node_share_a_line() -> None:
    thread = begun()
    tasks = tuple(f"{n}c1e2b07-aaaa" for n in range(5))
    thread.items[-1] = thread.items[-1]._replace(tasks=tasks)
    for n, task in enumerate(tasks):
        thread.add(f"dd0{n}", ns=f"research:{task}", source="input", next=())
    thread.add("aa03", *["research"] * 5, next=())
    check(
        thread.picture(),
        """
thread trip   8 checkpoints · 5 subgraph calls

◆ aa01 -1  input                       1 write  10:42:00
○ aa02  0  __start__                   1 write  10:42:02
│ ╰ research ×5  5 checkpoints · done  10:42:04–10:42:12
● aa03  1  research ×5 → END  ● head            10:42:14
""",
    )


def test_a_stateful_namespace_has_a_section() -> None:
    thread = begun()
    thread.add("dd01", ns="memory", source="input", writes=1)
    thread.add("dd02", "remember", ns="memory", next=())
    thread.add("aa03", "memory", next=())
    check(
        thread.picture(),
        """
thread trip   5 checkpoints

◆ aa01 -1  input          1 write  10:42:00
○ aa02  0  __start__      1 write  10:42:02
● aa03  1  memory → END  ● head    10:42:08

memory   2 checkpoints · keeps its state between calls
◆ dd01 -1  input          1 write  10:42:04
● dd02  0  remember → END  ● head  10:42:06
""",
    )


def test_questions_stand_under_the_step_that_waits() -> None:
    thread = begun()
    thread.add("aa03", "agent", writes=2, answered=2)
    thread.add(
        "aa04", "tools", writes=1, next=("refund",), questions=("Refund 89.00 EUR?", "Sure?\n")
    )
    check(
        thread.picture(status="interrupted"),
        r"""
thread trip   4 checkpoints · interrupted

◆ aa01 -1  input                   1 write  10:42:00
○ aa02  0  __start__               1 write  10:42:02
○ aa03  1  agent  ✓ 2 answered    2 writes  10:42:04
● aa04  2  tools → refund  ● head  1 write  10:42:06
  ? Refund 89.00 EUR?
  ? Sure?\n
""",
    )


def test_a_question_of_a_subgraph_is_shown_where_it_was_asked() -> None:
    thread = begun()
    outer = "research:9c1e2b07-aaaa"
    thread.items[-1] = thread.items[-1]._replace(tasks=("9c1e2b07-aaaa",))
    facts: dict[str, Any] = {"writes": 1, "questions": ("Go on?",)}
    thread.nodes["", thread.ids["aa02"]] = StepDetails(
        START, 0, "loop", next=("research",), **facts
    )
    thread.add("dd01", ns=outer, source="input", next=("ask",), **facts)
    check(
        thread.picture(),
        """
thread trip   3 checkpoints · 1 subgraph call

◆ aa01 -1  input                           1 write  10:42:00
● aa02  0  ? → research  ● head            1 write  10:42:00
  ? Go on?
  ╰ research:9c1e2b07…  1 checkpoint · interrupted  10:42:04
""",
    )
    check(
        thread.picture(nest=True),
        """
thread trip   3 checkpoints · 1 subgraph call

◆ aa01 -1  input                 1 write  10:42:00
● aa02  0  ? → research  ● head  1 write  10:42:00
  ╰ research:9c1e2b07…  1 checkpoint      10:42:04
    ● dd01 -1  input → ask       1 write  10:42:04
      ? Go on?
""",
    )


def test_errors_and_problems_stand_under_their_step() -> None:
    thread = begun()
    thread.add("aa03", "agent", next=("pay",), writes=1, errors=("TimeoutError('30 s')",))
    thread.add("bb01", under="aa02", source="fork", problem="its body cannot be read")
    check(
        thread.picture(),
        """
thread trip   4 checkpoints · 2 branches

◆ aa01 -1  input                 1 write  10:42:00
○ aa02  0  __start__             1 write  10:42:02
├─○ aa03  1  agent → pay  ○ tip  1 write  10:42:04
│   ✗ TimeoutError('30 s')
● bb01  1  fork → ?  ● head               10:42:06
  ! its body cannot be read
""",
    )


def test_a_pruned_parent_is_named() -> None:
    thread = Thread()
    thread.add("aa07", "agent", under="1f1e5fa1-9b4d-6402-bfff-0000deadbeef", step=4, writes=1)
    thread.add("aa08", "tools", next=())
    check(
        thread.picture(),
        """
thread trip   2 checkpoints

┆ its parent deadbeef is not stored
○ aa07 4  agent       1 write  10:42:00
● aa08 5  tools → END  ● head  10:42:02
""",
    )


def test_a_loop_of_parents_is_drawn_once_and_marked() -> None:
    thread = begun()
    thread.items[0] = thread.items[0]._replace(parent_checkpoint_id=thread.ids["aa02"])
    check(
        thread.picture(),
        """
thread trip   2 checkpoints

┆ its parents form a loop
◆ aa01 -1  input                  1 write  10:42:00
● aa02  0  __start__ → ?  ● head  1 write  10:42:02
""",
    )


def test_trees_without_a_common_beginning_are_kept_apart() -> None:
    thread = begun()
    thread.last.clear()
    thread.add("bb01", source="input")
    check(
        thread.picture(),
        """
thread trip   3 checkpoints · 2 branches

◆ aa01 -1  input                 1 write  10:42:00
○ aa02  0  __start__ → ?  ○ tip  1 write  10:42:02

● bb01 -1  input → ?  ● head              10:42:04
""",
    )


def test_days_are_named_where_they_change() -> None:
    thread = begun()
    thread.now += timedelta(hours=15)
    thread.add("aa03", "agent", writes=1)
    thread.add("bb01", "tools", next=())
    thread.now += timedelta(days=30)
    thread.add("cc01", under="aa03", source="fork", next=("tools",))
    later = START + timedelta(days=40)
    check(
        thread.picture(now=later, zone=timezone(timedelta(hours=2))),
        """
thread trip   5 checkpoints · 2 branches

                          Sat 21 Nov 2026
◆ aa01 -1  input        1 write  12:42:00
○ aa02  0  __start__    1 write  12:42:02
│                         Sun 22 Nov 2026
○ aa03  1  agent        1 write  03:42:04
├─○ bb01  2  tools → END  ○ tip  03:42:06
│                         Tue 22 Dec 2026
● cc01  2  fork → tools  ● head  03:42:08
""",
    )


def test_a_fold_over_midnight_says_so() -> None:
    thread = begun()
    for n in range(3):
        thread.now += timedelta(hours=6)
        thread.add(f"b{n}00", "agent")
    thread.add("cc01", "agent", next=())
    check(
        thread.picture(),
        """
thread trip   6 checkpoints

◆ aa01 -1  input         1 write  10:42:00
┊ 4 steps  agent ×3  10:42:02–04:42:08 +1d
● cc01  4  agent → END  ● head    04:42:10

┊ 4 plain steps folded; --unfold shows all
""",
    )


def test_ids_without_time_leave_no_column_for_it() -> None:
    thread = Thread()
    thread.items = [Skeleton("", "one", None, 0), Skeleton("", "two", "one", 1)]
    thread.nodes = {("", "one"): StepDetails(), ("", "two"): StepDetails(next=())}
    check(
        thread.picture(),
        """
thread trip   2 checkpoints

○ one 0  ?
● two 1  ? → END  ● head
""",
    )


def test_the_ascii_form_says_the_same() -> None:
    thread = begun()
    thread.items[-1] = thread.items[-1]._replace(tasks=("9c1e2b07-aaaa",))
    thread.add("dd01", ns="research:9c1e2b07-aaaa", source="input", next=())
    thread.add("aa03", "research", "research", answered=1)
    thread.add("bb01", "tools", next=())
    thread.add("cc01", source="fork", under="aa03", forked_from="aa03")
    for n in range(3):
        thread.add(f"cc1{n}", "agent")
    thread.add("cc20", "agent", next=("pay",), questions=("Pay?",), errors=("E()",))
    lines = thread.picture(unicode=False)
    assert "\n".join(lines).isascii()
    check(
        lines,
        """
thread trip   10 checkpoints, 2 branches, 1 subgraph call

> aa01 -1  input                     1 write  10:42:00
o aa02  0  __start__                 1 write  10:42:02
| ` research:9c1e2b07...  1 checkpoint, done  10:42:04
o aa03  1  research x2  + answered            10:42:06
|-o bb01  2  tools -> END  o tip              10:42:08
~ cc01  2  fork of aa03                       10:42:10
: 3 steps  agent x3                  10:42:12-10:42:16
* cc20  6  agent -> pay  * head               10:42:18
  ? Pay?
  x E()

: 3 plain steps folded; --unfold shows all
""",
    )


def test_long_and_wide_texts_are_cut_to_the_width() -> None:
    thread = begun()
    thread.add("aa03", *[f"节点名称很长的第{n}个步骤" for n in range(9)], writes=12)
    thread.add(
        "aa04",
        *[f"node_with_a_long_name_{n}" for n in range(9)],
        next=tuple(f"another_long_name_{n}" for n in range(9)),
        questions=("要不要退款" * 20,),
    )
    lines = thread.picture(status="interrupted")
    assert max(map(cell_len, lines)) == 80
    check(
        lines,
        """
thread trip   4 checkpoints · interrupted

◆ aa01 -1  input                                               1 write  10:42:00
○ aa02  0  __start__                                           1 write  10:42:02
○ aa03  1  节点名称很长的第0个步骤, 节点名称很长的第1个步…   12 writes  10:42:04
● aa04  2  node_with_a_long_name_0,… → another_long_name_0,…  ● head    10:42:06
  ? 要不要退款要不要退款要不要退款要不要退款要不要退款要不要退款要不要退款要不…
""",
    )


def test_a_wider_terminal_shows_more_but_no_gap() -> None:
    thread = begun()
    assert thread.picture(width=200) == thread.picture(width=80)
    thread.add("aa03", *[f"a_rather_long_name_{n}" for n in range(9)], next=())
    assert max(map(cell_len, thread.picture(width=120))) == 120


def test_a_long_thread_id_is_wrapped_not_cut() -> None:
    lines = begun().picture(thread_id="x" * 100)
    assert lines[:3] == ["thread", "x" * 80, "x" * 20 + "   2 checkpoints"]


def test_a_long_ref_is_never_cut() -> None:
    thread = begun()
    plan = plan_tree(thread.items)
    refs = {thread.ids["aa01"]: "r" * 78, thread.ids["aa02"]: "s" * 30}
    texts = drawn(plan, thread.nodes, refs)
    assert any("r" * 78 in text for text in texts)
    assert any("s" * 30 in text and "10:42:02" in text for text in texts)


def test_deep_branches_lose_their_outermost_lanes() -> None:
    thread = Thread()
    depth = 30
    for n in range(depth):
        thread.add(f"a{n:03}", "agent")
    for n in range(depth):
        thread.add(f"b{n:03}", "agent", under=f"a{depth - 1 - n:03}")
    lines = thread.picture()
    assert max(map(cell_len, lines)) <= 80
    assert any(text.startswith("⋯ │ │") for text in lines)


def test_data_cannot_bring_control_characters_into_the_picture() -> None:
    thread = begun()
    nasty = "\x1b[31mred\r\n\x9b\u202e[bold]x[/bold]\x00"
    thread.add("aa03", nasty, next=(nasty,), questions=(nasty,), errors=(nasty,), problem=nasty)
    thread.add("dd01", ns=f"{nasty}:{nasty}", source="input")
    thread.add("dd02", ns=nasty, source="input")
    for text in thread.picture(thread_id=nasty, status=nasty, nest=True):
        assert is_harmless(text)


NAMES = st.text(max_size=30)
NODES = st.builds(
    StepDetails,
    at=st.none() | st.datetimes(timezones=st.just(UTC)),
    step=st.none() | st.integers(-2, 100_000),
    source=st.sampled_from([None, "input", "loop", "update", "fork", "other"]),
    ran=st.lists(NAMES, max_size=6).map(tuple),
    writes=st.integers(0, 1000),
    next=st.none() | st.lists(NAMES, max_size=6).map(tuple),
    questions=st.lists(NAMES, max_size=2).map(tuple),
    answered=st.integers(0, 3),
    errors=st.lists(NAMES, max_size=2).map(tuple),
    forked_from=st.none() | st.text(min_size=1, max_size=10),
    problem=st.none() | NAMES,
)
IDS = st.integers(0, 40).map(lambda n: make_id(f"{n:x}", START + timedelta(seconds=n), n))
ITEMS = st.builds(
    Skeleton,
    checkpoint_ns=st.sampled_from(["", "", "memory", "a:1", "a:1|b:2"]) | st.text(max_size=20),
    checkpoint_id=IDS,
    parent_checkpoint_id=st.none() | IDS,
    ran=st.none() | st.lists(NAMES, max_size=3).map(tuple),
    tasks=st.lists(st.sampled_from("123"), max_size=2).map(tuple),
)


@given(
    found=st.lists(st.tuples(ITEMS, NODES), max_size=25, unique_by=lambda pair: pair[0].key),
    unfold=st.booleans(),
    nest=st.booleans(),
    thread_id=st.text(max_size=120),
    width=st.integers(80, 130),
    unicode=st.booleans(),
)
def test_no_line_is_too_wide_or_holds_a_control_character(
    found: list[tuple[Skeleton, StepDetails]], unfold: bool, nest: bool, width: int, **options: Any
) -> None:
    items = [item for item, _ in found]
    plan = plan_tree(items, unfold=unfold, nest=nest)
    details = {item.key: node for item, node in found}
    refs = short_refs(list({item.checkpoint_id for item in items}))
    zone = timezone(timedelta(hours=-5))
    text = drawn(plan, details, refs, zone=zone, status="done", width=width, **options)
    assert all(cell_len(one) <= width for one in text)
    assert all(is_harmless(one) for one in text)
    for row in plan.rows:
        assert not isinstance(row, StepRow) or any(refs[row.id] in one for one in text)


def test_ids_made_here_hold_their_time() -> None:
    assert time_of(make_id("aa01", START, -1)) == START


@pytest.mark.parametrize("status", ["interrupted", "error", "pending", "done"])
def test_a_call_says_how_it_ended(status: str) -> None:
    thread = begun()
    thread.items[-1] = thread.items[-1]._replace(tasks=("1",))
    facts: dict[str, dict[str, Any]] = {
        "interrupted": {"questions": ("?",), "next": ("x",)},
        "error": {"errors": ("E",), "next": ("x",)},
        "pending": {"next": ("x",)},
        "done": {"next": ()},
    }
    thread.add("dd01", ns="call:1", **facts[status])
    assert f"╰ call:1  1 checkpoint · {status}" in "\n".join(thread.picture())
