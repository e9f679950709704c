"""`--where` in every command that takes many threads: what it chooses, and its errors."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import ckpt_cli
from ckpt_cli.app import root
from tests.kit.command import CommandResult, ckpt

CHOSEN = {"trip-to-kyoto", "refund-4711", "research-agent", "invoice-import"}
CONFIG = """
[filters]
chosen = "checkpoints > 16 or @asks"
asks = "status in (interrupted, error)"
wrong = "idle > 1h and usr = anna"
"""


def takes_many_threads(command: Any) -> bool:
    """Whether a command takes THREAD..., or --match for threads."""
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    several = any(one.nargs == -1 and one.name == "threads" for one in arguments)
    match = next((one for one in command.params if "--match" in one.opts), None)
    return several or "Only thread ids" in (getattr(match, "help", None) or "")


MANY = {name: one for name, one in root().walk() if takes_many_threads(one)}


def ids(answer: CommandResult) -> object:
    """The threads that an answer names, in JSON or in lines of JSON."""
    return set(re.findall(r'"thread_id": ?"([^"]+)"', answer.out)) - {""}


def number(*path: str | int) -> Callable[[CommandResult], object]:
    def read(answer: CommandResult) -> object:
        found: Any = answer.json
        for key in path:
            found = found[key]
        return found

    return read


@dataclass(frozen=True)
class Run:
    words: str = ""
    """What the command needs besides --where."""
    read: Callable[[CommandResult], object] = ids
    found: object = frozenset(CHOSEN)
    changes: bool = False
    ends: bool = True
    """Whether it ends by itself."""


RUNS = {
    "threads list": Run(),
    "threads delete": Run("--dry-run", changes=True),
    "interrupts": Run(found={"refund-4711"}),
    "errors": Run(found={"invoice-import"}),
    "grep": Run("e"),
    "sql": Run("'SELECT thread_id FROM threads'"),
    "tail": Run(ends=False),
    "stats": Run(read=number("threads"), found=4),
    "du": Run(),
    "replay": Run(),
    "doctor": Run(read=number("checked", "threads"), found=4),
    "secrets": Run(read=lambda answer: "searched 4 threads" in answer.err, found=True),
    "rollback": Run("--last-good --dry-run", found={"invoice-import"}, changes=True),
    "fork": Run("--at head --dry-run", changes=True),
    "purge": Run("--include-interrupted --include-error --dry-run", changes=True),
    "copy": Run("--to other.db --create --dry-run", number("threads"), 4, changes=True),
    "erase": Run("--no-mentions --dry-run", number("places", 0, "items"), 4, changes=True),
    "export": Run("--format jsonl"),
    "rekey": Run("--encrypt --new-key-file key --dry-run", number("threads"), 4, changes=True),
    "repair messages": Run("--dry-run", found=set(), changes=True),
    "repair values": Run("--dry-run", found=set(), changes=True),
    "repair writes": Run("--dry-run", found=set(), changes=True),
}


@pytest.fixture
def folder(sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which `ckpt` runs: with the sample store and a configuration of a stranger."""
    monkeypatch.chdir(tmp_path)
    os.replace(sample, "sample.db")
    Path("ckpt.toml").write_text(CONFIG)
    Path("key").write_text("k" * 32)
    Path("key").chmod(0o600)
    return tmp_path


def run(command: str, where: str, *options: str) -> CommandResult:
    words = [*command.split(), *shlex.split(RUNS[command].words), "--where", where]
    return ckpt("-s", "sample.db", *options, "-o", "json", *words)


def test_every_command_with_many_threads_takes_a_filter() -> None:
    for name, command in MANY.items():
        (where,) = [one for one in command.params if "--where" in one.opts]
        assert where.metavar == "FILTER", name
    assert set(MANY) == set(RUNS), "add a new command to RUNS"


@pytest.mark.parametrize("command", sorted(name for name, one in RUNS.items() if one.ends))
def test_a_filter_with_an_alias_chooses(folder: Path, command: str) -> None:
    one = RUNS[command]
    answer = run(command, "@chosen and thread != nobody", "--config", "ckpt.toml")
    assert answer.code == 0, answer.err
    assert one.read(answer) == one.found


@pytest.mark.parametrize("command", sorted(name for name, one in RUNS.items() if one.ends))
def test_a_short_form_that_finds_nothing_is_explained(folder: Path, command: str) -> None:
    note = "note: 'stat=...' was read as metadata.stat; did you mean the field status?\n"
    assert run(command, "stat=error").err.count(note) == 1
    found = run(command, "user_id=mara").err
    assert "was read as" not in found or command in {"interrupts", "errors"}


@pytest.mark.parametrize("command", sorted(RUNS))
def test_a_wrong_filter_is_shown_with_its_place(folder: Path, command: str) -> None:
    words = [*command.split(), *shlex.split(RUNS[command].words)]
    answer = ckpt("-s", "sample.db", *words, "--where", "status error")
    assert (answer.code, answer.out) == (2, "")
    assert "  status error\n         ^\n" in answer.err

    format_ = "json" if RUNS[command].ends else "ndjson"
    where = ["--where", "checkpoints > 3 and @wrong", "--config", "ckpt.toml", "-o", format_]
    answer = ckpt("-s", "sample.db", *words, *where)
    error = json.loads(answer.err.splitlines()[-1])
    assert (answer.code, error["position"]) == (2, len("idle > 1h and "))
    assert error["message"] == "cannot read @wrong in 'ckpt.toml': no field 'usr'"


@pytest.mark.parametrize("command", sorted(name for name, one in RUNS.items() if one.ends))
def test_a_stranger_does_not_choose_what_is_changed(folder: Path, command: str) -> None:
    answer = run(command, "@chosen")
    if not RUNS[command].changes:
        assert RUNS[command].read(answer) == RUNS[command].found
        return
    error = json.loads(answer.err.splitlines()[-1])
    assert (answer.code, error["position"]) == (2, 0)
    assert "is not trusted and defines it" in error["message"]
    assert f"`ckpt trust {folder}/ckpt.toml`" in error["hint"]
    assert ckpt("trust", "--yes").code == 0
    assert run(command, "@chosen").code == 0


def test_a_profile_has_its_own_filters_and_pyproject_has_some_too(folder: Path) -> None:
    Path("ckpt.toml").unlink()
    Path("pyproject.toml").write_text(
        '[tool.ckpt.filters]\nours = "thread = nobody"\nall-ours = "@ours and status = done"\n'
        '[tool.ckpt.stores.kyoto]\nurl = "sample.db"\nfilters.ours = "user_id=mara"\n'
    )

    def listed(store: str) -> object:
        return ids(ckpt("-s", store, "-o", "json", "threads", "list", "--where", "@all-ours"))

    assert (listed("kyoto"), listed("sample.db")) == ({"trip-to-kyoto"}, set())
    trusted = ckpt("trust", "--yes", "-o", "json").json
    assert trusted["filters"]["ours"] == "thread = nobody"
    assert trusted["profiles"][0]["settings"] == {"filters.ours": "user_id=mara"}
    assert "@ours and status = done" in ckpt("trust", "--yes").out


def test_an_unknown_alias_is_answered_with_the_known_ones(folder: Path) -> None:
    answer = ckpt("-s", "sample.db", "threads", "list", "--where", "idle > 1h or @stuk")
    assert answer.code == 2
    assert answer.err.splitlines() == [
        "ckpt: cannot read the filter: no filter '@stuk'",
        "  idle > 1h or @stuk",
        "               ^",
        "hint: use @chosen, @asks, @wrong",
    ]


def test_python_code_uses_the_aliases_of_the_configuration(folder: Path) -> None:
    with ckpt_cli.open("sample.db", config="ckpt.toml") as store:
        assert {one.id for one in store.threads("@chosen")} == CHOSEN
        assert {row["thread_id"] for row in store.interrupts(where="@chosen")} == {"refund-4711"}
        assert store.du(where="@chosen and bytes > 20KiB")["chosen"] == 2
        with pytest.raises(ckpt_cli.CkptError, match="no field 'usr'"):
            store.threads("@wrong")
