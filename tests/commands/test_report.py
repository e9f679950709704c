"""What the page of `ckpt report` holds, read without a browser."""

import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

import ckpt_cli
from ckpt_backends.testing.scenarios import graphs
from ckpt_cli.render import report as checkpoints_module
from ckpt_cli.render.report import LARGEST_CHANNEL, LONGEST_TEXT
from tests.commands.words import refusals
from tests.kit.agents.small import saver_of
from tests.kit.cases import cases
from tests.kit.command import FIXTURES, ckpt, copy_store, first_now
from tests.kit.reports import data_of, states
from tests.kit.terminal import SLOW, ckpt_in_terminal, in_terminal

CONFIG: Any = {"configurable": {"thread_id": "t"}}
ERAS = ["lg-1.2.22", "js-1.7.3"]


def report(store: Path, *words: str) -> str:
    answer = ckpt("-s", store, "report", *words)
    assert answer.code == 0, answer.err
    return answer.out


@pytest.mark.in_ci("lg-1")
@pytest.mark.parametrize("era", first_now(ERAS))
def test_states_are_those_of_show(era: str, tmp_path: Path) -> None:
    store = copy_store(FIXTURES / era / "store.db", tmp_path)

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
    data = data_of(report(sample, "trip-to-kyoto@step:4", "--last", "2"))
    assert (data["checkpoints"][data["start"]]["step"], len(data["checkpoints"])) == (4, 3)
    with ckpt_cli.open(str(sample)) as opened:
        thread = opened["trip-to-kyoto"]
        for one in data_of(thread.report(last=3))["checkpoints"]:
            channels = thread.at(one["id"]).diff()["channels"]
            named = [text for line in one["changes"] for style, text in line if style == "head"]
            assert named == list(channels)


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


def test_what_is_wrong_comes_first(sample: Path) -> None:
    failed = report(sample, "invoice-import")
    assert failed.index("match_supplier failed") < failed.index("Checkpoints</h2>")
    assert "graph.invoke(None, config)" in failed
    assert "rollback --last-good --dry-run invoice-import" in failed
    asked = report(sample, "refund-4711")
    assert "ask_approval asks" in asked
    assert "Command(resume=" in asked


def only_state(store: Path, thread: str = "t") -> dict[str, Any]:
    (state,) = states(data_of(report(store, thread)))
    assert state is not None
    return state


@cases(
    "items reason",
    (["x" * 100_000], "100000 characters in all"),
    (list(map(str, range(300_000))), "2.5 MiB of JSON in all"),
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


def test_a_full_page_keeps_the_newest_states(sample: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = states(data_of(report(sample, "trip-to-kyoto")))
    monkeypatch.setattr(checkpoints_module, "MOST_BYTES", 12_000)
    answer = ckpt("-s", sample, "report", "trip-to-kyoto")
    kept = states(data_of(answer.out))
    missing = kept.count(None)
    assert 0 < missing < len(kept)
    assert f"{missing} oldest checkpoints listed without state" in answer.err
    assert kept == [None] * missing + whole[missing:]


def test_the_page_goes_to_a_file_and_progress_to_the_terminal(sample: Path, tmp_path: Path) -> None:
    code, shown = ckpt_in_terminal("-s", sample, "report", "trip-to-kyoto")
    assert (code, "hint: redirect it: ckpt report ... > incident.html" in shown) == (2, True)
    assert ckpt("-s", sample, "report", "trip-to-kyoto", "-o", "json").code == 2
    file = tmp_path / "incident.html"
    program = f"{SLOW}\nfrom ckpt_cli.__main__ import main\nmain()"
    command = [sys.executable, "-c", program, "-s", str(sample), "report", "trip-to-kyoto"]
    code, shown = in_terminal(["sh", "-c", f"{shlex.join(command)} > {shlex.quote(str(file))}"])
    assert (code, "reading checkpoints" in shown) == (0, True)
    assert file.read_text("utf-8").startswith("<!doctype html>")


test_wrong_words_are_refused = refusals(
    ("report trip-to-kyoto -o tsv", 2, "page"),
    ("report trip-to-kyoto --last 0", 2, "--last"),
    ("report nobody", 3, "no thread 'nobody'"),
)
