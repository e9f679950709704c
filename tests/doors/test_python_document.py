"""Each example of docs/python.md is run, and prints what the page shows."""

import contextlib
import io
import re
import shutil
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ckpt_cli
from tests.kit.command import ROOT, SAMPLE

PAGE = (ROOT / "docs" / "python.md").read_text("utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```\n(?:```text\n(.*?)^```\n)?", PAGE, re.M | re.S)
CLASSES = {
    "store": ckpt_cli.StoreHandle,
    "thread": ckpt_cli.ThreadHandle,
    "checkpoint": ckpt_cli.CheckpointHandle,
    "memory": ckpt_cli.MemoryHandle,
}
UNPROMISED = {
    *("named", "chosen", "checkpoint_of", "checkpoint"),
    *("read_tree", "select", "conversation", "entry", "operations"),
}
"""What commands need of handles, and scripts do not: it uses classes that may change."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with the sample store and a memory, in a time zone that is not UTC."""
    shutil.copyfile(SAMPLE, tmp_path / "sample.db")
    at = "2026-11-21 22:28:27"
    with contextlib.closing(sqlite3.connect(tmp_path / "memory.db")) as db, db:
        db.execute("CREATE TABLE store (prefix text, key text, value text, created_at, updated_at)")
        value = '{"name": "Anna", "drinks": ["green tea", "water"]}'
        db.execute(
            "INSERT INTO store VALUES (?, ?, ?, ?, ?)", ["users.anna", "profile", value, at, at]
        )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    yield tmp_path
    monkeypatch.undo()
    time.tzset()


def test_the_examples_print_what_the_page_shows(folder: Path) -> None:
    names: dict[str, Any] = {}
    shown, printed = [], []
    for code, text in BLOCKS:
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(code, names)
        shown.append((code, text))
        printed.append((code, out.getvalue()))
    assert printed == shown
    assert len(shown) > 10


@pytest.mark.parametrize("what", CLASSES)
def test_the_tables_name_what_there_is(what: str) -> None:
    (table,) = re.findall(rf"^\| {what} \| gives \|\n(.*?)\n\n", PAGE, re.M | re.S)
    cells = " ".join(row.split(" | ")[0] for row in table.splitlines())
    named = set(re.findall(rf"(?:`{what}|`|, )\.([a-z_]+)", cells))
    named |= set(re.findall(rf"`{what}\.([a-z_]+)", cells))
    assert named
    assert [name for name in sorted(named) if not hasattr(CLASSES[what], name)] == []


def test_the_page_names_what_handles_offer_and_every_public_name() -> None:
    for found in CLASSES.values():
        offered = {name for name in vars(found) if not name.startswith("_")}
        assert {name for name in offered - UNPROMISED if f".{name}" not in PAGE} == set(), found
    # Every public name is on the page.
    hidden = {"__version__", "Answer", "AnswerList", "SearchHits", "MemoryItems", "MemoryHits"}
    handles = {one.__name__ for one in CLASSES.values()}
    missing = {
        name
        for name in ckpt_cli.__all__
        if name not in hidden | handles and f"ckpt.{name}" not in PAGE
    }
    assert missing == set()
    # Exit codes of errors are those of the page.
    rows = re.findall(r"^\| (`ckpt\..*?) \| (\d) \|", PAGE, re.M)
    told = {name: int(code) for names, code in rows for name in re.findall(r"ckpt\.(\w+)", names)}
    classes = [
        name
        for name in ckpt_cli.__all__
        if isinstance(found := getattr(ckpt_cli, name), type)
        and issubclass(found, ckpt_cli.CkptError)
        and found is not ckpt_cli.CkptError
    ]
    assert told == {name: getattr(ckpt_cli, name).exit_code for name in classes}
