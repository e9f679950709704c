"""`ckpt sql`: ask SQL of the threads of a store."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from ckpt_backends.errors import StoreUnavailable, UsageError
from ckpt_cli.diagnostics import progress
from ckpt_cli.options import (
    Cluster,
    Jobs,
    Match,
    Where,
    command_options,
    not_huge,
    takes,
)
from ckpt_cli.session import Session

if TYPE_CHECKING:
    from ckpt_cli.api.querying import SqlSession, ThreadChoice

_SECONDS = 300


@command_options
class SqlOptions:
    """The argument and options of `ckpt sql`."""

    query: Annotated[
        str | None, Argument(metavar="QUERY", help="A SELECT; - reads it from stdin.")
    ] = None
    file: Annotated[Path | None, Option(metavar="FILE", help="Read the query from FILE.")] = None
    thread: Annotated[
        list[str] | None, Option("--thread", metavar="THREAD", help="Only this thread; repeatable.")
    ] = None
    match: Match = None
    where: Where = None
    attach: Annotated[
        list[str] | None,
        Option(
            "--attach",
            metavar="[NAME=]STORE",
            help="Also read this store, as schema NAME; repeatable.",
        ),
    ] = None
    interactive: Annotated[
        bool, Option("--interactive", help="Ask one query after the other at a prompt.")
    ] = False
    tables: Annotated[bool, Option("--tables", help="List the tables.")] = False
    schema: Annotated[
        str | None, Option("--schema", metavar="TABLE", help="List the columns of a table.")
    ] = None
    timeout: Annotated[
        int,
        Option(
            metavar="SECONDS",
            help="Stop a query that takes longer, after reading; 0: never.",
            min=0,
            callback=not_huge,
        ),
    ] = _SECONDS
    jobs: Jobs = 1
    cluster: Cluster = None

    def check(self) -> None:
        """Raise `UsageError` unless there is one thing to do."""
        asked = (self.query, self.file, self.schema)
        wishes = sum(one is not None for one in asked) + self.interactive + self.tables
        if wishes == 0:
            raise UsageError("no query", hint="ckpt sql 'SELECT count(*) FROM threads'")
        if wishes > 1:
            raise UsageError("give one of QUERY, --file, --interactive, --tables and --schema")
        if self.thread and (self.match is not None or self.where):
            raise UsageError(
                "--thread cannot be combined with --match or --where", hint="use one of them"
            )

    @property
    def choice(self) -> ThreadChoice:
        """The threads that tables are made of."""
        from ckpt_cli.api.querying import ThreadChoice

        return ThreadChoice(
            tuple(self.thread) if self.thread else None,
            self.match,
            tuple(self.where or ()),
            self.jobs,
            self.cluster,
            partial(progress, total=None, label="reading threads"),
        )

    @property
    def seconds(self) -> int | None:
        """The time limit; None for none."""
        return self.timeout or None


@takes(SqlOptions)
def sql(session: Session, options: SqlOptions) -> None:
    """Ask SQL of threads, checkpoints, values and messages.

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
    options.check()
    if options.tables or options.schema is not None:
        _describe(session, options.schema)
        return
    query = _query(options)
    with ExitStack() as stack:
        asking = _session(session, options.attach or (), stack)
        if options.interactive:
            from ckpt_cli.commands.sql_prompt import prompt

            prompt(session, asking, options.choice, options.seconds)
            return
        answer(session, asking, query, options.choice, options.seconds)
    session.check_complete()


def answer(
    session: Session, asking: SqlSession, query: str, choice: ThreadChoice, seconds: int | None
) -> None:
    """Print the answer to a query. Raises `ParseError`, `UsageError` or `Refused`."""
    from ckpt_cli.render.sql import result_columns

    if session.settings.get("verbose"):
        for need in asking.needs(query, seconds):
            session.note(f"reading {need.schema}.{need.table}: {', '.join(need.columns)}")
    with asking.asked(query, choice, seconds) as found:
        session.output.records(found, result_columns(found.columns, session.now, session.zone))


def _query(options: SqlOptions) -> str:
    """Return the text of the query. Raises `StoreUnavailable` if a file cannot be read."""
    if options.query == "-":
        return sys.stdin.read()
    if options.file is None:
        return options.query or ""
    try:
        return options.file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8"
        raise StoreUnavailable(f"cannot read '{options.file}': {reason.lower()}") from error


def _session(session: Session, attached: Sequence[str], stack: ExitStack) -> SqlSession:
    """Open all stores. Raises `UsageError`, or what opening one raises."""

    from ckpt_cli.api.querying import SqlSession, SqlSource
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
    from ckpt_cli.render.sql import COLUMN_COLUMNS, TABLE_COLUMNS
    from ckpt_cli.sql.catalog import column_records, table_records

    if table is None:
        session.output.records(table_records(), TABLE_COLUMNS)
    else:
        session.output.records(column_records(table), COLUMN_COLUMNS)
