"""`ckpt memory`: the long-term memory of agents, in LangGraph's Store or DeerFlow's files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Annotated, Any

from ckpt_backends.errors import PartlyDone, UsageError
from ckpt_backends.memory.protocol import Item, MemoryStore, Namespace
from ckpt_backends.registry import open_memory
from ckpt_cli.commands.thread_memory import Faults, faults, origin
from ckpt_cli.core.memory.item_filter import ItemFilter, parse_namespace
from ckpt_cli.core.search.patterns import FASTER, compile_pattern, gave_up, stopped_text
from ckpt_cli.diagnostics import progress
from ckpt_cli.ending import Exit
from ckpt_cli.lazy import CommandRef
from ckpt_cli.options import Threads, argument, flag, option, takes
from ckpt_cli.queries.memory import (
    find_key,
    list_items,
    read_item,
    read_items,
    search_items,
    stored_item,
)
from ckpt_cli.render.memory.full_text import full_text_lines
from ckpt_cli.render.memory.items import (
    hit_columns,
    hit_record,
    hit_row,
    item_columns,
    item_lines,
    item_record,
    read_record,
    row_record,
    tree_lines,
)
from ckpt_cli.render.memory.provenance import origin_lines, origin_record
from ckpt_cli.render.terminal.table import Column
from ckpt_cli.render.values.one_line import counted as counted_of
from ckpt_cli.session import Session
from ckpt_cli.threads.redaction import no_raw

COMMANDS = {
    "list": CommandRef("memory:list_", "List items by namespace, without values."),
    "show": CommandRef("memory:show", "Show one item with its value, or all items."),
    "search": CommandRef("memory:search", "Search namespaces, keys and values."),
    "export": CommandRef("memory:export", "Export items with their values as JSON."),
    "edit": CommandRef("memory_edit:edit", "Edit a fact or a section of DeerFlow's memory."),
    "delete": CommandRef("memory_delete:delete", "Delete items and their vectors."),
    "import": CommandRef("memory_import:import_", "Restore archived items."),
}

Under = Annotated[
    str, option("NAMESPACE", "Only in NAMESPACE and below it, such as users/anna.", "--namespace")
]
Match = Annotated[str | None, option("GLOB", "Only keys matching GLOB, such as 'fact-*'.")]


@dataclass(frozen=True, slots=True, kw_only=True)
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

    Prints a tree on a terminal, else one row per item. Marks expired items, which stay until the
    application sweeps them. Only --source, --duplicates and --orphans read values.

    \b
      ckpt -s memory.db memory list
      ckpt -s memory.db memory list users/anna --since 2d
      ckpt -s memory.db memory list --expired --all -o json | jq -r '.[].key'
    """
    wanted = ItemFilter(
        match=options.match,
        since=session.time(options.since),
        until=session.time(options.until),
        expired=options.expired,
        category=options.category,
        min_confidence=options.min_confidence,
        source=options.source,
    )
    output, now = session.output, session.now
    counted, more = 0, False
    looked_for, prefix = (
        Faults(options.duplicates, options.orphans, options.threads),
        parse_namespace(options.namespace),
    )
    with opened_memory(session) as memory:
        marks = faults(session, memory, prefix, looked_for) if looked_for else {}
        found = list_items(memory, prefix, wanted, now, redacted=_is_redacted(session))
        if looked_for:
            found = (one for one in found if one.key in marks)

        def items() -> Iterator[Item]:
            nonlocal counted, more
            for counted, one in enumerate(found, 1):
                if counted > options.limit and not options.everything:
                    more = True
                    return
                yield one

        if output.table and not options.flat:
            output.document(dict, lambda: tree_lines(items(), now, marks))
        else:
            record = item_record if output.machine else row_record
            rows = ({**record(one, now), **marks.get(one.key, {})} for one in items())
            output.records(rows, item_columns(now, marked=bool(looked_for)))
    if not counted:
        is_some = options.namespace or looked_for or wanted != ItemFilter()
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
    redacted = _is_redacted(session)
    if raw and redacted:
        raise no_raw()
    if raw and key is None:
        raise UsageError("--raw needs a key", hint="name one: ckpt memory show KEY --raw")
    with opened_memory(session) as memory:
        if key is None:
            _show_all(session, memory, parse_namespace(namespace))
            return
        address = find_key(memory, key, parse_namespace(namespace))
        if raw:
            stored = stored_item(memory, address).value
            session.output.raw(b"" if stored is None else stored.data)
            return
        found = read_item(memory, address, redacted=redacted)
        came_from = origin(session, stored_item(memory, address), threads)
    record = read_record(found, session.now)
    if came_from is not None:
        record["origin"] = origin_record(came_from)
    now, zone, width = session.now, session.zone, session.output.width
    session.output.document(
        lambda: record,
        lambda: chain(
            item_lines(found, now, zone, width),
            () if came_from is None else origin_lines(came_from, now, zone, width),
        ),
        rows=lambda: [row_record(found.item, session.now)],
        columns=item_columns(session.now),
    )


def _show_all(session: Session, memory: MemoryStore, prefix: Namespace) -> None:
    """All items under a namespace: as text, or as records like those of `export`."""
    now, output = session.now, session.output
    found = read_items(memory, prefix, ItemFilter(), now, redacted=_is_redacted(session))
    if output.text:
        output.document(dict, lambda: full_text_lines(found, output.width))
    else:
        records = (read_record(one, now) for one in found)
        output.records(records, [*item_columns(now), Column("VALUE", "value")])


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
    find = compile_pattern(
        text,
        fixed=not regex,
        ignore_case=ignore_case,
        hint="leave out -E to search for the text as it is",
    )
    output = session.output
    unread = 0
    with opened_memory(session) as memory:
        found = search_items(
            memory,
            parse_namespace(namespace),
            find,
            partial(progress, total=None, label="searching memory"),
            redacted=_is_redacted(session),
        )

        def hits() -> Iterator[dict[str, Any]]:
            nonlocal unread
            for hit in found:
                if hit is None:
                    unread += 1
                else:
                    yield hit_record(hit) if output.machine else hit_row(hit, table=output.table)

        counted = output.records(islice(hits(), limit), hit_columns())
    hint = FASTER if find.stopped else None
    if gave_up(find.stopped):
        raise PartlyDone(f"search stopped: {stopped_text(find.stopped)}", hint=hint)
    unreadable = f"cannot read {counted_of(unread, 'value')} in full" if unread else ""
    if said := " and ".join(filter(None, [unreadable, stopped_text(find.stopped)])):
        if not counted:
            raise PartlyDone(f"no match found; {said}", hint=hint)
        session.note(said)
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
        found = read_items(
            memory,
            parse_namespace(namespace),
            ItemFilter(match=match),
            session.now,
            redacted=_is_redacted(session),
        )
        records = (read_record(one, session.now) for one in found)
        if to is not None:
            session.output.to_file(to, records)
        elif session.output.array:
            session.output.records(records, ())
        else:
            session.output.lines(records)


def opened_memory(session: Session) -> MemoryStore:
    """The long-term memory of a run; prints its notes."""
    memory = open_memory(session.names.store_url)
    for text in memory.describe().notes:
        session.note(text)
    return memory


def _is_redacted(session: Session) -> bool:
    return bool(session.settings.get("redact"))
