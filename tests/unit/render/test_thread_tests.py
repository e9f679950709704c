"""Test files of threads: any text stays a text, and the values are the same in both forms."""

import ast
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ckpt_cli.render.thread_tests import literal, pasted, source, spelled_json, spelled_python

TEXTS = st.text(st.characters(exclude_categories=[]))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(TEXTS)
def test_a_literal_is_the_text_on_one_printable_line(text: str) -> None:
    shown = literal(text)
    assert ast.literal_eval(shown) == text
    assert shown.isprintable()


@given(VALUES)
def test_values_are_the_same_as_json_and_as_python(value: Any) -> None:
    assert json.loads(spelled_json(value)) == value
    assert ast.literal_eval(spelled_python(value)) == value


@given(TEXTS, TEXTS, TEXTS)
def test_a_file_is_python_that_only_records(thread: str, node: str, said: str) -> None:
    task = {"name": node, "node": node, "asks": [{"question": said}], "error": said, "next": [node]}
    form = {
        "ckpt_test": 1,
        "thread": thread,
        "title": said,
        "messages": {"m1": {"type": "ai", "content": said}},
        "tasks": [task, {**task, "name": "b", "writes": {node: {"$message": "m1"}}}],
    }
    for text in (source(form, [node, "b"], "a:b", "c.json", {}), pasted(form, [node, "b"], "a:b")):
        tree = ast.parse(text)
        calls = {ast.unparse(one.func) for one in ast.walk(tree) if isinstance(one, ast.Call)}
        assert calls == {"ThreadRecording", "RECORDING.node"}
        assert {type(one) for one in tree.body} <= {
            *(ast.Expr, ast.ImportFrom, ast.Assign, ast.FunctionDef)
        }
