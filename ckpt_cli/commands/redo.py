"""`ckpt redo`: take back an undo."""

from __future__ import annotations

from typing import Annotated

from typer import Argument, Context

from ckpt_cli.commands.plan_out import PlanOut, plannable
from ckpt_cli.commands.undo import check_place, take_back_operation
from ckpt_cli.operations.log import OperationLog, place_of
from ckpt_cli.options import DryRun, Yes
from ckpt_cli.queries.operations import UNDO, newest_undo, operation_named, undo_of
from ckpt_cli.session import Session


@plannable("redo")
def redo(
    ctx: Context,
    op: Annotated[
        str | None,
        Argument(
            metavar="UNDO|OP",
            help="Id of an undo, or of what was undone. [default: the newest undo]",
        ),
    ] = None,
    plan_out: PlanOut = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Redo what an undo took back.

    Carries out again what was undone, if the store is still as the undo left it there.

    ```
    ckpt -s agent.db redo --dry-run
    ckpt -s agent.db redo 3f2a --yes
    ```
    """
    session: Session = ctx.obj
    session.settle()
    log = OperationLog.of_user()
    if op is None:
        found = newest_undo(log, place_of(session.names.store_url))
    else:
        found = operation_named(log, op, None)
        check_place(session, found)
        if found.operation.action != UNDO:
            found = undo_of(log, found)
    take_back_operation(session, found)
