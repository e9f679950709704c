"""`completion` prints the scripts, and installs them where the shells find them."""

import os
import shutil
import socket
import sqlite3
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from langgraph.store.sqlite import SqliteStore

from ckpt_cli import complete
from ckpt_cli.commands.completion import SCRIPTS, user_file
from tests.kit.cases import cases
from tests.kit.command import ROOT, SAMPLE, ckpt, copy_store, first_now, program
from tests.kit.hostile.corpus import DDL
from tests.kit.servers import is_required
from tests.kit.terminal import SHELLS, TerminalShell, check_installed

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


def test_the_script_of_the_shell_is_printed(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHELL", "/opt/bin/zsh")
    assert ckpt("completion").out == script("zsh")
    for shell in SHELLS:
        answer = ckpt("completion", shell)
        assert (answer.code, answer.out, answer.err) == (0, script(shell), "")
    monkeypatch.setenv("SHELL", "/bin/tcsh")
    answer = ckpt("completion", code=2, says="cannot tell your shell: SHELL is '/bin/tcsh'")
    monkeypatch.delenv("SHELL")
    assert "SHELL is not set" in ckpt("completion", "--install").err
    ckpt("completion", "ksh", code=2)
    assert list(home.iterdir()) == []


@cases(
    "shell variables path",
    ("bash", {}, ".local/share/bash-completion/completions/ckpt"),
    ("bash", {"BASH_COMPLETION_USER_DIR": "own"}, "own/completions/ckpt"),
    ("zsh", {"XDG_DATA_HOME": "data"}, "data/zsh/site-functions/_ckpt"),
    ("fish", {}, ".config/fish/completions/ckpt.fish"),
    ("fish", {"XDG_CONFIG_HOME": "conf"}, "conf/fish/completions/ckpt.fish"),
)
def test_it_is_installed_for_the_user(
    home: Path, monkeypatch: pytest.MonkeyPatch, shell: str, variables: dict[str, str], path: str
) -> None:
    for name, folder in variables.items():
        monkeypatch.setenv(name, str(home / folder))
    answer = ckpt("completion", shell, "--install", code=0, out="")
    assert answer.err.startswith(f"note: wrote '{home / path}'; ")
    assert (home / path).read_text("utf-8") == script(shell)
    assert [one for one in home.rglob("*") if one.is_file()] == [home / path]
    (home / path).write_text("an older one")
    assert "wrote" in ckpt("completion", shell, "--install").err
    assert (home / path).read_text("utf-8") == script(shell)
    before = (home / path).stat()
    assert "up to date" in ckpt("completion", shell, "--install").err
    assert (home / path).stat() == before


def test_a_link_is_not_followed_nor_a_file_taken_for_a_folder(home: Path) -> None:
    relative = user_file("fish", {"XDG_CONFIG_HOME": "here"})
    path = user_file("fish", os.environ)
    assert path == relative
    path.parent.mkdir(parents=True)
    other = home / "other"
    other.write_text("mine")
    path.symlink_to(other)
    answer = ckpt("completion", "fish", "--install", code=5, says="symbolic link")
    assert answer.err.endswith(f"hint: remove the link: rm {path}\n")
    assert (other.read_text(), path.is_symlink()) == ("mine", True)
    path.unlink()
    path.symlink_to(ROOT / "ckpt_cli" / "completions" / SCRIPTS["fish"])
    answer = ckpt("completion", "fish", "--install")
    assert (answer.code, "up to date" in answer.err, path.is_symlink()) == (0, True, True)
    shutil.rmtree(home / ".config")
    (home / ".config").write_text("a file")
    answer = ckpt("completion", "fish", "--install")
    assert (answer.code, answer.err.startswith("ckpt: cannot write ")) == (2, True)


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


# What is offered, and what a person gets who types lines and the Tab key


FOLDER = Path(os.environ.get("CKPT_TEST_COMPLETIONS", ROOT / "ckpt_cli" / "completions"))


def test_the_scripts_are_up_to_date() -> None:
    found = {name: (FOLDER / name).read_text("utf-8") for name in SCRIPTS.values()}
    assert found == program("completions/generate.py").scripts()


def store_of(path: Path, threads: Iterable[str]) -> Path:
    """Make a store of threads that are almost empty."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.executescript(DDL)
        row = "INSERT INTO checkpoints VALUES (?, '', ?, NULL, 'msgpack', x'80', x'7b7d')"
        key = "1f0b955d-0000-6000-8000-000000000000"
        connection.executemany(row, ((name, key) for name in threads))
    return path


def offered(kind: str, *words: str | Path) -> list[str]:
    """What `ckpt` offers to the scripts, with the descriptions."""
    answer = ckpt("_complete", kind, *words)
    assert (answer.code, answer.err) == (0, "")
    return answer.out.splitlines()


def test_operations_are_offered(sample: Path) -> None:
    ckpt("-s", sample, "rollback", "trip-to-kyoto", "~1", "--yes", "-o", "json", code=0)
    (listed,) = ckpt("ops", "list", "-o", "json").json
    op = listed["op"]
    for words in (["op", op[:2], sample], ["op", "", ""]):
        assert offered(*words) == [f"{op}\trollback trip-to-kyoto"]
    assert offered("op", "", sample.with_name("other.db")) == []
    assert offered("undone", "", sample) == []
    ckpt("-s", sample, "undo", "trip-to-kyoto", "--yes", code=0)
    undo, undone = (one["op"] for one in ckpt("ops", "list", "-o", "json").json)
    assert [line.partition("\t")[0] for line in offered("undone")] == [undo, undone]


KINDS = "thread target ref ns channel store item session op undone bogus"


@pytest.mark.parametrize("kind", KINDS.split())
def test_an_error_is_silent(kind: str, tmp_path: Path) -> None:
    for store in ("", str(tmp_path), str(tmp_path / "none.db"), "oracle://x:secret@y/z"):
        assert offered(kind, "", store, "", "no such thread", "") == []


def test_a_description_is_no_completion(sample: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sessions = {"session": lambda *_: iter([("one", "anna"), ("two", "anna\nthree\t\x1b[31m")])}
    monkeypatch.setattr(complete, "_KINDS", sessions)
    assert offered("session", "", sample) == ["one\tanna", "two\t"]


@pytest.fixture
def configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a configuration, in which the test runs."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ckpt.toml").write_text(
        '[filters]\nstuck = "idle > 1h"\n[stores.xyz]\nurl = "a.db"\nfilters.ours = "user = a"\n'
    )
    return tmp_path


@cases(
    "text offers",
    ("@", ["@stuck", "@ours"]),
    ("status = error and @o", ["status = error and @ours"]),
    ("not (la", ["not (last_at"]),
    ("status not in (error,p", ["status not in (error,pending"]),
    ("next = s", []),
    ("user = anna and st", ["user = anna and status", "user = anna and step"]),
)
def test_a_filters_last_word_is_offered(configured: Path, text: str, offers: list[str]) -> None:
    assert [line.partition("\t")[0] for line in offered("filter", text, "xyz")] == offers
    assert offered("store", "xy", "", "", "", "") == ["xyz\tprofile"]
    (configured / "ckpt.toml").write_text("= broken")
    assert offered("store", "dee", "", "", "", "") == ["deerflow://\tDeerFlow"]


def test_ids_that_a_shell_would_obey_are_left_out_and_many_are_cut(tmp_path: Path) -> None:
    """A shell inserts what all completions share."""
    odd = ("plain", "two\nlines", "\x1b[31mred", "tab\there", "rtl\u202e")
    path = store_of(tmp_path / "odd.db", odd)
    assert offered("thread", "", path, "", "", "") == ["plain\tthread"]
    path = store_of(tmp_path / "many.db", [*(f"user-1{n:03}" for n in range(300)), "user-2", "v"])
    out = offered("thread", "us", path, "", "", "")
    assert (len(out), out[-1]) == (200, "user-2\tthread")
    assert offered("thread", "v", path, "", "", "") == ["v\tthread"]


SERVERS = ("redis://{}/0", "postgresql://u:secret@{}/x", "mysql://u@{}/x", "mongodb://{}/x")


@pytest.mark.parametrize("url", first_now(SERVERS))
def test_a_server_that_does_not_answer_is_not_waited_for(url: str) -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        url = url.format(f"127.0.0.1:{server.getsockname()[1]}")
        for kind in ("target", "item"):
            done = subprocess.run(
                ["ckpt", "_complete", kind, "", url], capture_output=True, check=True, timeout=20
            )
            assert (done.stdout, done.stderr) == (b"", b"")


IDS = (
    *("anna@example.com", "berta lee", "o'brien", 'say "hi"', "tenant:7:user:anna", "user=7;b"),
    *("$(touch pwned)", "`touch pwned`", "k;touch pwned", "wow!now", "back\\slash", "~home"),
    *("-dash", "#hash", "v&w|x<y>z", "{1,2}", "ünï", "zoe@x y"),
)


def with_engines(*rows: tuple[str, str]) -> list[Any]:
    """Rows for `parametrize` that are tested with `-m engines` only."""
    return [pytest.param(*row, marks=pytest.mark.engines) for row in rows]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sample, and with a store of threads with unusual ids."""
    made = tmp_path_factory.mktemp("typed")
    copy_store(SAMPLE, made).rename(made / "sample.db")
    store_of(made / "odd.db", IDS)
    with SqliteStore.from_conn_string(str(made / "odd.db")) as memory:
        memory.setup()
        memory.put(("users", "anna"), "profile", {"tea": True})
    return made


def environment(folder: Path) -> dict[str, str]:
    return {"CKPT_STORE": str(folder / "odd.db"), "SAMPLE": str(folder / "sample.db")}


@pytest.fixture(scope="module", params=SHELLS)
def shell(request: pytest.FixtureRequest, folder: Path) -> Iterator[TerminalShell]:
    name = request.param
    check_installed(name)
    made = TerminalShell(name, FOLDER / SCRIPTS[name], folder / name, environment(folder))
    yield made
    made.close()


@cases(
    "line word",
    ("ckpt show anna@ex", "anna@example.com"),
    ('ckpt show "berta l', "berta lee"),
    ("ckpt show o", "o'brien"),
    ("ckpt show tenant:7:u", "tenant:7:user:anna"),
    (r"ckpt show \$", "$(touch pwned)"),
    *with_engines(
        (r"ckpt show berta\ l", "berta lee"),
        ('ckpt show "o', "o'brien"),
        ("ckpt show 'say \"", 'say "hi"'),
        ('ckpt show "tenant:7', "tenant:7:user:anna"),
        ("ckpt show user=", "user=7;b"),
        ("ckpt show '$", "$(touch pwned)"),
        (r"ckpt show \`", "`touch pwned`"),
        ("ckpt show k", "k;touch pwned"),
        ("ckpt show wo", "wow!now"),
        ("ckpt show 'back", "back\\slash"),
        ("ckpt show v", "v&w|x<y>z"),
        ("ckpt show ü", "ünï"),
        (r"ckpt show zoe@x\ ", "zoe@x y"),
        ("ckpt threads delete -- -d", "-dash"),
    ),
)
def test_an_id_is_inserted_as_one_word(shell: TerminalShell, line: str, word: str) -> None:
    typed = shell.type(line).line
    assert shell.words(typed)[-1] == word, typed
    assert not list(shell.home.glob("**/pwned"))


@cases(
    "line whole",
    ("ckpt -s $SAMPLE show trip-to-kyoto@b95", "ckpt -s $SAMPLE show trip-to-kyoto@b955d"),
    ("ckpt --store=$SAMPLE show refu", "ckpt --store=$SAMPLE show refund-4711"),
    ("ckpt -s $SAMPLE blame trip-to-kyoto mess", "ckpt -s $SAMPLE blame trip-to-kyoto messages"),
    ("ckpt stats --by=node,ch", "ckpt stats --by=node,channel"),
    ("ckpt du --where metad", "ckpt du --where metadata."),
    *with_engines(
        ("ckpt sho", "ckpt show"),
        ("ckpt show anna@example.com@he", "ckpt show anna@example.com@head"),
        ("ckpt gc --scope w", "ckpt gc --scope writes"),
        ("ckpt export anna@example.com ber", r"ckpt export anna@example.com berta\ lee"),
        ("ckpt memory list us", "ckpt memory list users/anna"),
        ("ckpt import sett", "ckpt import settings"),
    ),
)
def test_a_word_is_completed(shell: TerminalShell, line: str, whole: str) -> None:
    assert shell.type(line).line.rstrip() == whole


@pytest.mark.in_ci("COMP_WORDBREAKS=${COMP_WORDBREAKS//:}", "set -u")
@pytest.mark.engines
@cases("setting", "set -u", "COMP_WORDBREAKS=${COMP_WORDBREAKS//:}", "shopt -s nullglob failglob")
def test_bash_completes_with_other_settings(folder: Path, tmp_path: Path, setting: str) -> None:
    shell = TerminalShell("bash", FOLDER / SCRIPTS["bash"], tmp_path / "home", environment(folder))
    shell.run(setting)
    for line, word in (
        ("ckpt show anna@ex", "anna@example.com"),
        ("ckpt show tenant:7:u", "tenant:7:user:anna"),
        ('ckpt show "berta l', "berta lee"),
        ("ckpt show user=", "user=7;b"),
        ("ckpt --output=nd", "--output=ndjson"),
    ):
        assert shell.words(shell.type(line).line)[-1] == word
    shell.close()
