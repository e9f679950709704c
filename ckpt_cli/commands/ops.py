"""`ckpt ops`: list what `ckpt` changed, show one operation, and check an audit file."""

from __future__ import annotations

import re
from itertools import islice
from pathlib import Path
from typing import Annotated

from typer import Argument, Context, Exit, Option

from ckpt_backends import shell
from ckpt_backends.errors import UsageError
from ckpt_backends.url import StoreUrl
from ckpt_cli.api.answer import Answer
from ckpt_cli.operations.log import (
    OperationLog,
    OperationStep,
    has_steps,
    place_of,
    steps_of,
    unfinished,
    verified,
)
from ckpt_cli.options import number
from ckpt_cli.queries.operations import changed, operation_named, operations, redacted
from ckpt_cli.render.operations import (
    CHAIN_VIEW,
    OPERATION,
    OPERATION_VIEW,
    ShownChain,
    ShownOperation,
    operation_columns,
)
from ckpt_cli.session import Session


def list_(
    ctx: Context,
    limit: Annotated[int, number("Show at most N.", "-n", "--limit")] = 50,
    everything: Annotated[bool, Option("--all", help="Show all operations.")] = False,
    thread: Annotated[
        str | None, Option("--thread", metavar="THREAD", help="Only operations on this thread.")
    ] = None,
    action: Annotated[
        str | None,
        Option(
            "--action",
            metavar="ACTION",
            help="Only these: rollback, fork, repair, purge, undo, ...",
        ),
    ] = None,
) -> None:
    """List what ckpt changed, newest first.

    Lists the operations on one store; without a store, those on all stores. They are recorded
    for your user on this machine, in $XDG_STATE_HOME/ckpt/operations. What agents and other
    users did is not recorded there.

    ```
    ckpt ops list
    ckpt -s agent.db ops list --thread user-42
    ckpt -s agent.db ops list --action purge --all -o json
    ```
    """
    session: Session = ctx.obj
    log = OperationLog.of_user()
    url = _settled_store(session)
    found = (
        one
        for one in operations(log, None if url is None else place_of(url))
        if (action is None or one.operation.action == action)
        and (thread is None or changed(log, one.operation, thread))
    )
    rows = list(islice(found, None if everything else limit + 1))
    more = not everything and len(rows) > limit
    shown = rows[:limit] if more else rows
    if session.settings.get("redact"):
        shown = list(map(redacted, shown))
    columns = operation_columns(of_all=url is None)
    session.output.records(map(OPERATION.record, shown), columns)
    if not shown:
        session.note("no operation matches" if thread or action else "no operation is recorded")
    elif more:
        session.note(f"showing the newest {limit}; -n N or --all for more")


def show(
    ctx: Context,
    op: Annotated[str, Argument(metavar="OP", help="Id of an operation, or its beginning.")],
) -> None:
    """Show one operation: what it changed in each thread.

    ```
    ckpt ops show 3f2a
    ckpt ops show 3f2a -o json
    ```
    """
    session: Session = ctx.obj
    log = OperationLog.of_user()
    url = _settled_store(session)
    found = operation_named(log, op, None if url is None else place_of(url))
    if session.settings.get("redact"):
        found = redacted(found)
    steps = _steps_of(session, log, found.op)
    words = session.names.words or ["-s", found.operation.store]
    session.show(Answer(ShownOperation(found, steps, words), OPERATION_VIEW))


def _steps_of(session: Session, log: OperationLog, op: str) -> list[OperationStep]:
    """Return the steps of an operation; none if they are not kept, or damaged."""
    if not has_steps(log, op):
        return []
    try:
        return list(steps_of(log, op))
    except UsageError as error:
        session.note(error.message)
        return []


def _settled_store(session: Session) -> StoreUrl | None:
    """Return the store of this run; None if none is given. Records what killed runs did to it."""
    names = session.names
    if names.store_name is not None or names.profiles.default is not None:
        session.settle()
        return names.store_url
    for one in unfinished(OperationLog.of_user()):
        session.note(
            f"a run of ckpt ({one.action}) was stopped before it recorded what it did;"
            f" `{shell.command('ckpt', '-s', one.store, 'ops', 'list')}` finds out"
        )
    return None


def verify(
    ctx: Context,
    file: Annotated[
        Path | None,
        Argument(metavar="FILE", help="Audit file. [default: that of --audit or the profile]"),
    ] = None,
    head: Annotated[
        str | None,
        Option(metavar="HASH", help="A hash that was printed before must still be in the file."),
    ] = None,
) -> None:
    """Check the chain of an audit file.

    Each line of the file names the SHA-256 of the line before. Prints the number of lines and the
    hash of the last one. Note this hash elsewhere, and give it with --head the next time: only then
    is it found if the last line was changed, or if lines at the end were cut off. The exit code is
    1 if the chain is broken.

    ```
    ckpt ops verify audit.ndjson
    ckpt ops verify audit.ndjson --head 5e1a... -o json
    ```
    """
    session: Session = ctx.obj
    path = file or session.names.audit
    if path is None:
        raise UsageError("no audit file given", hint="ckpt ops verify FILE")
    known = None if head is None else head.lower()
    if known is not None and not re.fullmatch("[0-9a-f]{64}", known):
        raise UsageError("--head takes a whole hash: 64 hexadecimal digits")
    chain = verified(path, known)
    is_missing = known is not None and not chain.has_known
    session.show(Answer(ShownChain(path, chain, is_missing), CHAIN_VIEW))
    if chain.broken or is_missing:
        raise Exit(1)
    if known is None:
        session.note("only --head HASH, with a hash noted before, finds a changed or cut-off end")
