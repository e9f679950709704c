"""The handles of a store, its threads and its checkpoints, and the values that they give."""

import re
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, date, datetime
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, TypedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import interrupt
from textual.color import Color

import ckpt_cli
from ckpt_backends import codec
from ckpt_backends.codec.values import Cut, Opaque, Tagged, Value
from ckpt_cli import StoreHandle
from ckpt_cli.api.answer import plain, to_json
from ckpt_cli.render.report import STYLES
from ckpt_cli.tui.styles import contrast
from tests.kit.agents.small import beside, running

TRIP = "trip-to-kyoto"


@pytest.fixture
def store(sample: Path) -> Iterator[StoreHandle]:
    with ckpt_cli.open(sample) as opened:
        yield opened


def test_the_import_alone_loads_neither_drivers_nor_the_parser() -> None:
    code = (
        "import sys, ckpt_cli; print(sorted({'typer', 'rich', 'sqlite3', 'ormsgpack'}"
        " & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_threads_and_checkpoints_are_found_and_equal(store: StoreHandle, sample: Path) -> None:
    assert TRIP in store
    assert "trip-to-osaka" not in store
    assert (store[TRIP].checkpoint_count, store.newest().id) == (20, next(iter(store)).id)
    assert TRIP in {thread.id for thread in store}
    with pytest.raises(ckpt_cli.NotFound, match="no thread 'trip-to-kyot'") as error:
        _ = store["trip-to-kyot"]
    assert error.value.hint == "did you mean 'trip-to-kyoto'?"
    thread = store[TRIP]
    head, parent = thread.head, thread.at("~1")
    assert (head.step, parent.step) == (12, 11)
    assert head.parent is not None
    assert head.parent.id == parent.id
    assert [one.id for one in parent.children] == [head.id]
    assert store.at(f"{TRIP}@b955d").id == thread["b955d"].id
    assert (thread.at(as_of=head.ts).id, thread.at(as_of="2200-01-01").id) == (head.id, head.id)
    assert head.ts is not None
    assert thread[head.ts].id == thread.at(head.ts).id == head.id
    assert thread[date(2200, 1, 1)].id == head.id
    with pytest.raises(ckpt_cli.NotFound):
        thread.at("step:99")
    with pytest.raises(ckpt_cli.UsageError, match="cannot be combined"):
        thread.at("step:3", as_of="1h")
    assert (thread == store[TRIP], thread == TRIP) == (True, False)
    assert head == thread.at("step:12") != parent
    assert len({head, store.at(TRIP), parent}) == 2
    with ckpt_cli.open(sample) as other:
        assert other[TRIP] != thread
        assert other[TRIP].head != head


def test_the_facts_of_a_checkpoint_and_public_names(store: StoreHandle, sample: Path) -> None:
    head = store["refund-4711"].head
    assert head.status == store["refund-4711"].status == "interrupted"
    assert head.conditions == ["interrupted"]
    assert head.next == head.waiting == ["ask_approval"]
    assert [one["answered"] for one in head.interrupts] == [False]
    assert [task["node"] for task in head.tasks] == ["ask_approval"]
    assert (head.source, head.metadata["step"], head.step) == ("loop", 3, 3)
    assert head.ts is not None
    assert head.ts.tzinfo is UTC
    assert [one["channel"] for one in head.writes] == ["__interrupt__"]
    assert head.rebuilt == {}
    assert (len(head.diff()), dict(head.diff())) == (3, head.diff().to_dict())
    assert repr(head) == f"<CheckpointHandle refund-4711@{head.id}>"
    assert str(sample) in repr(store)
    thread = store[TRIP]
    assert thread.at(ns="planner").ns == thread.namespaces[1]
    with pytest.raises(ckpt_cli.NotFound):
        head.get("nothing")
    # Only public names can be imported.
    assert all(getattr(ckpt_cli, name) is not None for name in ckpt_cli.__all__)
    assert dir(ckpt_cli) == sorted(ckpt_cli.__all__)
    with pytest.raises(AttributeError, match="no attribute 'rollback'"):
        _ = ckpt_cli.rollback


@pytest.mark.parametrize("opened", [ckpt_cli.open, ckpt_cli.open_memory])
def test_errors_hide_what_comes_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opened: Callable[..., object]
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ckpt_cli.UsageError, match="no store given"):
        opened()
    monkeypatch.setenv("SECRET_HOST", "127.0.0.1")
    config = tmp_path / "own.toml"
    config.write_text('[stores.far]\nurl = "redis://${SECRET_HOST}:1/0"\n')
    with pytest.raises(ckpt_cli.StoreUnavailable) as error:
        opened("far", config=config)
    assert "127.0.0.1" not in f"{error.value} {error.value.hint}"


def test_a_store_is_named_as_on_the_command_line(
    sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "ckpt.toml"
    config.write_text(f'default = "agents"\n[stores.agents]\nurl = "{sample}"\n')
    for name in ("agents", None):
        with ckpt_cli.open(name, config=config) as opened:
            assert TRIP in opened
    monkeypatch.setenv("CKPT_STORE", str(sample))
    with ckpt_cli.open() as opened:
        assert TRIP in opened
    monkeypatch.setenv("CKPT_STORE", str(tmp_path / "none.db"))
    with pytest.raises(ckpt_cli.StoreUnavailable, match="named by CKPT_STORE"):
        ckpt_cli.open()


def test_a_drawing_in_the_terminal_holds_no_control_characters(path: Path) -> None:
    with SqliteSaver.from_conn_string(str(path)) as saver:
        config: Any = {"thread_id": "\x1b[31m\u202et", "checkpoint_ns": ""}
        saver.put({"configurable": config}, empty_checkpoint(), {"step": 0, "source": "input"}, {})
    with ckpt_cli.open(path) as store:
        thread = store.newest()
        assert repr(thread) == r"<ThreadHandle \x1b[31m\u202et>"
        assert repr(thread.head).startswith(r"<CheckpointHandle \x1b[31m\u202et@")


def test_a_state_that_cannot_be_read_is_not_an_empty_one(sample: Path) -> None:
    with ckpt_cli.open(sample, redact=True) as opened, pytest.raises(ckpt_cli.UsageError):
        opened[TRIP].head.raw()
    with closing(sqlite3.connect(sample)) as database, database:
        database.execute("UPDATE checkpoints SET checkpoint = x'c1' WHERE thread_id = ?", (TRIP,))
    with ckpt_cli.open(sample) as store, pytest.raises(ckpt_cli.Unreadable):
        _ = store[TRIP].head.values


OPAQUE = Opaque("pickle", 3, "00", "a pickle")
_STEPS: Any = ("a",)
_SET: Any = {1}
_CUT_SET = Cut([_SET], 9, "too long")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Tagged("builtins.tuple", [1, Tagged("builtins.tuple", [2])]), (1, (2,))),
        (Tagged("builtins.frozenset", [1]), frozenset({1})),
        (
            Tagged("datetime.datetime", "2026-04-07T10:00:00+00:00"),
            datetime(2026, 4, 7, 10, tzinfo=UTC),
        ),
        (Tagged("builtins.set", [[1]]), Tagged("builtins.set", [[1]])),
        (Tagged("builtins.set", [1, True]), Tagged("builtins.set", [1, True])),
        (
            Tagged("app.Plan", {"steps": Tagged("builtins.tuple", ["a"])}),
            Tagged("app.Plan", {"steps": _STEPS}),
        ),
        ({Tagged("builtins.tuple", [1, 2]): b"x"}, {(1, 2): b"x"}),
        (Cut([Tagged("builtins.set", [1])], 9, "too long"), _CUT_SET),
        ([OPAQUE, None, True, 1.5], [OPAQUE, None, True, 1.5]),
    ],
)
def test_examples(value: Value, expected: Any) -> None:
    found = plain(value)
    assert found == expected
    assert type(found) is type(expected)
    assert to_json(found) == codec.to_json(value)


_PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(_PLAIN)
def test_what_is_plain_stays_as_it_is(value: Value) -> None:
    assert plain(value) == value
    assert to_json(value) == codec.to_json(value)


@given(st.lists(_PLAIN), st.sampled_from(["builtins.set", "builtins.tuple", "os.system", "x"]))
def test_no_object_is_lost_or_made(payload: list[Value], name: str) -> None:
    found = plain(Tagged(name, payload))
    assert isinstance(found, tuple | set | Tagged)
    if isinstance(found, Tagged):
        assert found == Tagged(name, payload)


# In a notebook: what a store holds is text, never a tag, a style or an escape


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
    for tag, own in spans:
        assert tag == "span"
        assert [one for one, _ in own] == ["style"]
        assert own[0][1] in styles
    for character in "\x1b\u202e\u2066\r":
        assert character not in found.text
    return found


class State(TypedDict, total=False):
    text: Any


def fill_with(path: Path, hostile: str) -> None:
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
    fill_with(tmp_path / "agent.db", hostile)
    with ckpt_cli.open(tmp_path / "agent.db") as store:
        thread = store.newest()
        tree, state = parsed(thread).text, parsed(thread.head).text
        if hostile.isprintable():
            assert hostile in tree.splitlines()[0]
            assert hostile in state
        for checkpoint in thread.history():
            parsed(checkpoint)


def test_the_drawings_are_those_of_the_commands_and_notes_have_no_escapes(
    sample: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with ckpt_cli.open(sample) as store:
        store.newest()
        assert not caplog.records
        store._around.note("\x1b[31mred\nlines")
    assert r"\x1b[31mred\nlines" in caplog.text
    assert "\x1b" not in caplog.text
    # The drawings are those of the commands.
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
