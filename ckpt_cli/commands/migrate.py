"""`ckpt migrate`: let threads resume in another version of their graph."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Context, Option

from ckpt_cli.api.answer import AnswerList
from ckpt_cli.commands.arguments import Reason, ThreadTargets, lines_of
from ckpt_cli.commands.changing import change_many, show_and_apply
from ckpt_cli.commands.plan_out import PlanOut, plannable
from ckpt_cli.core.migration import Migration, parse_defaults, parse_pairs
from ckpt_cli.options import DryRun, Force, Match, Where, Yes
from ckpt_cli.plans.migrate import AskedMigration, Migrations
from ckpt_cli.reading.graphs import graphs_in
from ckpt_cli.render.plan import ChangeWords, outcomes_view
from ckpt_cli.session import Session

_WORDS = ChangeWords("migrate", "migrate", "migrated", "migrating")


@plannable("migrate")
def migrate(
    ctx: Context,
    threads: Annotated[
        list[str] | None, Argument(metavar="THREAD", help="Threads to migrate.")
    ] = None,
    match: Match = None,
    where: Where = None,
    everything: Annotated[bool, Option("--all", help="Migrate all threads that need it.")] = False,
    to: Annotated[
        Path | None,
        Option("--to", metavar="NEW", help="What the probe of compat printed of the new graph."),
    ] = None,
    old: Annotated[
        Path | None, Option("--from", metavar="OLD", help="The same of the deployed graph.")
    ] = None,
    rename_node: Annotated[
        list[str] | None, Option(metavar="OLD=NEW", help="A node has another name; repeatable.")
    ] = None,
    rename_channel: Annotated[
        list[str] | None,
        Option(metavar="OLD=NEW", help="A key of the state has another name; repeatable."),
    ] = None,
    default: Annotated[
        list[str] | None,
        Option(metavar="KEY=JSON", help="The value of a key that threads lack; repeatable."),
    ] = None,
    accept: Annotated[
        list[str] | None,
        Option(metavar="CODE:WHERE", help="Migrate in spite of a finding of compat; repeatable."),
    ] = None,
    accept_from: Annotated[
        Path | None, Option(metavar="FILE", help="The same, one on each line of FILE.")
    ] = None,
    reason: Reason = None,
    force: Force = False,
    plan_out: PlanOut = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Let threads resume in another version of their graph.

    Adds a copy of the head of each thread that needs it, with new names of nodes and keys, and
    files results, answers and subgraphs of its tasks as the new graph looks for them. Questions
    stay open. Nothing that is stored is changed or removed, and undo takes it back.

    With --to, threads of other graphs and those that resume as they are, are left out; results
    move with changed edges, joins with another order of members are found, nodes may be deferred
    or not, and the judge of compat has to find nothing that is harmed. A thread for which that
    fails is skipped. Stop the agents first.

    ```
    ckpt compat --probe > probe.py; python probe.py app.graph:graph > new.json
    ckpt -s prod migrate --all --to new.json --rename-node ask=review --dry-run
    ckpt -s prod migrate user-42 --to new.json
    ckpt -s prod migrate --where 'status = interrupted' --to new.json --default 'lang="en"' --yes
    ckpt -s prod undo OP
    ```
    """
    session: Session = ctx.obj
    asked = AskedMigration(
        Migration(
            parse_pairs("--rename-node", rename_node or ()),
            parse_pairs("--rename-channel", rename_channel or ()),
            parse_defaults(default or ()),
        ),
        None if to is None else graphs_in(to),
        None if old is None else graphs_in(old),
        frozenset([*(accept or ()), *lines_of(accept_from)]),
        reason,
        force,
    )
    asked.check()
    targets = ThreadTargets(threads, None, match, where, everything)

    plans = Migrations(session.editable, session.now, asked)
    if targets.is_several:
        change_many(session, targets.all(session), lambda one, _: plans.plan(one), _WORDS)
        return
    reader, _ = targets.one(session)
    found = plans.plan(reader)
    if found.plan is None:
        session.show(AnswerList([], outcomes_view(_WORDS)))  # for scripts: a list without threads
        session.note(f"nothing to migrate in thread '{reader.thread_id}': {found.remark}")
        return
    show_and_apply(session, found, f"Migrate thread '{reader.thread_id}'?")
