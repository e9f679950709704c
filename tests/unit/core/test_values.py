"""Values as text and on a screen: paths to them, what is cut of them, and their JSON."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpt_backends.codec.values import Cut, Opaque, Tagged, Value
from ckpt_backends.errors import NotFound, UsageError
from ckpt_cli.core.values import (
    LONGEST,
    MOST,
    PAGE,
    All,
    Path,
    Step,
    clip,
    clip_state,
    first_step,
    format_path,
    parse_path,
    select,
)
from tests.kit.cases import cases

STATE: dict[Value, Value] = {
    "messages": [
        Tagged("langchain_core.messages.human.HumanMessage", {"content": "hi", "type": "human"}),
        Tagged(
            "langchain_core.messages.ai.AIMessage",
            {"content": "yes", "type": "ai", "tool_calls": [{"name": "look_up", "args": {}}]},
        ),
    ],
    "odd.key": {"a b": 1, 'q"': 2, "": 3, 7: "seven"},
    "files": [],
    "big": Cut([1, 2], 9000, "too long"),
    "raw": Opaque("pickle", 10, "ab", "pickle is off"),
    "n": 1,
}


def found(text: str) -> list[Value]:
    return [selected.value for selected in select(STATE, parse_path(text))]


@cases(
    "text path",
    ("messages[-1].content", ("messages", -1, "content")),
    ('a.b[0]["odd.key"]', ("a", "b", 0, "odd.key")),
    ("[-1]", (-1,)),
    (".", ()),
    ("messages[].content", ("messages", All.ALL, "content")),
    ('."a b".c', ("a b", "c")),
    (""""a.b".c."d.e"[0].'f.g'""", ("a.b", "c", "d.e", 0, "f.g")),
    (r'["a\"]\n"]', ('a"]\n',)),
    (".[0].[]", (0, All.ALL)),
)
def test_paths_are_read(text: str, path: Path) -> None:
    assert parse_path(text) == path


WRONG = ["", "a.", "a..b", "a[", "a[x]", "a[1", "[0]a", "a b", 'a["x]', r'a["\q"]', "a[1.5]", " a"]


@pytest.mark.parametrize("text", [*WRONG, 'a"b"', "a.'b"])
def test_a_path_that_cannot_be_read_is_a_usage_error_with_an_example(text: str) -> None:
    with pytest.raises(UsageError) as error:
        parse_path(text)
    assert "messages[-1].content" in (error.value.hint or "")


STEPS: st.SearchStrategy[Step] = st.one_of(
    st.text(max_size=5), st.text("a.[]\"'\\ ", max_size=5), st.integers(-9, 9), st.just(All.ALL)
)


@given(st.lists(STEPS, max_size=5).map(tuple))
def test_a_path_written_out_is_read_as_the_same(path: Path) -> None:
    assert parse_path(format_path(path)) == path


@cases(
    "text values",
    ("messages[].content", ["hi", "yes"]),
    ("messages[].tool_calls[].name", ["look_up"]),
    ('["odd.key"][7]', ["seven"]),
    ('["odd.key"][]', [1, 2, 3, "seven"]),
    ("files[]", []),
    ("big[1]", [2]),
)
def test_a_path_leads_to_values(text: str, values: list[Value]) -> None:
    assert found(text) == values


def test_places_and_first_steps_are_named() -> None:
    places = select(STATE, parse_path("messages[].content"))
    assert [format_path(one.path) for one in places] == [f"messages[{n}].content" for n in (0, 1)]
    assert select(STATE, parse_path("messages[-1]"))[0].path == ("messages", 1)
    assert first_step("messages[3].content") == "messages"
    assert first_step("messages 0-99") == "messages"
    assert first_step('["odd key"][0] fields') == "odd key"
    assert first_step(" x") is None


@cases(
    "text message hint",
    ("mesages", "no 'mesages' in the state", "it has messages, '[\"odd.key\"]', files"),
    ("messages[0].text", "no 'text' in 'messages[0]'", "it has content, type"),
    ("messages[2]", "no '[2]' in 'messages'", "it is a list of 2 items: [0] to [1]"),
    ("messages.content", "no 'content' in 'messages'", "or [] for all"),
    ("n.x", "no 'x' in 'n'", "it is a single value (int)"),
    ("n[]", "no '[]' in 'n'", "it is a single value (int)"),
    ("messages[].nope", "no 'nope' in 'messages[0]'", "it has content, type"),
    ("raw.x", "no 'x' in 'raw'", "it was not read: pickle is off"),
    ("big[2]", "no '[2]' in 'big'", "2 items: [0] to [1], or [] for all (it was cut)"),
)
def test_a_path_that_leads_nowhere_says_what_is_there(text: str, message: str, hint: str) -> None:
    with pytest.raises(NotFound) as error:
        found(text)
    assert error.value.message == message
    assert hint in (error.value.hint or "")


def test_a_long_text_or_item_is_cut_wherever_it_stands() -> None:
    found = clip(Tagged("a.B", {"text": "x" * (LONGEST + 1), "short": "y"}))
    cut = Cut("x" * LONGEST, LONGEST + 1, "only its beginning is shown", "character")
    assert found == Tagged("a.B", {"text": cut, "short": "y"})
    found = clip([[n] * 10 for n in range(MOST)])
    assert isinstance(found, Cut)
    assert isinstance(found.kept, list)
    assert sum(1 + len(one) for one in found.kept if isinstance(one, list)) <= MOST
    assert found.reason == f"its first {len(found.kept):,} are shown"


def test_a_page_keeps_the_end_of_a_list_and_the_beginning_of_all_else() -> None:
    messages: Any = [{"type": "human", "content": f"{n}"} for n in range(1000)]
    found, is_cut = clip_state(messages)
    assert is_cut
    assert isinstance(found, Cut)
    assert found.kept == messages[-len(found.kept) :]  # type: ignore[arg-type]
    assert 10 < len(found.kept) < PAGE.parts  # type: ignore[arg-type]
    assert (found.size, found.unit) == (1000, "item")
    assert clip_state(b"x" * 65) == (Cut(b"x" * 64, 65, "only its beginning is shown"), True)
    small: list[Any] = [[1, [2, {"a": b"x"}]], {"a": Cut("ab", 9, "cut before")}, [], None]
    assert [clip_state(one) for one in small] == [(one, False) for one in small]
    found, _ = clip_state([{"n": 1}, list(range(1000))])
    assert isinstance(found, Cut)
    assert found.reason == "its last one is shown"
