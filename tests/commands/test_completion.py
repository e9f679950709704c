"""`completion` prints the scripts, and installs them where the shells find them."""

import os
import subprocess
from pathlib import Path

import pytest

from ckpt_cli.commands.completion import SCRIPTS, user_file
from tests.kit.command import ROOT, ckpt
from tests.kit.servers import is_required
from tests.kit.terminal_shell import SHELLS, check_installed

SYSTEM = Path("/usr/share/bash-completion/bash_completion")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    names = ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "BASH_COMPLETION_USER_DIR", "ZDOTDIR", "SHELL")
    for name in names:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def run(*line: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        line, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )


def script(shell: str) -> str:
    return (ROOT / "ckpt_cli" / "completions" / SCRIPTS[shell]).read_text("utf-8")


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_is_printed(shell: str) -> None:
    answer = ckpt("completion", shell)
    assert (answer.code, answer.out, answer.err) == (0, script(shell), "")


def test_the_shell_is_that_of_the_environment(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHELL", "/opt/bin/zsh")
    assert ckpt("completion").out == script("zsh")
    monkeypatch.setenv("SHELL", "/bin/tcsh")
    answer = ckpt("completion")
    assert (answer.code, "cannot tell your shell: SHELL is '/bin/tcsh'" in answer.err) == (2, True)
    monkeypatch.delenv("SHELL")
    assert "SHELL is not set" in ckpt("completion", "--install").err
    assert ckpt("completion", "ksh").code == 2
    assert list(home.iterdir()) == []


@pytest.mark.parametrize(
    ("shell", "variables", "path"),
    [
        ("bash", {}, ".local/share/bash-completion/completions/ckpt"),
        ("bash", {"BASH_COMPLETION_USER_DIR": "own"}, "own/completions/ckpt"),
        ("zsh", {"XDG_DATA_HOME": "data"}, "data/zsh/site-functions/_ckpt"),
        ("fish", {}, ".config/fish/completions/ckpt.fish"),
        ("fish", {"XDG_CONFIG_HOME": "conf"}, "conf/fish/completions/ckpt.fish"),
    ],
)
def test_it_is_installed_for_the_user(
    home: Path, monkeypatch: pytest.MonkeyPatch, shell: str, variables: dict[str, str], path: str
) -> None:
    for name, folder in variables.items():
        monkeypatch.setenv(name, str(home / folder))
    answer = ckpt("completion", shell, "--install")
    assert (answer.code, answer.out) == (0, "")
    assert answer.err.startswith(f"note: wrote '{home / path}'; ")
    assert (home / path).read_text("utf-8") == script(shell)
    assert [one for one in home.rglob("*") if one.is_file()] == [home / path]
    (home / path).write_text("an older one")
    assert "wrote" in ckpt("completion", shell, "--install").err
    assert (home / path).read_text("utf-8") == script(shell)
    before = (home / path).stat()
    assert "up to date" in ckpt("completion", shell, "--install").err
    assert (home / path).stat() == before


def test_a_link_is_not_followed(home: Path) -> None:
    relative = user_file("fish", {"XDG_CONFIG_HOME": "here"})
    path = user_file("fish", os.environ)
    assert path == relative
    path.parent.mkdir(parents=True)
    other = home / "other"
    other.write_text("mine")
    path.symlink_to(other)
    answer = ckpt("completion", "fish", "--install")
    assert (answer.code, "symbolic link" in answer.err) == (5, True)
    assert answer.err.endswith(f"hint: remove the link: rm {path}\n")
    assert (other.read_text(), path.is_symlink()) == ("mine", True)
    path.unlink()
    path.symlink_to(ROOT / "ckpt_cli" / "completions" / SCRIPTS["fish"])
    answer = ckpt("completion", "fish", "--install")
    assert (answer.code, "up to date" in answer.err, path.is_symlink()) == (0, True, True)


def test_a_folder_that_cannot_be_written_is_said(home: Path) -> None:
    (home / ".config").write_text("a file")
    answer = ckpt("completion", "fish", "--install")
    assert answer.code == 2
    assert answer.err.startswith("ckpt: cannot write ")


def test_bash_loads_what_was_installed(home: Path) -> None:
    if not SYSTEM.exists():
        leave = pytest.fail if is_required("bash-completion") else pytest.skip
        leave("the package bash-completion is not installed")
    ckpt("completion", "bash", "--install")
    # Bash-completion 2.12 renamed its function.
    load = "{ _comp_load ckpt || __load_completion ckpt; } 2> /dev/null; complete -p ckpt"
    done = run("bash", "--norc", "-c", f"source {SYSTEM}; {load}")
    assert done.stdout == "complete -F _ckpt ckpt\n", done.stderr


def test_zsh_loads_what_was_installed_with_the_line_that_is_printed(home: Path) -> None:
    check_installed("zsh")
    settings, compinit = home / ".zshrc", "autoload -Uz compinit; compinit -u -D\n"

    def note() -> str:
        return ckpt("completion", "zsh", "--install").err

    def loaded() -> str:
        return run("zsh", "-d", "-i", "-c", "print -r -- $_comps[ckpt]").stdout.strip()

    settings.write_text(compinit)
    line = note().partition(f"add this line to {settings}, before compinit: ")[2]
    assert line.startswith("fpath=(")
    assert loaded() == ""
    settings.write_text(line + compinit)
    assert loaded() == "_ckpt"
    assert note().endswith("; new shells load it\n")

    settings.write_text("# compinit is not called\n")
    line = note().partition(f"add this line to {settings}: ")[2]
    settings.write_text(line)
    assert loaded() == "_ckpt"
