"""`apply` carries out a saved plan exactly as the command would have done it, or not at all: it is
one operation, which can be undone and made again.
"""

import hashlib
import json
import shlex
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpt_backends.registry import open_store
from ckpt_cli.app import root
from ckpt_cli.commands.plan_out import TERMS, PlanTerms
from ckpt_cli.core.forking import seeded
from ckpt_cli.plans.saved_plan import rows_digest
from ckpt_cli.session import Session
from tests.commands.words import refusals
from tests.kit.cases import cases
from tests.kit.command import SAMPLE, CommandResult, ckpt
from tests.kit.recorded_store import DAMAGED, ORPHANED, STALE, UNANSWERED, fill
from tests.kit.rows import rows_of
from tests.kit.savers.deerflow import memory, save

KYOTO, REFUND = "trip-to-kyoto", "refund-4711"
PLAN = Path("plan.ndjson")


class Case(NamedTuple):
    """A command line that changes a store, and what it records."""

    words: str
    threads: str = ""
    """Those that it names; as many items are changed."""
    moves: str = f"rollback {KYOTO} --steps 1 --yes"
    """What changes the store meanwhile, so that the plan is not carried out."""
    before: tuple[str, ...] = ()
    """What is run first."""
    again: str = ""
    """What is given again when the plan is carried out."""
    number: int = 0
    """The number of changed items of memory."""
    why_not: str = ""
    """Why it cannot be undone."""
    changes: str = "store.db"
    """The store that is changed."""


ROLLBACK = f"rollback {KYOTO} --steps 3 --reason 'wrong hotel'"
DELETE, FORGET = f"threads delete {KYOTO} --archive archive", "memory delete --match t*"
COPY = f"copy {KYOTO} {REFUND} --to other.db"
NO_ARCHIVE, OTHER = "no archive was made", "other.db"
CASES = {
    "rollback": Case(ROLLBACK, KYOTO),
    "rollback root only": Case(f"rollback {KYOTO} --steps 4 --root-only", KYOTO),
    "fork": Case(f"""fork {KYOTO} step:3 --replace 'itinerary=["rest"]'""", KYOTO),
    "fork set": Case(
        f"""fork {KYOTO} step:3 --set 'messages=[{{"role": "user", "content": "x"}}]'""", KYOTO
    ),
    "edited copy": Case(f"fork {KYOTO} head~2 --replace hotel=null --as new", "new"),
    "copy checkpoint": Case(f"copy {KYOTO} --at head --as new", "new"),
    "copy thread": Case(f"copy {KYOTO} --as new", "new"),
    "threads delete": Case(f"{DELETE} {REFUND}", f"{KYOTO} {REFUND}"),
    "purge": Case(f"purge --match {KYOTO} --include-pending", KYOTO, why_not=NO_ARCHIVE),
    "prune": Case(f"purge --match {KYOTO} --keep-last 2 --archive archive", KYOTO),
}
"""Those whose new ids and times follow from the plan."""
MORE = {
    "copy to another store": Case(f"{COPY} --create", f"{KYOTO} {REFUND}", changes=OTHER),
    "copy of what is new": Case(
        COPY, KYOTO, before=(f"{COPY} --create --yes", f"fork {KYOTO} step:3 --yes"), changes=OTHER
    ),
    "copy that replaces": Case(
        f"{COPY} --replace",
        KYOTO,
        before=(f"{COPY} --create --yes", f"-s other.db rollback {KYOTO} --steps 3 --yes"),
        why_not="what it replaced was not kept",
        changes=OTHER,
    ),
    "undo": Case(f"undo {KYOTO}", KYOTO, before=(f"{ROLLBACK} --yes",)),
    "redo": Case("redo", KYOTO, before=(f"{ROLLBACK} --yes", f"undo {KYOTO} --yes")),
    "undo of a removal": Case("undo", KYOTO, moves="", before=(f"{DELETE} --yes",)),
    "import": Case("import archive", KYOTO, moves="", before=(f"{DELETE} --yes",)),
    "import that is converted": Case(
        "import archive --to other.db --create",
        KYOTO,
        moves="",
        before=(f"export {KYOTO} --to archive",),
        changes=OTHER,
    ),
    "migrate": Case(
        f"migrate {KYOTO} --rename-channel hotel=inn", KYOTO, f"rollback {KYOTO} ~1 --yes"
    ),
    "repair messages": Case(
        f"repair messages {UNANSWERED}", UNANSWERED, f"rollback {UNANSWERED} ~1 --yes"
    ),
    "repair values": Case(f"repair values {DAMAGED}", DAMAGED, f"rollback {DAMAGED} ~1 --yes"),
    "repair of many": Case(
        "repair writes --match stale-*", " ".join(STALE), f"rollback {STALE[0]} ~1 --yes"
    ),
    "replay": Case(f"replay {DAMAGED} --repair", DAMAGED, f"rollback {DAMAGED} ~1 --yes"),
    "gc": Case(
        "gc --scope all --archive archive", ORPHANED, moves=f"threads delete {ORPHANED} --yes"
    ),
    "erase": Case(f"erase {REFUND}", number=1, moves="", why_not="an erasure cannot be undone"),
    "erase a value": Case(
        f"erase --value {KYOTO}:messages[0].content",
        KYOTO,
        why_not="an erasure cannot be taken back",
    ),
    "rekey": Case(
        f"rekey {KYOTO} --encrypt --new-key-file new.key",
        KYOTO,
        again="--new-key-file new.key",
        why_not="rekey again with the former key",
    ),
    "memory delete": Case(
        f"{FORGET} --archive archive", number=2, moves="memory delete users/anna/tea --yes"
    ),
    "memory delete for good": Case(FORGET, number=2, moves="", why_not=NO_ARCHIVE),
    "memory copy": Case("memory copy --to other.db --create", number=3, moves="", changes=OTHER),
    "memory import": Case(
        "memory import archive/items",
        number=2,
        moves="",
        before=(f"{FORGET} --archive archive --yes",),
    ),
    "memory edit": Case(
        "-s memory.json memory edit fact_a1b2c3d4 --set category=goal --write",
        number=1,
        moves="-s memory.json memory edit fact_a1b2c3d4 --set category=other --write",
        changes="memory.json",
    ),
}
"""The conformance suite does the same with changes of one thread."""


ALL = {**CASES, **MORE}
COMMANDS: dict[str, Any] = dict(root().walk())
CHANGING = [
    name
    for name, one in COMMANDS.items()
    if {"dry_run", "yes", "write"} & {option.name for option in one.params}
    and name not in {"apply", "tui", "trust"}  # they ask, and plan nothing by themselves
]


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a store on which each command has something to do."""
    folder = tmp_path_factory.mktemp("plans")
    fill(folder, SAMPLE)
    save(folder / "memory.json", memory())
    key = folder / "new.key"
    key.write_text("k" * 32)
    key.chmod(0o600)
    return folder


@pytest.fixture(autouse=True)
def folder(filled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it, in which the test runs."""
    shutil.copytree(filled, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(words: str, *more: str) -> CommandResult:
    first = [] if words.startswith("-s") else ["-s", "store.db"]
    return ckpt(*first, *shlex.split(words), *more)


def apply(case: Case, *more: str) -> CommandResult:
    first = "-s memory.json" if "memory.json" in case.words else "-s store.db"
    return ckpt(*first.split(), "apply", PLAN, *shlex.split(case.again), *(more or ["--yes"]))


def content() -> dict[str, object]:
    """All that the files hold which a plan may change."""
    return {
        "store.db": rows_of(Path("store.db")),
        "other.db": rows_of(Path("other.db")),
        "memory.json": {**json.loads(Path("memory.json").read_bytes()), "lastUpdated": None},
        "archive": sorted(Path("archive").glob("*")),
    }


def planned(case: Case) -> list[dict[str, Any]]:
    """Save the plan of a command, and return its lines."""
    for words in case.before:
        assert run(words).code == 0
    if case.words == "memory import archive/items":
        (items,) = Path("archive").iterdir()
        items.rename("archive/items")
    PLAN.unlink(missing_ok=True)
    before, files = content(), {*Path().iterdir()}
    answer = run(case.words, "--plan-out", str(PLAN))
    assert answer.code == 0, answer.err
    assert f"apply {PLAN}" in answer.err
    assert "dry run" not in answer.err
    assert content() == before
    assert {*Path().iterdir()} - files == {PLAN}
    assert PLAN.stat().st_mode & 0o777 == 0o600
    return [json.loads(line) for line in PLAN.read_text().splitlines()]


def head_of(thread: str) -> str | None:
    with open_store("store.db") as opened:
        found = opened.thread(thread)
    return None if found is None else found.head


def ops() -> list[dict[str, Any]]:
    """Return the operations, the newest first."""
    found: list[dict[str, Any]] = ckpt("ops", "list", "--all", "-o", "json").json
    return found


@pytest.mark.parametrize("case", ALL.values(), ids=ALL)
def test_a_plan_is_carried_out_once_as_one_operation_that_is_undone_and_redone(case: Case) -> None:
    _, *facts, _ = planned(case)
    earlier, before = ops(), content()
    shown = apply(case, "--dry-run")
    assert (shown.code, content()) == (0, before), shown.err
    runs = [] if "--write" in case.words else [run(case.words)]
    for asking in (*runs, apply(case, "--utc")):
        assert (asking.code, "confirmation needed" in asking.err) == (5, True), asking.err
        assert content() == before
    done = apply(case)
    assert done.code == 0, done.err
    after = content()
    assert after != before
    # What is reviewed is what runs, up to each id.
    added = {one["thread_id"]: one["adds"][-1] for one in facts if one.get("adds")}
    assert added == {thread: head_of(thread) for thread in added}
    again = apply(case)
    assert (again.code, content()) == (6, after), again.err
    one, *others = ops()
    assert [other["op"] for other in others] == [other["op"] for other in earlier]
    words = case.words.removeprefix("-s memory.json ")
    action = next(name for name in sorted(CHANGING, reverse=True) if words.startswith(name))
    assert one["action"] == ("repair" if action.startswith("rep") else action)
    assert sorted(one["threads"]) == sorted(case.threads.split())
    assert one["number"] == (case.number or len(one["threads"]))
    assert (one["undoable"], one["why_not"] or "") == (not case.why_not, case.why_not)
    assert one["store"] == str(Path(case.changes).absolute())
    undone = ckpt("-s", case.changes, "undo", one["op"], "--yes")
    if case.why_not:
        assert (undone.code, case.why_not in undone.err) == (5, True), undone.err
        return
    assert undone.code == 0, undone.err
    assert content()[case.changes] == before[case.changes]
    redone = ckpt("-s", case.changes, "redo", "--yes")
    if action == "undo" or case.changes == OTHER:  # Of copies, the command runs again.
        assert redone.code == (3 if action == "undo" else 5), redone.err
    else:
        assert redone.code == 0, redone.err
        assert content()[case.changes] == after[case.changes]


@pytest.mark.parametrize("case", [one for one in MORE.values() if one.moves])
def test_nothing_is_written_if_the_thread_moved(case: Case) -> None:
    planned(case)
    moved = run(case.moves)
    assert moved.code == 0, moved.err
    before = content()
    refused = apply(case)
    assert (refused.code, content()) == (6, before), refused.err
    assert "--plan-out" in refused.err


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_plan_writes_the_rows_that_the_command_writes(case: Case) -> None:
    """With the same clock and the same random numbers; and again the same in a second run."""
    for name in ("direct.db", "kept.db"):
        shutil.copyfile("store.db", name)
    top, *_ = planned(case)
    assert apply(case).code == 0
    once = rows_of(Path("store.db"))
    shown = run(f"-s direct.db {case.words}", "--dry-run")
    assert (shown.code, "dry run: nothing was " in shown.err) == (0, True), shown.err
    with patch.object(Session, "now", datetime.fromisoformat(top["made_at"])), seeded(top["seed"]):
        assert run(f"-s direct.db {case.words}", "--yes").code == 0
    assert rows_of(Path("direct.db")) == once
    shutil.copyfile("kept.db", "store.db")
    assert apply(case).code == 0
    assert rows_of(Path("store.db")) == once


def test_an_archive_that_was_replaced_is_not_imported() -> None:
    for name in ("one", "two"):
        assert run(f"export {KYOTO} --to {name}").code == 0
    case = Case("import one", before=(f"threads delete {KYOTO} --yes",))
    planned(case)
    (file,), (other,) = (list(Path(name).iterdir()) for name in ("one", "two"))
    other.replace(file)
    before = content()
    assert (apply(case).code, content()) == (6, before)


@pytest.mark.parametrize("side", ["store.db", "other.db"])
@pytest.mark.parametrize("words", ["--to other.db", "--at head --as new"])
def test_a_copied_thread_is_compared_row_by_row(side: str, words: str) -> None:
    case = Case(f"copy {REFUND} {words}", before=(f"copy {REFUND} --to other.db --create --yes",))
    assert (run(case.before[0]).code, run(f"rollback {REFUND} --steps 1 --yes").code) == (0, 0)
    planned(case._replace(before=()))
    with closing(sqlite3.connect(side)) as db, db:
        # The same number of rows, and the same ids.
        db.execute("UPDATE writes SET value = zeroblob(9) WHERE thread_id = ?", [REFUND])
    before = content()
    code = 0 if (side, words) == ("other.db", "--at head --as new") else 6
    assert (apply(case).code, content() == before) == (code, code == 6)


def test_a_plan_holds_no_key_and_takes_no_other() -> None:
    case = MORE["rekey"]
    head, *_ = planned(case)
    assert "new.key" not in str(head["options"])
    assert "kkkkkkkk" not in PLAN.read_text()
    before = content()
    missing = apply(case._replace(again=""))
    assert (missing.code, "--new-key-file" in missing.err) == (2, True)
    other = Path("another.key")
    other.write_text("o" * 32)
    other.chmod(0o600)
    assert apply(case._replace(again="--new-key-file another.key")).code == 6
    assert content() == before
    assert apply(case).code == 0
    # A copy of encrypted values is planned, too.
    words = ("--aes-key-file", "new.key")
    assert run(f"rollback {KYOTO} --steps 1 --plan-out {PLAN}", *words).code == 0
    assert (apply(Case(""), "--yes", *words).code, apply(Case(""), "--yes", *words).code) == (0, 6)


def test_a_question_is_asked_and_its_answer_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    planned(CASES["rollback"])
    before = content()
    ckpt("apply", PLAN, code=5)
    answers: list[Callable[[str], bool]] = [lambda _: False, lambda _: True]
    for code, answer in zip((5, 0), answers, strict=True):
        monkeypatch.setattr("ckpt_cli.diagnostics.ask", answer)
        ckpt("apply", PLAN, code=code)
        assert (content() == before) == (code == 5)


@cases(
    "words code",
    ("rollback none --plan-out plan.ndjson", 3),
    (f"rollback {KYOTO} --plan-out plan.ndjson/x", 2),
    ("erase --values-from - --plan-out plan.ndjson", 2),  # stdin cannot be read again
)
def test_a_command_that_fails_leaves_no_plan(words: str, code: int) -> None:
    assert run(words).code == code
    assert not PLAN.exists()
    assert list(Path().glob(".*.part")) == []


def test_the_digest_of_rows_depends_on_no_order() -> None:
    with open_store("store.db") as store:
        found = list(store.rows(KYOTO))
    assert rows_digest(found) == rows_digest(reversed(found))


def test_each_command_that_changes_a_store_is_tried() -> None:
    assert {"rollback", "purge", "undo", "memory edit"} <= set(CHANGING)
    tried = [case.words.removeprefix("-s memory.json ") for case in ALL.values()]
    assert [one for one in CHANGING if not any(words.startswith(one) for words in tried)] == []


@pytest.mark.parametrize("name", CHANGING)
def test_its_plan_holds_no_key_or_server(name: str) -> None:
    """An option that names one is given again, or has no part in carrying out the plan."""
    params = COMMANDS[name].params
    terms = getattr(COMMANDS[name].callback, TERMS, None)
    assert isinstance(terms, PlanTerms)
    assert terms.action == name
    names = {it.name for it in params}
    assert "plan_out" in names
    assert terms.again <= names & {it.name for it in COMMANDS["apply"].params}
    stores = {it.name for it in params if it.param_type_name == "option" and it.metavar == "STORE"}
    secret = {it for it in names if it and it.endswith(("_key", "key_file"))}
    assert secret | stores <= terms.again | {
        "aes_key_file",  # of every command: the key of the store itself
        "user_key",  # the same: where threads name their user
        "memory",  # only shows what came from removed threads
    }


# A plan may be damaged or come from a stranger: it is refused, or it is only what it shows


STEPS = Case(f"rollback {KYOTO} --steps 2")
leaves = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
documents = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


def seal(*records: dict[str, Any]) -> None:
    """Write a plan of these lines, its end as it has to be."""
    lines = [json.dumps(one, separators=(",", ":")) + "\n" for one in records]
    sha256 = hashlib.sha256("".join(lines).encode()).hexdigest()
    end = json.dumps({"facts": len(lines) - 1, "sha256": sha256}, separators=(",", ":"))
    PLAN.write_text("".join(lines) + end + "\n")


def change(place: str, **values: Any) -> None:
    """Change the header, or a part of it, and leave a plan that is not damaged otherwise."""
    head, *facts, _ = map(json.loads, PLAN.read_text().splitlines())
    (head[place] if place else head).update(values)
    seal(head, *facts)


def refused(*words: str) -> str:
    before = Path("store.db").read_bytes()
    answer = apply(STEPS, "--yes", *words)
    assert answer.code in {2, 4, 6}, answer.err
    assert Path("store.db").read_bytes() == before
    return answer.err


def test_a_plan_that_is_cut_off_or_edited_is_not_carried_out(monkeypatch: Any) -> None:
    planned(STEPS)
    text = PLAN.read_bytes()
    lines = text.splitlines(keepends=True)
    edited = text.replace(b'"steps":2', b'"steps":3')
    for damaged in (b"", text[:-2], edited, text + lines[1], lines[0] + lines[2], b"[" * 100_000):
        PLAN.write_bytes(damaged)
        refused()
    # Other options give another plan, and no variable is expanded.
    PLAN.write_bytes(text)
    change("options", steps=3)
    assert "changed since" in refused()
    monkeypatch.setenv("NAME", KYOTO)
    change("options", thread="${NAME}")
    assert "${NAME}" in refused()
    PLAN.write_bytes(text)
    assert apply(STEPS).code == 0


@cases(
    "place name value",
    *(("", "action", one) for one in ("purge", "threads list", "apply")),
    ("", "kind", "removal"),
    *(("", "made_at", f"{one}-01-01T00:00:00Z") for one in ("0001", "9000")),
    ("", "made_at", "2026-01-01"),
    ("", "options", []),
    ("", "again", ["new_key_file"]),
    ("", "seed", None),
    ("options", "steps", {}),
    ("options", "thread", [["a"]]),
    ("options", "yes", True),
    *(("options", one, "/tmp/x") for one in ("plan_out", "audit")),
    ("options", "aes_key_file", "/etc/hostname"),
    ("options", "store", "postgresql://stranger/db"),
    ("options", "nothing", 1),
)
def test_a_header_that_no_command_writes_is_refused(place: str, name: str, value: Any) -> None:
    planned(STEPS)
    change(place, **{name: value})
    refused()


def test_a_plan_is_for_its_store_only() -> None:
    planned(STEPS)
    for option in ("--to", "--memory", "--new-key-file"):
        assert f"made without {option}" in refused(option, "new.key")
    text = PLAN.read_bytes()
    for path in ("postgresql://stranger.invalid/db", "agent.db", "/x?layout=y", "/x\0"):
        change("", path=path)
        answer = ckpt("apply", PLAN, "--yes", code=2, says="no store given")
    planned(Case(f"copy {KYOTO} --to b.db --create"))
    change("target", path="", store="redis://stranger.invalid")
    assert "named again" in refused()
    assert "made for the store" in refused("--to", "c.db")
    PLAN.write_bytes(text)
    shutil.copyfile("store.db", "other.db")
    before = content()
    answer = ckpt("-s", "other.db", "apply", PLAN, "--yes")
    assert (answer.code, content()) == (2, before)
    assert "it was made for the store" in answer.err
    Path("link.db").symlink_to("store.db")
    ckpt("-s", "link.db", "apply", PLAN, "--yes", code=0)


def test_hostile_plans_are_used_or_refused() -> None:
    *lines, _ = planned(STEPS)
    before = Path("store.db").read_bytes()

    def check(drawn: tuple[int, int, Any]) -> None:
        number, place, value = drawn
        changed = [dict(line) for line in lines]
        line = changed[number % len(lines)]
        line[sorted(line)[place % len(line)]] = value
        seal(*changed)
        apply(STEPS, "--dry-run").ends_cleanly(0, 2, 3, 4, 5, 6)
        assert Path("store.db").read_bytes() == before

    given(st.tuples(st.integers(0, 99), st.integers(0, 99), documents))(check)()


test_wrong_words_are_refused = refusals(
    ("apply", 2, "missing argument"), ("apply none.ndjson", 2, "none.ndjson")
)
