"""The tree of a thread as a picture."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree

import pytest

from ckpt_backends.model import Status
from ckpt_cli.core.tree import Skeleton, StepDetails, TreeLayout, plan_tree
from ckpt_cli.render import tree_pictures as svg
from ckpt_cli.render.text import Ui
from ckpt_cli.render.tree_pictures import MOST_ROWS, draw_tree, svg_lines
from tests.kit.command import ckpt
from tests.kit.trees import tree_of

SVG = "{http://www.w3.org/2000/svg}"


def texts(picture: ElementTree.Element) -> list[str]:
    """Return the lines of text in a picture."""
    return ["".join(one.itertext()) for one in picture.iter(f"{SVG}text")]


def draw(plan: TreeLayout, name: str = "a") -> ElementTree.Element:
    details = {key: StepDetails(ran=(name,), questions=(name,)) for key in plan.shown}
    lines = svg_lines(tree_of(name, plan, details, {}, (Status.DONE,)), Ui(datetime.now(UTC)))
    return ElementTree.fromstring("\n".join(line.text for line in lines))


def test_it_shows_what_the_tree_shows(sample: Path) -> None:
    answer = ckpt("-s", sample, "show", "trip-to-kyoto", "--svg")
    picture = ElementTree.fromstring(answer.out)
    assert picture.tag == f"{SVG}svg"
    assert picture[0].text == "Checkpoints of thread trip-to-kyoto"
    assert picture[1].text is not None
    assert "20 checkpoints · 2 branches · 1 subgraph call · done" in picture[1].text
    shown = [one for one in texts(picture) if not one.startswith("20")]
    assert "f169  12  reply → END  ● head" in shown
    drawn = ckpt("-s", sample, "show", "trip-to-kyoto", "--tree", "-o", "table").out.splitlines()
    # Below the header and the date, above the hint.
    assert len(shown) == len(drawn[3:-2])
    for line, printed in zip(shown, drawn[3:], strict=False):
        assert line.split()[0] in printed


def test_each_checkpoint_is_joined_to_its_parent(sample: Path) -> None:
    found = ckpt("-s", sample, "show", "trip-to-kyoto", "--svg", "--unfold", "--ns", "")
    picture = ElementTree.fromstring(found.out)
    edges = [one.get("d", "") for one in picture.iter(f"{SVG}path") if one.get("class") == "edge"]
    # One for each checkpoint but the first; a curve for each that leaves its column.
    assert len(edges) == 15
    assert sum("Q" in one for one in edges) == 1


@pytest.mark.parametrize("name", ["<script>x</script>", "]]>&amp;\"'", "\x00\u202e\ufffe\ud800"])
def test_labels_stay_text(name: str) -> None:
    plan = plan_tree([Skeleton("", "1", None, marked=True)])
    picture = draw(plan, name)
    assert [one.tag for one in picture.iter() if "script" in one.tag] == []
    visible = name.translate({0: "\\x00", 0x202E: "\\u202e", 0xFFFE: "\\ufffe", 0xD800: "\\ud800"})
    assert any(visible in one for one in texts(picture))


def test_long_runs_are_folded_and_large_trees_bounded() -> None:
    run = [Skeleton("", f"{n:05}", f"{n - 1:05}" if n else None) for n in range(10_000)]
    assert len(texts(draw(plan_tree(run)))) < 10
    forked = [Skeleton("", f"{n:05}", "00000" if n else None) for n in range(2_000)]
    plan = plan_tree(forked)
    drawn = draw_tree(tree_of("a", plan, {}, {}), UTC)
    assert drawn.left_out == 2_000 - MOST_ROWS
    picture = draw(plan)
    assert f"{drawn.left_out} earlier rows left out" in texts(picture)[0]
    assert len(list(picture.iter(f"{SVG}circle"))) == MOST_ROWS


def test_deep_trees_stay_in_the_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(svg, "_LANES", 5)
    # Each checkpoint has a child that ends there, and one from which the next fork comes.
    nested = [Skeleton("", f"{n:03}", f"{(n - 1) // 2:03}" if n else None) for n in range(63)]
    picture = draw(plan_tree(nested))
    width = float(picture.get("width", "0"))
    assert all(0 < float(one.get("cx", "-1")) < width for one in picture.iter(f"{SVG}circle"))
