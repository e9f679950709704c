"""What the page of `ckpt report` holds, read without a browser."""

import json
import shlex
import sqlite3
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, TypedDict

import pytest
from langgraph.types import interrupt

import ckpt_cli
from ckpt_backends.testing.scenarios import graphs
from ckpt_cli.render import report as checkpoints_module
from ckpt_cli.render.report import LARGEST_CHANNEL, LONGEST_TEXT
from tests.commands.words import refusals
from tests.kit.agents.small import chain, running, saver_of
from tests.kit.browser import Browser
from tests.kit.cases import cases
from tests.kit.command import FIXTURES, ckpt, copy_store, first_now
from tests.kit.reports import data_of, states
from tests.kit.terminal import SLOW, ckpt_in_terminal, in_terminal

CONFIG: Any = {"configurable": {"thread_id": "t"}}


def report(store: Path, *words: str) -> str:
    return ckpt("-s", store, "report", *words, code=0).out


@pytest.mark.in_ci("lg-1")
@pytest.mark.parametrize("era", first_now(["lg-1.2.22", "js-1.7.3"]))
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


def test_changes_are_those_of_diff_and_what_is_wrong_comes_first(sample: Path) -> None:
    data = data_of(report(sample, "trip-to-kyoto@step:4", "--last", "2"))
    assert (data["checkpoints"][data["start"]]["step"], len(data["checkpoints"])) == (4, 3)
    with ckpt_cli.open(str(sample)) as opened:
        thread = opened["trip-to-kyoto"]
        for one in data_of(thread.report(last=3))["checkpoints"]:
            channels = thread.at(one["id"]).diff()["channels"]
            named = [text for line in one["changes"] for style, text in line if style == "head"]
            assert named == list(channels)
    # What is wrong comes first.
    failed = report(sample, "invoice-import")
    assert failed.index("match_supplier failed") < failed.index("Checkpoints</h2>")
    assert "graph.invoke(None, config)" in failed
    assert "rollback --last-good --dry-run invoice-import" in failed
    asked = report(sample, "refund-4711")
    assert "ask_approval asks" in asked
    assert "Command(resume=" in asked
    # A checkpoint that a table without a key holds twice is one.
    with closing(sqlite3.connect(sample)) as db, db:
        db.execute("CREATE TABLE copy AS SELECT * FROM checkpoints")
        db.execute("INSERT INTO copy SELECT * FROM checkpoints")
        db.execute("DROP TABLE checkpoints")
        db.execute("ALTER TABLE copy RENAME TO checkpoints")
    ids = [one["id"] for one in data_of(report(sample, "trip-to-kyoto"))["checkpoints"]]
    assert len(set(ids)) == len(ids) > 1


def test_page_and_stderr_tell_what_lacks(sample: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
    # A full page keeps the newest states.
    every = states(data_of(report(sample, "trip-to-kyoto")))
    monkeypatch.setattr(checkpoints_module, "MOST_BYTES", 12_000)
    answer = ckpt("-s", sample, "report", "trip-to-kyoto")
    kept = states(data_of(answer.out))
    missing = kept.count(None)
    assert 0 < missing < len(kept)
    assert f"{missing} oldest checkpoints listed without state" in answer.err
    assert kept == [None] * missing + every[missing:]


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
    page = report(store, "t")
    (state,) = states(data_of(page))
    assert state is not None
    found = state["items"]
    cut = (found[0] if isinstance(found, list) else found)["$cut"]
    assert cut["reason"] == reason
    assert len(page) < LARGEST_CHANNEL
    assert len(items) > 1 or cut["kept"] == "x" * LONGEST_TEXT


def test_the_page_goes_to_a_file_and_progress_to_the_terminal(sample: Path, tmp_path: Path) -> None:
    code, shown = ckpt_in_terminal("-s", sample, "report", "trip-to-kyoto")
    assert (code, "hint: redirect it: ckpt report ... > incident.html" in shown) == (2, True)
    ckpt("-s", sample, "report", "trip-to-kyoto", "-o", "json", code=2)
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


# In a browser, opened as a file


MARK = "window.marked = true"
HOSTILE = [
    f"</script><script>{MARK}</script>",
    f"</title></textarea></style></noscript><img src=x onerror='{MARK}'>",
    "<!--<script>",
    f"<svg onload='{MARK}'><a href='javascript:{MARK}'>press</a>",
    "<link rel=stylesheet href='http://127.0.0.1:9/style'><meta http-equiv=refresh content='0;url=http://127.0.0.1:9/'>",
    f'"><img src=http://127.0.0.1:9/image onerror="{MARK}">',
    f"javascript:{MARK}",
    f"${{{MARK}}} {{{{{MARK}}}}} $body $data %s",
    "\u202eevil\u2028\u2029\x1b]0;title\x07",
    "__proto__",
]


@pytest.fixture
def browser(chromium: Browser) -> Iterator[Browser]:
    """A headless Chromium with nothing left of earlier tests: a page must neither ask nor raise."""
    yield chromium
    chromium.drawn()
    assert chromium.trouble == []


def made(store: Path, folder: Path, *words: str) -> Path:
    """Write a report into a file."""
    answer = ckpt("-s", store, "report", *words, code=0)
    file = folder / "incident.html"
    file.write_text(answer.out, "utf-8")
    return file


@pytest.fixture
def opened(browser: Browser, sample: Path, tmp_path: Path) -> Callable[..., None]:
    """Opens the report about a thread of the sample store."""
    return lambda *words: browser.open(made(sample, tmp_path, *words))


def position(browser: Browser) -> int:
    """Return the number of the checkpoint that is shown, checked in all places that name it."""
    shown = int(browser.run("document.body.dataset.shown"))
    assert browser.run("document.getElementById('slider').value") == str(shown)
    assert browser.text("#position").startswith(f"Checkpoint {shown + 1} of ")
    assert browser.run(f"ckpt.checkpoints[{shown}].id") in browser.text("#facts")
    row = browser.run(f"ckpt.checkpoints[{shown}].row")
    shown_rows = "[...document.querySelectorAll('#tree .shown')].map(one => +one.dataset.row)"
    assert browser.run(shown_rows) == ([] if row is None else [row])
    return shown


def test_keys_slider_buttons_and_tree_move(browser: Browser, opened: Callable[..., None]) -> None:
    opened("trip-to-kyoto")
    last = browser.run("ckpt.checkpoints.length") - 1
    assert position(browser) == last
    for keys, place in (
        (["ArrowLeft"] * 2, last - 2),
        (["ArrowRight"], last - 1),
        (["Home"], 0),
        (["ArrowLeft"], 0),
        (["End"], last),
    ):
        browser.press(*keys)
        assert position(browser) == place, keys
    for name, place in (("previous", last - 1), ("first", 0), ("next", 1), ("last", last)):
        browser.click(f"#{name}")
        assert position(browser) == place, name
    # The same keys while the slider has the focus, and the slider under the mouse.
    browser.click("#slider")
    middle = position(browser)
    assert 0 < middle < last
    browser.press("ArrowRight")
    assert position(browser) == middle + 1
    browser.click("#tree .row")
    assert position(browser) == 0
    assert "It has no parent that is stored." in browser.text("#changes")
    opened("invoice-import")
    browser.click("#errors a")
    assert position(browser) == 2
    assert "match_supplier failed" in browser.text("#troubles")


def test_states_in_the_browser_are_those_of_show(
    browser: Browser, sample: Path, opened: Callable[..., None]
) -> None:
    opened("trip-to-kyoto", "--all-ns")
    with ckpt_cli.open(str(sample)) as store:
        history = store["trip-to-kyoto"].history(all_ns=True)
        stored = {one.id: one.to_dict()["values"] for one in history}
    found = browser.run("ckpt.checkpoints.map((one, place) => [one.id, ckpt.state(place)])")
    assert dict(found) == stored
    # The newest first, so that none stands on a state that was kept.
    backwards = "ckpt.checkpoints.map((one, n) => ckpt.state(ckpt.checkpoints.length - 1 - n))"
    assert browser.run(backwards) == [state for _, state in reversed(found)]
    # It fits a phone.
    browser.show(width=390, height=844, dark=False)
    browser.drawn()
    assert browser.run("document.scrollingElement.scrollWidth") == 390


def _hostile_store(path: Path) -> list[str]:
    """Make threads with hostile text in each place that an application fills."""

    class Said(TypedDict, total=False):
        said: Any
        messages: Any

    def ask(state: Said) -> None:
        interrupt({"ask": HOSTILE})

    def fail(state: Said) -> None:
        raise ValueError("\n".join(HOSTILE))

    def say(state: Said) -> dict[str, Any]:
        calls = [{"name": one, "args": {one: one}, "id": one} for one in HOSTILE]
        answers = [{"role": "tool", "content": one, "tool_call_id": one} for one in HOSTILE]
        asked = {"role": HOSTILE[0], "name": HOSTILE[1], "content": HOSTILE[2]}
        said = {"role": "assistant", "content": "\n".join(HOSTILE), "tool_calls": calls}
        return {"said": {one: one for one in HOSTILE}, "messages": [asked, said, *answers]}

    for name, last in ((HOSTILE[1], ask), (HOSTILE[2], fail)):
        config: Any = {
            "configurable": {"thread_id": name},
            "metadata": {one: one for one in HOSTILE},
        }
        graph = chain(Said, {HOSTILE[0]: say, HOSTILE[2]: last})
        with running(path, graph) as agent, suppress(ValueError):
            agent.invoke({"said": HOSTILE}, config)
    return [HOSTILE[1], HOSTILE[2]]


def _look_at_everything(browser: Browser) -> None:
    """Show every checkpoint with all that is folded."""
    unfold = "for (const one of document.querySelectorAll('details')) one.open = true"
    for _ in range(browser.run("ckpt.checkpoints.length")):
        browser.run(unfold)
        browser.run(unfold)
        browser.press("ArrowLeft")
    browser.click("#conversation")
    assert browser.run("window.marked") is None
    assert browser.run("document.querySelectorAll('script, iframe, img, base, object').length") == 2
    for bad in ("\u202e", "\x1b", "\x07", "\u2028"):
        assert bad not in browser.text("body")


def test_hostile_text_runs_nothing(browser: Browser, tmp_path: Path) -> None:
    store = tmp_path / "agent.db"
    for thread_id in _hostile_store(store):
        browser.open(made(store, tmp_path, thread_id))
        _look_at_everything(browser)
        assert HOSTILE[0] in browser.text("#problem")
        assert browser.run(f"ckpt.state(1).said[{json.dumps(HOSTILE[0])}]") in (None, HOSTILE[0])
        picture = tmp_path / "tree.svg"
        picture.write_text(ckpt("-s", store, "show", thread_id, "--svg").out, "utf-8")
        browser.open(picture)
        assert browser.run("document.documentElement.nodeName") == "svg"
        assert browser.run("window.marked") is None


def test_a_script_in_the_page_cannot_run(chromium: Browser, sample: Path, tmp_path: Path) -> None:
    # As if escaping had failed: the policy of the page still holds.
    file = made(sample, tmp_path, "invoice-import")
    added = f"<script>{MARK}</script><img src='http://127.0.0.1:9/x' onerror='{MARK}'>"
    added += "<style>body { background: url(http://127.0.0.1:9/y) }</style><p style='color: red'>"
    file.write_text(file.read_text("utf-8").replace("<main>", f"<main>{added}"), "utf-8")
    chromium.open(file)
    assert chromium.run("window.marked") is None
    # A request is announced, and then not sent.
    found = Counter(kind for kind, _ in chromium.trouble)
    assert found.pop("log") >= 4
    assert found == {"request": 1, "blocked": 1}
    (reason,) = (one["blockedReason"] for kind, one in chromium.trouble if kind == "blocked")
    assert reason == "csp"
    chromium.trouble.clear()


def test_it_needs_no_mouse_and_is_printed(browser: Browser, opened: Callable[..., None]) -> None:
    opened("trip-to-kyoto@step:4")
    focused = []
    for _ in range(8):
        browser.press("Tab")
        focused.append(browser.run("document.activeElement.id || document.activeElement.className"))
    assert focused[:7] == ["skip", "tree", "first", "previous", "slider", "next", "last"]
    nodes = browser.send("Accessibility.getFullAXTree")["nodes"]
    shown = [one for one in nodes if not one["ignored"]]
    roles = {(one["role"]["value"], one.get("name", {}).get("value", "")) for one in shown}
    assert {"main", "banner", "contentinfo"} <= {role for role, _ in roles}
    assert ("slider", "Checkpoint") in roles
    named = {"button", "slider", "region", "image", "link", "group", "table"}
    assert [role for role, name in roles if role in named - {"table", "group"} and not name] == []
    # It prints what is shown alone.
    before = browser.run("document.querySelectorAll('details[open]').length")
    assert browser.pdf().startswith(b"%PDF")
    assert browser.run("document.querySelectorAll('details[open]').length") == before
    browser.show(width=794, height=1123, dark=True, media="print")
    controls = "[...document.querySelectorAll('.controls, .keys, .skip')]"
    assert browser.run(f"{controls}.every(one => !one.getClientRects().length)")
    assert browser.run("getComputedStyle(document.body).color") == "rgb(0, 0, 0)"
    assert browser.run("document.scrollingElement.scrollWidth") == 794
    seen = browser.text("body")
    for part in ("Timeline", "Conversation", " of 16 · step 4 · planner", "ckpt -s"):
        assert part in seen
