"""Wrong input gets its exit code, a message of one line and a hint; never a traceback."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.kit.command import ckpt

WRONG = [
    (2, ["bogus"], "no such command 'bogus'"),
    (2, ["threads", "lst"], "did you mean 'list'"),
    (2, ["show", "-dash"], "goes after `--`"),
    (2, ["threads", "list", "--limit", "0"], "--limit"),
    (2, ["threads", "list", "--limit", "many"], "--limit"),
    (2, ["threads", "list", "--sort", "colour"], "'colour' is not one of 'last', "),
    (2, ["threads", "show", "trip-to-kyoto"], "use `ckpt show THREAD`"),
    (2, ["errors", "--by", "channel"], "'channel' is not one of 'error', 'node'"),
    (2, ["threads", "list", "--status", "sleepy"], "'sleepy' is not one of 'error', "),
    (2, ["threads", "list", "--since", "soon"], "'soon' is not a time"),
    (2, ["interrupts", "--older-than", "soon"], "'soon' is not a time"),
    (2, ["interrupts", "refund-4711", "--match", "*"], "cannot be combined with --match"),
    (2, ["-o", "xml", "threads", "list"], "'xml' is not one of"),
    (2, ["--config", "none.toml", "threads", "list"], "cannot read 'none.toml'"),
    (2, ["show", "trip-to-kyoto", "--tree", "--writes"], "--tree draws a whole thread"),
    (2, ["show", "trip-to-kyoto", "--unfold"], "add --tree"),
    (2, ["show", "trip-to-kyoto", "--path", "a..b"], "cannot read path"),
    (2, ["show", "trip-to-kyoto@head", "--as-of", "2h"], "cannot be combined with --as-of"),
    (2, ["show", "trip-to-kyoto", "--at", "step:x"], "'step:x' is not a step"),
    (2, ["show", "trip-to-kyoto", "--at", "2026-99-99"], "is not a time"),
    (2, ["messages", "trip-to-kyoto", "--last", "0"], "--last"),
    (2, ["grep"], "missing argument"),
    (2, ["grep", "(", "-n", "1"], "cannot read the pattern '('"),
    (2, ["grep", "a", "--jobs", "0"], "--jobs"),
    (2, ["blame", "trip-to-kyoto"], "missing argument"),
    (2, ["blame", "trip-to-kyoto", "messages[].id"], "is not the path of one value"),
    (2, ["blame", "trip-to-kyoto", "."], "is not the path of one value"),
    (2, ["du", "--by", "colour"], "'colour' is not one of 'thread', 'channel'"),
    (2, ["du", "--top", "0"], "--top"),
    (2, ["tail", "trip-to-kyoto", "--interval", "0"], "--interval"),
    (3, ["messages", "nobody"], "no thread 'nobody'"),
    (3, ["messages", "nightly-report"], "no channel of this checkpoint holds messages"),
    (3, ["messages", "trip-to-kyoto", "--channel", "gone"], "its channels: booking"),
    (3, ["messages", "trip-to-kyoto", "--channel", "hotel"], "holds no messages"),
    (3, ["blame", "nobody", "plan"], "no thread 'nobody'"),
    (3, ["blame", "trip-to-kyoto", "messages[99]"], "a list of 10 items"),
    (3, ["blame", "trip-to-kyoto@step:99", "hotel"], "no checkpoint 'step:99'"),
    (3, ["du", "nobody"], "no thread 'nobody'"),
    (3, ["tail", "nobody"], "no thread 'nobody'"),
    (3, ["tail", "trip-to-kyoto", "--ns", "gone"], "no namespace 'gone'"),
    (3, ["show", "nobody@head"], "no thread 'nobody'"),
    (
        2,
        ["show", "trip-to-kyoto", "--path", "hotel", "--channel", "hotel"],
        "cannot be combined with",
    ),
    (3, ["history", "nobody"], "no thread 'nobody'"),
    (3, ["diff", "nobody"], "no thread 'nobody'"),
    (3, ["interrupts", "nobody"], "no thread 'nobody'"),
    (3, ["show", "nobody"], "no thread 'nobody'"),
    (3, ["show", "nobody", "--tree"], "no thread 'nobody'"),
    (3, ["show", "trip-to-kyoto@zzzz"], "newest first:"),
    (3, ["show", "trip-to-kyoto@1f1e"], "is ambiguous: 16 checkpoints"),
    (3, ["show", "trip-to-kyoto@step:5"], "2 checkpoints of thread 'trip-to-kyoto' match"),
    (3, ["show", "trip-to-kyoto@step:99"], "no checkpoint 'step:99'"),
    (3, ["show", "trip-to-kyoto@~99"], "~13 is the oldest"),
    (3, ["show", "trip-to-kyoto@tip:9"], "tip:0 to tip:1"),
    (3, ["show", "trip-to-kyoto", "--as-of", "2020-01-01"], "its first checkpoint is from"),
    (3, ["show", "trip-to-kyoto", "--ns", "gone"], "no namespace 'gone'"),
    (3, ["show", "trip-to-kyoto", "--channel", "gone"], "its channels: booking"),
    (3, ["show", "trip-to-kyoto", "--path", "messages[99]"], "a list of 10 items"),
    (3, ["show", "trip-to-kyoto@3"], "did you mean step:3?"),
    (3, ["show", "trip-to"], "did you mean 'trip-to-kyoto'?"),
    (3, ["history", "trip-to-kyoto@head"], "this command takes a thread"),
    (3, ["tail", "trip-to-kyoto@head"], " show trip-to-kyoto@head`"),
    (2, ["show", "trip-to-kyoto@head", "step:1"], "cannot show two checkpoints"),
    (2, ["show", "trip-to-kyoto", "step:1", "--at", "head"], "cannot show two checkpoints"),
    (2, ["diff", "trip-to-kyoto@head", "step:1", "step:2"], "cannot compare three"),
    (3, ["diff", "trip-to-kyoto", "zzzz"], "newest first:"),
    (3, ["diff", "trip-to-kyoto", "step:1", "zzzz"], "newest first:"),
    (5, ["demo", "store.db"], "the file exists"),
]


@pytest.mark.parametrize(("code", "words", "says"), WRONG, ids=[" ".join(w[1]) for w in WRONG])
def test_wrong_input(
    sample: Path, monkeypatch: pytest.MonkeyPatch, code: int, words: list[str], says: str
) -> None:
    monkeypatch.chdir(sample.parent)
    answer = ckpt("-s", sample, *words)
    assert answer.code == code
    assert answer.out == ""
    lines = [line for line in answer.err.splitlines() if not line.startswith("note: ")]
    assert len(lines) <= 2, answer.err
    assert lines[0].startswith("ckpt: ")
    assert all(line.startswith("hint: ") for line in lines[1:])
    assert says.lower() in answer.err.lower()


@pytest.mark.parametrize(
    "words", [["show", "nobody"], ["bogus"], ["threads", "list", "--limit", "0"]], ids=str
)
@pytest.mark.parametrize("form", [["-o", "json"], ["-ojson"], ["--output=ndjson"]], ids=str)
def test_an_error_is_one_json_line_where_json_is_asked_for(
    sample: Path, words: list[str], form: list[str]
) -> None:
    answer = ckpt("-s", sample, *words, *form)
    error = json.loads(answer.err)
    assert answer.out == ""
    assert error["exit_code"] == answer.code
    assert {"error", "message", "hint"} <= set(error)


def test_an_answer_without_an_end_is_no_json_document(sample: Path) -> None:
    answer = ckpt("-s", sample, "tail", "trip-to-kyoto", "-o", "json")
    assert (answer.code, answer.out) == (2, "")
    assert "use -o ndjson" in json.loads(answer.err)["hint"]


def test_grep_exits_as_grep_does(sample: Path) -> None:
    assert ckpt("-s", sample, "grep", "Kyoto").code == 0
    nothing = ckpt("-s", sample, "grep", "no such words", "-o", "json")
    assert (nothing.code, nothing.json) == (1, [])


def test_a_store_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    missing = tmp_path / "mistyped.db"
    answer = ckpt("-s", missing, "threads", "list")
    assert answer.code == 4
    assert "no such file" in answer.err
    assert not missing.exists()


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    path = tmp_path / "notes.db"
    path.write_text("dear diary")
    answer = ckpt("-s", path, "threads", "list")
    assert answer.code == 4
    assert "not a SQLite database" in answer.err


def test_a_folder(tmp_path: Path) -> None:
    answer = ckpt("-s", tmp_path, "threads", "list")
    assert answer.code == 4
    assert "it is a folder" in answer.err


@pytest.mark.parametrize(
    ("ddl", "says"),
    [
        ("CREATE TABLE songs (name TEXT)", "found songs"),
        ("CREATE TABLE checkpoints (thread_id TEXT, thread_ts TEXT)", "thread_ts"),
        ("CREATE TABLE checkpoints (thread_id TEXT, checkpoint BLOB)", "unknown layout"),
        ("", "no tables at all"),
    ],
)
def test_a_database_of_another_layout(tmp_path: Path, ddl: str, says: str) -> None:
    path = tmp_path / "other.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(ddl)
    answer = ckpt("-s", path, "threads", "list")
    assert answer.code == 4
    assert says in answer.err


def test_no_store_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    answer = ckpt("threads", "list")
    assert answer.code == 2
    assert "ckpt demo" in answer.err


def test_an_unknown_kind_of_store() -> None:
    answer = ckpt("-s", "oracle://scott:tiger@db/x", "threads", "list")
    assert answer.code == 2
    assert "tiger" not in answer.err


def test_a_bug_is_one_line_and_says_how_to_report_it(
    sample: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("oh")

    monkeypatch.setattr("ckpt_cli.reading.store.open_store", broken)
    answer = ckpt("-s", sample, "threads", "list")
    assert answer.code == 70
    assert answer.err.startswith("ckpt: internal error: ZeroDivisionError: oh\nhint: ")
    assert "Traceback" in ckpt("-s", sample, "--debug", "threads", "list").err
