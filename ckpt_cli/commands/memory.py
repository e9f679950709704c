"""`ckpt memory`: the long-term memory of agents, in LangGraph's Store or DeerFlow's files."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Annotated

from ckpt_backends.errors import PartlyDone, UsageError
from ckpt_backends.memory.protocol import Item
from ckpt_cli.api.answer import Answer
from ckpt_cli.api.memory import MemoryHandle, opened_memory
from ckpt_cli.core.memory.item_filter import ItemFilter
from ckpt_cli.core.search.patterns import FASTER, compile_pattern, gave_up, stopped_text
from ckpt_cli.diagnostics import progress
from ckpt_cli.ending import Exit
from ckpt_cli.lazy import CommandRef
from ckpt_cli.options import Threads, argument, command_options, flag, option, takes
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

COMMANDS = {
    "list": CommandRef("memory:list_", "List items by namespace, without values."),
    "show": CommandRef("memory:show", "Show one item with its value, or all items."),
    "search": CommandRef("memory:search", "Search namespaces, keys and values."),
    "export": CommandRef("memory:export", "Export items with their values as JSON."),
    "edit": CommandRef("memory_edit:edit", "Edit a fact or a section of DeerFlow's memory."),
    "delete": CommandRef("memory_delete:delete", "Delete items and their vectors."),
    "copy": CommandRef("memory_copy:copy", "Copy items to another Store of LangGraph."),
    "import": CommandRef("memory_import:import_", "Restore archived items."),
}

Under = Annotated[
    str, option("NAMESPACE", "Only in NAMESPACE and below it, such as users/anna.", "--namespace")
]
Match = Annotated[str | None, option("GLOB", "Only keys matching GLOB, such as 'fact-*'.")]


@command_options
class MemoryListOptions:
    """The options of `ckpt memory list`."""

    namespace: Annotated[
        str, argument("[NAMESPACE]", "Namespace and all below it, such as users/anna.")
    ] = ""
    flat: Annotated[bool, flag("Show a table, not a tree.")] = False
    limit: Annotated[int, option("N", "Show at most N.", "-n", "--limit", min=1)] = 50
    everything: Annotated[bool, flag("Show all.", "--all")] = False
    match: Match = None
    since: Annotated[
        str | None, option("TIME", "Only items updated since TIME: 2h, 2026-04-07.")
    ] = None
    until: Annotated[str | None, option("TIME", "Only items not updated after TIME.")] = None
    expired: Annotated[
        bool | None, flag("Only expired items, or only others.", "--expired/--no-expired")
    ] = None
    category: Annotated[str | None, option("NAME", "Only facts of this category.")] = None
    min_confidence: Annotated[
        float | None, option("F", "Only facts with a confidence of at least F.", min=0, max=1)
    ] = None
    source: Annotated[str | None, option("THREAD", "Only items that came from THREAD.")] = None
    duplicates: Annotated[bool, flag("Only facts that repeat an older fact.")] = False
    orphans: Annotated[bool, flag("Only facts from threads that no longer exist.")] = False
    threads: Threads = None


@takes(MemoryListOptions)
def list_(session: Session, options: MemoryListOptions) -> None:
    """List items by namespace, without values.

    Prints a tree on a terminal, else one row per item, with the text of DeerFlow's facts. Marks
    expired items, which stay until the application sweeps them. Only --source, --duplicates and
    --orphans read values.

    \b
      ckpt -s memory.db memory list
      ckpt -s memory.db memory list users/anna --since 2d
      ckpt -s memory.db memory list --expired --all -o json | jq -r '.[].key'
    """
    since, until = session.time(options.since), session.time(options.until)
    output, now = session.output, session.now
    counted, more = 0, False
    with opened_memory(session) as memory:
        found = memory.items(
            options.namespace,
            match=options.match,
            since=since,
            until=until,
            expired=options.expired,
            category=options.category,
            min_confidence=options.min_confidence,
            source=options.source,
            duplicates=options.duplicates,
            orphans=options.orphans,
            threads=options.threads,
        )
        marks = found.marks

        def shown() -> Iterator[Answer[Item]]:
            nonlocal counted, more
            for counted, one in enumerate(found, 1):
                if counted > options.limit and not options.everything:
                    more = True
                    return
                yield one

        if output.table and not options.flat:
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
        is_some = options.namespace or found.faults or found.wanted != ItemFilter()
        session.note("no item matches" if is_some else "no items")
    elif more:
        session.note(f"showing the first {options.limit} items; -n N or --all for more")


def show(
    session: Session,
    key: Annotated[str | None, argument("[KEY]", "Key, or NAMESPACE/KEY.")] = None,
    namespace: Under = "",
    raw: Annotated[bool, flag("Print the stored bytes of the value.")] = False,
    threads: Threads = None,
) -> None:
    """Show one item with its value, or all items.

    Without KEY, prints all items on one page. For an item that names its thread, also shows the
    newest checkpoint at the time the item was created, and the message it most likely came from.

    \b
      ckpt -s .deer-flow/memory.json memory show
      ckpt -s .deer-flow/memory.json memory show fact_a1b2c3d4
      ckpt -s memory.db memory show users/anna/profile
      ckpt -s memory.db memory show profile --namespace users/anna -o json
    """
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
    session: Session,
    text: Annotated[str, argument("TEXT", "Text to search for.")],
    namespace: Under = "",
    regex: Annotated[bool, flag("TEXT is a Python regular expression.", "-E", "--regex")] = False,
    ignore_case: Annotated[bool, flag("Ignore case.", "-i", "--ignore-case")] = False,
    limit: Annotated[
        int | None, option("N", "Stop after N matching lines.", "-n", "--limit", min=1)
    ] = None,
) -> None:
    """Search namespaces, keys and values.

    Searches text and numbers in values, not names of fields. Compares text, not meaning: vectors
    are not used. Exits with 1 if nothing is found, and with 7 if nothing is found but some values
    could not be read.

    \b
      ckpt -s memory.db memory search 'likes tea'
      ckpt -s memory.db memory search -iE 'tea|coffee' --namespace users/anna
    """
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
    session: Session,
    namespace: Under = "",
    match: Match = None,
    to: Annotated[Path | None, option("FILE", "Write to FILE, replacing it.")] = None,
) -> None:
    """Export items with their values as JSON.

    Writes one line per item, in the form of `memory show -o json`, or one array with -o json. This
    is not a backup: `memory delete --archive` writes rows that `memory import` can restore.

    \b
      ckpt -s memory.db memory export > memory.ndjson
      ckpt -s memory.db memory export --namespace users/anna --to anna.ndjson
    """
    with opened_memory(session) as memory:
        records = (one.to_dict() for one in memory.export(namespace, match=match))
        if to is not None:
            session.output.to_file(to, records)
        elif session.output.array:
            session.output.records(records, ())
        else:
            session.output.lines(records)
