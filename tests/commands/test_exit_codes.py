"""Wrong input gets its exit code, a message of one line and a hint; never a traceback.

What each command refuses is tested in the file of its name.
"""

import asyncio
import json
import sqlite3
import sys
import time
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest

from ckpt_backends.servers import understood
from ckpt_backends.url import parse_url
from ckpt_cli import __version__
from ckpt_cli.commands import tui
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
    answer = ckpt(*words.split())
    assert answer.code == 2
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


def test_an_error_about_a_time_is_in_the_zone_of_the_answer(
    sample: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
        answer = ckpt(*words)
        assert answer.code == code
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
    answer = ckpt("-s", sample, "tui", "--debug")
    assert answer.code == 0
    assert answer.err.startswith(TRACEBACK)
    assert answer.err.endswith("RuntimeError: planted\n")
