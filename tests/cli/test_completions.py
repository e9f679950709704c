"""Completions: the shipped scripts are those of the generator, and bash completes with them."""

from __future__ import annotations

import shutil
import socket
import sqlite3
import subprocess
from contextlib import closing
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

from ckpt_cli import complete
from tests.kit.command import ROOT, ckpt, first_now
from tests.kit.hostile.corpus import DDL

FOLDER = ROOT / "ckpt_cli" / "completions"
GENERATOR = ROOT / "completions" / "generate.py"

DRIVER = """
source "$1"
COMP_LINE=$2 COMP_POINT=${#2} COMP_WORDBREAKS=$' \\t\\n"\\'><=;|&(:@'
_ckpt
printf '%s\\n' "${COMPREPLY[@]}"
"""


def generator() -> Any:
    spec = spec_from_file_location("generate_completions", GENERATOR)
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
        ("ckpt threads ", ["delete", "list"]),
        ("ckpt ops v", ["verify"]),
        ("ckpt -o n", ["ndjson"]),
        ("ckpt threads list --sort b", ["bytes"]),
        ("ckpt show --as", ["--ascii", "--as-of"]),
        ("ckpt -s {store} show tr", ["trip-to-kyoto"]),
        # Readline keeps what stands before an '@', and inserts the '@' again.
        ("ckpt -s {store} show anna@e", ["@example.com"]),
        ("ckpt -s {store} show trip-to-kyoto@98", ["@985b"]),
        ("ckpt -s {store} show trip-to-kyoto --at he", ["head"]),
        ("ckpt -s {store} show trip-to-kyoto --channel mess", ["messages"]),
        ("ckpt -s {store} blame trip-to-kyoto mess", ["messages"]),
        ("ckpt --store {store} messages ref", ["refund-4711"]),
        ("ckpt threads list --where x --stat", ["--status"]),
        ("ckpt grep a --where check", ["checkpoints"]),
        ("ckpt du --where meta", ["metadata."]),
        ("ckpt -s mongodb", ["mongodb+srv://", "mongodb://"]),
        ("ckpt --store sqli", ["sqlite://"]),
        ("ckpt stores --la", ["--layouts"]),
        ("ckpt stats --by mo", ["model"]),
        ("ckpt stats --by model,d", ["model,day"]),
        ("ckpt stats --by=node,ch", ["node,channel"]),
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


def test_operations_are_offered(sample: Path) -> None:
    rollback = ["rollback", "trip-to-kyoto", "~1", "--yes", "-o", "json"]
    assert ckpt("-s", sample, *rollback).code == 0
    (listed,) = ckpt("ops", "list", "-o", "json").json
    op = listed["op"]
    assert ckpt("_complete", "op", op[:2], sample).out == f"{op}\trollback trip-to-kyoto\n"
    assert ckpt("_complete", "op", "", "").out == f"{op}\trollback trip-to-kyoto\n"
    assert ckpt("_complete", "op", "", sample.with_name("other.db")).out == ""
    assert bash(f"ckpt ops show {op[:3]}") == [op]
    assert bash(f"ckpt -s {sample} undo {op[:3]}") == [op]
    assert bash(f"ckpt -s {sample} undo trip") == ["trip-to-kyoto"]


def test_what_is_undone_is_offered_for_a_redo(sample: Path) -> None:
    for words in (["trip-to-kyoto", "~1"], ["refund-4711", "~1"]):
        assert ckpt("-s", sample, "rollback", *words, "--yes").code == 0
    assert ckpt("_complete", "undone", "", sample).out == ""
    assert ckpt("-s", sample, "undo", "trip-to-kyoto", "--yes").code == 0
    undo, _, undone = (one["op"] for one in ckpt("ops", "list", "-o", "json").json)
    found = [line.partition("\t")[0] for line in ckpt("_complete", "undone").out.splitlines()]
    assert found == [undo, undone]
    assert bash(f"ckpt -s {sample} redo {undo[:6]}") == [undo]


@pytest.mark.parametrize(
    "kind",
    [
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
        "change",
        "bogus",
    ],
)
def test_an_error_is_silent(kind: str, tmp_path: Path) -> None:
    for store in ("", str(tmp_path), str(tmp_path / "none.db"), "oracle://x:secret@y/z"):
        answer = ckpt("_complete", kind, "", store, "", "no such thread", "")
        assert (answer.code, answer.out, answer.err) == (0, "", "")


def test_a_description_cannot_look_like_another_completion(
    sample: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offered = {"session": lambda *_: iter([("one", "anna"), ("two", "anna\nthree\t\x1b[31m")])}
    monkeypatch.setattr(complete, "_KINDS", offered)
    assert ckpt("_complete", "session", "", str(sample)).out == "one\tanna\ntwo\t\n"


@pytest.mark.parametrize(
    ("text", "offers"),
    [
        ("@", ["@stuck", "@ours"]),
        ("status = error and @o", ["status = error and @ours"]),
        ("not (la", ["not (last_at"]),
        ("status=e", ["status=error", "status=empty"]),
        ("status not in (error,p", ["status not in (error,pending"]),
        ("next = s", []),
        ("status = error s", []),
        ("user = anna and st", ["user = anna and status", "user = anna and step"]),
    ],
)
def test_the_last_word_of_a_filter_is_offered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, offers: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ckpt.toml").write_text(
        '[filters]\nstuck = "idle > 1h"\n[stores.x]\nurl = "a.db"\nfilters.ours = "user = a"\n'
    )
    answer = ckpt("_complete", "filter", text, "x")
    assert [line.split("\t")[0] for line in answer.out.splitlines()] == offers


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
    assert out == "plain\tthread\n"


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
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


def test_more_threads_than_are_offered_share_only_what_all_share(tmp_path: Path) -> None:
    """A shell inserts what all completions share."""
    path = tmp_path / "store.db"
    names = [*(f"user-1{n:03}" for n in range(300)), "user-2", "v"]
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(DDL)
        row = "INSERT INTO checkpoints VALUES (?, '', '1', NULL, 'msgpack', x'80', x'7b7d')"
        connection.executemany(row, ((name,) for name in names))
        connection.commit()
    out = ckpt("_complete", "thread", "us", path, "", "", "").out.splitlines()
    assert len(out) == 200
    assert out[-1] == "user-2\tthread"
    assert ckpt("_complete", "thread", "v", path, "", "", "").out == "v\tthread\n"


SERVERS = {
    "redis": "redis://{}/0",
    "postgres": "postgresql://u:secret@{}/x",
    "mysql": "mysql://u:secret@{}/x",
    "mongodb": "mongodb://{}/x",
}


@pytest.mark.parametrize("name", first_now(SERVERS))
@pytest.mark.parametrize("is_listening", [True, False])
def test_a_server_that_does_not_answer_is_not_waited_for(name: str, is_listening: bool) -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        # No packet for 192.0.2.0/24 is ever answered.
        port = server.getsockname()[1]
        url = SERVERS[name].format(f"127.0.0.1:{port}" if is_listening else "192.0.2.1:9999")
        for kind in ("target", "item"):
            done = subprocess.run(
                ["ckpt", "_complete", kind, "", url], capture_output=True, check=True, timeout=20
            )
            assert (done.stdout, done.stderr) == (b"", b"")
