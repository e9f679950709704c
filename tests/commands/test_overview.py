"""`ckpt` without a word: what was found, and what to type."""

from pathlib import Path

import pytest

from tests.kit.command import SAMPLE, ckpt, copy_store


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, in which the command runs."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


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


def test_without_a_store_a_sample_is_two_words_away() -> None:
    answer = ckpt()
    assert (answer.code, "No store was found in this folder" in answer.out) == (0, True)
    assert typed(answer.out)[0] == "ckpt demo sample.db"


def test_each_store_has_a_line_also_one_that_cannot_be_read(here: Path) -> None:
    copy_store(SAMPLE, here).rename("b.db")
    Path("a.db").write_bytes(Path("b.db").read_bytes()[:5000])
    printed = ckpt().out
    assert "\n./a.db  " in printed
    assert "\n./b.db  8 threads" in printed
    assert typed(printed)[0] == "ckpt -s ./b.db threads list"


def test_a_server_is_not_contacted_before_its_file_is_trusted() -> None:
    Path(".env").write_text("DATABASE_URI=postgresql://me:hush@127.0.0.1:1/agents\n")
    printed = ckpt().out
    assert "127.0.0.1:1/agents  named in .env; run `ckpt trust .env` to open it" in printed
    assert "hush" not in printed


def test_scripts_get_the_list_of_stores(here: Path) -> None:
    copy_store(SAMPLE, here)
    assert ckpt("-o", "tsv").out == ckpt("stores", "-o", "tsv").out


def test_a_named_store_is_summed_up_or_its_error_told(here: Path) -> None:
    copy_store(SAMPLE, here).rename("other.txt")
    assert typed(ckpt("-s", "other.txt").out)[0] == "ckpt -s other.txt threads list"
    assert ckpt("-s", "none.db").code == 4
