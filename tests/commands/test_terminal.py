"""What a person sees on a terminal: its size, the pager, the bar."""

import re
import sys
from pathlib import Path

import pytest

from tests.commands.words import refusals
from tests.kit.agents.small import chain, run
from tests.kit.command import ckpt, later
from tests.kit.terminal import QUICK, SLOW, ckpt_in_terminal, in_terminal


def paged(text: str) -> bool:
    return text.startswith("paged: ")


def test_what_is_longer_than_the_screen_is_paged(sample: Path) -> None:
    # A head and eight threads; the last line of the screen is the prompt's.
    for height in (10, 9):
        code, text = ckpt_in_terminal("-s", sample, "threads", "list", height=height)
        assert (code, paged(text), len(text.splitlines())) == (0, height == 9, 9)
    assert not paged(ckpt_in_terminal("-s", sample, "--no-pager", "threads", "list", height=2)[1])
    # A line that takes two lines of the screen counts twice.
    words = ("-s", sample, "show", "trip-to-kyoto", "--path", "messages[-1].id")
    _, text = ckpt_in_terminal(*words, width=80, height=3)
    assert not paged(text)
    _, text = ckpt_in_terminal(*words, width=len(text) // 3, height=3)
    assert paged(text)


BAR = """
import sys
from ckpt_cli.diagnostics import no_progress, progress

before = progress(range(3), total=3, label="before")
next(before)
with no_progress():
    sys.stdout.write("<answer>")
    sys.stdout.flush()
    list(before)
    list(progress(range(3), total=3, label="within"))
    sys.stdout.write("</answer>")
    sys.stdout.flush()
list(progress(range(3), total=3, label="after"))
"""
COUNTING = """
from collections import Counter
from ckpt_cli.diagnostics import progress
from ckpt_cli.render.values import progress_text

codes = Counter()
for code in progress(["clock-ahead", "parent-missing", "clock-ahead", "clock-ahead"], total=None,
                     label=lambda: progress_text("checking", codes)):
    codes[code] += 1
"""
SCAN = """
import sys
from ckpt_cli.render.text import color_chosen
from ckpt_cli.diagnostics import ScanBar

color_chosen.set(sys.argv[1])
bar = ScanBar(print)
bar.scanning("scanning", 1, 3)
bar.scanned("done")
"""
STYLE = re.compile(r"\x1b\[[0-9;]*m")
COLORS = [("auto", "", True), ("always", "1", True), ("never", "", False), ("auto", "1", False)]


@pytest.mark.parametrize(("when", "no_color", "styled"), COLORS)
def test_progress_is_styled_as_text(sample: Path, when: str, no_color: str, styled: bool) -> None:
    words = ("-s", sample, "--no-pager", "grep", "no such text", "--color", when)
    code, bar = ckpt_in_terminal(*words, begin=SLOW, NO_COLOR=no_color)
    assert (code, "searching threads" in bar) == (1, True)
    _, scan = in_terminal([sys.executable, "-c", SLOW + SCAN, when], NO_COLOR=no_color)
    assert "scanning" in scan
    assert [bool(STYLE.search(text)) for text in (bar, scan)] == [styled, styled]


def test_no_bar_is_drawn_over_an_answer() -> None:
    code, text = in_terminal([sys.executable, "-c", SLOW + BAR])
    before, _, rest = text.partition("<answer>")
    within, _, after = rest.partition("</answer>")
    assert code == 0
    assert "before" in before
    assert within == ""
    assert "after" in after


@pytest.mark.parametrize("program", [COUNTING, SCAN])
def test_a_bar_is_drawn_after_half_a_second_and_removed_at_the_end(program: str) -> None:
    code, text = in_terminal([sys.executable, "-c", QUICK + program, "auto"])
    assert (code, text.split()[0], "\x1b" in text) == (0, "0.5", False)
    code, text = in_terminal([sys.executable, "-c", SLOW + program, "auto"])
    drawn, _, rest = text.rpartition("\r\x1b[1A\x1b[2K")
    assert (code, drawn.count("\n"), rest.removesuffix("done\n")) == (0, 1, "")


ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32}")
"""Of a checkpoint, a task, an interrupt."""
PASTED = re.compile(r"undo +ckpt -s |config +\{")
"""Commands and configs are one line each, so that they can be pasted."""
PAGES = [
    *("show trip-to-kyoto --writes --metadata", "show trip-to-kyoto --tree --unfold --all-ns"),
    *("diff --writes trip-to-kyoto@step:8", "rollback trip-to-kyoto step:8 --dry-run"),
    *("threads list", "history research-agent --all-ns", "interrupts"),
    *later("diff trip-to-kyoto step:2 --stat", "replay trip-to-kyoto --verify", "stats", "du"),
    *later("copy trip-to-kyoto --as a-copy-of-it --dry-run"),
]


@pytest.mark.parametrize("words", PAGES)
def test_nothing_is_wider_than_a_narrow_terminal(words: str, sample: Path) -> None:
    command: list[str | Path] = ["-s", sample, "-q", "--no-pager", *words.split()]
    printed = ckpt_in_terminal(*command, width=40, height=500)[1]
    shown = [one for one in printed.splitlines() if "\x1b" not in one]  # no progress
    assert [one for one in shown if len(one) > 40 and PASTED.match(one) is None] == []
    whole = re.findall(r"\S*[0-9a-f]{8}-\S*", printed)
    assert [one for one in whole if ID.search(one) is None and "…" not in one] == []
    wide = ckpt_in_terminal(*command, width=200, height=500)[1]
    if "…" not in printed:
        assert set(ID.findall(wide)) <= set(ID.findall(printed))


def test_long_values_are_cut_on_a_terminal_and_nowhere_else(tmp_path: Path) -> None:
    store = tmp_path / "long.db"
    long = {"data": bytes(2048), "text": "a word\n" * 900}
    run(store, chain(dict, {"node": lambda _: long}), {})
    words = ("-s", store, "--no-pager", "show", "t")
    _, text = ckpt_in_terminal(*words)
    assert len(text.splitlines()) < 200
    assert "--full shows all" in text
    assert "(cut, 2.0 KiB in all: only its beginning is shown)" in text
    assert "(cut, 6,300 characters in all: only its beginning is shown)" in text
    _, full = ckpt_in_terminal(*words, "--full")
    _, channel = ckpt_in_terminal(*words, "--channel", "__root__")
    assert full.count("a word") == channel.count("a word") == 900
    piped = ckpt("-s", store, "show", "t", "-o", "table")
    assert (piped.out.count("a word"), "(cut" in piped.out) == (900, False)


# How `--watch` shows changes is tested in tests/screen/test_terminal.py
test_it_is_for_terminals_only = refusals(
    ("threads list --watch", 2, "--watch needs a terminal"),
    ("threads list --watch -o tsv", 2, "tail -o ndjson` prints what changes"),
    ("threads list --watch --interval 0", 2, "--interval"),
    ("threads list --watch --as-of 2h", 2, "--as-of"),
)
