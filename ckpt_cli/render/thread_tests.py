"""Threads as files of pytest, and what was written of each."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from ckpt_cli.render.fields import Field, Shape
from ckpt_cli.render.table import THREAD, Column
from ckpt_cli.render.types import INTEGER, TEXT

_LEFT_OUT = Shape(
    "A task, or a thread, of which no test is written.",
    Field("what", TEXT, "The task, such as `agent, step 3`; `thread` for the whole thread."),
    Field("reason", TEXT, "Why."),
)
_MARKED = Shape(
    "A test that is marked `xfail`.",
    Field("test", TEXT, "The test function."),
    Field("reason", TEXT, "How it failed."),
)
WRITTEN_TESTS = Shape(
    "A thread whose tests were written.",
    Field("thread_id", TEXT, "Thread."),
    Field("file", TEXT, "The test file.", lambda one: str(one.path)),
    Field("data", TEXT, "The JSON file with its values.", lambda one: str(one.data_path)),
    Field("tests", INTEGER, "Test functions.", lambda one: len(one.names)),
    Field("failing", TEXT.list, "Tests of tasks that failed: they fail until that is mended."),
    Field("marked", _MARKED.list, "Tests that did not pass twice; [] without --check."),
    Field("left_out", _LEFT_OUT.list, "Of what no test is written."),
)
WRITTEN_TESTS_COLUMNS = (
    THREAD,
    Column("TESTS", "tests", right=True),
    Column("FAILING", "failing", lambda names: str(len(names)), right=True),
    Column("MARKED", "marked", lambda marks: str(len(marks)), right=True),
    Column("LEFT OUT", "left_out", lambda parts: str(len(parts)), right=True),
    Column("FILE", "file"),
)
_WIDTH = 100
_LONG = 72
"""Characters of a text of the thread in a docstring."""
_STEPS = 20
"""Steps that a test spells out; of longer threads, they stand in the JSON file only."""


def source(
    form: Mapping[str, Any],
    tested: Collection[str],
    graph: str,
    data_name: str,
    marks: Mapping[str, str],
) -> str:
    """Return the test file of a thread, as Python source.

    `form` is what `spelled` returns, `tested` the names of its tasks with a test, `data_name` that
    of the JSON file. `marks` has the reasons of the tests that are expected to fail, by test name.
    What comes from the thread stands in texts and comments only.
    """
    lines = [*_heading(form, data_name), ""]
    if marks:
        lines += ["import pytest", ""]
    lines += ["from ckpt_cli.testing import ThreadRecording", ""]
    lines += [f"RECORDING = ThreadRecording(__file__, graph={literal(graph)})"]
    return "\n".join([*lines, *_functions(form, tested, marks)]) + "\n"


def pasted(form: Mapping[str, Any], tested: Collection[str], graph: str) -> str:
    """Return the same tests with their values in the Python source, to paste it into any file."""
    lines = ["from ckpt_cli.testing import ThreadRecording", "", "RECORDING = ThreadRecording("]
    lines += [f"    {spelled_python(form, 4)},", f"    graph={literal(graph)},", ")"]
    return "\n".join([*lines, *_functions(form, tested, {})]) + "\n"


def _functions(
    form: Mapping[str, Any], tested: Collection[str], marks: Mapping[str, str]
) -> Iterator[str]:
    """Yield the lines of the test functions, each behind two empty ones."""
    for name, body in tests(form, tested):
        yield from ("", "")
        if name in marks:
            yield f"@pytest.mark.xfail(strict=False, reason={literal(marks[name])})"
        yield f"def {name}() -> None:"
        yield from (f"    {one}" for one in body)


def tests(form: Mapping[str, Any], tested: Collection[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield the name of each test function, and the lines of its body."""
    if "test" in form:
        yield "test_thread", _thread_test(form["test"])
    used: Counter[str] = Counter()
    for task in form["tasks"]:
        if task["name"] not in tested:
            continue
        name = f"test_{slug(task['name'])}"
        used[name] += 1
        if used[name] > 1:
            name += f"_{used[name]}"
        yield name, _node_test(task, form["messages"])


def test_names(form: Mapping[str, Any], tested: Collection[str]) -> dict[str, str]:
    """Return test function to task, `thread` for the whole thread."""
    names = [name for name, _ in tests(form, tested)]
    tasks = [one["name"] for one in form["tasks"] if one["name"] in tested]
    return dict(zip(names, ["thread"] * ("test" in form) + tasks, strict=True))


def _heading(form: Mapping[str, Any], data_name: str) -> list[str]:
    saved = f", saved {form['saved'][:10]}" if "saved" in form else ""
    title = f": {_quoted(form['title'])}" if form.get("title") else "."
    return [
        f'"""Thread {_quoted(form["thread"])}{saved}{title}',
        "",
        "Written by `ckpt export --as pytest`; docs/tests.md of ckpt says how it runs.",
        f"The values are in {data_name}.",
        '"""',
    ]


def _thread_test(test: Mapping[str, Any]) -> list[str]:
    number = len(test["turns"])
    lines = [f'"""The whole thread: {number} input{"s" * (number > 1)}."""']
    lines.append("ran = RECORDING.thread()")
    steps = test.get("steps")
    if steps is not None:
        known = _list(steps) if len(steps) <= _STEPS else ["ran.recorded.steps"]
        lines += _asserted("ran.steps", known)
    lines.append("assert ran.state == ran.recorded.state")
    lines.append("assert ran.questions == ran.recorded.questions")
    return lines


def _node_test(task: Mapping[str, Any], messages: Mapping[str, Any]) -> list[str]:
    lines = [f'"""{_sentence(task, messages)}"""']
    call = f"RECORDING.node({literal(task['name'])})"
    asked = [one["question"] for one in task.get("asks", ())[-1:] if "question" in one]
    if "writes" not in task and not asked:
        return [*lines, call]
    lines.append(f"ran = {call}")
    if asked:
        is_short = isinstance(asked[0], str) and len(asked[0]) <= _LONG
        known = [literal(asked[0])] if is_short else ["ran.recorded.question"]
        lines += _asserted("ran.question", known)
    if "writes" in task:
        lines.append("assert ran.writes == ran.recorded.writes")
    if "next" in task:
        is_plain = all(isinstance(one, str) for one in task["next"])
        lines += _asserted("ran.next", _list(task["next"]) if is_plain else ["ran.recorded.next"])
    return lines


def _asserted(what: str, lines: Sequence[str]) -> list[str]:
    """Return an assertion of equality; on several lines if it does not fit on one."""
    whole = f"assert {what} == {''.join(lines)}" if len(lines) == 1 else ""
    joined = f"assert {what} == [{', '.join(lines[1:-1])}]" if len(lines) > 1 else whole
    if len(joined) <= _WIDTH - 12:
        return [joined]
    if len(lines) == 1:
        return [whole]
    return [f"assert {what} == [", *(f"    {one}," for one in lines[1:-1]), "]"]


def _list(texts: Iterable[str]) -> list[str]:
    return ["[", *map(literal, texts), "]"]


def _sentence(task: Mapping[str, Any], messages: Mapping[str, Any]) -> str:
    """Return in a sentence what a task did."""
    node, parts = _quoted(task["node"]), []
    for one in task.get("asks", ()):
        asks = f"asks {_quoted(one['question'])}" if _is_text(one.get("question")) else "asks"
        parts.append(f"{asks} and gets an answer" if "answer" in one else asks)
    if "error" in task:
        return f"{node} failed with {_quoted(task['error'])}: it must not."
    if "writes" in task:
        written = task["writes"] if isinstance(task["writes"], list) else [task["writes"]]
        names = dict.fromkeys(name for one in written for name in one)
        found = [one for some in written for one in _messages(some, messages)]
        last = found[-1] if found else {}
        # A node may return the whole conversation: what is new comes last.
        results = (
            [one for one in found if one["type"] == "tool"] if last.get("type") == "tool" else ()
        )
        if called := _called(last.get("tool_calls")):
            parts.append(f"calls {', '.join(map(_quoted, called))}")
        elif results:
            tools = dict.fromkeys(_quoted(one.get("name", "a tool")) for one in results)
            parts.append(f"gives the result of {', '.join(tools)}")
        elif last.get("type") == "ai" and _is_text(last["content"]):
            parts.append(f"says '{_quoted(last['content'])}'")
        else:
            listed = ", ".join(map(_quoted, names))
            parts.append(f"writes {listed}" if names else "writes nothing")
    return f"{node} {', then '.join(parts)}." if parts else f"{node} runs."


def _messages(form: Any, messages: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the messages in a form."""
    if isinstance(form, dict):
        if form.keys() <= {"$message", "$messages"}:
            yield from (messages[name] for name in " ".join(map(str, form.values())).split())
        else:
            for one in form.values():
                yield from _messages(one, messages)
    elif isinstance(form, list):
        for one in form:
            yield from _messages(one, messages)


def _called(calls: Any) -> list[str]:
    """Return the names of the tools that a message calls, as far as it is well-formed."""
    items = calls if isinstance(calls, list) else []
    found = [one.get("name") for one in items if isinstance(one, dict)]
    return [one for one in found if isinstance(one, str)]


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def slug(text: str) -> str:
    """Return a text as a part of a Python name."""
    return re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_") or "x"


def literal(text: str) -> str:
    """Return a text as a Python literal of ASCII and printable characters on one line."""
    shown = repr(text)
    if not shown.startswith('"'):
        inside = shown[1:-1].replace("\\'", "'").replace('"', '\\"')
        shown = f'"{inside}"'
    return shown


def _quoted(text: Any) -> str:
    """Return a text as a part of a docstring, cut to one line."""
    shown = " ".join(str(text).split())
    if len(shown) > _LONG:
        shown = f"{shown[:_LONG]}…"
    return repr(shown)[1:-1].replace("\\", "\\\\").replace('"', "'") or "''"


def spelled_json(form: Any, indent: int = 0) -> str:
    """Return JSON for people: what fits on a line stands on one."""
    return _spelled(form, indent, 1, lambda one: json.dumps(one, ensure_ascii=False), "")


def spelled_python(form: Any, indent: int = 0) -> str:
    """Return the same as a Python literal."""
    return _spelled(form, indent, 4, _python, ",")


def _spelled(form: Any, indent: int, by: int, line: Callable[[Any], str], end: str) -> str:
    text = line(form)
    if len(text) + indent < _WIDTH or not isinstance(form, dict | list) or not form:
        return text
    inner = indent + by
    if isinstance(form, dict):
        parts = [f"{line(key)}: {_spelled(one, inner, by, line, end)}" for key, one in form.items()]
    else:
        parts = [_spelled(one, inner, by, line, end) for one in form]
    left, right = "{}" if isinstance(form, dict) else "[]"
    lines = f",\n{' ' * inner}".join(parts)
    return f"{left}\n{' ' * inner}{lines}{end}\n{' ' * indent}{right}"


def _python(form: Any) -> str:
    match form:
        case str():
            return literal(form)
        case dict():
            return (
                f"{{{', '.join(f'{_python(key)}: {_python(one)}' for key, one in form.items())}}}"
            )
        case list():
            return f"[{', '.join(map(_python, form))}]"
    return repr(form)
