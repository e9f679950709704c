"""The prompt of `ckpt sql --interactive`."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from ckpt_backends.errors import CkptError, MissingDependency, UsageError
from ckpt_backends.files.atomic_write import make_private_folder
from ckpt_backends.installing import install_command
from ckpt_cli import diagnostics
from ckpt_cli.api.querying import SqlSession, ThreadChoice
from ckpt_cli.config.folders import history_file
from ckpt_cli.session import Session
from ckpt_cli.sql.catalog import column_records, table_records
from ckpt_cli.sql.tables import TABLES

PROMPT, MORE = "ckpt> ", "  ... "
HELP = """\
A query ends with a semicolon. Ctrl-C clears it, or stops one that runs; Ctrl-D ends.
.tables          list the tables
.schema TABLE    list the columns of a table
.help            show this
.quit            end"""
_KEYWORDS = (
    *("SELECT", "FROM", "WHERE", "GROUP BY", "ORDER BY", "LIMIT", "JOIN", "USING", "HAVING"),
    *("count(*)", "sum(", "avg(", "max(", "min(", "unnest(", "date_trunc(", "DISTINCT", "DESC"),
)
_NEWEST = 5
"""The threads whose channels are completed."""


class LineReader(Protocol):
    """Reads what is typed at a prompt."""

    def prompt(self, message: str) -> str:
        """Return what was typed. Raises `KeyboardInterrupt` or `EOFError`."""


def prompt(session: Session, asking: SqlSession, choice: ThreadChoice, seconds: int | None) -> None:
    """Answer queries until the user ends. Raises `MissingDependency` or `UsageError`."""
    reader = _reader(completions(asking, choice))
    answer_all(session, asking, choice, seconds, reader)


def answer_all(
    session: Session,
    asking: SqlSession,
    choice: ThreadChoice,
    seconds: int | None,
    reader: LineReader,
) -> None:
    """Answer what a reader reads. An error is printed, and the next query is read."""
    while True:
        try:
            text = reader.prompt(PROMPT).strip()
        except KeyboardInterrupt:
            continue
        except EOFError:
            return
        if text in {".quit", ".exit"}:
            return
        try:
            if text.startswith("."):
                _command(session, text)
            elif text.strip(";"):
                _answer(session, asking, text, choice, seconds)
        except CkptError as error:
            diagnostics.report(error, as_json=session.output.machine)
        except KeyboardInterrupt:
            session.note("stopped")


def _answer(
    session: Session, asking: SqlSession, text: str, choice: ThreadChoice, seconds: int | None
) -> None:
    from ckpt_cli.commands.sql import answer

    asking.refresh()
    answer(session, asking, text, choice, seconds)


def _command(session: Session, text: str) -> None:
    from ckpt_cli.render.sql import COLUMN_COLUMNS, TABLE_COLUMNS

    match text.rstrip(";").split():
        case [".tables"]:
            session.output.records(table_records(), TABLE_COLUMNS)
        case [".schema", name]:
            session.output.records(column_records(name), COLUMN_COLUMNS)
        case [".help"]:
            session.output.verbatim(f"{HELP}\n")
        case _:
            raise UsageError(f"no command '{text}'", hint="use .tables, .schema, .help or .quit")


def completions(asking: SqlSession, choice: ThreadChoice) -> list[str]:
    """Return words to complete: tables, columns, keywords, and channels of the newest threads."""
    words = {*TABLES, *(name for table in TABLES.values() for name in table.names)}
    newest = replace(choice, jobs=1, cluster=None, newest=_NEWEST)
    query = 'SELECT DISTINCT channel FROM "values" WHERE is_head'
    with asking.asked(query, newest) as found:
        channels = [f"'{row['channel']}'" for row in found if str(row["channel"]).isprintable()]
    return [*sorted(words), *_KEYWORDS, *sorted(channels)]


def is_complete(text: str) -> bool:
    """Return whether Enter ends what was typed."""
    return not text.strip() or text.lstrip().startswith(".") or text.rstrip().endswith(";")


def _reader(words: Iterable[str]) -> LineReader:
    try:
        from prompt_toolkit import PromptSession
        from prompt_toolkit.application import get_app
        from prompt_toolkit.completion import WordCompleter
        from prompt_toolkit.filters import Condition
        from prompt_toolkit.history import FileHistory
        from prompt_toolkit.key_binding import KeyBindings
    except ImportError:
        raise MissingDependency(
            "the prompt needs the package prompt-toolkit, which is not installed",
            hint=install_command("langgraph-ckpt[sql]"),
        ) from None
    keys = KeyBindings()

    @keys.add("enter", filter=Condition(lambda: is_complete(get_app().current_buffer.text)))
    def _enter(event: Any) -> None:
        event.current_buffer.validate_and_handle()

    return PromptSession(
        history=FileHistory(str(private_history())),
        completer=WordCompleter(list(words), ignore_case=True),
        complete_while_typing=False,
        multiline=True,
        prompt_continuation=MORE,
        key_bindings=keys,
    )


def private_history() -> Path:
    """Return the file of what was typed before, which only this user can read.

    Raises `UsageError` if there is no place for it.
    """
    path = history_file()
    try:
        make_private_folder(path.parent)
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600))
        os.chmod(path, 0o600, follow_symlinks=True)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UsageError(f"cannot write the history '{path}': {reason}") from error
    return path
