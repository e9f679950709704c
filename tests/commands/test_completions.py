"""Completions: what `ckpt` offers, and what a person gets who types lines and the Tab key."""

import os
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import closing
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest
from langgraph.store.sqlite import SqliteStore

from ckpt_cli import complete
from tests.kit.cases import cases
from tests.kit.command import ROOT, SAMPLE, ckpt, copy_store, first_now
from tests.kit.hostile.corpus import DDL
from tests.kit.terminal_shell import SHELLS, TerminalShell, check_installed

FOLDER = Path(os.environ.get("CKPT_TEST_COMPLETIONS", ROOT / "ckpt_cli" / "completions"))
SCRIPTS = {"bash": "ckpt.bash", "zsh": "_ckpt", "fish": "ckpt.fish"}


def generator() -> Any:
    spec = spec_from_file_location("generate_completions", ROOT / "completions" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_the_scripts_are_up_to_date() -> None:
    found = {name: (FOLDER / name).read_text("utf-8") for name in SCRIPTS.values()}
    assert found == generator().scripts()


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
    rollback = ["rollback", "trip-to-kyoto", "~1", "--yes", "-o", "json"]
    assert ckpt("-s", sample, *rollback).code == 0
    (listed,) = ckpt("ops", "list", "-o", "json").json
    op = listed["op"]
    for words in (["op", op[:2], sample], ["op", "", ""]):
        assert offered(*words) == [f"{op}\trollback trip-to-kyoto"]
    assert offered("op", "", sample.with_name("other.db")) == []
    assert offered("undone", "", sample) == []
    assert ckpt("-s", sample, "undo", "trip-to-kyoto", "--yes").code == 0
    undo, undone = (one["op"] for one in ckpt("ops", "list", "-o", "json").json)
    assert [line.partition("\t")[0] for line in offered("undone")] == [undo, undone]


@cases(
    "kind",
    *(
        "thread",
        "target",
        "ref",
        "ns",
        "channel",
        "store",
        "item",
        "session",
        "op",
        "undone",
        "bogus",
    ),
)
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


def test_profiles_and_schemes_are_offered(configured: Path) -> None:
    assert offered("store", "xy", "", "", "", "") == ["xyz\tprofile"]
    (configured / "ckpt.toml").write_text("= broken")
    assert offered("store", "dee", "", "", "", "") == ["deerflow://\tDeerFlow"]


def test_thread_ids_that_a_shell_would_obey_are_left_out(tmp_path: Path) -> None:
    names = ("plain", "two\nlines", "\x1b[31mred", "tab\there", "rtl\u202e")
    hostile = store_of(tmp_path / "store.db", names)
    assert offered("thread", "", hostile, "", "", "") == ["plain\tthread"]


def test_more_threads_than_are_offered_share_only_what_all_share(tmp_path: Path) -> None:
    """A shell inserts what all completions share."""
    names = [*(f"user-1{n:03}" for n in range(300)), "user-2", "v"]
    path = store_of(tmp_path / "store.db", names)
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
    script = FOLDER / SCRIPTS["bash"]
    shell = TerminalShell("bash", script, tmp_path / "home", environment(folder))
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
