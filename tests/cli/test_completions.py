"""Completions: the shipped scripts are those of the generator, and bash completes with them."""

from __future__ import annotations

import shutil
import subprocess
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

from tests.support import ROOT, ckpt

FOLDER = ROOT / "completions"

DRIVER = """
source "$1"
COMP_LINE=$2 COMP_POINT=${#2} COMP_WORDBREAKS=$' \\t\\n"\\'><=;|&(:@'
_ckpt
printf '%s\\n' "${COMPREPLY[@]}"
"""


def generator() -> Any:
    spec = spec_from_file_location("generate_completions", FOLDER / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    import sys

    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["ckpt.bash", "_ckpt", "ckpt.fish"])
def test_the_scripts_are_up_to_date(name: str) -> None:
    assert (FOLDER / name).read_text("utf-8") == generator().scripts()[name]


@pytest.mark.parametrize(
    ("shell", "name"), [("bash", "ckpt.bash"), ("zsh", "_ckpt"), ("fish", "ckpt.fish")]
)
def test_a_shell_reads_its_script(shell: str, name: str) -> None:
    if shutil.which(shell) is None:
        assert shell != "bash"
        return
    subprocess.run([shell, "-n", FOLDER / name], check=True)


def bash(line: str) -> list[str]:
    """What bash offers at the end of a line."""
    done = subprocess.run(
        ["bash", "--norc", "-c", DRIVER, "bash", FOLDER / "ckpt.bash", line],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    return done.stdout.split("\n")[:-1]


@pytest.mark.parametrize(
    ("line", "offers"),
    [
        ("ckpt sh", ["show"]),
        ("ckpt threads ", ["copy", "delete", "list", "show"]),
        ("ckpt -o n", ["ndjson"]),
        ("ckpt threads list --sort b", ["bytes"]),
        ("ckpt show --as", ["--ascii", "--as-of"]),
        ("ckpt -s {store} show tr", ["trip-to-kyoto"]),
        # What stands before a word break is not replaced.
        ("ckpt -s {store} show anna@e", ["example.com"]),
        ("ckpt -s {store} show trip-to-kyoto@98", ["985b"]),
        ("ckpt -s {store} show trip-to-kyoto --at he", ["head"]),
        ("ckpt -s {store} show trip-to-kyoto --channel mess", ["messages"]),
        ("ckpt -s {store} blame trip-to-kyoto mess", ["messages"]),
        ("ckpt --store {store} messages ref", ["refund-4711"]),
        ("ckpt threads list --where x --stat", ["--status"]),
        ("ckpt -s mongodb", ["mongodb+srv://", "mongodb://"]),
        ("ckpt --store sqli", ["sqlite://"]),
        ("ckpt stores --l", ["--layouts"]),
        ("ckpt grep ", [""]),
        ("ckpt -s none.db show ", [""]),
    ],
)
def test_bash_completes(sample: Path, line: str, offers: list[str]) -> None:
    if shutil.which("ckpt") is None:
        pytest.fail("the script `ckpt` is not installed: pip install -e .")
    assert sorted(bash(line.format(store=sample))) == sorted(offers)


def test_bash_completes_with_the_store_of_the_environment(
    sample: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CKPT_STORE", str(sample))
    assert "trip-to-kyoto" in bash("ckpt history ")


@pytest.mark.parametrize("kind", ["thread", "target", "ref", "ns", "channel", "store", "bogus"])
def test_an_error_is_silent(kind: str, tmp_path: Path) -> None:
    for store in ("", str(tmp_path), str(tmp_path / "none.db"), "oracle://x:secret@y/z"):
        answer = ckpt("_complete", kind, "", store, "", "no such thread", "")
        assert (answer.code, answer.out, answer.err) == (0, "", "")


def test_profiles_are_offered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ckpt.toml").write_text('[stores.local]\nurl = "agent.db"\n')
    assert ckpt("_complete", "store", "lo", "", "", "", "").out == "local\tprofile\n"


def test_schemes_are_offered_without_profiles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ckpt.toml").write_text("= broken")
    assert ckpt("_complete", "store", "dee", "", "", "", "").out == "deerflow://\tDeerFlow\n"


def test_thread_ids_that_a_shell_would_obey_are_left_out(hostile: Path) -> None:
    out = ckpt("_complete", "thread", "", str(hostile), "", "", "").out
    assert out == "plain\t1 checkpoints\n"


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    import sqlite3
    from contextlib import closing

    from tests.security.corpus import DDL

    path = tmp_path / "store.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(DDL)
        for name in ("plain", "two\nlines", "\x1b[31mred", "tab\there", "rtl\u202e"):
            connection.execute(
                "INSERT INTO checkpoints VALUES (?, '', '1', NULL, 'msgpack', x'80', x'7b7d')",
                [name],
            )
        connection.commit()
    return path


def test_it_loads_nothing_that_is_slow(sample: Path) -> None:
    """No parser, no table library."""
    import sys

    program = (
        "import sys; from ckpt_cli.run import run;"
        "run(['_complete', 'target', '', sys.argv[1]]);"
        "print(*sys.modules, sep='\\n', file=sys.stderr)"
    )
    words = [sys.executable, "-c", program, str(sample)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert not {"click", "rich", "ormsgpack", "ckpt_cli.diagnostics"} & set(done.stderr.split())
