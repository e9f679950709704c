"""`ckpt threads delete`: removes threads, whatever their status."""

from __future__ import annotations

from typing import Annotated

from typer import Argument, Context, Option

from ckpt_backends.errors import NotFound, PartlyDone, StoreChanged, UsageError
from ckpt_cli.commands.arguments import SignKey, read_input, threads_to_change
from ckpt_cli.commands.plan_out import PlanOut, removes
from ckpt_cli.commands.purge import ArchiveFolder, RemovalRun
from ckpt_cli.core.retention import NOT_FOUND
from ckpt_cli.options import DryRun, Match, Memory, Where, Yes
from ckpt_cli.plans.purge import plan_named
from ckpt_cli.session import Session

_AGAIN = "run the command again"
_HINT = "`ckpt threads list --all` lists all threads; add --match 'PART*' to search"


@removes("threads delete")
def delete(
    ctx: Context,
    threads: Annotated[list[str] | None, Argument(metavar="THREAD", help="Thread ids.")] = None,
    from_: Annotated[
        str | None,
        Option("--from", metavar="FILE", help="Also read ids from FILE, one per line; - is stdin."),
    ] = None,
    match: Match = None,
    where: Where = None,
    archive: ArchiveFolder = None,
    sign_key: SignKey = None,
    memory: Memory = None,
    plan_out: PlanOut = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Remove threads, whatever their status.

    Removes every row of these threads, in all namespaces: of those that are named, and of those
    that match both --match and --where, if given. Ids that do not exist are named at the
    end, and the exit code is 7 (3 if none exists). A thread that changed meanwhile is kept, and the
    exit code is 7 (6 if nothing was deleted). With -o json the answer is a receipt with the
    sizes before and after.

    ```
    ckpt -s agent.db threads delete user-42 user-43 --dry-run
    ckpt -s agent.db threads delete user-42 --archive backups --yes -o json
    ckpt -s agent.db threads list --all -o tsv --match 'test-*' | tail -n +2 | cut -f1 \\
      | ckpt -s agent.db threads delete --from - --yes
    ```
    """
    session: Session = ctx.obj
    run = RemovalRun(session, "threads delete", archive, sign_key, memory=memory, plan_out=plan_out)
    given = [*(threads or ()), *(_names(from_) if from_ is not None else ())]
    names = dict.fromkeys(given, "given by id")
    chosen_by = [*(["--match"] if match is not None else []), *(["--where"] if where else [])]
    if chosen_by:
        for one in threads_to_change(session, None, match, where):
            names.setdefault(one.thread_id, f"matches {' and '.join(chosen_by)}")
    elif not names and from_ is None:
        hint = "give thread ids, --from FILE, --match GLOB or --where FILTER"
        raise UsageError("no thread given", hint=hint)
    found = list(plan_named(session.store, names))
    missing = [one.thread_id for one in found if one.reason == NOT_FOUND]
    if missing and len(missing) == len(found):
        named = ", ".join(f"'{name}'" for name in missing)
        raise NotFound(f"no thread{'s' if len(missing) > 1 else ''} {named}", hint=_HINT)
    report = run.carry_out(found, receipt=True)
    if report.skipped:
        said = f"not deleted: {', '.join(report.skipped)} changed meanwhile"
        raise (PartlyDone if report.sums.threads else StoreChanged)(said, hint=_AGAIN)
    if missing:
        raise PartlyDone(f"not found: {', '.join(missing)}", hint=_HINT)


def _names(place: str) -> list[str]:
    """The lines of a file or of stdin that are not empty. Raises `UsageError`."""
    hint = "give a file with one thread id per line, or --from - for stdin"
    lines = read_input(place, hint).decode("utf-8", "surrogateescape").split("\n")
    return [line for line in lines if line]
