"""`ckpt grep`: search threads for a text."""

from __future__ import annotations

from functools import partial
from itertools import islice
from typing import Annotated

from typer import Argument, Exit, Option

from ckpt_backends.errors import NotFound, PartlyDone
from ckpt_cli.api.listing import chosen_threads
from ckpt_cli.core.search.patterns import FASTER, gave_up, stopped_text
from ckpt_cli.diagnostics import progress
from ckpt_cli.options import (
    Channels,
    Cluster,
    Jobs,
    Match,
    Where,
    command_options,
    not_huge,
    takes,
)
from ckpt_cli.queries.replay_all import check_channels
from ckpt_cli.render.grep import hit_columns, table_record
from ckpt_cli.session import Session


@command_options
class GrepOptions:
    """The arguments and options of `ckpt grep`."""

    pattern: Annotated[
        str, Argument(metavar="PATTERN", help="Regular expression in Python's syntax.")
    ]
    threads: Annotated[
        list[str] | None, Argument(metavar="THREAD", help="Threads to search. [default: all]")
    ] = None
    ignore_case: Annotated[
        bool, Option("-i", "--ignore-case", help="Ignore upper and lower case.")
    ] = False
    fixed: Annotated[
        bool, Option("-F", "--fixed-strings", help="PATTERN is plain text, not an expression.")
    ] = False
    match: Match = None
    where: Where = None
    channel: Channels = None
    ns: Annotated[
        str | None, Option(metavar="NAMESPACE", help="Only this namespace; '' is the root.")
    ] = None
    head_only: Annotated[
        bool, Option("--head-only", help="Search only the newest checkpoints.")
    ] = False
    limit: Annotated[
        int | None,
        Option("-n", "--limit", metavar="N", help="Show at most N.", min=1, callback=not_huge),
    ] = None
    jobs: Jobs = 1
    cluster: Cluster = None


@takes(GrepOptions)
def grep(session: Session, options: GrepOptions) -> None:
    """Search threads for a text.

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
    found = session.handle.grep(
        options.pattern,
        options.threads,
        fixed=options.fixed,
        ignore_case=options.ignore_case,
        match=options.match,
        where=options.where or (),
        channels=options.channel or (),
        ns=options.ns,
        head_only=options.head_only,
        jobs=options.jobs,
        cluster=options.cluster,
        watch=partial(progress, total=None, label="searching threads"),
    )
    if session.output.table:
        records = (table_record(one.found) for one in found)
    else:
        records = (one.to_dict() for one in found)
    counted = session.output.records(islice(records, options.limit), hit_columns())
    hint = FASTER if found.stopped else None
    if gave_up(found.stopped):
        raise PartlyDone(f"search stopped: {stopped_text(found.stopped)}", hint=hint)
    if said := found.missed:
        if not counted:
            raise PartlyDone(f"nothing found, but {said}", hint=hint)
        session.note(said)
    if not counted:
        _check_names(session, options)
        raise Exit(1)


def _check_names(session: Session, options: GrepOptions) -> None:
    """Raise `NotFound` for an unknown namespace, and note unknown channels."""
    if options.ns is None and not options.channel:
        return  # Choosing the threads again may read all heads.
    store = session.store
    chosen = chosen_threads(store, session, options.threads, options.match, options.where or ())
    ids = [one.thread_id for one in (store.threads() if chosen is None else chosen)]
    ns = options.ns
    if ns is not None and ids and not any(ns in store.namespaces(one) for one in ids):
        raise NotFound(f"no namespace '{ns}' in these threads")
    if ids and options.channel:
        names = [name for name in options.channel if not name.startswith("__")]
        try:
            check_channels(store, ids, names, "these threads")
        except NotFound as error:  # Or nothing was ever written to it.
            session.note(error.message)
