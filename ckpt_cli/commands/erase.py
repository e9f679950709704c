"""`ckpt erase`: erase a person, threads, or single values."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

from typer import Argument, Context, Option

from ckpt_backends.errors import UsageError
from ckpt_cli.commands.plan_out import PlanOut, plannable
from ckpt_cli.options import DryRun, Match, Memory, Namespace, Where, Yes
from ckpt_cli.session import Session


@plannable("erase", again=("memory", "receipt"))
def erase(
    ctx: Context,
    threads: Annotated[list[str] | None, Argument(metavar="THREAD", help="Thread ids.")] = None,
    subject: Annotated[
        str | None,
        Option(
            metavar="FILTER",
            help="Erase this person: a filter, or a name if the profile sets `subject`.",
        ),
    ] = None,
    where: Where = None,
    match: Match = None,
    value: Annotated[
        list[str] | None,
        Option(
            "--value",
            metavar="THREAD:PATH",
            help="Overwrite this value in the whole history; repeatable.",
        ),
    ] = None,
    values_from: Annotated[
        str | None,
        Option(
            "--values-from",
            metavar="FILE",
            help="Overwrite what `secrets -o ndjson` found; - is stdin.",
        ),
    ] = None,
    ns: Namespace = None,
    memory: Memory = None,
    memory_namespace: Annotated[
        list[str] | None,
        Option(
            "--memory-namespace",
            metavar="PATTERN",
            help="The person's memory, such as 'users/{user}'; repeatable.",
        ),
    ] = None,
    archives: Annotated[
        list[Path] | None,
        Option("--archives", metavar="DIR", help="Also erase archives in DIR; repeatable."),
    ] = None,
    rewrite: Annotated[
        bool, Option("--rewrite", help="Write whole tables anew to erase free space; locks them.")
    ] = False,
    receipt: Annotated[Path | None, Option(metavar="FILE", help="Write a receipt to FILE.")] = None,
    verify: Annotated[
        Path | None, Option(metavar="RECEIPT", help="Check that nothing of RECEIPT is back.")
    ] = None,
    no_mentions: Annotated[
        bool, Option("--no-mentions", help="Do not search other threads for the person's name.")
    ] = False,
    plan_out: PlanOut = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Erase a person, threads or single values for good.

    Removes the threads in all namespaces, the sessions and items of long-term memory that came from
    them or are the person's, the archives that ckpt wrote of them, and what ckpt recorded about
    them. Then removes the old bytes as far as the engine can. Says place by place what is gone,
    what is left and why. Lists where the person is named elsewhere, and leaves that. A thread is
    the person's if any of its checkpoints matches --subject.

    It cannot be undone. A receipt holds no id and no value; --verify checks later that nothing is
    back. Stop the agents first: a thread that changes meanwhile is left, and the exit code is 7.
    Run the same command again after a stop.

    --value overwrites one leaked value by "[erased]" in all checkpoints and writes of its thread,
    which keeps its ids and goes on. This rewrites stored history, as no other command does.

    ```
    ckpt -s agent.db erase --subject 'metadata.user = "anna"' --dry-run
    ckpt -s agent.db erase --subject 'metadata.user = "anna"' --memory-namespace 'users/{user}'
    ckpt -s agent.db erase user-42 --archives backups --receipt receipt.json
    ckpt -s agent.db erase --verify receipt.json
    ckpt -s agent.db erase --value 'user-42:messages[2].content'
    ckpt -s agent.db secrets -o ndjson | ckpt -s agent.db erase --values-from - --yes
    ```
    """
    session: Session = ctx.obj
    by_value = value is not None or values_from is not None
    how = "--value" if by_value else "--verify" if verify is not None else ""
    is_by_filter = bool(where) or match is not None
    _check_selection(how, threads, subject, receipt, ns, is_by_filter=is_by_filter)
    if by_value:
        if verify is not None or archives:
            raise UsageError("--value takes no other selection, and writes no receipt")
        from ckpt_cli.commands.erase_value import erase_values

        erase_values(
            session, value or (), values_from, ns=ns, dry_run=dry_run, yes=yes, rewrite=rewrite
        )
        return
    if memory_namespace is not None and subject is None:
        raise UsageError("--memory-namespace belongs to --subject")
    from ckpt_cli.commands.erase_person import erase_person, erasure_request, verify_receipt

    if verify is not None:
        verify_receipt(session, verify, memory, archives or ())
        return
    request = erasure_request(
        session, threads or (), subject, where, match, memory, memory_namespace, archives or ()
    )
    request = replace(request, finds_mentions=not no_mentions)
    erase_person(
        session,
        request,
        subject=subject,
        where=where,
        command=_command(ctx),
        receipt=receipt,
        rewrite=rewrite,
        dry_run=dry_run,
        yes=yes,
    )


def _check_selection(
    option: str,
    threads: list[str] | None,
    subject: str | None,
    receipt: Path | None,
    ns: str | None,
    *,
    is_by_filter: bool,
) -> None:
    """Raise `UsageError` if nothing is selected, or in ways that exclude each other.

    `option` selects by itself, without threads; `''` if there is none.
    """
    if ns is not None and option != "--value":
        raise UsageError("--ns belongs to --value: whole threads have all namespaces")
    is_chosen = bool(threads or subject)
    if option and (is_chosen or is_by_filter or receipt is not None):
        more = ", and writes no receipt" if option == "--value" else ""
        raise UsageError(f"{option} takes no other selection{more}")
    if not (option or is_chosen or is_by_filter):
        raise UsageError(
            "nothing selected",
            hint="name threads, or add --subject \"metadata.user = 'anna'\" or --where",
        )
    if is_by_filter and is_chosen:
        raise UsageError(
            "--where and --match cannot be combined with THREAD or --subject",
            hint="write one filter with 'and', or run the command twice",
        )


def _command(ctx: Context) -> str:
    """Return the command line with the names of options only: the rest names the person."""
    session: Session = ctx.obj
    shared = ctx.find_root().command.params
    own = (one for one in ctx.command.params if one not in shared)
    known = {name for one in own if one.param_type_name == "option" for name in one.opts}
    names = dict.fromkeys(word.partition("=")[0] for word in session.argv)
    return " ".join(["ckpt erase", *(one for one in names if one in known)])
