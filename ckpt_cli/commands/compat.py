"""`ckpt compat`: tell before a deployment which threads the new graph would break."""

from __future__ import annotations

from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Annotated

from typer import Argument, Context, Exit, Option

from ckpt_backends.errors import UsageError
from ckpt_cli.commands.arguments import lines_of
from ckpt_cli.core.compat import CompatVerdict
from ckpt_cli.core.values import json_line
from ckpt_cli.diagnostics import progress
from ckpt_cli.options import Match, User, Where, with_user
from ckpt_cli.reading.graphs import graphs_in
from ckpt_cli.render.compat import JUDGED, ROW_COLUMNS, compatibility_lines, finding_rows
from ckpt_cli.session import Session


def compat(
    ctx: Context,
    new: Annotated[
        Path | None, Argument(metavar="NEW", help="What the probe printed of the new graph.")
    ] = None,
    old: Annotated[
        Path | None, Option("--from", metavar="OLD", help="The same of the deployed graph.")
    ] = None,
    probe: Annotated[bool, Option("--probe", help="Print the probe, a Python program.")] = False,
    match: Match = None,
    where: Where = None,
    user: User = None,
    exit_code: Annotated[
        bool, Option("--exit-code", help="Exit with 1 if a thread is judged as in --fail-on.")
    ] = False,
    fail_on: Annotated[
        str, Option(metavar="VERDICTS", help="With --exit-code: which verdicts fail.")
    ] = "breaks,loses",
    accept: Annotated[
        list[str] | None,
        Option(metavar="CODE:WHERE", help="Leave out a finding that is meant; repeatable."),
    ] = None,
    accept_from: Annotated[
        Path | None, Option(metavar="FILE", help="The same, one on each line of FILE.")
    ] = None,
) -> None:
    """Tell which threads another version of their graph would break.

    LangGraph stores no tasks. It computes them again from the graph that resumes a thread, and
    drops without a word what matches no node and no channel. compat does the same with the new
    graph, and compares. Of threads that are done, only the state counts.

    VERDICT: breaks (the resume raises), loses (a task, an answer or a part of the state is
    dropped), repeats (what had finished runs again), changes (something else runs), cannot tell,
    another graph, ok. The probe runs where the application runs and describes its graphs as JSON.

    ```
    ckpt compat --probe > probe.py
    python probe.py app.graph:graph > new.json
    ckpt -s prod compat new.json --from old.json
    ckpt -s prod compat new.json --from old.json --exit-code --accept key-gone:draft
    ckpt -s prod compat new.json --where 'status = interrupted' -o ndjson
    ```
    """
    session: Session = ctx.obj
    if probe:
        session.output.verbatim(files("ckpt_cli.data").joinpath("probe.py").read_text("utf-8"))
        return
    if new is None:
        raise UsageError("no graph is given", hint="ckpt compat --help says how to make NEW")
    failing = _verdicts(fail_on)
    meant = frozenset([*(accept or ()), *lines_of(accept_from)])
    graphs = graphs_in(new), None if old is None else graphs_in(old)
    watch = partial(progress, total=None, label="judging threads")
    found = session.handle.compat(
        *graphs, match=match, where=with_user(where, user), accept=meant, watch=watch
    )
    if session.output.streams:
        session.output.json_lines(json_line(JUDGED.record(one)) for one in found)
    else:
        session.output.document(
            found.record,
            lambda: compatibility_lines(found),
            rows=lambda: finding_rows(found),
            columns=ROW_COLUMNS,
        )
    if exit_code and not failing.isdisjoint(found.summary):
        raise Exit(1)


def _verdicts(text: str) -> frozenset[CompatVerdict]:
    names = [one.strip() for one in text.split(",") if one.strip()]
    try:
        return frozenset(map(CompatVerdict, names))
    except ValueError as error:
        raise UsageError(
            f"no verdict in '{text}' of --fail-on", hint=f"use some of {', '.join(CompatVerdict)}"
        ) from error
