"""Each command that changes a store records one operation, which gives the first rows back."""

import json
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ckpt_cli.app import root
from ckpt_cli.lazy import command_text
from tests.kit.command import SAMPLE, ckpt
from tests.kit.recorded_store import DAMAGED, ORPHANED, STALE, UNANSWERED, fill, stored
from tests.kit.savers.deerflow import memory, save

TRIP, REFUND = "trip-to-kyoto", "refund-4711"


@dataclass(frozen=True)
class Case:
    """A command line, and what it records."""

    words: str
    action: str
    threads: tuple[str, ...] = ()
    before: tuple[str, ...] = ()
    """Command lines that are run first."""
    number: int | None = None
    """The number of changed items; None for that of the threads."""
    why_not: str = ""
    """Why it cannot be undone."""
    changes: str = "store.db"
    """The store that is changed."""
    more: dict[str, Any] = field(default_factory=dict)


ROLLBACK = f"rollback {TRIP} --steps 2 --yes"
PLAN = f"rollback {TRIP} --steps 2 --plan-out plan"
CASES = {
    "rollback": Case(ROLLBACK, "rollback", (TRIP,)),
    "fork": Case(f"fork {TRIP} head~2 --yes", "fork", (TRIP,)),
    "undo": Case(f"undo {TRIP} --yes", "undo", (TRIP,), before=(ROLLBACK,)),
    "redo": Case("redo --yes", "redo", (TRIP,), before=(ROLLBACK, "undo --yes")),
    "apply": Case("apply plan --yes", "rollback", (TRIP,), before=(PLAN,)),
    "migrate": Case(f"migrate {TRIP} --rename-channel hotel=inn --yes", "migrate", (TRIP,)),
    "repair messages": Case(f"repair messages {UNANSWERED} --yes", "repair", (UNANSWERED,)),
    "repair values": Case(f"repair values {DAMAGED} --yes", "repair", (DAMAGED,)),
    "repair writes": Case("repair writes --match stale-* --yes", "repair", STALE),
    "replay": Case(f"replay {DAMAGED} --repair --yes", "repair", (DAMAGED,)),
    "purge": Case(f"purge --match {TRIP} --keep-last 2 --archive archive --yes", "purge", (TRIP,)),
    "gc": Case("gc --scope all --archive archive --yes", "gc", (ORPHANED,)),
    "threads delete": Case(
        f"threads delete {TRIP} {REFUND} --archive archive --yes", "threads delete", (TRIP, REFUND)
    ),
    "import": Case(
        "import archive --yes",
        "import",
        (TRIP,),
        before=(f"threads delete {TRIP} --archive archive --yes",),
    ),
    "copy": Case(
        f"copy {TRIP} {REFUND} --to other.db --create --yes",
        "copy",
        (TRIP, REFUND),
        changes="other.db",
    ),
    "rekey": Case(
        f"rekey {REFUND} --encrypt --new-key-file new.key --yes",
        "rekey",
        (REFUND,),
        why_not="rekey again with the former key",
    ),
    "erase": Case(
        f"erase {REFUND} --yes", "erase", number=1, why_not="an erasure cannot be undone"
    ),
    "memory delete": Case(
        "memory delete --match t* --archive archive --yes", "memory delete", number=2
    ),
    "memory edit": Case(
        "-s memory.json memory edit fact_a1b2c3d4 --set category=goal --write",
        "memory edit",
        number=1,
        changes="memory.json",
    ),
    "memory import": Case(
        "memory import archive/BUNDLE --yes",
        "memory import",
        before=("memory delete --match t* --archive archive --yes",),
        number=2,
    ),
    "memory copy": Case(
        "memory copy --to other.db --create --yes", "memory copy", number=3, changes="other.db"
    ),
}
OTHERS = {
    "a copy of a checkpoint": Case(
        f"copy {TRIP}@head~2 --as new --yes --reason ticket-7",
        "copy",
        ("new",),
        more={"reason": "ticket-7"},
    ),
    "an edited copy": Case(
        f"fork {TRIP} head~2 --replace hotel=null --as new --yes", "fork", ("new",)
    ),
    "a purge for good": Case(
        f"purge --match {TRIP} --include-pending --yes",
        "purge",
        (TRIP,),
        why_not="no archive was made",
    ),
    "items removed for good": Case(
        "memory delete --match t* --yes", "memory delete", number=2, why_not="no archive was made"
    ),
    "an import that is converted": Case(
        "import archive --to other.db --create --yes",
        "import",
        (TRIP,),
        before=(f"export {TRIP} --to archive",),
        changes="other.db",
    ),
    "a copy of what is new": Case(
        f"copy {TRIP} {REFUND} --to other.db --yes",
        "copy",
        (TRIP,),
        before=(f"copy {TRIP} {REFUND} --to other.db --create --yes", ROLLBACK),
        changes="other.db",
    ),
    "a copy by several processes": Case(
        f"copy {TRIP} {REFUND} --to other.db --create --jobs 2 --yes",
        "copy",
        (TRIP, REFUND),
        changes="other.db",
    ),
    "a copy that replaces": Case(
        f"copy {TRIP} --to other.db --replace --yes",
        "copy",
        (TRIP,),
        before=(
            f"copy {TRIP} --to other.db --create --yes",
            f"-s other.db rollback {TRIP} --steps 3 --yes",
        ),
        why_not="what it replaced was not kept",
        changes="other.db",
    ),
}
READING = {
    *("blame", "completion", "demo", "diff", "doctor", "du", "export", "grep", "history"),
    *("interrupts", "memory export", "memory list", "memory search", "memory show", "messages"),
    *("ops list", "ops show", "ops verify", "secrets", "memory sessions", "show", "stats"),
    *("bisect", "compat", "errors", "metrics", "report", "timeline"),
    *("mcp", "sql", "stores", "tail", "threads list", "trust"),
    "tui",  # tests/screen/test_changing.py
}
"""Commands that change no store, so that they record nothing."""


def test_all_commands_are_tested_here() -> None:
    assert set(dict(root().walk())) == {*CASES, *READING}


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fill(tmp_path_factory.mktemp("filled"), SAMPLE)


@pytest.fixture
def folder(filled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copyfile(filled, tmp_path / "store.db")
    save(tmp_path / "memory.json", memory())
    key = tmp_path / "new.key"
    key.write_bytes(b"0123456789abcdef")
    key.chmod(0o600)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(words: str, folder: Path) -> None:
    given = words.split()
    if given[-2:-1] and given[-2].endswith("BUNDLE"):
        given[-2] = str(next((folder / "archive").glob("memory-*")))
    store = () if given[0] == "-s" else ("-s", "store.db")
    done = ckpt(*store, *given)
    assert done.code == 0, done.err


def recorded() -> list[dict[str, Any]]:
    """Return the operations, the newest first."""
    found: list[dict[str, Any]] = ckpt("ops", "list", "--all", "-o", "json").json
    return found


def contents(path: Path) -> Any:
    """Return what a store holds, apart from the time at which it was saved."""
    if path.suffix == ".json":
        return {**json.loads(path.read_bytes()), "lastUpdated": None}
    return stored(path)


@pytest.mark.parametrize("name", [*CASES, *OTHERS])
def test_a_change_is_one_operation_that_can_be_taken_back(folder: Path, name: str) -> None:
    case = {**CASES, **OTHERS}[name]
    for words in case.before:
        run(words, folder)
    path = folder / case.changes
    earlier, first = recorded(), contents(path)
    run(case.words, folder)
    assert contents(path) != first
    one, *others = recorded()
    assert [other["op"] for other in others] == [other["op"] for other in earlier]
    assert one["action"] == case.action
    assert sorted(one["threads"]) == sorted(case.threads)
    assert one["number"] == (len(case.threads) if case.number is None else case.number)
    assert (one["undoable"], one["why_not"] or "") == (not case.why_not, case.why_not)
    assert one.items() >= case.more.items()
    assert Path(one["store"]) == path
    undone = ckpt("-s", path, "undo", one["op"], "--yes")
    if case.why_not:
        assert undone.code == 5, undone.err
        assert case.why_not in undone.err
    else:
        assert undone.code == 0, undone.err
        assert contents(path) == first


URL = "postgresql://ann:S3cret@db.example/agents?sslpassword=S3cret"


@pytest.mark.parametrize(
    "words",
    [
        ["-s", URL, "gc", "--yes"],
        [f"-qs{URL}", "gc", "--yes"],
        ["gc", f"--store={URL}", "--yes"],
        ["copy", "--all", "--to", URL, f"-vqs{URL}"],
        ["memory", "copy", f"--to={URL}", "--replace"],
        ["-s", "x", "fork", "t1", "--replace", 'note="S3cret"', "--append=note=S3cret"],
        ["repair", "messages", "t1", "--content", "S3cret", "--content=S3cret"],
        ["purge", "--where", "metadata.user = S3cret", "--where=x = S3cret"],
        ["erase", "--value", "t1:card=S3cret", "--subject=metadata.user = S3cret"],
        ["memory", "edit", "key", "--set", "content=S3cret"],
    ],
    ids=lambda words: " ".join(words)[:20],
)
def test_no_secret_is_recorded_however_it_was_written(words: list[str]) -> None:
    text = command_text(root(), words)
    assert "S3cret" not in text
    assert text.startswith("ckpt ")
    for one in words:
        if not one.startswith("-") and "S3cret" not in one:
            assert one in text.split()


def test_an_id_that_looks_like_an_option_stays_an_id() -> None:
    words = ["-s", "x", "threads", "delete", "--yes", "--", "--where", "-sURL"]
    assert command_text(root(), words) == "ckpt -s x threads delete --yes -- --where -sURL"
    words = ["-s", "x", "rollback", "t1", "--steps=3", "--yes"]
    assert command_text(root(), words) == "ckpt -s x rollback t1 --steps 3 --yes"
