"""`--debug` prints the traceback wherever a hint says so, also where parsing fails."""

import asyncio
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from ckpt_backends.servers import understood
from ckpt_backends.url import parse_url
from ckpt_cli.commands import tui
from ckpt_cli.tui import app
from ckpt_cli.tui.context import ScreenContext
from tests.kit.command import ckpt

BUG = "hint: this is a bug in ckpt; run again with --debug and report what it prints"
WRONG_STORE = "hint: check that this is the right store; --debug shows where it failed"
TRACEBACK = "Traceback (most recent call last):\n"


def broken(*_: object, **__: object) -> None:
    raise RuntimeError("planted")


def misread(*_: object, **__: object) -> None:
    with understood(parse_url("redis://localhost")):
        raise KeyError("planted")


@pytest.mark.parametrize(
    ("place", "plant", "code", "hint"),
    [
        ("ckpt_cli.app.root", broken, 70, BUG),
        ("ckpt_cli.lazy.LazyCommand.load", broken, 70, BUG),
        ("ckpt_cli.commands.demo.writing", broken, 70, BUG),
        ("ckpt_cli.commands.demo.writing", misread, 4, WRONG_STORE),
        ("", None, 70, BUG),
    ],
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


@pytest.mark.parametrize("words", ["--bogus", "threads list -n x", "--config ckpt.toml stores"])
def test_an_error_in_the_options_or_the_configuration(
    words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("ckpt.toml").write_text("[stores")
    plain, answer = ckpt(*words.split()), ckpt("--debug", *words.split())
    assert TRACEBACK not in plain.err
    assert (plain.code, answer.code) == (2, 2)
    assert answer.err.startswith(TRACEBACK)
    assert answer.err.endswith(plain.err)


class BrokenScreen:
    """A screen with a query that fails; it shows the error and goes on."""

    ended_by = None

    def __init__(self, context: ScreenContext, *_: object) -> None:
        self._context = context

    def run(self) -> None:
        with pytest.raises(RuntimeError):
            asyncio.run(self._context.detail.ask(broken))
        self._context.close()


def test_errors_on_the_screen_are_printed(sample: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = SimpleNamespace(isatty=lambda: True)
    monkeypatch.setattr(tui, "sys", SimpleNamespace(stdin=terminal, stdout=terminal))
    monkeypatch.setattr(app, "CkptApp", BrokenScreen)
    assert ckpt("-s", sample, "tui").err == ""
    answer = ckpt("-s", sample, "tui", "--debug")
    assert answer.code == 0
    assert answer.err.startswith(TRACEBACK)
    assert answer.err.endswith("RuntimeError: planted\n")
