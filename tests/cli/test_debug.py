"""`--debug` prints the traceback wherever a hint says so, also where parsing fails."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
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


def no_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "typer", None)


def broken_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ckpt_cli.app.root", broken)


def broken_options(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ckpt_cli.lazy.LazyCommand.load", broken)


def broken_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ckpt_cli.commands.demo.writing", broken)


def misread_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ckpt_cli.commands.demo.writing", misread)


@pytest.mark.parametrize(
    ("plant", "code", "hint"),
    [
        (no_parser, 70, BUG),
        (broken_parser, 70, BUG),
        (broken_options, 70, BUG),
        (broken_command, 70, BUG),
        (misread_store, 4, WRONG_STORE),
    ],
)
def test_a_hint_that_names_debug_is_right(
    monkeypatch: pytest.MonkeyPatch,
    plant: Callable[[pytest.MonkeyPatch], None],
    code: int,
    hint: str,
) -> None:
    plant(monkeypatch)
    plain = ckpt("demo", "x", "--utc")
    assert (plain.code, plain.err.splitlines()[1:]) == (code, [hint])
    for words in (["--debug", "demo", "x", "--utc"], ["demo", "x", "--utc", "--debug"]):
        answer = ckpt(*words)
        assert answer.code == code
        assert answer.err.startswith(TRACEBACK)
        assert plant is no_parser or "planted" in answer.err
        assert answer.err.endswith(plain.err)


@pytest.mark.parametrize("words", ["--bogus", "shwo", "threads list -n x", "show --channel"])
def test_an_error_in_the_options(words: str) -> None:
    plain = ckpt(*words.split())
    assert TRACEBACK not in plain.err
    answer = ckpt("--debug", *words.split())
    assert answer.code == 2
    assert answer.err.startswith(TRACEBACK)
    assert answer.err.endswith(plain.err)


def test_an_error_in_the_configuration(tmp_path: Path) -> None:
    config = tmp_path / "ckpt.toml"
    config.write_text("[stores")
    words = ("--config", config, "threads", "list")
    plain = ckpt(*words)
    answer = ckpt(*words, "--debug")
    assert (answer.code, plain.code) == (2, 2)
    assert answer.err.startswith(TRACEBACK)
    assert answer.err.endswith(plain.err)


def test_debug_after_a_double_hyphen_is_an_argument(sample: Path) -> None:
    assert TRACEBACK not in ckpt("-s", sample, "show", "--", "--debug").err


class BrokenScreen:
    """A screen with a query that fails; it shows the error and goes on."""

    ended_by = None

    def __init__(self, context: ScreenContext, *_: object) -> None:
        self._context = context

    def run(self) -> None:
        with pytest.raises(RuntimeError):
            asyncio.run(self._context.detail.ask(broken))
        self._context.close()


def test_errors_on_the_screen_are_printed_when_it_ends(
    sample: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = SimpleNamespace(isatty=lambda: True)
    monkeypatch.setattr(tui, "sys", SimpleNamespace(stdin=terminal, stdout=terminal))
    monkeypatch.setattr(app, "CkptApp", BrokenScreen)
    assert ckpt("-s", sample, "tui").err == ""
    answer = ckpt("-s", sample, "tui", "--debug")
    assert answer.code == 0
    assert answer.err.startswith(TRACEBACK)
    assert answer.err.endswith("RuntimeError: planted\n")
