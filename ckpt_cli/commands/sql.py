"""`ckpt sql`: ask SQL of the threads of a store."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol

from typer import Argument, Context, Option

from ckpt_backends import platform
from ckpt_backends.errors import (
    CkptError,
    MissingDependency,
    StoreUnavailable,
    UsageError,
    reason_of,
)
from ckpt_backends.files import make_private_folder
from ckpt_backends.installing import install_command
from ckpt_cli import diagnostics
from ckpt_cli.config.machine import history_file
from ckpt_cli.diagnostics import progress
from ckpt_cli.options import AsOf, Cluster, Jobs, Match, Where, not_huge
from ckpt_cli.render.table import AT, Column
from ckpt_cli.session import Session

if TYPE_CHECKING:
    from ckpt_cli.api.sql import SqlSession, ThreadChoice
    from ckpt_cli.sql.database import ResultColumn

_NUMBERS = ("INT", "DECIMAL", "DOUBLE", "FLOAT")
_TABLES = (Column("TABLE", "table", style="head"), Column("ROWS", "text"))
_COLUMNS = (
    Column("COLUMN", "column", style="head"),
    Column("TYPE", "type", style="node"),
    Column("UNIT", "unit", drop=1),
    Column("READS", "reads", style="dim"),
    Column("WHAT", "text"),
)
_SECONDS = 300
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


def sql(
    ctx: Context,
    query: Annotated[
        str | None, Argument(metavar="QUERY", help="A SELECT; - reads it from stdin.")
    ] = None,
    file: Annotated[
        Path | None, Option("--file", metavar="FILE", help="Read the query from FILE.")
    ] = None,
    thread: Annotated[
        list[str] | None, Option("--thread", metavar="THREAD", help="Only this thread; repeatable.")
    ] = None,
    match: Match = None,
    where: Where = None,
    attach: Annotated[
        list[str] | None,
        Option(
            "--attach",
            metavar="[NAME=]STORE",
            help="Also read this store, as schema NAME; repeatable.",
        ),
    ] = None,
    interactive: Annotated[
        bool, Option("--interactive", help="Ask one query after the other at a prompt.")
    ] = False,
    tables: Annotated[bool, Option("--tables", help="List the tables.")] = False,
    schema: Annotated[
        str | None, Option("--schema", metavar="TABLE", help="List the columns of a table.")
    ] = None,
    timeout: Annotated[
        int,
        Option(
            metavar="SECONDS",
            help="Stop a query that takes longer, after reading; 0: never.",
            min=0,
            callback=not_huge,
        ),
    ] = _SECONDS,
    jobs: Jobs = 1,
    cluster: Cluster = None,
    as_of: AsOf = None,
) -> None:
    """Query threads, checkpoints, values and messages with SQL.

    QUERY is a SELECT in the dialect of DuckDB over these tables: threads, checkpoints, tasks,
    writes, values, messages, interrupts, errors, usage, memory. Only what the query names is read:
    its tables, its columns, and the threads that its conditions on thread_id and ts allow. Values
    are JSON: value->>'$.plan'. docs/sql.md describes each column, and has queries to start from.

    The query runs on a private copy that is removed at the end. It can reach no file and no
    network, and cannot change the store.

    ```
    ckpt -s agent.db sql 'SELECT channel, sum(bytes) FROM writes GROUP BY 1 ORDER BY 2 DESC'
    ckpt -s agent.db sql "SELECT index, text FROM messages WHERE thread_id = 'user-42'"
    ckpt -s prod sql --interactive
    ckpt -s prod sql --attach staging 'FROM threads ANTI JOIN staging.threads USING (thread_id)'
    ckpt sql --schema writes
    ```
    """
    session: Session = ctx.obj
    wishes = sum(one is not None for one in (query, file, schema)) + interactive + tables
    if wishes == 0:
        raise UsageError("no query", hint="ckpt sql 'SELECT count(*) FROM threads'")
    if wishes > 1:
        raise UsageError("give one of QUERY, --file, --interactive, --tables and --schema")
    if thread and (match is not None or where):
        raise UsageError(
            "--thread cannot be combined with --match or --where", hint="use one of them"
        )
    if tables or schema is not None:
        _describe(session, schema)
        return
    from ckpt_cli.api.sql import ThreadChoice

    text = _query(query, file)
    choice = ThreadChoice(
        tuple(thread) if thread else None,
        match,
        tuple(where or ()),
        jobs,
        cluster,
        partial(progress, total=None, label="reading threads"),
    )
    with ExitStack() as stack:
        asking = _session(session, attach or (), stack)
        if interactive:
            reader = _reader(completions(asking, choice))
            answer_all(session, asking, choice, timeout or None, reader)
            return
        _answer(session, asking, text, choice, timeout or None)
    session.check_complete()


def _answer(
    session: Session, asking: SqlSession, query: str, choice: ThreadChoice, seconds: int | None
) -> None:
    """Print the answer to a query. Raises `ParseError`, `UsageError` or `Refused`."""
    if session.settings.get("verbose"):
        for need in asking.needs(query, seconds):
            session.note(f"reading {need.schema}.{need.table}: {', '.join(need.columns)}")
    with asking.asked(query, choice, seconds) as found:
        session.output.records(found, [_column(one) for one in found.columns])


def _column(one: ResultColumn) -> Column:
    if one.type == "TIMESTAMP WITH TIME ZONE":
        return Column(one.key, one.key, AT, style="time")
    is_number = any(part in one.type for part in _NUMBERS) and not one.type.endswith("]")
    return Column(one.key, one.key, _text, right=is_number, cut=not is_number, least=40)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _query(query: str | None, file: Path | None) -> str:
    """Return the text of the query. Raises `StoreUnavailable` if a file cannot be read."""
    if query == "-":
        return sys.stdin.read()
    if file is None:
        return query or ""
    try:
        return file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8"
        raise StoreUnavailable(f"cannot read '{file}': {reason.lower()}") from error


def _session(session: Session, attached: Sequence[str], stack: ExitStack) -> SqlSession:
    """Open all stores. Raises `UsageError`, or what opening one raises."""

    from ckpt_cli.api.sql import SqlSession, SqlSource
    from ckpt_cli.sql.database import MAIN, RESERVED

    profile = session.names.profile
    name = MAIN if profile is None else profile.name
    first = MAIN if name.lower() in RESERVED else name
    sources = {first: SqlSource(session.store, session.opening, session)}
    for one in attached:
        name, store = _named(one)
        hint = f"give it another name: --attach NAME={store}"
        if name.lower() in {one.lower() for one in sources}:
            raise UsageError(f"two stores are named '{name}'", hint=hint)
        if name.lower() in RESERVED:
            raise UsageError(f"no schema can be named '{name}'", hint=hint)
        url = session.names.url_of(store)
        opening = session.opening._replace(url=url)
        opened = stack.enter_context(session.open_other(url))
        sources[name] = SqlSource(opened, opening, session)
    return stack.enter_context(SqlSession(sources, session))


def _named(text: str) -> tuple[str, str]:
    """Return the schema and the store of `--attach`: a profile, or a file by its name."""
    name, mark, store = text.partition("=")
    if mark and "/" not in name and ":" not in name:
        return name, store
    return Path(text).stem if "/" in text or "." in text else text, text


def _describe(session: Session, table: str | None) -> None:
    from ckpt_cli.sql.planning import column_records, table_records

    if table is None:
        session.output.records(table_records(), _TABLES)
    else:
        session.output.records(column_records(table), _COLUMNS)


class LineReader(Protocol):
    """Reads what is typed at a prompt."""

    def prompt(self, message: str) -> str:
        """Return what was typed. Raises `KeyboardInterrupt` or `EOFError`."""


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
                asking.refresh()
                _answer(session, asking, text, choice, seconds)
        except CkptError as error:
            diagnostics.report(error, as_json=session.output.machine)
        except KeyboardInterrupt:
            session.note("stopped")


def _command(session: Session, text: str) -> None:
    match text.rstrip(";").split():
        case [".tables"]:
            _describe(session, None)
        case [".schema", name]:
            _describe(session, name)
        case [".help"]:
            session.output.verbatim(f"{HELP}\n")
        case _:
            raise UsageError(f"no command '{text}'", hint="use .tables, .schema, .help or .quit")


def completions(asking: SqlSession, choice: ThreadChoice) -> list[str]:
    """Return words to complete: tables, columns, keywords, and channels of the newest threads."""
    from ckpt_cli.sql.tables import TABLES

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
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | platform.NOFOLLOW
        os.close(os.open(path, flags, 0o600))
        os.chmod(path, 0o600, follow_symlinks=True)
    except OSError as error:
        raise UsageError(f"cannot write the history '{path}': {reason_of(error)}") from error
    return path
