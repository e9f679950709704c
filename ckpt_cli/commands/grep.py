"""`ckpt grep`: search threads for a text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Annotated

from ckpt_backends.errors import NotFound, PartlyDone
from ckpt_cli.core.search.patterns import FASTER, compile_pattern, gave_up, stopped_text
from ckpt_cli.diagnostics import progress
from ckpt_cli.ending import Exit
from ckpt_cli.options import Channels, Jobs, Match, Where, argument, flag, option, takes
from ckpt_cli.queries.grep import GrepHit, GrepQuery, grep_threads
from ckpt_cli.queries.replay_all import check_channels
from ckpt_cli.queries.selection import selected_threads
from ckpt_cli.render.grep import hit_columns, hit_record, table_record
from ckpt_cli.session import Session


@dataclass(frozen=True, slots=True, kw_only=True)
class GrepOptions:
    """The arguments and options of `ckpt grep`."""

    pattern: Annotated[str, argument("PATTERN", "Regular expression in Python's syntax.")]
    threads: Annotated[
        list[str] | None, argument("[THREAD]...", "Threads to search. [default: all]")
    ] = None
    ignore_case: Annotated[bool, flag("Ignore upper and lower case.", "-i", "--ignore-case")] = (
        False
    )
    fixed: Annotated[
        bool, flag("PATTERN is plain text, not an expression.", "-F", "--fixed-strings")
    ] = False
    match: Match = None
    where: Where = None
    channel: Channels = None
    ns: Annotated[str | None, option("NAMESPACE", "Only this namespace; '' is the root.")] = None
    head_only: Annotated[bool, flag("Search only the newest checkpoints.")] = False
    limit: Annotated[int | None, option("N", "Show at most N.", "-n", "--limit", min=1)] = None
    jobs: Jobs = 1


@takes(GrepOptions)
def grep(session: Session, options: GrepOptions) -> None:
    """Search threads for a text.

    Searches values, questions, errors and what tasks wrote. IN says where the text is: in a value,
    a question, an error, or a write that no stored value contains. Each line is printed once, at
    the oldest checkpoint that has it. Searches text and numbers, not the names of fields.

    Exits with 1 if nothing was found, and with 7 if a value that cannot be read may contain it.

    \b
      ckpt -s agent.db grep -i 'refund|chargeback'
      ckpt -s agent.db grep -F 'order 4711' --match 'user-*' --channel messages
      ckpt -s agent.db grep 'Traceback' user-42 --head-only
    """
    wanted = GrepQuery(
        options.pattern,
        options.fixed,
        options.ignore_case,
        tuple(options.channel or ()),
        options.ns,
        options.head_only,
    )
    compile_pattern(options.pattern, fixed=options.fixed, ignore_case=options.ignore_case)
    store = session.store
    chosen = selected_threads(store, options.threads or (), options.match, options.where or ())
    watched = progress(chosen, total=None, label="searching threads")
    unread = stopped = 0

    def hits() -> Iterator[GrepHit]:
        nonlocal unread, stopped
        for searched in grep_threads(store, session.opening, watched, wanted, options.jobs):
            unread += searched.unread
            stopped += searched.stopped
            yield from searched.hits

    as_record = table_record if session.output.table else hit_record
    found = map(as_record, islice(hits(), options.limit))
    counted = session.output.records(found, hit_columns())
    hint = FASTER if stopped else None
    if gave_up(stopped):
        raise PartlyDone(f"search stopped: {stopped_text(stopped)}", hint=hint)
    unreadable = f"{unread} values could not be read completely" if unread else ""
    if said := " and ".join(filter(None, [unreadable, stopped_text(stopped)])):
        if not counted:
            raise PartlyDone(f"nothing found, but {said}", hint=hint)
        session.note(said)
    if not counted:
        _check_names(session, options)
        raise Exit(1)


def _check_names(session: Session, options: GrepOptions) -> None:
    """Raise `NotFound` for an unknown namespace, and note unknown channels."""
    store = session.store
    chosen = selected_threads(store, options.threads or (), options.match, options.where or ())
    ids = [one.thread_id for one in chosen]
    ns = options.ns
    if ns is not None and ids and not any(ns in store.namespaces(one) for one in ids):
        raise NotFound(f"no namespace '{ns}' in these threads")
    if ids and options.channel:
        names = [name for name in options.channel if not name.startswith("__")]
        try:
            check_channels(store, ids, names, "these threads")
        except NotFound as error:  # Or nothing was ever written to it.
            session.note(error.message)
