"""`ckpt memory`: long-term memory, in LangGraph's Store or DeerFlow's files, and chat sessions."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Annotated

from typer import Argument, Context, Exit, Option

from ckpt_backends.errors import PartlyDone, UsageError
from ckpt_backends.memory.protocol import Item
from ckpt_cli.api.answer import Answer
from ckpt_cli.api.memory import MemoryHandle, opened_memory
from ckpt_cli.core.memory.item_filter import ItemFilter
from ckpt_cli.core.search.patterns import FASTER, compile_pattern, gave_up, stopped_text
from ckpt_cli.diagnostics import progress
from ckpt_cli.options import Threads, not_huge
from ckpt_cli.render.memory.full_text import full_text_lines
from ckpt_cli.render.memory.items import (
    hit_columns,
    hit_row,
    item_columns,
    item_lines,
    listed_row,
    row_record,
    tree_lines,
)
from ckpt_cli.render.memory.provenance import origin_lines
from ckpt_cli.render.terminal.table import Column
from ckpt_cli.session import Session
from ckpt_cli.threads.redaction import no_raw

Under = Annotated[
    str,
    Option(
        "--namespace",
        metavar="NAMESPACE",
        help="Only in NAMESPACE and below it, such as users/anna.",
    ),
]
Match = Annotated[
    str | None, Option(metavar="GLOB", help="Only keys matching GLOB, such as 'fact-*'.")
]


def list_(
    ctx: Context,
    namespace: Annotated[
        str, Argument(metavar="NAMESPACE", help="Namespace and all below it, such as users/anna.")
    ] = "",
    flat: Annotated[bool, Option("--flat", help="Show a table, not a tree.")] = False,
    limit: Annotated[
        int, Option("-n", "--limit", metavar="N", help="Show at most N.", min=1, callback=not_huge)
    ] = 50,
    everything: Annotated[bool, Option("--all", help="Show all.")] = False,
    match: Match = None,
    since: Annotated[
        str | None, Option(metavar="TIME", help="Only items updated since TIME: 2h, 2026-04-07.")
    ] = None,
    until: Annotated[
        str | None, Option(metavar="TIME", help="Only items not updated after TIME.")
    ] = None,
    expired: Annotated[
        bool | None, Option("--expired/--no-expired", help="Only expired items, or only others.")
    ] = None,
    category: Annotated[str | None, Option(metavar="NAME", help="Only facts of this category.")] = (
        None
    ),
    min_confidence: Annotated[
        float | None,
        Option(metavar="F", help="Only facts with a confidence of at least F.", min=0, max=1),
    ] = None,
    source: Annotated[
        str | None, Option(metavar="THREAD", help="Only items that came from THREAD.")
    ] = None,
    duplicates: Annotated[
        bool, Option("--duplicates", help="Only facts that repeat an older fact.")
    ] = False,
    orphans: Annotated[
        bool, Option("--orphans", help="Only facts from threads that no longer exist.")
    ] = False,
    threads: Threads = None,
) -> None:
    """List items by namespace, without values.

    Prints a tree on a terminal, else one row per item, with the text of DeerFlow's facts. Marks
    expired items, which stay until the application sweeps them. Only --source, --duplicates and
    --orphans read values.

    ```
    ckpt -s memory.db memory list
    ckpt -s memory.db memory list users/anna --since 2d
    ckpt -s memory.db memory list --expired --all -o json | jq -r '.[].key'
    ```
    """
    session: Session = ctx.obj
    output, now = session.output, session.now
    counted, more = 0, False
    with opened_memory(session) as memory:
        found = memory.items(
            namespace,
            match=match,
            since=session.time(since),
            until=session.time(until),
            expired=expired,
            category=category,
            min_confidence=min_confidence,
            source=source,
            duplicates=duplicates,
            orphans=orphans,
            threads=threads,
        )
        marks = found.marks

        def shown() -> Iterator[Answer[Item]]:
            nonlocal counted, more
            for counted, one in enumerate(found, 1):
                if counted > limit and not everything:
                    more = True
                    return
                yield one

        if output.table and not flat:
            items = (one.found for one in shown())
            output.document(dict, lambda: tree_lines(items, now, marks, output.width))
        else:
            rows = (
                one.to_dict()
                if output.machine
                else {**listed_row(one.found, now), **marks.get(one.found.key, {})}
                for one in shown()
            )
            output.records(rows, item_columns(now, marked=bool(found.faults), texts=True))
    if not counted:
        is_some = namespace or found.faults or found.wanted != ItemFilter()
        session.note("no item matches" if is_some else "no items")
    elif more:
        session.note(f"showing the first {limit} items; -n N or --all for more")


def show(
    ctx: Context,
    key: Annotated[str | None, Argument(metavar="KEY", help="Key, or NAMESPACE/KEY.")] = None,
    namespace: Under = "",
    raw: Annotated[bool, Option("--raw", help="Print the stored bytes of the value.")] = False,
    threads: Threads = None,
) -> None:
    """Show one item with its value, or all items.

    Without KEY, prints all items on one page. For an item that names its thread, also shows the
    newest checkpoint at the time the item was created, and the message it most likely came from.

    ```
    ckpt -s .deer-flow/memory.json memory show
    ckpt -s .deer-flow/memory.json memory show fact_a1b2c3d4
    ckpt -s memory.db memory show users/anna/profile
    ckpt -s memory.db memory show profile --namespace users/anna -o json
    ```
    """
    session: Session = ctx.obj
    if raw and session.opening.redact:
        raise no_raw()
    if raw and key is None:
        raise UsageError("--raw needs a key", hint="name one: ckpt memory show KEY --raw")
    with opened_memory(session) as memory:
        if key is None:
            _show_all(session, memory, namespace)
            return
        if raw:
            session.output.raw(memory.raw(key, namespace))
            return
        answer = memory.show(key, namespace, threads=threads)
    record, found = answer.to_dict(), answer.found
    now, zone, width = session.now, session.zone, session.output.width
    session.output.document(
        lambda: record,
        lambda: chain(
            item_lines(found.read, now, zone, width),
            () if found.origin is None else origin_lines(found.origin, now, zone, width),
        ),
        rows=lambda: [row_record(found.read.item, now)],
        columns=item_columns(now),
    )


def _show_all(session: Session, memory: MemoryHandle, namespace: str) -> None:
    """All items under a namespace: as text, or as records like those of `export`."""
    found, output = memory.export(namespace), session.output
    if output.text:
        output.document(dict, lambda: full_text_lines((one.found for one in found), output.width))
    else:
        columns = [*item_columns(session.now), Column("VALUE", "value")]
        output.records((one.to_dict() for one in found), columns)


def search(
    ctx: Context,
    text: Annotated[str, Argument(metavar="TEXT", help="Text to search for.")],
    namespace: Under = "",
    regex: Annotated[
        bool, Option("-E", "--regex", help="TEXT is a Python regular expression.")
    ] = False,
    ignore_case: Annotated[bool, Option("-i", "--ignore-case", help="Ignore case.")] = False,
    limit: Annotated[
        int | None,
        Option(
            "-n",
            "--limit",
            metavar="N",
            help="Stop after N matching lines.",
            min=1,
            callback=not_huge,
        ),
    ] = None,
) -> None:
    """Search namespaces, keys and values.

    Searches text and numbers in values, not names of fields. Compares text, not meaning: vectors
    are not used. Exits with 1 if nothing is found, and with 7 if nothing is found but some values
    could not be read.

    ```
    ckpt -s memory.db memory search 'likes tea'
    ckpt -s memory.db memory search -iE 'tea|coffee' --namespace users/anna
    ```
    """
    session: Session = ctx.obj
    # Before the store is opened; the hint names the option.
    compile_pattern(
        text,
        fixed=not regex,
        ignore_case=ignore_case,
        hint="leave out -E to search for the text as it is",
    )
    output = session.output
    with opened_memory(session) as memory:
        found = memory.search(
            text,
            namespace,
            regex=regex,
            ignore_case=ignore_case,
            watch=partial(progress, total=None, label="searching memory"),
        )
        hits = (
            one.to_dict() if output.machine else hit_row(one.found, table=output.table)
            for one in islice(found, limit)
        )
        counted = output.records(hits, hit_columns())
    hint = FASTER if found.stopped else None
    if gave_up(found.stopped):
        raise PartlyDone(f"search stopped: {stopped_text(found.stopped)}", hint=hint)
    if found.missed:
        if not counted:
            raise PartlyDone(f"no match found; {found.missed}", hint=hint)
        session.note(found.missed)
    if not counted:
        raise Exit(1)


def export(
    ctx: Context,
    namespace: Under = "",
    match: Match = None,
    to: Annotated[Path | None, Option(metavar="FILE", help="Write to FILE, replacing it.")] = None,
) -> None:
    """Export items with their values as JSON.

    Writes one line per item, in the form of `memory show -o json`, or one array with -o json. This
    is not a backup: `memory delete --archive` writes rows that `memory import` can restore.

    ```
    ckpt -s memory.db memory export > memory.ndjson
    ckpt -s memory.db memory export --namespace users/anna --to anna.ndjson
    ```
    """
    session: Session = ctx.obj
    with opened_memory(session) as memory:
        records = (one.to_dict() for one in memory.export(namespace, match=match))
        if to is not None:
            session.output.to_file(to, records)
        elif session.output.array:
            session.output.records(records, ())
        else:
            session.output.lines(records)


def sessions(
    ctx: Context,
    name: Annotated[
        str | None,
        Argument(metavar="SESSION", help="Session id, USER:ID or key. [default: list all]"),
    ] = None,
    thread: Annotated[
        str | None, Option(metavar="THREAD", help="Only sessions of this thread.")
    ] = None,
    user: Annotated[str | None, Option(metavar="USER", help="Only sessions of this user.")] = None,
) -> None:
    """List an application's chat sessions, or show one.

    Reads the chat sessions that an application keeps in Redis next to its checkpoints, with the
    status of each session's thread. By default these are the keys that match `*context*:*:*`. For
    other keys, add a pattern to the URL: `redis://localhost/0?pattern=app:session:*`

    ```
    ckpt -s redis://localhost/0 memory sessions
    ckpt -s redis://localhost/0 memory sessions --thread user-42
    ckpt -s redis://localhost/0 memory sessions 8d1f
    ```
    """
    session: Session = ctx.obj
    # What reads items needs none of it.
    from ckpt_cli.api.sessions import session_beside, sessions_beside
    from ckpt_cli.render.sessions import session_columns, session_lines

    output, columns = session.output, session_columns(session.now)
    if name is None:
        found = sessions_beside(session, lambda: session.store, thread=thread, user=user)
        output.records((one.to_dict() for one in found), columns)
        if not found:
            session.note("no session matches" if thread or user else "this store has no sessions")
        return
    if thread is not None or user is not None:
        raise UsageError("SESSION cannot be combined with --thread or --user")
    answer = session_beside(session, lambda: session.store, name)
    output.document(
        answer.to_dict,
        lambda: session_lines(answer.found, session.now, session.zone, output.width),
        rows=lambda: [answer.to_dict()],
        columns=columns,
    )
