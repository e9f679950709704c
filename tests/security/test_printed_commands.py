"""Each printed command, pasted into bash, zsh and fish, runs `ckpt` with the very same id."""

import os
import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ckpt_backends.memory import ItemKey
from ckpt_backends.model import CheckpointKey
from ckpt_backends.shell import command
from ckpt_cli.render.text import command_field, folded, safe_text
from ckpt_cli.tui import command_line
from ckpt_cli.tui.panes.threads import ThreadFilter
from tests.kit.command import CommandResult, ckpt, first_now, later
from tests.kit.hostile.shells import HOSTILE, SHELLS, as_bytes, paste
from tests.kit.savers.deerflow import memory, save

TRICKY = st.sampled_from("a'\\\"`$!-=~;&|<>(){}[]*?#^% \n\t\u034f\u3164e\u0301é\udcff")
THREAD = "nightly-report"
"""A thread of the sample that is done, and that nothing went wrong in."""

Words = list[str | Path]
Pasted = tuple[str, Words]
"""A printed line, and the words that it must run `ckpt` with."""


@dataclass(frozen=True)
class Bench:
    """A store with a thread of every hostile id, and an empty folder to work in."""

    store: Path
    folder: Path
    head: str
    """The id of the head of each of these threads."""

    def run(self, *words: str | Path) -> CommandResult:
        answer = ckpt("-s", self.store, *words)
        assert answer.code != 70, answer.err
        return answer


def rename(connection: sqlite3.Connection, thread_id: str) -> None:
    """Copy the thread of the sample. An id may hold bytes that are no text."""
    key = "checkpoint_ns, checkpoint_id"
    for table, columns in (
        ("checkpoints", f"{key}, parent_checkpoint_id, type, checkpoint, metadata"),
        ("writes", f"{key}, task_id, task_path, idx, channel, type, value"),
    ):
        connection.execute(
            f"INSERT INTO {table} (thread_id, {columns})"
            f" SELECT CAST(? AS TEXT), {columns} FROM {table} WHERE thread_id = ?",
            [os.fsencode(thread_id), THREAD],
        )


_HEAD = "SELECT max(checkpoint_id) FROM checkpoints WHERE thread_id = ?"


@pytest.fixture
def bench(sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    with closing(sqlite3.connect(sample)) as connection, connection:
        head = str(connection.execute(_HEAD, [THREAD]).fetchone()[0])
        for one in HOSTILE:
            rename(connection, one)
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return Bench(sample, folder, head)


def guarded(*ids: str | Path) -> Words:
    return ["--", *ids] if any(str(one).startswith("-") for one in ids) else [*ids]


def quoted(text: str) -> str:
    """Return the only command in backquotes, as a person finds it."""
    programs = ("ckpt ", "cd ", "sqlite3 ")
    (found,) = (one for one in text.split("`")[1::2] if one.startswith(programs))
    return found


def after(label: str, text: str) -> str:
    """Return what follows a label, up to the end of its line."""
    (found,) = (line for line in text.split("\n") if re.match(label, line))
    return re.sub(label, "", found, count=1)


# Each of these runs a command with a hostile id, and yields what it prints to be pasted.


def plans(bench: Bench, text: str) -> Iterator[Pasted]:
    shown = bench.run("rollback", "--steps", "1", "--dry-run", "-o", "table", *guarded(text))
    yield after("undo +", shown.out), ["-s", bench.store, "undo", *guarded(text)]
    new = f"{text}2"
    shown = bench.run("copy", "--as", new, "--at", "head", "--dry-run", "-o", "json", THREAD)
    yield shown.json["undo"], ["-s", bench.store, "undo", *guarded(new)]


def hints_about_threads(bench: Bench, text: str) -> Iterator[Pasted]:
    named: list[str | Path] = [*guarded(text)]
    store: list[str | Path] = ["-s", bench.store]
    # With a word to replace, it is not one to paste.
    yield quoted(bench.run("undo", *named).err), ["rollback", *guarded(text, "REF")]
    tree: list[str | Path] = [*store, "show", "--tree", *named]
    history: list[str | Path] = [*store, "history", *named]
    yield quoted(bench.run("rollback", *named).err), tree
    yield quoted(bench.run("rollback", "--last-good", *named).err), tree
    yield quoted(bench.run("rollback", "--steps", "99", *named).err), history
    yield quoted(bench.run("show", *guarded(text, "nope")).err), history
    at = f"{text}@head"
    yield quoted(bench.run("history", *guarded(at)).err), [*store, "show", *guarded(at)]
    said = bench.run("rollback", "--steps", "1", *guarded(at)).err
    yield f"ckpt {after('hint: give the thread alone: ', said)}", [text]


def screens(bench: Bench, text: str) -> Iterator[Pasted]:
    place, store = CheckpointKey(text, text, bench.head), ["-s", text]
    whole = f"{text}@{bench.head}"
    listed = command_line.list_command(store, ThreadFilter(text, user=text))
    match = command_line.match_of(text)
    remembered = command_line.memory_command(store, ItemKey(("a",), text))
    compared = command_line.tab_command(store, "diff", place, place) or ""
    yield compared, [*store, "diff", "--ns", text, *guarded(whole, whole)]
    tree = command_line.tree_command(store, text, text)
    yield tree, [*store, "show", "--tree", "--ns", text, *guarded(text)]
    yield listed, [*store, "threads", "list", "--all", "--user", text, "--match", match]
    yield remembered, [*store, "memory", "show", "--namespace", "a", *guarded(text)]
    known = command_line.thread_memory_command(store, text, text)
    yield known, [*store, "show", "--memory", text, *guarded(text)]


def files(bench: Bench, text: str) -> Iterator[Pasted]:
    """A hostile name is that of a folder, an archive, a plan and a store."""
    (bench.folder / text).mkdir()
    if not set(text) & set("?#%"):  # They have a meaning in the name of a store.
        said = quoted(ckpt("-s", text, "threads", "list").err)
        yield said, ["stores"]
        yield said.replace("cd", "ckpt", 1).removesuffix(" && ckpt stores"), [bench.folder / text]
    new = f"{text}.db"
    yield after(".*; now try: ", ckpt("demo", *guarded(new)).err), ["-s", new, "threads", "list"]
    plan = f"{text}.plan"
    said = bench.run("purge", "--match", "weekly-digest", "--plan-out", plan, "--dry-run").err
    pasted = after(".*; carry it out with `", said).removesuffix("`")
    yield pasted, ["-s", bench.store, "apply", *guarded(plan)]
    delete = ["threads", "delete", "--archive", text, "--yes"]
    gone = bench.run("-o", "table", *delete, *guarded(text))
    yield quoted(gone.out), ["-s", bench.store, "import", *guarded(text)]
    (archive,) = (bench.folder / text).iterdir()
    one = f"{text}.gz"
    archive.rename(bench.folder / one)
    facts = bench.folder / "memory.json"
    save(facts, memory())
    said = ckpt("-s", facts, "memory", "import", "--write", *guarded(one)).err
    yield after("hint: ", said), ["import", *guarded(one)]
    delete = ["memory", "delete", "--all", "--namespace", "facts", "--write", "--yes"]
    gone = ckpt("-s", facts, "-o", "table", *delete, "--archive", text)
    (archive,) = (bench.folder / text).iterdir()
    kept = f"{text}/{archive.name}"
    yield quoted(gone.out), ["memory", "import", *guarded(kept)]
    said = bench.run("import", "--yes", *guarded(kept)).err
    yield after("hint: ", said), ["memory", "import", *guarded(kept)]


PRINTING: tuple[Callable[[Bench, str], Iterator[Pasted]], ...] = (
    *(plans, hints_about_threads, screens, files),
)


def check(shell: str, pasted: list[Pasted], folder: Path) -> None:
    """Paste lines into a shell, and compare what it runs with what each line says."""
    assert [line for line, _ in pasted if safe_text(line) != line] == []
    runs = paste(shell, [line for line, _ in pasted], folder)
    for found, (line, words) in zip(runs, pasted, strict=False):
        assert (found.program, found.words) == ("ckpt", as_bytes(words)), line
        if line.startswith("cd "):
            assert os.fsencode(Path(found.folder.decode("utf-8", "surrogateescape")).parent)
    assert len(runs) == len(pasted)


@pytest.mark.parametrize("shells", later(("bash", "zsh"), ("fish",)))
@pytest.mark.in_ci("shells0")
def test_each_printed_command_runs_ckpt_with_the_very_same_id(
    shells: tuple[str, ...], bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHELL", f"/usr/bin/{shells[0]}")
    pasted = [
        found
        for number, printing in enumerate(PRINTING)
        for text in HOSTILE[number % 3 :: 3]
        for found in printing(bench, text)
    ]
    for shell in shells:
        check(shell, pasted, tmp_path)


@pytest.mark.parametrize("shell", first_now(SHELLS))
def test_a_command_is_read_by_a_shell_as_it_was_meant(
    shell: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHELL", f"/usr/bin/{shell}")
    words: list[list[str]] = []

    @settings(max_examples=300, derandomize=True, database=None)
    @given(st.lists(st.text(TRICKY, max_size=8), min_size=1, max_size=3))
    def collect(found: list[str]) -> None:
        if not command("ckpt", ids=found).startswith("#"):
            words.append(found)

    collect()
    check(shell, [(command("ckpt", ids=one), guarded(*one)) for one in words], tmp_path)


def test_a_terminal_gets_a_command_in_one_piece() -> None:
    """A terminal wraps a long line itself, and copies it without the line break."""
    undo = command_field("undo", command("ckpt", "undo", ids=["$(touch pwned) " * 20]))
    assert list(folded([undo], 40)) == [undo]
