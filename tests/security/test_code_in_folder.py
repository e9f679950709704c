"""The current folder holds Python files with the names of modules; nothing of them is executed."""

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from ckpt_cli.tui.serving.server import ScreenProcess
from tests.kit.command import SAMPLE, copy_store, first_now

_CKPT = str(Path(sys.executable).parent / "ckpt")
_OTHERS = ("sitecustomize", "usercustomize", "typer", "click", "rich", "regex", "textual", "duckdb")
_PATIENCE = 60


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A hostile folder that is the current one. What is executed there leaves `executed`."""
    place = tmp_path / "hostile"
    place.mkdir()
    monkeypatch.chdir(place)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    code = f"open({str(tmp_path / 'executed')!r}, 'a').write(__name__ + ' ')\n"
    for name in (*sys.stdlib_module_names, *_OTHERS, "ckpt_cli", "ckpt_backends"):
        (place / f"{name}.py").write_text(code)
    for name in ("encodings", "multiprocessing", "asyncio", "importlib"):
        (place / name).mkdir()
        (place / name / "__init__.py").write_text(code)
    copy_store(SAMPLE, place)
    return place


def executed(folder: Path) -> str:
    """Return the names of the planted modules that were executed."""
    found = folder.parent / "executed"
    return found.read_text() if found.exists() else ""


def only_ours_can_see(folder: Path) -> None:
    """Keep a few files: `python -m` executes others before the module that it is told to run."""
    for one in folder.glob("*.py"):
        if one.stem not in {"json", "signal", "socket", "threading"}:
            one.unlink()
    for name in ("asyncio", "encodings", "importlib"):
        shutil.rmtree(folder / name)


def run(*words: str, given: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words,
        input=given,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=_PATIENCE,
        check=False,
    )


def test_the_planted_files_would_be_executed(folder: Path) -> None:
    run(sys.executable, "-c", "import json")
    assert "json" in executed(folder)


@pytest.mark.parametrize(
    "words",
    first_now(
        [
            ("-s", "store.db", "grep", "-F", "a", "--jobs", "2"),
            ("-s", "store.db", "sql", "SELECT count(*) FROM threads", "--jobs", "2"),
            ("-s", "store.db", "bisect", "refund-4711", "--exec", "true"),
            ("-s", "store.db", "mcp"),
            ("_complete", "thread", "", "store.db", "", "", ""),
        ]
    ),
    ids=["jobs", "sql", "bisect", "mcp", "complete"],
)
def test_a_command_executes_nothing_of_the_folder(folder: Path, words: Sequence[str]) -> None:
    done = run(_CKPT, *words)
    assert executed(folder) == ""
    assert done.returncode in {0, 1}, done.stderr


def test_neither_does_a_screen_that_is_served(folder: Path) -> None:
    async def begin() -> bytes:
        screen = await ScreenProcess.start(["-s", "store.db", "tui", "--serve"], 80, 24)
        try:
            async with asyncio.timeout(_PATIENCE):
                return await anext(screen.pictures())
        finally:
            await screen.end()

    assert asyncio.run(begin())
    assert executed(folder) == ""


def test_neither_does_the_module_that_is_run(folder: Path) -> None:
    """Workers are refused where Python ignores the environment, unless it is told otherwise."""
    words = ("-m", "ckpt_cli", "-s", "store.db", "grep", "-F", "a", "--jobs", "2")
    only_ours_can_see(folder)
    for options, code in (((), 0), (("-E",), 2), (("-E", "-P"), 0)):
        done = run(sys.executable, *options, *words)
        assert (done.returncode, executed(folder)) == (code, ""), done.stderr


def test_what_the_user_starts_keeps_his_environment(folder: Path) -> None:
    shown = ("-s", "store.db", "bisect", "refund-4711", "--exec", "echo [$PYTHONSAFEPATH]")
    assert "[]" in run(_CKPT, *shown).stderr
    assert "[7]" in run(_CKPT, *shown, PYTHONSAFEPATH="7").stderr
