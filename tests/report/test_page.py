"""What the page of `ckpt report` holds, read without a browser."""

from __future__ import annotations

import re
import shlex
import sys
import time
from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, StateGraph
from langgraph.types import interrupt
from typing_extensions import TypedDict

import ckpt_cli
from ckpt_backends.testing.scenarios import graphs
from ckpt_cli.core.redact import REDACTED
from ckpt_cli.render import report as checkpoints_module
from ckpt_cli.render.report import LARGEST_CHANNEL, LONGEST_TEXT
from tests.kit.command import FIXTURES, ckpt, copy_store, first_now
from tests.kit.reports import data_of, states
from tests.kit.savers.three_table import MARKS, connected, engine_of
from tests.kit.savers.three_table import maker as tables_maker
from tests.kit.terminal import SLOW, ckpt_in_terminal, in_terminal

ERAS = ["lg-1.2.22", "lg-0.2.14", "js-1.7.3"]


def report(store: Path, *words: str) -> str:
    answer = ckpt("-s", store, "report", *words)
    assert answer.code == 0, answer.err
    return answer.out


@pytest.mark.parametrize("era", first_now(ERAS))
def test_states_are_those_of_show(era: str, tmp_path: Path) -> None:
    (source,) = (FIXTURES / era).glob("*.db")
    compare_with_show(copy_store(source, tmp_path))


@pytest.mark.engines
def test_states_are_those_of_show_where_a_checkpoint_has_only_values(tmp_path: Path) -> None:
    url = str(tmp_path / "store.db")
    with connected(url) as execute:
        tables_maker().fill(engine_of(url), execute, mark=MARKS[engine_of(url)])
    compare_with_show(tmp_path / "store.db")


def compare_with_show(store: Path) -> None:
    """Compare the states of all checkpoints of a store."""
    with ckpt_cli.open(str(store)) as opened:
        for thread in opened.threads():
            data = data_of(thread.report(all_ns=True, last=10_000))
            found = data["checkpoints"]
            assert len(found) == thread.checkpoint_count
            stored = {(one.ns, one.id): one for one in thread.history(all_ns=True)}
            ids = [(one["ns"], one["id"]) for one in found]
            assert set(ids) == set(stored)
            for key, state in zip(ids, states(data), strict=True):
                assert state == stored[key].to_dict()["values"], (thread.id, key)


def test_changes_are_those_of_diff(sample: Path) -> None:
    with ckpt_cli.open(str(sample)) as opened:
        thread = opened["trip-to-kyoto"]
        for one in data_of(thread.report(last=3))["checkpoints"]:
            channels = thread.at(one["id"]).diff()["channels"]
            named = [text for line in one["changes"] for style, text in line if style == "head"]
            assert named == list(channels)


def test_it_opens_at_the_named_checkpoint(sample: Path) -> None:
    data = data_of(report(sample, "trip-to-kyoto@step:4", "--last", "2"))
    shown = data["checkpoints"][data["start"]]
    assert shown["step"] == 4
    assert len(data["checkpoints"]) == 3
    assert "state" in shown


def test_what_is_left_out_is_said_in_the_page_and_on_stderr(sample: Path) -> None:
    answer = ckpt("-s", sample, "report", "trip-to-kyoto", "--last", "5")
    for text in (answer.out, answer.err):
        assert "11 older checkpoints not included; --last N adds more" in text
        assert "4 checkpoints in other namespaces not included; --all-ns adds them" in text
    assert len(data_of(answer.out)["checkpoints"]) == 5
    later = ckpt("-s", sample, "report", "trip-to-kyoto", "--since", "2100-01-01")
    assert len(data_of(later.out)["checkpoints"]) == 1
    assert "not included; an earlier --since adds more" in later.err
    whole = ckpt("-s", sample, "report", "trip-to-kyoto", "--all-ns")
    assert "not included" not in whole.out + whole.err


def test_bars_in_a_call_that_is_not_over_begin_with_it(tmp_path: Path) -> None:
    class State(TypedDict):
        n: int

    inner = StateGraph(State)
    inner.add_node("look", lambda _: time.sleep(0.05))
    inner.add_node("ask", lambda _: interrupt("how many?"))
    inner.add_edge(START, "look")
    inner.add_edge("look", "ask")
    outer = StateGraph(State)
    outer.add_node("plan", lambda _: time.sleep(0.2))
    outer.add_node("research", inner.compile())
    outer.add_edge(START, "plan")
    outer.add_edge("plan", "research")
    file = tmp_path / "store.db"
    with SqliteSaver.from_conn_string(str(file)) as saver:
        graph = outer.compile(checkpointer=saver)
        graph.invoke({"n": 1}, {"configurable": {"thread_id": "t"}})
    (row,) = (row for row in report(file, "t").split("<tr>") if ">look<" in row)
    begins = re.search(r'class="run" x="([\d.]+)"', row)
    assert begins is not None
    assert float(begins[1]) < 50


def test_what_is_wrong_comes_first(sample: Path) -> None:
    failed = report(sample, "invoice-import")
    assert failed.index("match_supplier failed") < failed.index("Checkpoints</h2>")
    assert "graph.invoke(None, config)" in failed
    assert "rollback --last-good --dry-run invoice-import" in failed
    asked = report(sample, "refund-4711")
    assert "ask_approval asks" in asked
    assert "Command(resume=" in asked


def test_no_value_is_in_a_redacted_page(sample: Path) -> None:
    open_page, page = report(sample, "refund-4711"), report(sample, "refund-4711", "--redact")
    assert "89.00" in open_page
    assert "89.00" not in page
    for state in states(data_of(page)):
        assert state is not None
        assert all(value["$type"] == REDACTED for value in state.values())


def test_only_its_own_script_and_style_may_run(sample: Path) -> None:
    page = report(sample, "trip-to-kyoto")
    (policy,) = re.findall('Content-Security-Policy" content="([^"]+)"', page)
    style, script = (
        re.search(f"<{tag}>(.*?)</{tag}>", page, re.DOTALL) for tag in ("style", "script")
    )
    assert style is not None
    assert script is not None
    assert policy.split("; ")[:3] == [
        "default-src 'none'",
        f"script-src 'sha256-{_hash(script[1])}'",
        f"style-src 'sha256-{_hash(style[1])}'",
    ]
    assert "unsafe" not in policy
    assert not re.search(r"""(src|href)=["']?(https?:|//|file:)""", page)
    assert "innerHTML" not in page
    assert not re.search(r"\s(style|on\w+)=", page.partition("<body>")[2].partition("<script")[0])


def _hash(text: str) -> str:
    return b64encode(sha256(text.encode()).digest()).decode()


def test_data_cannot_end_its_script(tmp_path: Path) -> None:
    text = "</script><!--<script>&\u2028\u2029\u202e"
    store = tmp_path / "agent.db"
    with SqliteSaver.from_conn_string(str(store)) as saver:
        config: Any = {"configurable": {"thread_id": "t"}}
        graphs.linear(saver).update_state(config, {"items": [text]}, as_node="read")
    # It is read only if nothing but Base64 stands in its element.
    (state,) = states(data_of(report(store, "t")))
    assert state is not None
    assert state["items"] == [text]


def test_large_values_are_cut_and_say_so(tmp_path: Path) -> None:
    store = tmp_path / "agent.db"
    with SqliteSaver.from_conn_string(str(store)) as saver:
        graph = graphs.linear(saver)
        for name, items in (("long", ["x" * 100_000]), ("many", list(map(str, range(300_000))))):
            config: Any = {"configurable": {"thread_id": name}}
            graph.update_state(config, {"items": items}, as_node="read")
    (state,) = states(data_of(report(store, "long")))
    assert state is not None
    cut = state["items"][0]["$cut"]
    assert cut == {"kept": "x" * LONGEST_TEXT, "reason": "100000 characters in all"}
    page = report(store, "many")
    (state,) = states(data_of(page))
    assert state is not None
    assert state["items"]["$cut"]["reason"] == "2.5 MiB of JSON in all"
    assert len(page) < LARGEST_CHANNEL


@pytest.mark.slow
def test_long_errors_and_metadata_are_cut(tmp_path: Path) -> None:
    class Said(TypedDict):
        a: int

    def fail(state: Said) -> None:
        raise ValueError("x" * 1_000_000)

    store = tmp_path / "agent.db"
    with SqliteSaver.from_conn_string(str(store)) as saver:
        graph = StateGraph(Said)
        graph.add_node("fail", fail)
        graph.add_edge(START, "fail")
        config: Any = {"configurable": {"thread_id": "long"}, "metadata": {"y": "y" * 1_000_000}}
        with pytest.raises(ValueError, match="xxx"):
            graph.compile(saver).invoke({"a": 1}, config)
    page = report(store, "long")
    assert "more characters" in page
    assert len(page) < 20 * LONGEST_TEXT


def test_a_full_page_keeps_the_newest_states(sample: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = states(data_of(report(sample, "trip-to-kyoto")))
    monkeypatch.setattr(checkpoints_module, "MOST_BYTES", 12_000)
    answer = ckpt("-s", sample, "report", "trip-to-kyoto")
    kept = states(data_of(answer.out))
    missing = kept.count(None)
    assert 0 < missing < len(kept)
    assert f"{missing} oldest checkpoints listed without state" in answer.err
    assert kept == [None] * missing + whole[missing:]


def test_progress_is_shown_on_a_terminal_and_the_page_goes_to_the_file(
    sample: Path, tmp_path: Path
) -> None:
    file = tmp_path / "incident.html"
    program = f"{SLOW}\nfrom ckpt_cli.__main__ import main\nmain()"
    command = [sys.executable, "-c", program, "-s", str(sample), "report", "trip-to-kyoto"]
    code, shown = in_terminal(["sh", "-c", f"{shlex.join(command)} > {shlex.quote(str(file))}"])
    assert (code, "reading checkpoints" in shown) == (0, True)
    assert file.read_text("utf-8").startswith("<!doctype html>")


def test_a_terminal_and_other_formats_are_refused(sample: Path) -> None:
    code, shown = ckpt_in_terminal("-s", sample, "report", "trip-to-kyoto")
    assert code == 2
    assert "hint: redirect it: ckpt report ... > incident.html" in shown
    for form in ("json", "ndjson", "tsv"):
        assert ckpt("-s", sample, "report", "trip-to-kyoto", "-o", form).code == 2


class _Elements(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))


def test_it_has_landmarks_and_labels(sample: Path) -> None:
    parser = _Elements()
    parser.feed(report(sample, "invoice-import"))
    tags = [tag for tag, _ in parser.seen]
    assert [tags.count(one) for one in ("h1", "main", "header", "footer", "title")] == [1] * 5
    assert ("html", {"lang": "en"}) in parser.seen
    ids = [attributes["id"] for _, attributes in parser.seen if "id" in attributes]
    assert len(set(ids)) == len(ids)
    for tag, attributes in parser.seen:
        if tag in {"button", "input"} or attributes.get("role") in {"img", "group", "region"}:
            assert attributes.get("aria-label"), (tag, attributes)
        if tag == "section":
            assert attributes["aria-labelledby"] in ids
