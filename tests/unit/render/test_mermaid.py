"""The picture as a Mermaid flowchart, which no data can break out of."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ckpt_cli.core.tree import Skeleton, StepDetails, plan_tree
from ckpt_cli.render.text import Ui
from ckpt_cli.render.tree_pictures import mermaid_lines
from tests.kit.trees import tree_of

NOW = datetime(2026, 4, 7, tzinfo=UTC)
LABEL = r'"(?:[\w .,?×→·…✓✗●○-]|#\d+;|<br/>)*"'
BOX = rf"n\d+(?:\[{LABEL}\]|\(\[{LABEL}\]\)|\{{\{{{LABEL}\}}\}}|\[\[{LABEL}\]\])"
LINE = re.compile(
    rf"flowchart TD|  (?:  )?{BOX}|  subgraph n\d+\[{LABEL}\]|  end"
    r"|  n\d+ (?:-->|-\.->|-\.-) n\d+"
    r"|  classDef (?:head|question|error|folded) [\w#,:\- ]+"
    r"|  class n\d+ (?:head|question|error|folded)"
)


def chart(
    items: list[Skeleton], nodes: dict[str, StepDetails] | None = None, **how: Any
) -> list[str]:
    plan = plan_tree(items, **how)
    details = {key: (nodes or {}).get(key[1], StepDetails(ran=("work",))) for key in plan.shown}
    refs = {item.checkpoint_id: item.checkpoint_id for item in items}
    return [line.text for line in mermaid_lines(tree_of("", plan, details, refs), Ui(NOW))]


def body(lines: list[str]) -> list[str]:
    return [line.strip() for line in lines if not line.startswith("  class")]


def test_steps_forks_and_folds_are_boxes_with_arrows() -> None:
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
        "n0 --> n1",
        "n1 --> n2",
        "n2 -.-> n3",
        "n2 --> n4",
    ]
    assert lines[-4:] == [
        "  class n1 folded",
        "  class n3 question",
        "  class n3 error",
        "  class n4 head",
    ]


def test_a_call_is_a_box_or_a_block_of_its_own() -> None:
    items = [Skeleton("", "a", None, tasks=("t",)), Skeleton("", "b", "a")]
    items += [Skeleton("sub:t", "x", None), Skeleton("memory", "m", None)]
    assert body(chart(items)) == [
        "flowchart TD",
        'n0["a<br/>work"]',
        'n1[["sub#58;t<br/>1 checkpoint"]]',
        'n2["b<br/>work → ?<br/>● head"]',
        'subgraph n3["memory<br/>1 checkpoint"]',
        'n4["m<br/>work → ?<br/>● head"]',
        "end",
        "n0 -.- n1",
        "n0 --> n2",
    ]
    assert body(chart(items, nest=True))[3:6] == [
        'subgraph n1["sub#58;t<br/>1 checkpoint"]',
        'n2["x<br/>work → ?"]',
        "end",
    ]


def test_quotes_brackets_and_html_become_character_codes() -> None:
    nasty = '"]; click n0 "javascript:x" <img src=x>\n%%{init}%% `#quot;` end'
    lines = chart([Skeleton("", "a", None)], {"a": StepDetails(ran=(nasty,), next=())})
    box = lines[1]
    assert LINE.fullmatch(box)
    for sign in ('"]', "javascript:", "<img", "%%", "`", "#quot", "\n"):
        assert sign not in box[len('  n0["') : -len('"]')].replace("<br/>", "")


def test_an_empty_thread_is_an_empty_chart() -> None:
    assert body(chart([])) == ["flowchart TD"]


TEXT = st.text(max_size=40) | st.sampled_from(['"]', "<br/>", "end", "#35;", "ﬂ°°60¶ß", "a:1|b"])


@given(
    st.lists(
        st.builds(
            Skeleton,
            checkpoint_ns=TEXT | st.sampled_from(["", "", "a:1"]),
            checkpoint_id=TEXT,
            parent_checkpoint_id=st.none() | TEXT,
            ran=st.lists(TEXT, max_size=2).map(tuple),
            tasks=st.just(("1",)),
        ),
        max_size=20,
        unique_by=lambda item: item.key,
    ),
    st.builds(
        StepDetails,
        source=st.sampled_from([None, "input", "update", "fork"]),
        ran=st.lists(TEXT, max_size=2).map(tuple),
        next=st.none() | st.lists(TEXT, max_size=2).map(tuple),
        questions=st.lists(TEXT, max_size=1).map(tuple),
        problem=st.none() | TEXT,
    ),
    st.booleans(),
)
def test_every_line_has_one_of_the_known_forms(
    items: list[Skeleton], node: StepDetails, nest: bool
) -> None:
    lines = chart(items, {item.checkpoint_id: node for item in items}, nest=nest)
    for text in lines:
        assert LINE.fullmatch(text), text
    boxes = [text for text in lines if re.match(r"  (  )?n\d+[\[({]", text)]
    shown = plan_tree(items, nest=nest)
    assert len(boxes) == sum(
        type(row).__name__ in {"StepRow", "FoldRow"} or not getattr(row, "nested", True)
        for row in shown.rows
    )
