"""Each command that changes a store records one operation, which gives the first rows back."""

import json
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ckpt_cli.app import root
from ckpt_cli.lazy import command_text
from tests.kit.cases import cases
from tests.kit.command import SAMPLE, ckpt
from tests.kit.recorded_store import DAMAGED, ORPHANED, STALE, UNANSWERED, fill
from tests.kit.rows import rows_of
from tests.kit.savers.deerflow import memory, save

TRIP, REFUND = "trip-to-kyoto", "refund-4711"
BOTH = f"{TRIP} {REFUND}"


class Case(NamedTuple):
    """A command line, which gets `--yes`, and what it records."""

    words: str
    threads: str = ""
    """Those that it names; as many items are changed."""
    action: str = ""
    """What it is recorded as; by default as the name of the case."""
    before: tuple[str, ...] = ()
    """Command lines that are run first."""
    number: int = 0
    """The number of changed items of memory."""
    why_not: str = ""
    """Why it cannot be undone."""
    changes: str = "store.db"
    """The store that is changed."""


ROLLBACK = f"rollback {TRIP} --steps 2"
DELETE = "threads delete {} --archive archive"
FORGET = "memory delete --match t* --archive archive"
COPY = "copy {} --to other.db"
NO_ARCHIVE = "no archive was made"
CASES = {
    "rollback": Case(ROLLBACK, TRIP),
    "fork": Case(f"fork {TRIP} head~2", TRIP),
    "undo": Case(f"undo {TRIP}", TRIP, before=(ROLLBACK,)),
    "redo": Case("redo", TRIP, before=(ROLLBACK, "undo")),
    "apply": Case("apply plan", TRIP, "rollback", before=(f"{ROLLBACK} --plan-out plan",)),
    "migrate": Case(f"migrate {TRIP} --rename-channel hotel=inn", TRIP),
    "repair messages": Case(f"repair messages {UNANSWERED}", UNANSWERED, "repair"),
    "repair values": Case(f"repair values {DAMAGED}", DAMAGED, "repair"),
    "repair writes": Case("repair writes --match stale-*", " ".join(STALE), "repair"),
    "replay": Case(f"replay {DAMAGED} --repair", DAMAGED, "repair"),
    "purge": Case(f"purge --match {TRIP} --keep-last 2 --archive archive", TRIP),
    "gc": Case("gc --scope all --archive archive", ORPHANED),
    "threads delete": Case(DELETE.format(BOTH), BOTH),
    "import": Case("import archive", TRIP, before=(DELETE.format(TRIP),)),
    "copy": Case(f"{COPY} --create".format(BOTH), BOTH, changes="other.db"),
    "rekey": Case(
        f"rekey {REFUND} --encrypt --new-key-file new.key",
        REFUND,
        why_not="rekey again with the former key",
    ),
    "erase": Case(f"erase {REFUND}", number=1, why_not="an erasure cannot be undone"),
    "memory delete": Case(FORGET, number=2),
    "memory edit": Case(
        "-s memory.json memory edit fact_a1b2c3d4 --set category=goal --write",
        number=1,
        changes="memory.json",
    ),
    "memory import": Case("memory import archive/BUNDLE", before=(FORGET,), number=2),
    "memory copy": Case("memory copy --to other.db --create", number=3, changes="other.db"),
}
OTHERS = {
    "a copy of a checkpoint": Case(f"copy {TRIP}@head~2 --as new", "new", "copy"),
    "an edited copy": Case(f"fork {TRIP} head~2 --replace hotel=null --as new", "new", "fork"),
    "a purge for good": Case(
        f"purge --match {TRIP} --include-pending", TRIP, "purge", why_not=NO_ARCHIVE
    ),
    "items removed for good": Case(
        "memory delete --match t*", "", "memory delete", number=2, why_not=NO_ARCHIVE
    ),
    "an import that is converted": Case(
        "import archive --to other.db --create",
        TRIP,
        "import",
        before=(f"export {TRIP} --to archive",),
        changes="other.db",
    ),
    "a copy of what is new": Case(
        COPY.format(BOTH),
        TRIP,
        "copy",
        before=(f"{COPY} --create".format(BOTH), ROLLBACK),
        changes="other.db",
    ),
    "a copy by several processes": Case(
        f"{COPY} --create --jobs 2".format(BOTH), BOTH, "copy", changes="other.db"
    ),
    "a copy that replaces": Case(
        f"{COPY} --replace".format(TRIP),
        TRIP,
        "copy",
        before=(f"{COPY} --create".format(TRIP), f"-s other.db rollback {TRIP} --steps 3"),
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
    if words.endswith("BUNDLE"):
        (bundle,) = (folder / "archive").glob("memory-*")
        words = words.replace("archive/BUNDLE", str(bundle))
    store = () if words.startswith("-s") else ("-s", "store.db")
    yes = () if words.endswith("--write") or words.startswith("export") else ("--yes",)
    done = ckpt(*store, *words.split(), *yes)
    assert done.code == 0, done.err


def recorded() -> list[dict[str, Any]]:
    """Return the operations, the newest first."""
    found: list[dict[str, Any]] = ckpt("ops", "list", "--all", "-o", "json").json
    return found


def contents(path: Path) -> Any:
    """Return what a store holds, apart from the time at which it was saved."""
    if path.suffix == ".json":
        return {**json.loads(path.read_bytes()), "lastUpdated": None}
    return rows_of(path)


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
    assert one["action"] == (case.action or name)
    assert sorted(one["threads"]) == sorted(case.threads.split())
    assert one["number"] == (case.number or len(one["threads"]))
    assert (one["undoable"], one["why_not"] or "") == (not case.why_not, case.why_not)
    assert Path(one["store"]) == path
    undone = ckpt("-s", path, "undo", one["op"], "--yes")
    if case.why_not:
        assert undone.code == 5, undone.err
        assert case.why_not in undone.err
    else:
        assert undone.code == 0, undone.err
        assert contents(path) == first


URL = "postgresql://ann:S3cret@db.example/agents?sslpassword=S3cret"


@cases(
    "words",
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
