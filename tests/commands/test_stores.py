"""`stores` lists profiles and what is in the folder; without a word, `ckpt` says what to type."""

from pathlib import Path

import pytest
from langgraph.store.sqlite import SqliteStore

from tests.commands.words import refusals
from tests.kit.command import SAMPLE, ckpt, copy_store


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, in which the command runs."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_profiles_and_files_are_listed_with_their_errors(sample: Path) -> None:
    (sample.parent / "ckpt.toml").write_text(
        '[stores.gone]\nurl = "gone.db"\n[stores.secret]\nurl = "pg://u:hunter2@h/db"\n'
        '[stores.unset]\nurl = "${UNSET_VARIABLE}"\n'
    )
    (sample.parent / "notes.db").write_bytes(b"")
    ckpt("trust", "--yes")
    answer = ckpt("stores", "-o", "json")
    found = {one["name"]: one for one in answer.json}
    assert set(found) == {"gone", "secret", "unset", "store.db"}
    assert found["store.db"]["layout"] == "sqlite"
    assert "no such file" in found["gone"]["error"]
    assert "UNSET_VARIABLE" in found["unset"]["error"]
    assert "hunter2" not in answer.out + answer.err


def test_what_holds_memory_alone_is_a_store_too(sample: Path) -> None:
    with SqliteStore.from_conn_string("memory.db") as store:
        store.setup()
        store.put(("users",), "k", {"a": 1})
    (sample.parent / "memory.json").write_text('{"version": "1.0", "facts": []}')
    found = {one["name"]: one.get("layout") for one in ckpt("stores", "-o", "json").json}
    kinds = {"memory.db": "sqlite-store", "memory.json": "deerflow", "store.db": "sqlite"}
    assert {name: found.get(name) for name in kinds} == kinds
    (named,) = ckpt("-s", "memory.db", "stores", "-o", "json").json
    assert (named["layout"], "capabilities" in named) == ("sqlite-store", False)


def typed(printed: str) -> list[str]:
    """The commands that it names."""
    lines = [line for line in printed.splitlines() if line.startswith("  ckpt ")]
    return [line.strip().partition("  ")[0] for line in lines]


def test_the_commands_for_the_only_store_work(here: Path) -> None:
    copy_store(SAMPLE, here).rename("agent.db")
    answer = ckpt()
    assert (answer.code, answer.err) == (0, "")
    assert "./agent.db  8 threads: 5 done, 1 interrupted, 1 pending, 1 error\n" in answer.out
    commands = typed(answer.out)
    # The newest thread that failed or waits.
    assert "ckpt -s ./agent.db show refund-4711 --tree" in commands
    for one in commands:
        if not one.endswith(" tui"):
            assert ckpt(*one.split()[1:]).code == 0, one


def test_without_a_store_a_sample_is_two_words_away_and_a_server_is_not_contacted() -> None:
    answer = ckpt()
    assert (answer.code, "No store was found in this folder" in answer.out) == (0, True)
    assert typed(answer.out)[0] == "ckpt demo sample.db"
    ckpt("-s", "none.db", code=4)
    # A server is not contacted before its file is trusted.
    Path(".env").write_text("DATABASE_URI=postgresql://me:hush@127.0.0.1:1/agents\n")
    printed = ckpt().out
    assert "127.0.0.1:1/agents  named in .env; run `ckpt trust .env` to open it" in printed
    assert "hush" not in printed


def test_each_store_has_a_line_also_one_that_cannot_be_read(here: Path) -> None:
    copy_store(SAMPLE, here).rename("b.db")
    Path("a.db").write_bytes(Path("b.db").read_bytes()[:5000])
    printed = ckpt().out
    assert "\n./a.db  " in printed
    assert "\n./b.db  8 threads" in printed
    assert typed(printed)[0] == "ckpt -s ./b.db threads list"
    assert typed(ckpt("-s", "b.db").out)[0] == "ckpt -s b.db threads list"
    assert ckpt("-o", "tsv").out == ckpt("stores", "-o", "tsv").out


test_wrong_words_are_refused = refusals(("stores --bogus", 2, "no such option: --bogus"))
