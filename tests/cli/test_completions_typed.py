"""Completions as a person gets them: lines and the Tab key, typed into bash, zsh and fish."""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.kit.command import ROOT, SAMPLE, copy_store
from tests.kit.hostile.corpus import DDL
from tests.kit.terminal_shell import SHELLS, TerminalShell, check_installed

FOLDER = Path(os.environ.get("CKPT_TEST_COMPLETIONS", ROOT / "ckpt_cli" / "completions"))
SCRIPTS = {"bash": "ckpt.bash", "zsh": "_ckpt", "fish": "ckpt.fish"}

IDS = (
    "anna@example.com",
    "berta lee",
    "o'brien",
    'say "hi"',
    "tenant:7:user:anna",
    "user=7;b",
    "$(touch pwned)",
    "`touch pwned`",
    "k;touch pwned",
    "wow!now",
    "back\\slash",
    "~home",
    "-dash",
    "#hash",
    "v&w|x<y>z",
    "{1,2}",
    "ünï",
    "zoe@x y",
)


def with_engines(*rows: tuple[str, str]) -> list[Any]:
    """Rows for `parametrize` that are tested with `-m engines` only."""
    return [pytest.param(*row, marks=pytest.mark.engines) for row in rows]


STORE_DDL = """
    CREATE TABLE store (prefix text NOT NULL, key text NOT NULL, value text NOT NULL,
        created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP,
        updated_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP, expires_at TIMESTAMP, ttl_minutes REAL,
        PRIMARY KEY (prefix, key))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sample, and with a store of threads with unusual ids."""
    made = tmp_path_factory.mktemp("typed")
    copy_store(SAMPLE, made).rename(made / "sample.db")
    with closing(sqlite3.connect(made / "odd.db")) as connection:
        connection.executescript(DDL)
        for name in IDS:
            row = (
                name,
                "",
                "1f0b955d-0000-6000-8000-000000000000",
                None,
                "msgpack",
                b"\x80",
                b"{}",
            )
            connection.execute("INSERT INTO checkpoints VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        connection.executescript(STORE_DDL)
        item = ("users.anna", "profile", '{"tea": true}')
        connection.execute("INSERT INTO store (prefix, key, value) VALUES (?, ?, ?)", item)
        connection.commit()
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


def shown(text: str) -> set[str]:
    """The words of a listing, without control sequences."""
    return set(re.split(r"[^\w-]+", re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]|\x1b.", " ", text)))


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("ckpt show anna@ex", "anna@example.com"),
        ('ckpt show "berta l', "berta lee"),
        ("ckpt show o", "o'brien"),
        ("ckpt show tenant:7:u", "tenant:7:user:anna"),
        (r"ckpt show \$", "$(touch pwned)"),
        *with_engines(
            ("ckpt show ann", "anna@example.com"),
            ("ckpt show ber", "berta lee"),
            (r"ckpt show berta\ l", "berta lee"),
            ("ckpt show 'berta l", "berta lee"),
            ('ckpt show "o', "o'brien"),
            ("ckpt show sa", 'say "hi"'),
            ('ckpt show "sa', 'say "hi"'),
            ("ckpt show 'say \"", 'say "hi"'),
            ("ckpt show ten", "tenant:7:user:anna"),
            ('ckpt show "tenant:7', "tenant:7:user:anna"),
            ("ckpt show user=", "user=7;b"),
            ("ckpt show '$", "$(touch pwned)"),
            (r'ckpt show "\$', "$(touch pwned)"),
            (r"ckpt show \`", "`touch pwned`"),
            ("ckpt show k", "k;touch pwned"),
            ('ckpt show "k', "k;touch pwned"),
            ("ckpt show wo", "wow!now"),
            ("ckpt show 'wo", "wow!now"),
            ("ckpt show back", "back\\slash"),
            ("ckpt show 'back", "back\\slash"),
            ("ckpt show v", "v&w|x<y>z"),
            (r"ckpt show \{", "{1,2}"),
            ("ckpt show ü", "ünï"),
            (r"ckpt show zoe@x\ ", "zoe@x y"),
            ("ckpt threads delete -- -d", "-dash"),
        ),
    ],
)
def test_an_id_is_inserted_as_one_word(shell: TerminalShell, line: str, word: str) -> None:
    typed = shell.type(line).line
    assert shell.words(typed)[-1] == word, typed
    assert not list(shell.home.glob("**/pwned"))


@pytest.mark.parametrize(
    ("line", "whole"),
    [
        ("ckpt -s $SAMPLE show trip-to-kyoto@b95", "ckpt -s $SAMPLE show trip-to-kyoto@b955d"),
        ("ckpt --store=$SAMPLE show refu", "ckpt --store=$SAMPLE show refund-4711"),
        *with_engines(
            ("ckpt sho", "ckpt show"),
            ("ckpt -s $SAMPLE diff trip-to-kyoto he", "ckpt -s $SAMPLE diff trip-to-kyoto head"),
            ("ckpt show anna@example.com@he", "ckpt show anna@example.com@head"),
            (
                "ckpt -s $SAMPLE show refund-4711 --channel mess",
                "ckpt -s $SAMPLE show refund-4711 --channel messages",
            ),
            (
                "ckpt -s $SAMPLE show refund-4711 --channel=mess",
                "ckpt -s $SAMPLE show refund-4711 --channel=messages",
            ),
            ("ckpt -o nd", "ckpt -o ndjson"),
            ("ckpt --output=nd", "ckpt --output=ndjson"),
            ("ckpt gc --scope w", "ckpt gc --scope writes"),
            ("ckpt completion f", "ckpt completion fish"),
            ("ckpt export anna@example.com ber", r"ckpt export anna@example.com berta\ lee"),
            ("ckpt grep x anna@e", "ckpt grep x anna@example.com"),
            ("ckpt memory show users/anna/pro", "ckpt memory show users/anna/profile"),
            ("ckpt memory list us", "ckpt memory list users/anna"),
            (
                "ckpt memory show --namespace users/anna pro",
                "ckpt memory show --namespace users/anna profile",
            ),
            ("ckpt -s sett", "ckpt -s settings"),
            ("ckpt import sett", "ckpt import settings"),
        ),
    ],
)
def test_a_word_is_completed(shell: TerminalShell, line: str, whole: str) -> None:
    assert shell.type(line).line.rstrip() == whole


@pytest.mark.parametrize(
    ("group", "commands"),
    [
        ("", {"threads", "show", "memory", "demo"}),
        ("threads ", {"list", "delete"}),
        ("memory ", {"list", "show", "search", "export", "edit", "delete", "import", "sessions"}),
    ],
)
def test_a_group_offers_its_commands(shell: TerminalShell, group: str, commands: set[str]) -> None:
    assert commands <= shown(shell.type(f"ckpt {group}").shown)


@pytest.mark.engines
@pytest.mark.parametrize(
    "setting",
    [
        "set -u",
        "shopt -u hostcomplete",
        "COMP_WORDBREAKS=${COMP_WORDBREAKS//:}",
        "COMP_WORDBREAKS=${COMP_WORDBREAKS//[@:=]}",
        "shopt -s nullglob failglob nocasematch",
        "IFS=:@",
    ],
)
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
