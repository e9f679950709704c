"""`ckpt apply`: carry out a saved plan."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import click

from ckpt_backends.errors import NotFound, PartlyDone, Refused, StoreChanged, UsageError
from ckpt_backends.files.temporary_folder import TemporaryFolder
from ckpt_cli.apply.purge import Pace
from ckpt_cli.commands.apply_removal import RemovalTerms, check_terms, show_and_remove
from ckpt_cli.commands.confirm import confirm
from ckpt_cli.commands.keys import NewKeyFile
from ckpt_cli.commands.plan_out import TERMS, PlanTerms
from ckpt_cli.commands.signatures import AllowPickle, SignKey, TrustedKeys, signing_key
from ckpt_cli.core.random_numbers import seeded
from ckpt_cli.core.times import parse_duration
from ckpt_cli.lazy import GlobalOption, SectionedCommand
from ckpt_cli.options import DryRun, Yes, argument, command_options, option, takes
from ckpt_cli.plans.plan_file import counted_plan
from ckpt_cli.plans.plan_review import AppliedRemoval, FactCheck
from ckpt_cli.plans.removal_check import check_unmoved
from ckpt_cli.plans.saved_plan import (
    NO_STORE,
    PlanHeader,
    PlannedStore,
    SavedPlan,
    check_place,
    damaged,
    read_saved_plan,
)
from ckpt_cli.session import Session

_REMOVAL_OPTIONS = frozenset({"archive", "vacuum", "batch", "sleep", "max_duration", "reason"})


@command_options
class ApplyOptions:
    """The arguments and options of `ckpt apply`."""

    file: Annotated[Path, argument("FILE", "The plan, written by --plan-out.")]
    to: Annotated[
        str | None, option("STORE", "The store to copy to, if it is on a server.", "--to")
    ] = None
    new_key_file: NewKeyFile = None
    sign_key: SignKey = None
    trusted_key: TrustedKeys = None
    allow_pickle: AllowPickle = False
    memory: Annotated[
        str | None, option("STORE", "The long-term memory to erase items from.", "--memory")
    ] = None
    receipt: Annotated[
        Path | None, option("FILE", "Write the receipt of an erasure to FILE.", "--receipt")
    ] = None
    dry_run: DryRun = False
    yes: Yes = False

    @property
    def again(self) -> dict[str, Any]:
        """The options that a plan does not hold and that were given."""
        names = ("to", "new_key_file", "sign_key", "trusted_key", "allow_pickle")
        found = {name: getattr(self, name) for name in (*names, "memory", "receipt")}
        return {name: value for name, value in found.items() if value not in (None, False)}


@takes(ApplyOptions)
def apply(session: Session, options: ApplyOptions) -> None:
    """Carry out a saved plan.

    FILE was written by --plan-out of a command that changes a store. Shows the plan, asks, and
    carries out exactly that. If the store changed since, so that the plan would be another one
    now, nothing is written and the exit code is 6. A plan can be carried out once.

    The store is that of -s, as for all commands, and must be the one of the plan. A plan for a
    local file needs no -s. Give keys, and a server to copy to, again.

    \b
      ckpt -s agent.db rollback user-42 --steps 3 --plan-out plan.ndjson
      ckpt -s agent.db apply plan.ndjson --dry-run
      ckpt -s agent.db apply plan.ndjson --yes
    """
    with TemporaryFolder() as folder:
        plan = read_saved_plan(options.file, folder)
        header = plan.header
        command, terms = _command_of(plan)
        _check_again(header, options)
        _use_store(session, plan)
        at = header.made_at.astimezone(session.zone)
        session.note(f"plan of `ckpt {header.action}`, made {at:%Y-%m-%d %H:%M}")
        values = _values(plan, command, terms)
        for name, value in values.items():
            if isinstance(value, Path):
                session.note(f"{name.replace('_', ' ')}: {value}")
        if header.kind == "removal":
            _remove(session, plan, options, values)
            return
        values |= {name: one for name, one in options.again.items() if name in terms.again}
        if header.target != NO_STORE:
            values["to"] = _target(session, plan, options.to)
        _run(session, plan, terms, command.callback, values, options)


def _command_of(plan: SavedPlan) -> tuple[click.Command, PlanTerms]:
    """Return the command of a plan. Raises `UsageError` if there is no such command."""
    context = click.get_current_context().find_root()
    found: click.Command | None = context.command
    for word in plan.header.action.split(" "):
        found = found.get_command(context, word) if isinstance(found, click.Group) else None
    terms = getattr(getattr(found, "callback", None), TERMS, None)
    if not isinstance(found, SectionedCommand) or not isinstance(terms, PlanTerms):
        raise damaged(plan.path, f"no plan of `ckpt {plan.header.action}` can be applied")
    if terms.is_removal != (plan.header.kind == "removal"):
        raise damaged(plan.path, "its kind is not that of its command")
    return found, terms


def _check_again(header: PlanHeader, options: ApplyOptions) -> None:
    """Raise `UsageError` unless the options are given that the plan was made with.

    A store to copy to may be taken from the plan.
    """
    given = options.again.keys() - {"to"}
    wanted = set(header.again) - {"to"}
    for name in sorted(wanted - given):
        shown = f"--{name.replace('_', '-')}"
        raise UsageError(f"the plan was made with {shown}", hint=f"give it again: {shown}")
    for name in sorted(given - wanted):
        raise UsageError(f"the plan was made without --{name.replace('_', '-')}")
    if options.to is not None and header.target == NO_STORE:
        raise UsageError("the plan was made without --to")


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


def _values(plan: SavedPlan, command: click.Command, terms: PlanTerms) -> dict[str, Any]:
    """Return the values of all parameters of a command, checked as on the command line.

    Raises `UsageError` for an option that the command does not have or that no plan may hold.
    """
    context = click.Context(command, info_name=plan.header.action)
    params = {one.name: one for one in command.params if not isinstance(one, GlobalOption)}
    values: dict[str, Any] = {}
    left = dict(plan.header.options)
    for name, param in params.items():
        if name is None or name in terms.again or name in {"plan_out", "dry_run", "yes"}:
            continue
        value = left.pop(name) if name in left else param.get_default(context)
        if name in plan.header.options and not _is_plain(value):
            raise damaged(plan.path, f"the value of '{name}' is damaged")
        try:
            values[name] = param.process_value(context, value)
        except (click.UsageError, ValueError, TypeError) as error:
            raise damaged(plan.path, f"the value of '{name}' is damaged") from error
    if left:
        raise damaged(plan.path, f"`ckpt {plan.header.action}` takes no '{min(left)}' from a plan")
    return values


def _is_plain(value: Any) -> bool:
    if isinstance(value, list):
        return all(isinstance(one, str) for one in value)
    return isinstance(value, str | int | float)


def _run(
    session: Session,
    plan: SavedPlan,
    terms: PlanTerms,
    run: Callable[..., None] | None,
    values: Mapping[str, Any],
    options: ApplyOptions,
) -> None:
    """Plan the command again, and carry it out if the same plan comes out."""
    session.now = plan.header.made_at

    def once(**more: bool) -> None:
        assert run is not None  # noqa: S101 - every command has a function
        session.review = review = FactCheck(plan)
        with seeded(plan.header.seed):
            try:
                run(**{**values, **more})
            except (NotFound, Refused) as error:
                if review.is_complete:
                    raise
                raise review.moved(error.message) from error
        review.check_complete()

    if terms.writes is None:
        once(dry_run=options.dry_run, yes=options.yes)
        return
    if options.dry_run or not options.yes:
        once(**{terms.writes: False})
    if options.dry_run:
        return
    if not options.yes:
        confirm("Carry out this plan?")
    once(**{terms.writes: True})


def _remove(
    session: Session, plan: SavedPlan, options: ApplyOptions, values: Mapping[str, Any]
) -> None:
    """Remove the threads of a plan, if none of them changed."""
    plan.header.check_layout(plan.path, session.store.describe().layout)
    terms = _removal_terms(plan, options, values)
    check_terms(session, terms)
    found = counted_plan(plan)
    session.review = AppliedRemoval(plan.header)
    check_unmoved(session.store, found.threads())
    receipt = plan.header.action == "threads delete"
    report = show_and_remove(session, found, terms, plan.header.action, receipt=receipt)
    if report.skipped:
        named = ", ".join(report.skipped)
        said = f"not removed: {named} changed meanwhile"
        error = PartlyDone if report.sums.threads else StoreChanged
        raise error(said, hint="make a new plan with --plan-out")


def _removal_terms(
    plan: SavedPlan, options: ApplyOptions, values: Mapping[str, Any]
) -> RemovalTerms:
    if others := plan.header.options.keys() - _REMOVAL_OPTIONS:
        raise damaged(plan.path, f"a plan of a removal has no option '{min(others)}'")
    until = values.get("max_duration")
    if until is not None:
        until = time.monotonic() + parse_duration(until).total_seconds()
    archive = values.get("archive")
    return RemovalTerms(
        Pace(values.get("batch"), values.get("sleep", 0.0), until),
        archive,
        values.get("vacuum", False),
        options.dry_run,
        options.yes,
        key=signing_key(options.sign_key, archive),
    )
