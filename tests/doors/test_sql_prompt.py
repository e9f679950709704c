"""The prompt answers one query after the other, and completes names."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from ckpt_cli.api.sql import SqlSession, SqlSource, ThreadChoice
from ckpt_cli.commands.sql import answer_all, completions, is_complete, private_history
from ckpt_cli.session import Session
from ckpt_cli.sql.database import MAIN
from tests.kit.command import SAMPLE, copy_store


class Typed:
    """Types some lines; an exception is raised in place of a line."""

    def __init__(self, *lines: str | BaseException) -> None:
        self._lines = iter((*lines, EOFError()))

    def prompt(self, message: str) -> str:
        line = next(self._lines)
        if isinstance(line, BaseException):
            raise line
        return line


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    found = Session()
    found.settings |= {"store": str(copy_store(SAMPLE, tmp_path)), "output": "ndjson"}
    yield found
    found.close()


def asking(session: Session) -> SqlSession:
    return SqlSession({MAIN: SqlSource(session.store, session.opening, session)}, session)


def test_queries_are_answered_until_the_end(
    session: Session, capsys: pytest.CaptureFixture[str]
) -> None:
    typed = Typed(
        "SELECT count(*) AS n FROM threads;",
        KeyboardInterrupt(),
        "SELEC 1;",
        ".schema writs",
        ".schema interrupts",
        "",
        "SELECT 2 AS two;",
        ".quit",
        "SELECT 3 AS three;",
    )
    with asking(session) as one:
        answer_all(session, one, ThreadChoice(), None, typed)
    out, err = capsys.readouterr()
    assert out.splitlines()[0] == '{"n":8}'
    assert '{"two":2}' in out
    assert "three" not in out
    assert '"column":"interrupt_id"' in out
    assert len([line for line in err.splitlines() if "error" in line]) == 2


def test_tables_columns_and_channels_are_completed(session: Session) -> None:
    with asking(session) as one:
        words = completions(one, ThreadChoice())
    assert {"threads", "checkpoint_id", "GROUP BY", "'messages'"} <= set(words)


def test_a_query_ends_with_a_semicolon() -> None:
    assert not is_complete("SELECT 1")
    assert all(map(is_complete, ("SELECT 1\n;", ".tables", " ")))


def test_the_history_is_private() -> None:
    assert stat.S_IMODE(private_history().stat().st_mode) == 0o600
