"""What the page of `ckpt report` holds, read without a browser."""

import re
import shlex
import sys
import time
from base64 import b64encode
from contextlib import suppress
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from langgraph.types import interrupt

import ckpt_cli
from ckpt_backends.testing.scenarios import graphs
from ckpt_cli.core.redact import REDACTED
from ckpt_cli.render import report as checkpoints_module
from ckpt_cli.render.report import LARGEST_CHANNEL, LONGEST_TEXT
from tests.commands.words import refusals
from tests.kit.agents.small import Log, chain, run, running, saver_of
from tests.kit.command import FIXTURES, ckpt, copy_store, first_now
from tests.kit.reports import data_of, states
from tests.kit.savers.three_table import MARKS, connected, engine_of
from tests.kit.savers.three_table import maker as tables_maker
from tests.kit.terminal import SLOW, ckpt_in_terminal, in_terminal

CONFIG: Any = {"configurable": {"thread_id": "t"}}
ERAS = ["lg-1.2.22", "lg-0.2.14", "js-1.7.3"]


def report(store: Path, *words: str) -> str:
    answer = ckpt("-s", store, "report", *words)
    assert answer.code == 0, answer.err
    return answer.out


@pytest.mark.in_ci("lg-1")
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
    asking = {"look": lambda _: time.sleep(0.05), "ask": lambda _: interrupt("how many?")}
    research = chain(Log, asking).compile()
    file = tmp_path / "store.db"
    # The longest step is the scale: it must be long beside what a busy machine needs for a call.
    run(file, chain(Log, {"plan": lambda _: time.sleep(1), "research": research}), {"log": []})
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


def only_state(store: Path, thread: str = "t") -> dict[str, Any]:
    (state,) = states(data_of(report(store, thread)))
    assert state is not None
    return state


def test_data_cannot_end_its_script(tmp_path: Path) -> None:
    text = "</script><!--<script>&\u2028\u2029\u202e"
    store = tmp_path / "agent.db"
    with saver_of(store) as saver:
        graphs.linear(saver).update_state(CONFIG, {"items": [text]}, as_node="read")
    # It is read only if nothing but Base64 stands in its element.
    assert only_state(store)["items"] == [text]


@pytest.mark.parametrize(
    ("items", "reason"),
    [
        (["x" * 100_000], "100000 characters in all"),
        (list(map(str, range(300_000))), "2.5 MiB of JSON in all"),
    ],
    ids=["a long text", "many texts"],
)
def test_large_values_are_cut_and_say_so(tmp_path: Path, items: list[str], reason: str) -> None:
    store = tmp_path / "agent.db"
    with saver_of(store) as saver:
        graphs.linear(saver).update_state(CONFIG, {"items": items}, as_node="read")
    found = only_state(store)["items"]
    cut = (found[0] if isinstance(found, list) else found)["$cut"]
    assert cut["reason"] == reason
    assert len(report(store, "t")) < LARGEST_CHANNEL
    assert len(items) > 1 or cut["kept"] == "x" * LONGEST_TEXT


@pytest.mark.nightly
def test_long_errors_and_metadata_are_cut(tmp_path: Path) -> None:
    def fail(state: Log) -> None:
        raise ValueError("x" * 1_000_000)

    store = tmp_path / "agent.db"
    config = CONFIG | {"metadata": {"y": "y" * 1_000_000}}
    with running(store, chain(Log, {"fail": fail})) as agent, suppress(ValueError):
        agent.invoke({"log": []}, config)
    page = report(store, "t")
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
    for form in ("json", "ndjson"):
        assert ckpt("-s", sample, "report", "trip-to-kyoto", "-o", form).code == 2


class Elements(HTMLParser):
    """The elements of a page, with their attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))


def test_it_has_landmarks_and_labels(sample: Path) -> None:
    seen = Elements(report(sample, "invoice-import")).seen
    tags = [tag for tag, _ in seen]
    assert [tags.count(one) for one in ("h1", "main", "header", "footer", "title")] == [1] * 5
    assert ("html", {"lang": "en"}) in seen
    ids = [attributes["id"] for _, attributes in seen if "id" in attributes]
    assert len(set(ids)) == len(ids)
    needs = [
        attributes.get("aria-label")
        for tag, attributes in seen
        if tag in {"button", "input"} or attributes.get("role") in {"img", "group", "region"}
    ]
    assert needs
    assert all(needs)
    sections = [attributes["aria-labelledby"] for tag, attributes in seen if tag == "section"]
    assert set(sections) <= set(ids)
    assert sections


test_wrong_words_are_refused = refusals(
    ("report trip-to-kyoto -o tsv", 2, "page"),
    ("report trip-to-kyoto --last 0", 2, "--last"),
    ("report nobody", 3, "no thread 'nobody'"),
)
