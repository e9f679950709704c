"""`ckpt secrets`: find credentials in threads and in long-term memory."""

from __future__ import annotations

from contextlib import ExitStack, suppress
from functools import partial
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Context, Exit, Option

from ckpt_backends.errors import CkptError, NotFound, PartlyDone, UnknownLayout, Unsupported
from ckpt_cli.api.questions import SecretSearch, without_secrets
from ckpt_cli.core.secrets import known_kinds
from ckpt_cli.diagnostics import progress
from ckpt_cli.options import Cluster, Jobs, Match, Memory, Where
from ckpt_cli.render.search import (
    SECRET_COLUMNS,
    SECRET_KIND,
    SECRET_KIND_COLUMNS,
    SECRET_RECORD_COLUMNS,
    found_text,
    secret_row,
)
from ckpt_cli.render.values import counted, progress_text
from ckpt_cli.session import Session

if TYPE_CHECKING:
    from ckpt_cli.api.memory import MemoryHandle


def secrets(
    ctx: Context,
    threads: Annotated[
        list[str] | None,
        Argument(metavar="THREAD", help="Threads to search. [default: all, and long-term memory]"),
    ] = None,
    match: Match = None,
    where: Where = None,
    memory: Memory = None,
    kinds: Annotated[
        bool, Option("--kinds", help="List the kinds of secrets that can be found.")
    ] = False,
    jobs: Jobs = 1,
    cluster: Cluster = None,
) -> None:
    """Find keys, tokens and passwords in threads and memory.

    Searches values, writes and metadata of all checkpoints, and long-term memory; in a store
    without threads, such as DeerFlow's memory.json, the memory alone. Prints where a secret is and
    of which kind, never the secret. CHECKPOINTS tells how many hold it; REF is the newest of them.
    docs/secrets.md says what is found; a profile leaves some out with `ignore` in its table
    [stores.NAME.secrets].

    Exits with 1 if anything was found, and with 7 if something could not be read.

    ```
    ckpt -s agent.db secrets
    ckpt -s agent.db secrets user-42 -o ndjson
    ckpt -s prod secrets --where 'idle < 1d' --jobs 4
    ```
    """
    session: Session = ctx.obj
    if kinds:
        session.output.records(map(SECRET_KIND.record, known_kinds().items()), SECRET_KIND_COLUMNS)
        return
    with ExitStack() as opened:
        is_chosen = threads or match or where or memory
        alone = None if is_chosen else _memory_alone(session)
        if alone is not None:
            _show(session, opened.enter_context(alone).secrets(), in_memory=True)
            return
        try:
            found: SecretSearch = session.handle.secrets(
                threads,
                match=match,
                where=where or (),
                memory=memory,
                jobs=jobs,
                cluster=cluster,
                watch=partial(
                    progress, total=None, label=lambda: progress_text("searching", found.kinds)
                ),
            )
        except NotFound as error:
            raise without_secrets(error) from None  # it lists ids that are similar
        _show(session, found)


def _memory_alone(session: Session) -> MemoryHandle | None:
    """Open the long-term memory of a store that holds no threads; None if it holds threads.

    Raises what opening the threads raises if there is no memory, either.
    """
    try:
        _ = session.store
    except (UnknownLayout, Unsupported):
        from ckpt_cli.api.memory import opened_memory

        with suppress(CkptError):
            return opened_memory(session)
        raise
    return None


def _show(session: Session, found: SecretSearch, *, in_memory: bool = False) -> None:
    output = session.output

    def summary() -> str:
        return found_text(found.kinds, None if in_memory else found.threads, found.ignored)

    if output.table:
        output.records((secret_row(one.found) for one in found), SECRET_COLUMNS, rest=summary)
    else:
        output.records((one.to_dict() for one in found), SECRET_RECORD_COLUMNS)
        session.note(summary())
    _tell_missed(session, found)
    if not found.complete:
        raise PartlyDone("some of the store could not be searched")
    if found.kinds:
        raise Exit(1)


def _tell_missed(session: Session, found: SecretSearch) -> None:
    for thread_id, reason in found.unchecked.items():
        what = f"thread '{thread_id}'" if thread_id else "all of the store"
        session.note(f"cannot search {what}: {reason}")
    for reason, number in found.unread.items():
        session.note(f"not searched completely: {counted(number, 'value')}, {reason}")
    if found.stopped:
        session.note(f"not searched completely: {counted(found.stopped, 'text')}, took too long")
