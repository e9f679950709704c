"""`ckpt export`: write threads to files."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from typer import Argument, Context, Option

from ckpt_backends.archive import SUFFIX, SigningKey, bundle_name, make_folder
from ckpt_backends.errors import CkptError, NotFound, PartlyDone, Refused, Unsupported, UsageError
from ckpt_backends.files import read_regular
from ckpt_cli import __version__
from ckpt_cli.api.answer import explain_short_forms
from ckpt_cli.api.thread import ThreadHandle
from ckpt_cli.apply.purge import written_bundles
from ckpt_cli.commands.arguments import SignKey, check_one_way, signing_key
from ckpt_cli.diagnostics import progress
from ckpt_cli.options import AsOf, Cluster, Jobs, Match, Where
from ckpt_cli.reading.store import refuse_raw
from ckpt_cli.render.copy import EXPORTED, EXPORTED_COLUMNS, EXPORTED_TABLE_COLUMNS, ExportedThread
from ckpt_cli.render.table import iso
from ckpt_cli.render.thread_tests import WRITTEN_TESTS, WRITTEN_TESTS_COLUMNS
from ckpt_cli.session import Session

_REDACTED, _MANIFEST = ".redacted.jsonl", "manifest.json"
_EXPORTED = re.compile(r"-[0-9a-f]{12}-\d{8}T[^/]*\.jsonl$")
_LONGEST = 256 << 20


def export(
    ctx: Context,
    threads: Annotated[
        list[str] | None, Argument(metavar="THREAD", help="Threads to export.")
    ] = None,
    match: Match = None,
    where: Where = None,
    everything: Annotated[bool, Option("--all", help="Export all threads.")] = False,
    format_: Annotated[
        Literal["bundle", "jsonl", "parquet", "csv", "ndjson"],
        Option(
            "--format",
            metavar="FORMAT",
            help="File format: bundle, jsonl; parquet, csv or ndjson of tables.",
        ),
    ] = "bundle",
    to: Annotated[
        Path | None,
        Option(
            metavar="DIR",
            help="Write one file per thread to DIR. [default: bundle: ., jsonl: stdout]",
        ),
    ] = None,
    sign_key: SignKey = None,
    table: Annotated[
        list[str] | None,
        Option("--table", metavar="TABLE", help="Only this table of `ckpt sql`; repeatable."),
    ] = None,
    jobs: Jobs = 1,
    cluster: Cluster = None,
    as_of: AsOf = None,
    as_: Annotated[
        Literal["pytest"] | None,
        Option("--as", metavar="pytest", help="Write tests of the graph, from what is recorded."),
    ] = None,
    graph: Annotated[
        str | None,
        Option(metavar="MODULE:NAME", help="With --as: the graph, or the function that builds it."),
    ] = None,
    check: Annotated[
        bool, Option("--check", help="With --as: run each test twice, and mark those that fail.")
    ] = False,
    python: Annotated[
        Path | None,
        Option(metavar="PATH", help="With --check: Python of the application. [default: python]"),
    ] = None,
    mask_secrets: Annotated[
        bool,
        Option("--mask-secrets", help="With --as: replace credentials, instead of refusing them."),
    ] = False,
    force: Annotated[
        bool, Option("--force", help="With --as: write over files of the same names.")
    ] = False,
) -> None:
    """Write threads to archive files, as JSON, as tables, or as tests.

    A bundle holds the rows of a thread as stored, as gzip over lines of JSON with a checksum;
    `ckpt import` restores it row for row. The format jsonl has one line per checkpoint, oldest
    first, with state, writes and metadata as in `ckpt show -o json`.

    The formats parquet, csv and ndjson write the tables of `ckpt sql` into a folder for each, with
    a file for each range of threads. The table memory belongs to all threads: it is written with
    --all only. manifest.json lists the files with their digests. If the run is stopped, the same
    command goes on. For one question, `ckpt sql` is quicker: docs/sql.md says which to take.

    With --as pytest, each thread becomes a test file and a JSON file in DIR, tests/threads by
    default: a test for each task, and one for the whole thread. Models and tools answer what they
    answered then. A thread with credentials is refused. docs/tests.md says how the tests run.

    ```
    ckpt -s agent.db export user-42 user-43 --to backups
    ckpt -s agent.db export user-42 --format jsonl | jq -c .values
    ckpt -s agent.db export --where 'status = error' --to incident
    ckpt -s prod export --all --format parquet --to lake --jobs 4
    ckpt -s prod export user-42 --as pytest --graph app.graph:build --check
    ```
    """
    session: Session = ctx.obj
    if as_ is not None:
        if format_ != "bundle" or table or sign_key is not None or jobs > 1 or cluster is not None:
            raise UsageError(
                "--as pytest takes no --format, --table, --sign-key, --jobs or --cluster",
                hint="leave them out",
            )
        chosen = _chosen(session, threads, match, where, everything=everything)
        _tests(session, chosen, TestOptions(to, graph, check, python, mask_secrets, force))
        return
    if graph is not None or check or python is not None or mask_secrets or force:
        raise UsageError(
            "--graph, --check, --python, --mask-secrets and --force are for tests",
            hint="add --as pytest",
        )
    if format_ != "bundle" and sign_key is not None:
        raise UsageError("--sign-key signs archives", hint="leave out --format")
    if format_ not in ("bundle", "jsonl"):
        _tables(session, threads, match, where, format_, to, table, jobs, cluster, everything)
        return
    if table or jobs > 1 or cluster is not None:
        raise UsageError(
            "--table, --jobs and --cluster are for tables", hint="add --format parquet"
        )
    if format_ == "bundle" and session.as_of is not None:
        raise UsageError(
            "a bundle holds rows as they are now", hint="with --as-of, use --format jsonl"
        )
    chosen = _chosen(session, threads, match, where, everything=everything)
    if format_ == "jsonl" and to is None:
        session.output.lines(record for thread in chosen for record in thread.export())
        return
    _files(session, chosen, format_, to, sign_key)


def _files(
    session: Session,
    chosen: Sequence[ThreadHandle],
    form: Literal["bundle", "jsonl", "parquet", "csv", "ndjson"],
    to: Path | None,
    sign_key: Path | None,
) -> None:
    """Write a file for each thread."""
    if form == "bundle":
        refuse_raw(session.store)
    folder = Path() if to is None else to
    make_folder(folder)
    if form == "jsonl":
        _refuse_mixed(folder, is_redacted=session.opening.redact)
    seen = progress(chosen, total=len(chosen), label="exporting")
    key = signing_key(sign_key, folder)
    written = partial(_bundles, key) if form == "bundle" else _lines
    # Every file is written before anything is printed, so that a closed pipe stops nothing.
    written_files = list(map(EXPORTED.record, written(session, seen, folder)))
    session.output.records(written_files, EXPORTED_COLUMNS)


class TestOptions(NamedTuple):
    """What the options of --as pytest say."""

    to: Path | None
    graph: str | None
    check: bool
    python: Path | None
    mask: bool
    force: bool


def _tests(session: Session, chosen: Sequence[ThreadHandle], options: TestOptions) -> None:
    """Write threads as tests, and run these if that is asked for."""
    from ckpt_cli.api.thread_tests import ThreadTests, WrittenTests

    if options.graph is None:
        raise UsageError("--as pytest requires --graph", hint="add --graph MODULE:NAME")
    folder = Path("tests", "threads") if options.to is None else options.to
    tests = ThreadTests(
        folder,
        options.graph,
        ignored=session.names.ignored_secrets,
        mask=options.mask,
        replace=options.force,
    )
    make_folder(folder)
    written: list[WrittenTests] = []
    refused: list[CkptError] = []
    for thread in progress(chosen, total=len(chosen), label="writing tests"):
        try:
            written.append(tests.write(thread.reader))
        except (Refused, Unsupported, NotFound) as error:
            if len(chosen) == 1:
                raise
            refused.append(error)
    if options.check and written:
        session.note("running each test twice")
        tests.check(written, options.python, note=not session.opening.redact)
    session.output.records(map(WRITTEN_TESTS.record, written), WRITTEN_TESTS_COLUMNS)
    for one in refused:
        session.note(one.message)
    if refused:
        raise PartlyDone(f"{len(refused)} of {len(chosen)} threads are left out")


def _chosen(
    session: Session,
    names: list[str] | None,
    match: str | None,
    where: list[str] | None,
    *,
    everything: bool,
) -> list[ThreadHandle]:
    """Return the threads to export. Raises `UsageError` unless they are named in one way."""
    check_one_way(names, match, where, everything=everything)
    if names:
        return [session.thread(name) for name in dict.fromkeys(names)]
    watch = partial(progress, total=None, label="choosing threads")
    found = list(session.handle.threads(where, match=match, watch=watch))
    if not found:
        explain_short_forms(session, where)
        session.note("no thread matches")
    return found


def _tables(
    session: Session,
    names: list[str] | None,
    match: str | None,
    where: list[str] | None,
    form: str,
    to: Path | None,
    tables: list[str] | None,
    jobs: int,
    cluster: str | None,
    everything: bool,
) -> None:
    """Write the tables of `ckpt sql` to files."""
    from ckpt_cli.api.sql import SqlSource, TableExport, ThreadChoice
    from ckpt_cli.reading.workers import refuse_lost
    from ckpt_cli.sql.planning import check_tables
    from ckpt_cli.sql.tables import TABLES

    check_one_way(names, match, where, everything=everything)
    if to is None:
        raise UsageError(f"--format {form} requires --to", hint="add --to DIR")
    chosen = [one for one in check_tables(tables) if everything or TABLES[one].items is None]
    if not everything and "memory" in (tables or ()):
        raise UsageError(
            "the table memory holds items of all users, not those of some threads",
            hint="use --all, or leave out --table memory",
        )
    watch = partial(progress, total=None, label="exporting threads")
    threads = tuple(dict.fromkeys(names)) if names else None
    choice = ThreadChoice(threads, match, tuple(where or ()), jobs, cluster, watch)
    source = SqlSource(session.store, session.opening, session)
    export = TableExport(source, to, form, choice, chosen)
    session.output.records(list(export.files()), EXPORTED_TABLE_COLUMNS)
    if export.left_out:
        refuse_lost(export.left_out)


def _bundles(
    key: SigningKey | None, session: Session, threads: Iterator[ThreadHandle], folder: Path
) -> Iterator[ExportedThread]:
    made_at, ids = iso(session.now), (one.id for one in threads)
    written = written_bundles(folder, session.rows, made_at, __version__, key, ids)
    for thread_id, bundle in written:
        yield ExportedThread(thread_id, bundle.path, bundle.size)


def _lines(
    session: Session, threads: Iterator[ThreadHandle], folder: Path
) -> Iterator[ExportedThread]:
    suffix = _REDACTED if session.opening.redact else ".jsonl"
    for thread in threads:
        path = folder / bundle_name(thread.id, iso(session.now), suffix)
        session.output.to_file(path, thread.export(), lines=True)
        yield ExportedThread(thread.id, path, thread.checkpoint_count)


def _refuse_mixed(folder: Path, *, is_redacted: bool) -> None:
    """Raise `Refused` if a folder has exports with values and this one is redacted, or reversely.

    Otherwise, who gives a redacted export away would give the values away, too.
    """
    for path in folder.iterdir():
        if _EXPORTED.search(path.name):
            other = path.name.endswith(_REDACTED)
        elif is_redacted and (path.name.endswith(SUFFIX) or path.name == _MANIFEST):
            other = path.name == _MANIFEST and _has_redacted_tables(path)
        else:
            continue
        if other is not is_redacted:
            raise Refused(
                f"'{folder}' holds another export: redacted differ", hint="use an empty folder"
            )


def _has_redacted_tables(manifest: Path) -> bool:
    with suppress(OSError, CkptError, ValueError, RecursionError):
        record = json.loads(read_regular(manifest, _LONGEST))
        return isinstance(record, dict) and record.get("redacted") is True
    return False
