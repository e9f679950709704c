"""What a store holds is text in a notebook, never a tag, a style or an escape."""

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, TypedDict

import pytest
from langgraph.types import interrupt
from textual.color import Color

import ckpt_cli
from ckpt_cli.render.report import STYLES
from ckpt_cli.tui.styles import contrast
from tests.kit.agents.small import beside, running

HOSTILE = [
    "<script>alert(1)</script>",
    "</pre><img src=x onerror=alert(1)>",
    '" onmouseover="alert(1)',
    "&lt;i&gt; &amp; &#60;u&#62;",
    "<!-- ",
    "\x1b[31mred\x1b[0m",
    "\u202ereversed\u2066",
    "two\nlines\rand\tmore",
]


class _Tags(HTMLParser):
    """Collects the tags with their attributes, and the text, as a browser sees them."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, tuple[tuple[str, str | None], ...]]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, tuple(attrs)))
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data

    def forbidden(self, data: str) -> None:
        pytest.fail(f"a comment, a declaration or an instruction: {data!r}")

    handle_comment = unknown_decl = handle_pi = forbidden

    def handle_decl(self, decl: str) -> None:
        self.forbidden(decl)


def parsed(shown: Any) -> _Tags:
    """Return what is in the HTML of a handle, after checking that each tag is one of ours."""
    found = _Tags(shown._repr_html_())
    (name, attributes), *spans = found.tags
    assert (name, [one for one, _ in attributes]) == ("pre", ["style"])
    assert found.open == []
    styles = set(STYLES.values())
    for tag, given in spans:
        assert tag == "span"
        assert [one for one, _ in given] == ["style"]
        assert given[0][1] in styles
    for character in "\x1b\u202e\u2066\r":
        assert character not in found.text
    return found


class State(TypedDict, total=False):
    text: Any


def fill(path: Path, hostile: str) -> None:
    """A thread with a hostile id, node, channel value, metadata, question and error."""

    def ask(state: State) -> State:
        return {"text": interrupt({hostile: hostile})}

    def fail(state: State) -> State:
        raise ValueError(hostile)

    config = {"configurable": {"thread_id": hostile}, "metadata": {"note": hostile}}
    graph = beside(State, {f"ask {hostile}": ask, f"fail {hostile}": fail})
    with running(path, graph) as agent, pytest.raises(ValueError, match=re.escape(hostile)):
        agent.invoke({"text": [hostile, {hostile: hostile}]}, config)


@pytest.mark.parametrize("hostile", HOSTILE)
def test_nothing_in_a_store_becomes_a_tag(tmp_path: Path, hostile: str) -> None:
    fill(tmp_path / "agent.db", hostile)
    with ckpt_cli.open(tmp_path / "agent.db") as store:
        thread = store.newest()
        tree, state = parsed(thread).text, parsed(thread.head).text
        if hostile.isprintable():
            assert hostile in tree.splitlines()[0]
            assert hostile in state
        for checkpoint in thread.history():
            parsed(checkpoint)


def test_notes_are_logged_without_escapes(sample: Path, caplog: pytest.LogCaptureFixture) -> None:
    with ckpt_cli.open(sample) as store:
        store.newest()
        assert not caplog.records
        store._around.note("\x1b[31mred\nlines")
    assert r"\x1b[31mred\nlines" in caplog.text
    assert "\x1b" not in caplog.text


def test_the_drawings_are_those_of_the_commands(sample: Path) -> None:
    with ckpt_cli.open(sample) as store:
        thread = store["trip-to-kyoto"]
        assert parsed(thread).text == thread.tree()
        assert "Hotel Kanra Kyoto" in parsed(thread.head).text
        assert len(parsed(thread).tags) > 10


def test_colours_are_legible_on_white_and_on_black_pages() -> None:
    colours = {one for style in STYLES.values() for one in re.findall(r"#\w{6}", style)}
    assert len(colours) > 4
    for colour in map(Color.parse, colours):
        for page in ("#ffffff", "#111111"):
            assert contrast(colour, Color.parse(page)) > 4, colour
