"""`ckpt export`: threads as files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from ckpt_backends.bundle import Header, bundle_name, make_folder, write_bundle
from ckpt_backends.errors import UsageError
from ckpt_cli.diagnostics import progress
from ckpt_cli.reading import redacted
from ckpt_cli.reading.export import views
from ckpt_cli.reading.thread import ThreadReader
from ckpt_cli.render.records import show_record
from ckpt_cli.render.table import Column
from ckpt_cli.render.units import iso
from ckpt_cli.session import Session

FORMATS = ("bundle", "jsonl")


def export(
    ctx: typer.Context,
    threads: Annotated[list[str], typer.Argument(metavar="THREAD...", help="Thread ids.")],
    format_: Annotated[
        str, typer.Option("--format", metavar="FORMAT", help="bundle or jsonl.")
    ] = "bundle",
    to: Annotated[
        Path, typer.Option("--to", metavar="DIR", help="Where bundles are written.")
    ] = Path(),
) -> None:
    """Write threads to archive files, or as JSON.

    A bundle holds a thread's rows as they are stored: `ckpt import` puts them back, row for row.
    It is gzip over lines of JSON, with a checksum. With jsonl, a line a checkpoint is printed,
    oldest first: state, writes and metadata as `ckpt show -o json` has them.

    \b
      ckpt -s agent.db export user-42 user-43 --to backups
      ckpt -s agent.db export user-42 --format jsonl | jq -c .values
    """
    session: Session = ctx.obj
    if format_ not in FORMATS:
        raise UsageError(f"no format '{format_}'", hint=f"known: {', '.join(FORMATS)}")
    readers = [ThreadReader(session.store, thread) for thread in threads]
    if format_ == "jsonl":
        session.output.lines(show_record(one) for reader in readers for one in views(reader))
        return
    redacted.refuse_raw(session.store)
    make_folder(to)
    seen = progress(readers, total=len(readers), label="exporting")
    columns = [Column(name.upper(), name) for name in ("thread_id", "file", "rows", "bytes")]
    session.output.records(_written(session, seen, to), columns)


def _written(
    session: Session, readers: Iterator[ThreadReader], to: Path
) -> Iterator[dict[str, Any]]:
    info, made_at = session.rows.describe(), iso(session.now)
    for reader in readers:
        thread_id = reader.thread_id
        path = to / bundle_name(thread_id, made_at)
        header = Header(thread_id, info.layout, info.saver, info.url, made_at)
        counts = write_bundle(path, header, session.rows.rows(thread_id))
        yield {
            "thread_id": thread_id,
            "file": str(path),
            "rows": sum(counts.values()),
            "bytes": path.stat().st_size,
        }
