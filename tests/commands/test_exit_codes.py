"""Wrong input gets its exit code, a message of one line and a hint; never a traceback.

What each command refuses is tested in the file of its name.
"""

import asyncio
import csv
import io
import json
import os
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from uuid import UUID

import pytest

from ckpt_backends.model import CheckpointKey
from ckpt_backends.servers import understood
from ckpt_backends.url import parse_url
from ckpt_cli import __version__
from ckpt_cli.commands import tui
from ckpt_cli.core.doctor.findings import Severity
from ckpt_cli.core.retention import PurgeReport, PurgeSums, RemovalSum
from ckpt_cli.core.tasks import Question
from ckpt_cli.queries.incidents import Failure, Waiting
from ckpt_cli.render.purge import PURGE_SUMMARY, PurgeSummary
from ckpt_cli.render.summaries import doctor_summary, errors_summary
from ckpt_cli.render.table import Column, Record, table_lines, tsv_lines
from ckpt_cli.render.text import Ui
from ckpt_cli.tui import app
from tests.commands.words import refuses
from tests.kit.cases import cases
from tests.kit.command import ckpt

WRONG = {
    "show --chanel x": "no such option: --chanel (Possible options: --channel, --help)",
    "-Z": "no such option: -Z",
    "bogus": "no such command 'bogus'",
    "shwo": "no such command 'shwo'. Did you mean 'show'?",
    "show --channel": "option '--channel' requires an argument",
    "threads list --all=3": "option '--all' does not take a value",
    "threads list -n x": "invalid value for '-n' / '--limit': Input should be a valid integer, "
    "unable to parse string as an integer",
    "threads list -n 1000000000": "invalid value for '-n' / '--limit': 1000000000 is too large",
    "tail --interval x": "invalid value for '--interval': Input should be a valid number, "
    "unable to parse string as a number",
    "threads list --color red": "invalid value for '--color': 'red' is not one of 'auto', "
    "'always', 'never'",
}


@pytest.mark.parametrize("words", WRONG)
def test_a_wrong_command_line_is_told_in_one_line(words: str) -> None:
    answer = ckpt(*words.split(), code=2)
    line, hint = answer.err.splitlines()
    assert line == f"ckpt: {WRONG[words]}"
    assert hint.startswith("hint: see `ckpt")
    debugged = ckpt("--debug", *words.split())
    assert (debugged.code, debugged.err.startswith(TRACEBACK)) == (2, True)
    assert debugged.err.endswith(answer.err)


@pytest.mark.parametrize("words", ["--version", "--utc --version", "--version threads"])
def test_the_version(words: str) -> None:
    answer = ckpt(*words.split())
    assert (answer.code, answer.out, answer.err) == (0, f"ckpt {__version__}\n", "")


@cases(
    "words form", ("show nobody", "-o json"), ("bogus", "-ojson"), ("show -n", "--output=ndjson")
)
def test_an_error_is_one_json_line_if_json_is_wanted(sample: Path, words: str, form: str) -> None:
    answer = ckpt("-s", sample, *words.split(), *form.split())
    error = json.loads(answer.err)
    assert (answer.out, error["exit_code"]) == ("", answer.code)
    assert {"error", "message", "hint"} <= set(error)


SERVERS = ("postgresql", "mysql", "redis", "mongodb")


@cases(
    "store words code said",
    ("mistyped.db", "threads list", 4, "no such file"),
    ("mistyped.db", "mcp", 4, "no such file"),
    ("notes.db", "threads list", 4, "not a SQLite database"),
    ("store.db", "-o xml threads list", 2, "'xml' is not one of"),
    ("store.db", "--config none.toml threads list", 2, "cannot read 'none.toml'"),
    ("oracle://scott:tiger@db/x", "threads list", 2, "oracle://"),
    ("postgresql://127.0.0.1:1/db", "--copy threads list", 2, "--copy reads SQLite files only"),
    *((f"{one}://h:1/0?colour=1", "threads list", 2, "colour") for one in SERVERS),
)
def test_a_store_that_cannot_be_opened_is_not_made(
    sample: Path, monkeypatch: pytest.MonkeyPatch, store: str, words: str, code: int, said: str
) -> None:
    monkeypatch.chdir(sample.parent)
    Path("notes.db").write_text("dear diary")
    refuses(store, words, code, said)
    assert "tiger" not in ckpt("-s", store, *words.split()).err
    assert {path.name for path in Path().iterdir()} >= {"notes.db", "store.db"}
    assert not Path("mistyped.db").exists()


@cases(
    "ddl says",
    ("CREATE TABLE songs (name TEXT)", "found songs"),
    ("CREATE TABLE checkpoints (thread_id TEXT, checkpoint BLOB)", "unknown layout"),
    ("", "no tables at all"),
)
def test_a_database_of_another_layout(path: Path, ddl: str, says: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(ddl)
    refuses(path, "threads list", 4, says)


def test_an_error_of_a_time_is_in_its_zone(sample: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Kathmandu")
    time.tzset()
    words = ("-s", sample, "show", "trip-to-kyoto@2020-01-01")
    answers = [(ckpt(*words), "+05:45"), (ckpt("--utc", *words), "+00:00")]
    monkeypatch.undo()
    time.tzset()
    for answer, zone in answers:
        error, hint = answer.err.splitlines()
        assert (answer.code, hint.endswith(zone)) == (3, True)
        assert error.endswith(f"had no checkpoint at 2020-01-01T00:00:00{zone}")


# `--debug` prints the traceback wherever a hint says so, also where parsing fails


BUG = "hint: this is a bug in ckpt; run again with --debug and report what it prints"
WRONG_STORE = "hint: check that this is the right store; --debug shows where it failed"
TRACEBACK = "Traceback (most recent call last):\n"


def broken(*_: object, **__: object) -> None:
    raise RuntimeError("planted")


def misread(*_: object, **__: object) -> None:
    with understood(parse_url("redis://localhost")):
        raise KeyError("planted")


@cases(
    "place plant code hint",
    ("ckpt_cli.app.root", broken, 70, BUG),
    ("ckpt_cli.lazy.LazyCommand.load", broken, 70, BUG),
    ("ckpt_cli.commands.demo.writing", broken, 70, BUG),
    ("ckpt_cli.commands.demo.writing", misread, 4, WRONG_STORE),
    ("", None, 70, BUG),
    ids=["the parser", "the options", "the command", "what a store answered", "no parser"],
)
def test_a_hint_that_names_debug_is_right(
    monkeypatch: pytest.MonkeyPatch, place: str, plant: object, code: int, hint: str
) -> None:
    if place:
        monkeypatch.setattr(place, plant)
    else:
        monkeypatch.setitem(sys.modules, "typer", None)
    plain = ckpt("demo", "x", "--utc")
    error, told = plain.err.splitlines()
    assert (plain.code, told) == (code, hint)
    assert error.startswith("ckpt: ")
    for words in (["--debug", "demo", "x", "--utc"], ["demo", "x", "--utc", "--debug"]):
        answer = ckpt(*words, code=code)
        assert answer.err.startswith(TRACEBACK)
        assert "typer" in answer.err or "planted" in answer.err
        assert answer.err.endswith(plain.err)


def test_errors_on_the_screen_are_printed(sample: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It shows the error of a query, and goes on."""

    def run(screen: app.CkptApp) -> None:
        with pytest.raises(RuntimeError):
            asyncio.run(screen.context.detail.ask(broken))
        screen.context.close()

    terminal = SimpleNamespace(isatty=lambda: True)
    monkeypatch.setattr(tui, "sys", SimpleNamespace(stdin=terminal, stdout=terminal))
    monkeypatch.setattr(app.CkptApp, "run", run)
    assert ckpt("-s", sample, "tui").err == ""
    answer = ckpt("-s", sample, "tui", "--debug", code=0)
    assert answer.err.startswith(TRACEBACK)
    assert answer.err.endswith("RuntimeError: planted\n")


# The forms of an answer: the same facts in each, safe for whoever reads them


THREAD = {"thread_id", "head", "step", "first_at", "last_at", "checkpoints", "namespaces"}
DETAILS = {"status", "conditions", "next", "runs", "source", "parent", "metadata", "bytes", "user"}


@cases(
    "words keys",
    ("threads list", THREAD | DETAILS),
    ("threads list --all", THREAD),
    ("threads list --all --long", THREAD | DETAILS | {"title"}),
)
def test_what_takes_long_is_told_if_asked_for(sample: Path, words: str, keys: set[str]) -> None:
    """All other keys are those of the schemas, with which each answer of a test is compared."""
    first, *_ = ckpt("-s", sample, *words.split(), "-o", "json").json
    assert set(first) == keys


def test_options_may_stand_anywhere(sample: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("-s", sample, "threads", "list")
    array = ckpt(*words, "-o", "json").json
    lines = [json.loads(line) for line in ckpt(*words, "-o", "ndjson").out.splitlines()]
    rows = list(csv.DictReader(io.StringIO(ckpt(*words, "-o", "tsv").out), delimiter="\t"))
    assert lines == array
    assert [row["thread_id"] for row in rows] == [one["thread_id"] for one in array]
    assert [row["bytes"] for row in rows] == [str(one["bytes"]) for one in array]
    assert ckpt(*words).out == ckpt(*words, "-o", "tsv").out
    none = (*words, "--match", "nothing")
    assert (ckpt(*none, "-o", "json").out, ckpt(*none, "-o", "ndjson").out) == ("[]\n", "")
    assert (ckpt(*none, "--exit-code").code, ckpt(*words, "--exit-code").code) == (0, 1)
    # Global options stand anywhere.
    answers = [
        ckpt("-s", sample, "-o", "json", "threads", "list"),
        ckpt("threads", "-s", sample, "list", "-o", "json"),
        ckpt("threads", "list", "--store", sample, "--output=json"),
    ]
    monkeypatch.setenv("CKPT_STORE", str(sample))
    answers.append(ckpt("-o", "tsv", "threads", "list", "-o", "json"))
    assert len({answer.out for answer in answers}) == 1
    tree = ("show", "trip-to-kyoto", "--tree")
    assert "\x1b[" not in ckpt(*tree).out
    assert "\x1b[" in ckpt(*tree, "--color", "always").out


def run(words: list[str], **options: object) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(  # type: ignore[call-overload, no-any-return]
        [sys.executable, "-m", "ckpt_cli", *words], check=False, **options
    )


def test_nobody_reads_the_disk_is_full_or_there_is_no_unicode(sample: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    words = ["-s", str(sample), "show", "research-agent", "-o", "json"]
    done = run(words, stdout=write, stderr=subprocess.PIPE)
    os.close(write)
    assert (done.returncode, done.stderr) == (0, b"")
    words = ["-s", str(sample), "show", "research-agent"]
    with open("/dev/full", "wb") as full:
        done = run(words, stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 7
    assert done.stderr.startswith(b"ckpt: cannot write the answer: no space left")
    # A terminal without unicode gets escapes and ascii.
    environment = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    for words in (["show", "trip-to-kyoto"], ["show", "trip-to-kyoto", "--tree"]):
        done = run(["-s", str(sample), *words], capture_output=True, env=environment)
        assert done.returncode == 0, done.stderr
    assert b"|-" in done.stdout


def table(rows: Sequence[Record], columns: Sequence[Column], width: int) -> list[str]:
    return [line.text for line in table_lines(rows, columns, Ui(datetime.now(UTC), width=width))]


def test_a_row_that_no_table_can_hold_is_a_block() -> None:
    columns = [Column("NAMESPACE", "ns"), Column("ID", "id", drop=1), Column("NODE", "node")]
    ns, key = f"planner:{UUID(int=1)}", str(UUID(int=2))
    rows: list[Record] = [
        {"ns": ns, "id": key, "node": "plan"},
        {"ns": None, "id": key, "node": "book"},
    ]
    assert table(rows, columns, 40) == [
        *("namespace:", "  planner:", f"  {UUID(int=1)}", f"id: {key}", "node: plan", ""),
        *(f"id: {key}", "node: book"),
    ]
    short = [{"id": "short", "node": "plan"}] * 200
    lines = table([*short, {"id": "a" * 30, "node": "writer"}], columns[1:], 36)
    assert lines[:2] + lines[201:] == [
        "ID     NODE",
        "short  plan",
        "id: " + "a" * 30,
        "node: writer",
    ]


def test_tsv_escapes_what_would_break_a_line() -> None:
    rows = [{"a": "x\ty\nz\\", "b": {"c": 1}, "d": None, "e": True}]
    columns = [Column(name, name) for name in "abde"]
    assert list(tsv_lines(rows, columns)) == ["a\tb\td\te", 'x\\ty\\nz\\\\\t{"c":1}\t\ttrue']


# `--summary` prints one line with the numbers of the whole answer, and no id


NOW = datetime(2026, 11, 23, 9, 30, tzinfo=UTC)
MIB = 1 << 20


def test_a_purge_is_summed_up() -> None:
    sums = PurgeSums(removed=RemovalSum(9312, 120_000, 0, 0, 1229 * MIB))
    kept = [(str(n), "a step is pending (to remove: --include-pending)") for n in range(1688)]
    report = PurgeReport(skipped={"a": "changed meanwhile", "b": "changed meanwhile"}, sums=sums)
    assert PurgeSummary(sums, kept, report, 14.2).text() == (
        "purge: removed 9,312 threads (120,000 checkpoints, 1.2 GiB) in 14 s,"
        " kept 1,688 (a step is pending), skipped 2 (changed meanwhile)"
    )
    sums = PurgeSums(pruned=RemovalSum(1, 1, 0, 0, 10))
    report = PurgeReport(left=3, stopped="the time is up", sums=sums)
    assert PurgeSummary(sums, [], report, 3725).text() == (
        "purge: pruned 1 thread (1 checkpoint, 10 B) in 1 h 2 min, 3 left: the time is up"
    )
    found = PURGE_SUMMARY.record(PurgeSummary(PurgeSums(), [], PurgeReport(), None))
    assert found["summary"] == "purge: would remove nothing"


def test_findings_are_summed_up() -> None:
    codes = Counter({"value-missing": 3, "step-uncommitted": 12})
    found = doctor_summary({Severity.ERROR: 3, Severity.WARNING: 12}, codes, 10_000, 1)
    assert found["summary"] == (
        "doctor: 3 errors, 12 warnings in 10,000 threads: step-uncommitted 12, value-missing 3;"
        " could not check 1 thread"
    )
    assert doctor_summary({}, Counter(), 1, 0)["summary"] == "doctor: no findings in 1 thread"


QUESTION = Question(None, "task", "ask", "Go on?", answered=False)


def failure(thread_id: str, error: str, at: datetime | None) -> Failure:
    key = CheckpointKey(thread_id, "", "1")
    return Failure(key, None, ("a",), error, at, retried=False, handled=False, blocks=True)


def test_failed_tasks_and_questions_are_summed_up() -> None:
    early = NOW - timedelta(hours=7, minutes=16)
    failures = [
        failure("one", "TimeoutError('no answer')", NOW),
        failure("one", "app.errors.TimeoutError: lost", None),
        failure("two", "KeyError('x')", early),
        failure("three", "\x1b[2J went wrong", early),
    ]
    asked = [
        Waiting(CheckpointKey(name, "", "1"), QUESTION, at)
        for name, at in (("one", NOW), ("four", NOW - timedelta(days=3)), ("four", None))
    ]
    found = errors_summary(failures, asked, NOW, UTC)
    assert found["summary"] == (
        "errors: 3 threads failed since 02:14: TimeoutError 2, KeyError 1, other 1;"
        " 2 wait for a person, the oldest for 3d"
    )
    assert (found["failures"], found["questions"]) == (4, 3)
    last_year = [failure("one", "redacted, 4 characters", NOW - timedelta(days=366))]
    text = errors_summary(last_year, [], NOW, UTC)["summary"]
    assert text == "errors: 1 thread failed since Nov 22 2025 09:30"
    assert errors_summary([], [], NOW, UTC)["summary"] == "errors: none"


@cases(
    "words",
    *(["errors", "--exit-code"], ["doctor", "--deep", "--strict"]),
    ["purge", "--older-than", "1h", "--yes"],
    ids=" ".join,
)
def test_it_is_one_line_without_ids_and_the_same_exit_code(words: list[str], sample: Path) -> None:
    listed = ckpt("-s", sample, "threads", "list", "--all", "-o", "json").json
    again = sample.with_name("again.db")
    again.write_bytes(sample.read_bytes())
    told, long = ckpt("-s", sample, *words, "--summary"), ckpt("-s", again, *words)
    assert told.code == long.code
    assert told.out.startswith(f"{words[0]}: ")
    assert told.out.count("\n") == 1
    assert not [one["thread_id"] for one in listed if one["thread_id"] in told.out + told.err]
    in_json = ckpt("-s", sample, *words, "--summary", "-o", "json")
    assert in_json.json["summary"].startswith(f"{words[0]}: ")
