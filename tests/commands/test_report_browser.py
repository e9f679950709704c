"""The page of `ckpt report` in a real browser, opened as a file."""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, TypedDict

import pytest
from langgraph.types import interrupt

import ckpt_cli
from tests.kit.agents.small import chain, running
from tests.kit.browser import Browser
from tests.kit.command import ckpt

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
    answer = ckpt("-s", store, "report", *words)
    assert answer.code == 0, answer.err
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
    identity = browser.run(f"ckpt.checkpoints[{shown}].id")
    assert identity in browser.text("#facts")
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


def test_states_are_those_of_show(
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


def test_it_fits_a_phone(browser: Browser, opened: Callable[..., None]) -> None:
    opened("trip-to-kyoto", "--all-ns")
    browser.show(width=390, height=844, dark=False)
    browser.drawn()
    assert browser.run("document.scrollingElement.scrollWidth") == 390


def test_it_needs_no_mouse_and_can_be_heard(browser: Browser, opened: Callable[..., None]) -> None:
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


def test_it_prints_what_is_shown_alone(browser: Browser, opened: Callable[..., None]) -> None:
    opened("trip-to-kyoto@step:4")
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
