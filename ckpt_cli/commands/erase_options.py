"""The options of `ckpt erase`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from ckpt_backends.errors import UsageError
from ckpt_cli.commands.plan_out import PlanOut
from ckpt_cli.options import (
    DryRun,
    Match,
    Memory,
    Namespace,
    Where,
    Yes,
    command_options,
)


@command_options
class EraseOptions:
    """The arguments and options of `ckpt erase`."""

    threads: Annotated[list[str] | None, Argument(metavar="THREAD", help="Thread ids.")] = None
    subject: Annotated[
        str | None,
        Option(metavar="FILTER", help="Erase a person: a filter, or a word for the profile."),
    ] = None
    where: Where = None
    match: Match = None
    value: Annotated[
        list[str] | None,
        Option(
            "--value",
            metavar="THREAD:PATH",
            help="Overwrite this value in the whole history; repeatable.",
        ),
    ] = None
    values_from: Annotated[
        str | None,
        Option(
            "--values-from",
            metavar="FILE",
            help="Overwrite what `secrets -o ndjson` found; - is stdin.",
        ),
    ] = None
    ns: Namespace = None
    memory: Memory = None
    memory_namespace: Annotated[
        list[str] | None,
        Option(
            "--memory-namespace",
            metavar="PATTERN",
            help="The person's memory, such as 'users/{user}'; repeatable.",
        ),
    ] = None
    archives: Annotated[
        list[Path] | None,
        Option("--archives", metavar="DIR", help="Also erase archives in DIR; repeatable."),
    ] = None
    rewrite: Annotated[
        bool, Option("--rewrite", help="Write whole tables anew to erase free space; locks them.")
    ] = False
    receipt: Annotated[Path | None, Option(metavar="FILE", help="Write a receipt to FILE.")] = None
    verify: Annotated[
        Path | None, Option(metavar="RECEIPT", help="Check that nothing of RECEIPT is back.")
    ] = None
    no_mentions: Annotated[
        bool, Option("--no-mentions", help="Do not search other threads for the person's name.")
    ] = False
    plan_out: PlanOut = None
    dry_run: DryRun = False
    yes: Yes = False

    @property
    def names_values(self) -> bool:
        """Whether single values are erased, and no thread."""
        return self.value is not None or self.values_from is not None

    @property
    def asked(self) -> str:
        """What is asked for, as one text, to find what an earlier run of the same began."""
        words = [self.subject or "", self.match or "", *(self.where or ()), *(self.threads or ())]
        return "\0".join(words)

    def check(self) -> None:
        """Raise `UsageError` if nothing is selected, or in ways that exclude each other."""
        by_filter = self.where or self.match is not None
        if self.names_values:
            others = (self.verify, self.receipt, self.subject, self.archives)
            if self.threads or by_filter or any(one is not None for one in others):
                raise UsageError("--value takes no other selection, and writes no receipt")
            return
        if self.memory_namespace is not None and self.subject is None:
            raise UsageError("--memory-namespace belongs to --subject")
        if self.ns is not None:
            raise UsageError("--ns belongs to --value: whole threads have all namespaces")
        if self.verify is not None:
            if self.threads or self.subject or by_filter or self.receipt:
                raise UsageError("--verify takes no other selection")
            return
        if not (self.threads or self.subject or by_filter):
            raise UsageError(
                "nothing selected",
                hint="name threads, or add --subject \"metadata.user = 'anna'\" or --where",
            )
        if by_filter and (self.threads or self.subject):
            raise UsageError(
                "--where and --match cannot be combined with THREAD or --subject",
                hint="write one filter with 'and', or run the command twice",
            )
