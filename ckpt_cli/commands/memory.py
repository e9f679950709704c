"""`ckpt memory`: long-term memory, and the sessions of applications."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Annotated

from typer import Argument, Context, Exit, Option

from ckpt_backends import shell
from ckpt_backends.archive import Bundle, Header, make_folder
from ckpt_backends.codec import decode
from ckpt_backends.errors import PartlyDone, Refused, Unsupported, UsageError
from ckpt_backends.memory import Item, MemoryInfo, MemoryStore, Namespace
from ckpt_backends.registry import open_memory
from ckpt_backends.rows import Row
from ckpt_cli.api.answer import Answer
from ckpt_cli.api.memory import opened_memory, session_beside, sessions_beside
from ckpt_cli.apply.changes import (
    MemoryReport,
    archive_items,
    check_editable,
    edit_item,
    remove_items,
)
from ckpt_cli.apply.copy import copy_items, plan_items, restore_memory
from ckpt_cli.commands.arguments import AllowPickle, SignKey, Trust, TrustedKeys, signing_key
from ckpt_cli.commands.changing import confirm
from ckpt_cli.commands.plan_out import PlanOut, plannable
from ckpt_cli.core.copying import CopiedItem, MemoryCopyReport
from ckpt_cli.core.memory import (
    ItemFilter,
    changes,
    is_expired,
    parse_fields,
    parse_namespace,
    refuse_duplicate,
)
from ckpt_cli.core.redact import redact
from ckpt_cli.core.search import FASTER, compile_pattern, gave_up, stopped_text
from ckpt_cli.diagnostics import progress
from ckpt_cli.options import DryRun, Threads, Yes, number
from ckpt_cli.plans.copy import MemoryCopyTerms
from ckpt_cli.plans.saved_plan import PlanReview
from ckpt_cli.queries.memory import (
    FoundItem,
    find_key,
    list_items,
    named_items,
    stored_item,
    without_values,
)
from ckpt_cli.render.memory import (
    CHECKED_COLUMNS,
    COPIED_ITEMS,
    EDITED_ITEM,
    FAULT_COLUMNS,
    HIT_COLUMNS,
    ITEM_ARCHIVE,
    ITEM_COLUMNS,
    REMOVED_ITEMS,
    RESTORED_COLUMNS,
    SESSION_COLUMNS,
    TEXT_COLUMN,
    ItemArchive,
    ItemEdit,
    ItemRemoval,
    amount,
    full_text_lines,
    hit_row,
    item_row,
    listed_namespaces,
    removal_lines,
    tree_lines,
)
from ckpt_cli.render.table import Column, iso
from ckpt_cli.render.values import counted
from ckpt_cli.session import Session

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
    limit: Annotated[int, number("Show at most N.", "-n", "--limit")] = 50,
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
    user: Annotated[
        str | None, Option(metavar="NAME", help="Only items in a namespace with the label NAME.")
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
    ckpt -s memory.db memory list --user anna
    ckpt -s memory.db memory list --expired --all -o json | jq -r '.[].key'
    ```
    """
    session: Session = ctx.obj
    output = session.output
    with opened_memory(session) as memory:
        found = iter(
            memory.items(
                namespace,
                match=match,
                since=since,
                until=until,
                expired=expired,
                category=category,
                min_confidence=min_confidence,
                source=source,
                user=user,
                duplicates=duplicates,
                orphans=orphans,
                threads=threads,
            )
        )
        first = list(islice(found, 1))
        shown = chain(first, found if everything else islice(found, limit - 1))
        if output.table and not flat:
            output.document(dict, lambda: tree_lines((one.found for one in shown), output.ui))
        else:
            records = (one.to_dict() for one in shown)
            faults = FAULT_COLUMNS if duplicates or orphans else ()
            output.records(
                records if output.machine else map(item_row, records),
                (*faults, *ITEM_COLUMNS, TEXT_COLUMN),
            )
        more = next(found, None) is not None
    if more:
        session.note(f"showing the first {limit} items; -n N or --all for more")
    elif not first:
        conditions = (match, since, until, expired, category, min_confidence, source, user)
        is_some = namespace or duplicates or orphans or any(one is not None for one in conditions)
        session.note("no item matches" if is_some else "no items")


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
    output = session.output
    if raw and key is None:
        raise UsageError("--raw needs a key", hint="name one: ckpt memory show KEY --raw")
    with opened_memory(session) as memory:
        if key is not None and raw:
            output.raw(memory.raw(key, namespace))
        elif key is not None:
            session.show(memory.show(key, namespace, threads=threads))
        elif output.text:
            items = (one.found for one in memory.export(namespace))
            output.document(dict, lambda: full_text_lines(items, output.width))
        else:
            columns = (*ITEM_COLUMNS, Column("VALUE", "value"))
            session.show_list(memory.export(namespace), columns)


def search(
    ctx: Context,
    text: Annotated[str, Argument(metavar="TEXT", help="Text to search for.")],
    namespace: Under = "",
    regex: Annotated[
        bool, Option("-E", "--regex", help="TEXT is a Python regular expression.")
    ] = False,
    ignore_case: Annotated[bool, Option("-i", "--ignore-case", help="Ignore case.")] = False,
    limit: Annotated[int | None, number("Stop after N matching lines.", "-n", "--limit")] = None,
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
        counted = output.records(hits, HIT_COLUMNS)
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
        str | None, Option("--thread", metavar="THREAD", help="Only sessions of this thread.")
    ] = None,
    user: Annotated[
        str | None, Option("--user", metavar="USER", help="Only sessions of this user.")
    ] = None,
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
    if name is None:
        found = sessions_beside(session, lambda: session.store, thread=thread, user=user)
        if not session.show_list(found, SESSION_COLUMNS):
            session.note("no session matches" if thread or user else "this store has no sessions")
        return
    if thread is not None or user is not None:
        raise UsageError("SESSION cannot be combined with --thread or --user")
    session.show(session_beside(session, lambda: session.store, name))


@plannable("memory copy", again=("to",))
def copy(
    ctx: Context,
    to: Annotated[
        str, Option("--to", metavar="STORE", help="Copy to this file, URL or profile.")
    ] = "",
    namespace: Under = "",
    match: Match = None,
    create: Annotated[
        bool, Option("--create", help="Make the target if nothing is there.")
    ] = False,
    replace: Annotated[
        bool, Option("--replace", help="Replace items of the target that differ.")
    ] = False,
    plan_out: PlanOut = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Copy items to another Store of LangGraph.

    Copies namespaces, keys, values, times and times to live between SQLite, PostgreSQL, MongoDB
    and Redis. Every item is read back and compared. Run the same command again to add what is new
    since. Vectors are not copied: let the application put these items again to embed them.

    An item that the target cannot hold as it is, is skipped with the reason; so is an item that
    differs in the target, unless --replace is given.

    ```
    ckpt -s agent.db memory copy --to postgresql://db/agents --create
    ckpt -s prod memory copy --namespace users/anna --to anna.db --create --yes
    ```
    """
    session: Session = ctx.obj
    if not to:
        raise UsageError("no target given", hint="name it: --to STORE")
    names = session.names
    terms = MemoryCopyTerms(
        names.store_url,
        names.url_of(to),
        parse_namespace(namespace),
        ItemFilter(match=match),
        session.now,
        create,
        replace,
    )
    if session.review is not None:
        with opened_memory(session) as memory:
            keys = [one.key for one in terms.chosen(memory.memory, values=False)]
            for key in keys:
                session.review.see_item(memory.memory, key)
        for one in plan_items(terms, _watched):
            session.review.see_copied(one)
    source, target = str(terms.source), str(terms.target)
    if dry_run or (replace and not yes):
        planned = MemoryCopyReport(source, target, is_dry_run=True)
        for one in plan_items(terms, _watched):
            planned.add(one)
        if dry_run or not session.output.machine:
            session.show(Answer(planned, COPIED_ITEMS))
        if dry_run:
            session.note_dry_run()
            _end(session, planned)
            return
    if not yes:
        with opened_memory(session) as memory:
            number = sum(1 for _ in terms.chosen(memory.memory, values=False))
        made = "Make the store if it is missing, and copy" if create else "Copy"
        confirm(f"{made} {counted(number, 'item')} to '{target}'?")
    report = MemoryCopyReport(source, target, is_dry_run=False)
    with session.recorder_of(terms.target).operation("memory copy") as recording:
        for one in copy_items(terms, _watched, recording):
            report.add(one)
    session.show(Answer(report, COPIED_ITEMS))
    _end(session, report)


def _watched(items: Iterable[CopiedItem], label: str) -> Iterable[CopiedItem]:
    return progress(items, total=None, label=label)


def _end(session: Session, report: MemoryCopyReport) -> None:
    """Note what was left out, and raise the error that tells about skipped items, if any."""
    if report.expired:
        session.note(f"{counted(report.expired, 'item')} left out: their time to live has ended")
    if report.embedded:
        session.note(
            f"vectors of {counted(report.embedded, 'item')} are not copied: only the application"
            " can embed, by putting them again"
        )
    report.raise_skipped("item", "change")


Write = Annotated[
    bool, Option("--write", help="Write to memory.json even though DeerFlow may overwrite it.")
]


@plannable("memory delete", again=("sign_key",))
def delete(
    ctx: Context,
    keys: Annotated[
        list[str] | None, Argument(metavar="KEY", help="Key, or NAMESPACE/KEY; repeatable.")
    ] = None,
    namespace: Under = "",
    match: Match = None,
    expired: Annotated[bool, Option("--expired", help="Select expired items.")] = False,
    older_than: Annotated[
        str | None,
        Option(metavar="AGE", help="Select items not updated for AGE: 30d, 2h or a date."),
    ] = None,
    everything: Annotated[bool, Option("--all", help="Select all items of --namespace.")] = False,
    limit: Annotated[int, number("Delete at most N.", "-n", "--limit")] = 100_000,
    archive: Annotated[
        Path | None, Option(metavar="DIR", help="Archive the items in DIR first.")
    ] = None,
    sign_key: SignKey = None,
    plan_out: PlanOut = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    write: Write = False,
) -> None:
    """Delete items and their vectors.

    Select items by key, or by rules that must all match. If an item changes after the plan was
    shown, the run stops. `memory import` restores an archive row for row.

    ```
    ckpt -s memory.db memory delete users/anna/profile --dry-run
    ckpt -s memory.db memory delete --expired --archive backups --yes
    ckpt -s memory.db memory delete --namespace users/anna --all --archive backups
    ```
    """
    session: Session = ctx.obj
    until = session.time(older_than)
    wanted = ItemFilter(match=match, until=until, expired=expired or None)
    by_rule = wanted != ItemFilter() or everything
    _check_words(keys, namespace, by_rule=by_rule, everything=everything)
    key = signing_key(sign_key, archive)
    if archive is not None and not dry_run:
        make_folder(archive)
    bundle: Bundle | None = None
    with opened_memory(session).memory as memory:
        planned = _planned(session, memory, keys, namespace, wanted, at_most=limit + 1)
        items = planned[:limit]
        hides = session.settings.get("redact")
        shown = [
            FoundItem(without_values(one) if hides else one, is_expired(one, session.now))
            for one in items
        ]
        plan = ItemRemoval(shown, shown, more=len(planned) > limit, is_dry_run=True)
        if session.review is not None:
            for one in items:
                session.review.see_item(memory, one.key)
        info = memory.describe()
        if not items:
            session.note("nothing to do")
        elif not dry_run:
            check_allowed(info, write=write)
            if not yes:
                # Holds no lock while a person decides.
                memory.refresh()
                if not session.output.machine:
                    session.output.document(dict, lambda: removal_lines(plan, session.output.ui))
                confirm(f"Delete {amount([one.item for one in shown])}?")
            if archive is not None:
                bundle = archive_items(memory, items, archive, iso(session.now), key)
    if dry_run:
        session.show(Answer(plan, REMOVED_ITEMS))
        session.note_dry_run("removed")
        return
    _remove(session, plan, items, bundle)
    if plan.more:
        raise PartlyDone(
            f"stopped after {counted(limit, 'item')}; more match", hint="run the same command again"
        )


def _remove(
    session: Session, plan: ItemRemoval, items: Sequence[Item], bundle: Bundle | None
) -> None:
    """Remove the planned items, and print what is gone. Raises `PartlyDone` if some are left."""
    done = MemoryReport(0)
    if items:
        cannot_undo = "no archive was made" if bundle is None else ""
        with session.recorder.operation("memory delete", cannot_undo=cannot_undo) as recording:
            done = remove_items(session.names.store_url, items, recording, bundle)
        if done.not_erased:
            session.note(done.not_erased)

    def left() -> list[Item]:
        with open_memory(session.names.store_url) as memory:
            return list(memory.items(keys=[one.key for one in items]))

    removal = plan._replace(
        items=plan.planned[: done.removed],
        is_dry_run=False,
        left=left,
        archive=None if bundle is None else str(bundle.path),
    )
    session.show(Answer(removal, REMOVED_ITEMS))
    if done.stopped is not None:
        raise PartlyDone(
            f"{done.stopped.message}; {counted(len(items) - done.removed, 'item')} left",
            hint=done.stopped.hint,
        ) from done.stopped


def _check_words(
    keys: Sequence[str] | None, namespace: str, *, by_rule: bool, everything: bool
) -> None:
    """Raise `UsageError` if nothing is selected, or by keys and rules at once."""
    if keys and by_rule:
        raise UsageError(
            "cannot combine keys and rules",
            hint="name keys, or leave them out and use --match, --expired, --older-than or --all",
        )
    if not keys and not by_rule:
        raise UsageError(
            "nothing selected",
            hint="name keys, or add --expired, --older-than, --match, or --all with --namespace",
        )
    if everything and not parse_namespace(namespace):
        raise UsageError(
            "--all needs a namespace", hint="add --namespace NAMESPACE, or use --match '*'"
        )


def _planned(
    session: Session,
    memory: MemoryStore,
    keys: Sequence[str] | None,
    namespace: str,
    wanted: ItemFilter,
    *,
    at_most: int,
) -> list[Item]:
    """Return the items to delete, unredacted: they are compared again before they are deleted."""
    prefix = parse_namespace(namespace)
    if keys:
        return list(islice(named_items(memory, keys, prefix), at_most))
    # The listing ends here: an open reader would block the writer of a file without WAL.
    found = list_items(memory, prefix, wanted, session.now, redacted=False)
    return [one.item for one in islice(found, at_most)]


def check_allowed(info: MemoryInfo, *, write: bool) -> None:
    """Raise `Unsupported` if this memory is read-only, `Refused` if it needs --write."""
    if info.changes:
        raise Unsupported(f"cannot write to '{info.url}': {info.changes}")
    if info.needs_write and not write:
        raise Refused(
            f"refusing to write to '{info.url}': {info.needs_write}", hint="add --write to proceed"
        )


@plannable("memory edit", writes="write")
def edit(
    ctx: Context,
    key: Annotated[str, Argument(metavar="KEY", help="Key, or NAMESPACE/KEY.")],
    fields: Annotated[
        list[str], Option("--set", metavar="FIELD=VALUE", help="Set a field; repeatable.")
    ],
    namespace: Under = "",
    write: Annotated[
        bool, Option("--write", help="Write the change. [default: only show it]")
    ] = False,
    plan_out: PlanOut = None,
) -> None:
    """Edit a fact or a section of DeerFlow's memory.

    Sets content, category or confidence of a fact, or the summary of a section, in memory.json.
    Everything else in the file stays. If the file changes meanwhile, nothing is written and the
    exit code is 6.

    ```
    ckpt -s memory.json memory edit fact_a1b2c3d4 --set category=goal
    ckpt -s memory.json memory edit fact_a1b2c3d4 --set confidence=0.5 --write
    ckpt -s memory.json memory edit workContext --set summary='Writes Go.' --write
    ```
    """
    session: Session = ctx.obj
    check_editable(session.names.store_url)
    with open_memory(session.names.store_url) as memory:
        address = find_key(memory, key, parse_namespace(namespace))
        item = stored_item(memory, address)
        new = parse_fields(fields, address.namespace[-1])
        if session.review is not None:
            session.review.see_item(memory, address)
        others = list(memory.items(prefix=address.namespace, values=True))
    refuse_duplicate(item, new, others)
    found = changes(None if item.value is None else decode(item.value), new)
    if write and found:
        with session.recorder.operation("memory edit") as recording:
            edit_item(session.names.store_url, item, found, recording)
    if session.settings.get("redact"):
        found = {name: (redact(before), redact(after)) for name, (before, after) in found.items()}
    edited = ItemEdit(item.key, found, is_written=write and bool(found))
    session.show(Answer(edited, EDITED_ITEM))
    if not found:
        session.note("nothing to do: the fields already have these values")
    elif not write:
        session.note("nothing was written; add --write to write it")


@plannable("memory import", again=("trusted_key", "allow_pickle"))
def import_(
    ctx: Context,
    files: Annotated[
        list[Path], Argument(metavar="FILE", help="Archives that `memory delete --archive` wrote.")
    ],
    trusted_key: TrustedKeys = None,
    allow_pickle: AllowPickle = False,
    plan_out: PlanOut = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    write: Write = False,
) -> None:
    """Restore archived items.

    Verifies each archive first, then restores it row for row in one transaction. Skips rows that
    exist. If one exists with other contents, nothing of its archive is restored.

    Refuses archives with pickles unless --allow-pickle is given. A note says who signed an
    archive, which proves something only with --trusted-key.

    ```
    ckpt -s memory.db memory import backups/memory-*.ckpt.gz --dry-run
    ```
    """
    session: Session = ctx.obj
    trust = Trust.of(trusted_key, allow_pickle=allow_pickle)
    with opened_memory(session).memory as memory:
        info = memory.describe()
        archives = [_checked(path, memory, trust) for path in files]
        if session.review is not None:
            for one in archives:
                _review(session.review, memory, one)
    bundles = [one.bundle for one in archives]
    trust.report(session, bundles)
    if dry_run:
        session.output.records(map(ITEM_ARCHIVE.record, archives), CHECKED_COLUMNS)
        session.note_dry_run()
        return
    check_allowed(info, write=write)
    if not yes:
        rows = counted(sum(one.size for one in bundles), "row")
        spaces = listed_namespaces(sorted({ns for one in archives for ns in one.namespaces}))
        confirm(f"Restore {counted(len(files), 'archive')} ({rows}) into {spaces} of '{info.url}'?")
    with session.recorder.operation("memory import") as recording:
        report = restore_memory(session.names.store_url, bundles, recording)
    done = {id(bundle): restored for bundle, restored in report.done}
    restored = (
        ITEM_ARCHIVE.record(one._replace(restored=done[id(one.bundle)]))
        for one in archives
        if id(one.bundle) in done
    )
    session.output.records(restored, RESTORED_COLUMNS)
    report.raise_failures("archives")


def _review(review: PlanReview, memory: MemoryStore, one: ItemArchive) -> None:
    """Save an archive and what is in its namespaces, or compare them with a saved plan."""
    review.see({"file": os.path.abspath(one.bundle.path), "sha256": one.bundle.digest})
    for namespace in one.namespaces:
        for key in [item.key for item in memory.items(prefix=namespace)]:
            review.see_item(memory, key)


def _checked(path: Path, memory: MemoryStore, trust: Trust) -> ItemArchive:
    """A valid archive of this layout that is accepted."""
    if os.path.isdir(path):
        raise UsageError(
            f"cannot restore '{path}': it is a folder",
            hint=f"name its archives: {shell.word(f'{path}/')}memory-*.ckpt.gz",
        )
    namespaces: set[Namespace] = set()
    bundle = trust.checked(path, partial(_fitting, path, memory, namespaces))
    return ItemArchive(bundle, sorted(namespaces))


def _fitting(
    path: Path, memory: MemoryStore, namespaces: set[Namespace], header: Header, rows: Iterator[Row]
) -> Iterator[Row]:
    """The rows of an archive that fits the store, if all are of items; adds their namespaces."""
    info = memory.describe()
    if header.thread_id is not None:
        raise Refused(
            f"cannot restore '{path}': it holds a thread, not memory items",
            hint=shell.command("ckpt", "import", ids=[str(path)]),
        )
    if header.layout != info.layout:
        raise Refused(
            f"cannot restore '{path}': its layout is '{header.layout}', not '{info.layout}'",
            hint="name a store of the archive's layout with -s",
        )
    try:
        for row in rows:
            namespaces.add(memory.key_of(row).namespace)
            yield row
    except (Refused, Unsupported) as error:
        error.message = f"cannot restore '{path}': {error.message}"
        error.hint = error.hint or f"look at its rows: zcat {shell.word(str(path))} | less"
        raise
