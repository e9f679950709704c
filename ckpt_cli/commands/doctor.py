"""`ckpt doctor`: check threads for damage and other faults."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Annotated, Any

from typer import Argument, Context, Exit, Option

from ckpt_backends.errors import PartlyDone
from ckpt_cli.api.questions import Examination
from ckpt_cli.core.doctor.findings import Severity
from ckpt_cli.diagnostics import progress
from ckpt_cli.options import Cluster, Jobs, Match, Summary, Where
from ckpt_cli.render.doctor import (
    FINDING_COLUMNS,
    RECORD_COLUMNS,
    TYPE,
    finding_row,
    summary_text,
    type_lines,
    unchecked_notes,
)
from ckpt_cli.render.summaries import doctor_summary
from ckpt_cli.render.values import progress_text
from ckpt_cli.session import Session


def doctor(
    ctx: Context,
    threads: Annotated[
        list[str] | None, Argument(metavar="THREAD", help="Threads to check. [default: all]")
    ] = None,
    match: Match = None,
    where: Where = None,
    deep: Annotated[bool, Option("--deep", help="Decode every value and replay every step.")] = (
        False
    ),
    types: Annotated[
        bool,
        Option(
            "--types",
            help="Read every value, and list the classes that LANGGRAPH_STRICT_MSGPACK blocks.",
        ),
    ] = False,
    strict: Annotated[bool, Option("--strict", help="Exit with 1 also if there is a warning.")] = (
        False
    ),
    grace: Annotated[
        str,
        Option(
            metavar="AGE",
            help="Ignore what is younger than AGE: an agent may still write the rest.",
        ),
    ] = "1m",
    summary: Summary = False,
    jobs: Jobs = 1,
    cluster: Cluster = None,
) -> None:
    """Check threads for damage and other faults.

    Reads only. Checks the keys of all threads and the state at each head; with --deep also every
    value, and that each state follows from the writes of the tasks. docs/doctor.md lists the codes;
    a profile silences some with `ignore` in its table [stores.NAME.doctor].

    Exits with 1 if a finding is an error, and with 7 if something could not be read.

    ```
    ckpt -s agent.db doctor
    ckpt -s agent.db doctor user-42 --deep
    ckpt -s agent.db doctor --types
    ckpt -s prod doctor --where 'status = error' --strict -o json
    ```
    """
    session: Session = ctx.obj
    found: Examination = session.handle.doctor(
        threads,
        match=match,
        where=where or (),
        deep=deep,
        types=types,
        grace=grace,
        jobs=jobs,
        cluster=cluster,
        watch=partial(progress, total=None, label=lambda: progress_text("checking", found.codes)),
    )
    output = session.output
    if summary:
        _print_summary(session, found)
    elif output.array:
        output.document(found.to_dict, tuple)
    elif types and not output.table:
        _count(found)
        output.records(
            map(TYPE.record, found.types.listed() if found.types else ()), TYPE.columns()
        )
        session.note(_summary(found))
    else:
        _print(session, found)
    for text in () if summary else unchecked_notes(found.unchecked):
        session.note(text)
    if not found.complete:
        raise PartlyDone("some of the store could not be checked")
    counted = (Severity.ERROR, Severity.WARNING) if strict else (Severity.ERROR,)
    if any(found.severities[one] for one in counted):
        raise Exit(1)


def _print_summary(session: Session, found: Examination) -> None:
    """Print one line."""
    _count(found)
    unchecked = sum(map(bool, found.unchecked))
    session.output.summary(
        doctor_summary(found.severities, found.codes, found.checked.threads, unchecked)
    )


def _print(session: Session, found: Examination) -> None:
    output = session.output

    def rows() -> Iterator[dict[str, Any]]:
        for one in found:
            if found.types is not None and one.found.code == "type-blocked":
                continue  # the table of types shows it
            yield finding_row(one.found, found.words) if output.table else one.to_dict()

    columns = FINDING_COLUMNS if output.table else RECORD_COLUMNS
    output.records(rows(), columns, rest=lambda: _summary(found))
    if not output.table:
        session.note(_summary(found))
    types = found.types
    if types is not None:
        output.document(dict, lambda: type_lines(types, output.ui))


def _count(found: Examination) -> None:
    """Check everything; the findings are only counted."""
    for _ in found:
        pass


def _summary(found: Examination) -> str:
    return summary_text(found.severities, found.checked, sum(map(bool, found.unchecked)))
