"""`ckpt apply`: carry out a saved plan."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Context, Option, TyperException

from ckpt_backends.errors import NotFound, PartlyDone, Refused, StoreChanged, UsageError
from ckpt_backends.files import TemporaryFolder
from ckpt_cli.commands.arguments import AllowPickle, NewKeyFile, SignKey, TrustedKeys
from ckpt_cli.commands.changing import confirm
from ckpt_cli.commands.plan_out import TERMS, PlanTerms
from ckpt_cli.commands.purge import OF_REMOVAL, RemovalRun
from ckpt_cli.core.forking import seeded
from ckpt_cli.lazy import Group
from ckpt_cli.options import DryRun, Summary, Yes, not_huge
from ckpt_cli.plans.purge import check_unmoved, counted_plan
from ckpt_cli.plans.saved_plan import (
    NO_STORE,
    FactCheck,
    PlanHeader,
    PlannedStore,
    PlanReview,
    SavedPlan,
    check_place,
    damaged,
    read_saved_plan,
)
from ckpt_cli.session import Consent, Session

_REMOVAL_OPTIONS = frozenset({"archive", "vacuum", "batch", "sleep", "max_duration", "reason"})
_TERMS = (*OF_REMOVAL, "memory", "summary")
_ALSO_FOR_REMOVALS = frozenset({"sign_key", "memory"})
"""Options that a plan of a removal may be made without."""


def _of_removals(*names: str, **more: Any) -> Any:
    """Return an option for plans that remove threads, in place of what the plan says."""
    return Option(*names, rich_help_panel="Options for plans that remove threads", **more)


def apply(
    ctx: Context,
    file: Annotated[Path, Argument(metavar="FILE", help="The plan, written by --plan-out.")],
    to: Annotated[
        str | None,
        Option("--to", metavar="STORE", help="The store to copy to, if it is on a server."),
    ] = None,
    new_key_file: NewKeyFile = None,
    sign_key: SignKey = None,
    trusted_key: TrustedKeys = None,
    allow_pickle: AllowPickle = False,
    memory: Annotated[
        str | None, Option("--memory", metavar="STORE", help="The long-term memory of the threads.")
    ] = None,
    receipt: Annotated[
        Path | None,
        Option("--receipt", metavar="FILE", help="Write the receipt of an erasure to FILE."),
    ] = None,
    archive: Annotated[
        Path | None, _of_removals(metavar="DIR", help="Archive each thread in DIR first.")
    ] = None,
    batch: Annotated[
        int | None,
        _of_removals(metavar="N", help="Threads per transaction.", min=1, callback=not_huge),
    ] = None,
    sleep: Annotated[
        float | None, _of_removals(metavar="SECONDS", help="Pause between transactions.", min=0)
    ] = None,
    max_duration: Annotated[
        str | None, _of_removals(metavar="TIME", help="Start no batch after TIME, such as 30m.")
    ] = None,
    vacuum: Annotated[
        bool, _of_removals("--vacuum", help="Reclaim disk space afterwards (VACUUM).")
    ] = False,
    skip_changed: Annotated[
        bool, _of_removals("--skip-changed", help="Keep threads that changed; remove the others.")
    ] = False,
    summary: Summary = False,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Carry out a saved plan.

    FILE was written by --plan-out of a command that changes a store. Shows the plan, asks, and
    carries out exactly that. If the store changed since, so that the plan no longer
    fits, nothing is written and the exit code is 6. A plan can be carried out once.

    A plan that removes threads has a line for each: delete a line to keep that thread. With
    --skip-changed, threads that changed since are kept, and a run that --max-duration stopped can
    be continued.

    The store is that of -s, as for all commands, and must be the one of the plan. A plan for a
    local file needs no -s. Give keys, and a server to copy to, again.

    ```
    ckpt -s agent.db rollback user-42 --steps 3 --plan-out plan.ndjson
    ckpt -s agent.db apply plan.ndjson --dry-run
    ckpt -s agent.db apply plan.ndjson --yes
    ckpt -s prod apply purge.ndjson --skip-changed --archive backups --max-duration 30m --yes
    ```
    """
    session: Session = ctx.obj
    keys = {"new_key_file": new_key_file, "sign_key": sign_key, "trusted_key": trusted_key}
    places = {"to": to, "memory": memory, "receipt": receipt}
    given = _given({**keys, **places, "allow_pickle": allow_pickle})
    pace = {"batch": batch, "sleep": sleep, "max_duration": max_duration, "vacuum": vacuum}
    how = {"archive": archive, "skip_changed": skip_changed, "summary": summary}
    of_removal = _given({**pace, **how})
    with TemporaryFolder() as folder:
        plan = read_saved_plan(file, folder)
        header = plan.header
        command, terms = _command_of(ctx.find_root().command, plan)
        _check_again(header, given)
        _check_of_removal(header, of_removal)
        _use_store(session, plan)
        at = header.made_at.astimezone(session.zone)
        session.note(f"plan of `ckpt {header.action}`, made {at:%Y-%m-%d %H:%M}")
        again = {name: one for name, one in given.items() if name in terms.again}
        if header.target != NO_STORE:
            again["to"] = _target(session, plan, to)
        parsed = _parsed(ctx, plan, command, terms, again)
        values = {**parsed.params, **again, **of_removal}
        for name, value in values.items():
            if isinstance(value, Path):
                session.note(f"{name.replace('_', ' ')}: {value}")
        if header.kind == "removal":
            session.consent = Consent(dry_run, yes)
            values |= {"sign_key": sign_key, "memory": memory}
            _remove(session, plan, values, skip_changed=skip_changed)
            return
        run = partial(parsed.invoke, command.callback, **values)
        _run(session, plan, terms, run, dry_run=dry_run, yes=yes)


def _given(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: one for name, one in options.items() if one is not None and one is not False}


def _command_of(root: Any, plan: SavedPlan) -> tuple[Any, PlanTerms]:
    """Return the command of a plan. Raises `UsageError` if there is no such command."""
    found = root
    for word in plan.header.action.split(" "):
        found = found.loaded(word) if isinstance(found, Group) else None
    terms = getattr(getattr(found, "callback", None), TERMS, None)
    if not isinstance(terms, PlanTerms):
        raise damaged(plan.path, f"no plan of `ckpt {plan.header.action}` can be applied")
    if terms.is_removal != (plan.header.kind == "removal"):
        raise damaged(plan.path, "its kind is not that of its command")
    return found, terms


def _check_again(header: PlanHeader, given: Mapping[str, Any]) -> None:
    """Raise `UsageError` unless the options are given that the plan was made with.

    A store to copy to may be taken from the plan.
    """
    wanted, named = set(header.again) - {"to"}, given.keys() - {"to"}
    if header.kind == "removal":
        named -= _ALSO_FOR_REMOVALS - wanted
    for name in sorted(wanted - named):
        shown = f"--{name.replace('_', '-')}"
        raise UsageError(f"the plan was made with {shown}", hint=f"give it again: {shown}")
    for name in sorted(named - wanted):
        raise UsageError(f"the plan was made without --{name.replace('_', '-')}")
    if "to" in given and header.target == NO_STORE:
        raise UsageError("the plan was made without --to")


def _check_of_removal(header: PlanHeader, given: Mapping[str, Any]) -> None:
    """Raise `UsageError` for an option that only a plan of a removal takes."""
    if given and header.kind != "removal":
        raise UsageError(
            f"--{min(given).replace('_', '-')} is for plans that remove threads",
            hint=f"this is a plan of `ckpt {header.action}`",
        )


def _use_store(session: Session, plan: SavedPlan) -> None:
    """Take the local file of the plan if no store is named, and check that it is the plan's."""
    planned, names = plan.header.store, session.names
    if planned == NO_STORE and plan.header.kind == "command":
        return
    if names.store_name is None and names.profiles.default is None and _is_local(planned):
        session.settings["store"] = planned.path
        session.note(f"store: {planned.path}")
    names.must_be_named = True
    check_place(plan.path, planned, names.store_url)


def _target(session: Session, plan: SavedPlan, given: str | None) -> str:
    """Return the store to copy to: the given one, or the local file of the plan."""
    planned = plan.header.target
    if given is None and not _is_local(planned):
        raise UsageError(
            "the plan copies to a store on a server, which has to be named again",
            hint="give it again: --to STORE",
        )
    named = planned.path if given is None else given
    check_place(plan.path, planned, session.names.url_of(named), "--to")
    return named


def _is_local(planned: PlannedStore) -> bool:
    return os.path.isabs(planned.path) and "\0" not in planned.path and "?" not in planned.path


def _parsed(
    ctx: Context, plan: SavedPlan, command: Any, terms: PlanTerms, again: Mapping[str, Any]
) -> Any:
    """Return the context of a command with the options of its plan, parsed as they were then.

    Raises `UsageError` for an option that the command does not have or that no plan may hold.
    """
    header, words, ids = plan.header, list[str](), list[str]()
    left = dict(header.options)
    shared = ctx.find_root().command.params
    for param in command.params:
        if param in shared:
            continue
        held = param.name not in {"plan_out", "dry_run", "yes", *terms.again}
        value = left.pop(param.name, None) if held else again.get(param.name)
        if held and value is not None and not _is_plain(value):
            raise damaged(plan.path, f"the value of '{param.name}' is damaged")
        each = value if isinstance(value, list) else [] if value in (None, False) else [value]
        if param.param_type_name == "argument":
            ids += map(str, each)
        else:
            words += [param.opts[-1] + ("" if one is True else f"={one}") for one in each]
    if left:
        raise damaged(plan.path, f"`ckpt {header.action}` takes no '{min(left)}' from a plan")
    try:
        return command.make_context(header.action, [*words, "--", *ids], parent=ctx)
    except (TyperException, ValueError) as error:
        raise damaged(plan.path, f"its options are damaged: {error}") from error


def _is_plain(value: Any) -> bool:
    if isinstance(value, list):
        return all(isinstance(one, str) for one in value)
    return isinstance(value, str | int | float)


def _run(
    session: Session,
    plan: SavedPlan,
    terms: PlanTerms,
    run: Callable[..., None],
    *,
    dry_run: bool,
    yes: bool,
) -> None:
    """Plan the command again, and carry it out if the same plan comes out."""
    session.now = plan.header.made_at

    def once(**more: bool) -> None:
        session.review = review = FactCheck(plan)
        with seeded(plan.header.seed):
            try:
                run(**more)
            except (NotFound, Refused) as error:
                if review.is_complete:
                    raise
                raise review.moved(error.message) from error
        review.check_complete()

    if terms.writes is None:
        once(dry_run=dry_run, yes=yes)
        return
    if dry_run or not yes:
        once(**{terms.writes: False})
    if dry_run:
        return
    if not yes:
        confirm("Carry out this plan?")
    once(**{terms.writes: True})


def _remove(
    session: Session, plan: SavedPlan, values: Mapping[str, Any], *, skip_changed: bool
) -> None:
    """Remove the threads of a plan: all, or none if one of them changed. With `skip_changed`, those
    that did not change.
    """
    if others := plan.header.options.keys() - _REMOVAL_OPTIONS:
        raise damaged(plan.path, f"a plan of a removal has no option '{min(others)}'")
    again = "run the same command again"
    run = RemovalRun(
        session,
        plan.header.action,
        again=again if skip_changed else f"{again} with --skip-changed",
        **{name: values[name] for name in _TERMS if name in values},
    )
    found = counted_plan(plan)
    session.review = PlanReview(plan.header)
    if not skip_changed:
        check_unmoved(session.store, found.threads())
    # After the threads: a store that lost all of them may look like one of another layout.
    plan.header.check_layout(plan.path, session.store.describe().layout)
    report = run.carry_out_plan(found, receipt=plan.header.action == "threads delete")
    if report.skipped and not skip_changed:
        named = ", ".join(report.skipped)
        said = f"not removed: {named} changed meanwhile"
        error = PartlyDone if report.sums.threads else StoreChanged
        raise error(said, hint="make a new plan with --plan-out")
