"""`ckpt grep`: search threads for a text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import islice
from typing import Annotated

from typer import Argument, Context, Exit, Option

from ckpt_backends.errors import NotFound, PartlyDone
from ckpt_backends.model import Thread
from ckpt_cli.core.search import FASTER, gave_up, stopped_text
from ckpt_cli.diagnostics import progress
from ckpt_cli.options import AsOf, Channels, Cluster, Jobs, Match, Where, number
from ckpt_cli.queries.replay import check_channels
from ckpt_cli.render.search import HIT_COLUMNS, table_record
from ckpt_cli.session import Session


def grep(
    ctx: Context,
    pattern: Annotated[
        str, Argument(metavar="PATTERN", help="Regular expression in Python's syntax.")
    ],
    threads: Annotated[
        list[str] | None, Argument(metavar="THREAD", help="Threads to search. [default: all]")
    ] = None,
    ignore_case: Annotated[
        bool, Option("-i", "--ignore-case", help="Ignore upper and lower case.")
    ] = False,
    fixed: Annotated[
        bool, Option("-F", "--fixed-strings", help="PATTERN is plain text, not an expression.")
    ] = False,
    match: Match = None,
    where: Where = None,
    channel: Channels = None,
    ns: Annotated[
        str | None, Option(metavar="NAMESPACE", help="Only this namespace; '' is the root.")
    ] = None,
    head_only: Annotated[
        bool, Option("--head-only", help="Search only the newest checkpoints.")
    ] = False,
    limit: Annotated[int | None, number("Show at most N.", "-n", "--limit")] = None,
    jobs: Jobs = 1,
    cluster: Cluster = None,
    as_of: AsOf = None,
) -> None:
    """Search values, questions, errors and writes for a text.

    Searches values, questions, errors and what tasks wrote. IN says where the text is: in a value,
    a question, an error, or a write that no stored value contains. Each line is printed once, at
    the oldest checkpoint that has it. Searches text and numbers, not the names of fields.

    Exits with 1 if nothing was found, and with 7 if a value that cannot be read may contain it.

    ```
    ckpt -s agent.db grep -i 'refund|chargeback'
    ckpt -s agent.db grep -F 'order 4711' --match 'user-*' --channel messages
    ckpt -s agent.db grep 'Traceback' user-42 --head-only
    ```
    """
    session: Session = ctx.obj
    found = session.handle.grep(
        pattern,
        threads,
        fixed=fixed,
        ignore_case=ignore_case,
        match=match,
        where=where or (),
        channels=channel or (),
        ns=ns,
        head_only=head_only,
        jobs=jobs,
        cluster=cluster,
        watch=partial(progress, total=None, label="searching threads"),
    )
    if session.output.table:
        records = (table_record(one.found) for one in found)
    else:
        records = (one.to_dict() for one in found)
    counted = session.output.records(islice(records, limit), HIT_COLUMNS)
    hint = FASTER if found.stopped else None
    if gave_up(found.stopped):
        raise PartlyDone(f"search stopped: {stopped_text(found.stopped)}", hint=hint)
    if said := found.missed:
        if not counted:
            raise PartlyDone(f"nothing found, but {said}", hint=hint)
        session.note(said)
    if not counted:
        if ns is not None or channel:  # Choosing the threads again may read all heads.
            chosen = session.handle.chosen(threads, match, where or ())
            _check_names(session, chosen, ns, channel or ())
        raise Exit(1)


def _check_names(
    session: Session, chosen: Iterable[Thread] | None, ns: str | None, channels: Sequence[str]
) -> None:
    """Raise `NotFound` for an unknown namespace, and note unknown channels."""
    store = session.store
    ids = [one.thread_id for one in (store.threads() if chosen is None else chosen)]
    if ns is not None and ids and not any(ns in store.namespaces(one) for one in ids):
        raise NotFound(f"no namespace '{ns}' in these threads")
    if ids and channels:
        names = [name for name in channels if not name.startswith("__")]
        try:
            check_channels(store, ids, names, "these threads")
        except NotFound as error:  # Or nothing was ever written to it.
            session.note(error.message)
