"""The command table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from ckpt_cli import __version__
from ckpt_cli.lazy import CommandRef, LazyGroup
from ckpt_cli.options import global_options

if TYPE_CHECKING:
    from typer._click.core import Context, Parameter

HELP = """Know, prove and undo what LangGraph agents remember.

Reads a checkpoint store without the agent's code, and runs nothing that a store holds. What
changes a thread adds to it, shows its plan first, and can be undone.

\b
  ckpt demo sample.db                     write a sample store to try
  ckpt -s sample.db threads list          which threads, which are stuck
  ckpt -s sample.db show trip-to-kyoto --tree
  ckpt -s sample.db show trip-to-kyoto@head~2 --channel messages
  ckpt -s sample.db diff trip-to-kyoto
  ckpt -s sample.db rollback trip-to-kyoto --steps 3 --dry-run

A checkpoint is THREAD@REF, where REF is an id or its end, head, ~N (N
parents up), step:N, tip:N, or a time such as 2h or 2026-04-07T10:00.
"""

LOOK = "Look"
PROVE = "Prove"
CHANGE = "Change"
CLEAN = "Clean up"
STORES = "Stores"

COMMANDS = {
    "threads": CommandRef("ckpt_cli.commands.threads:COMMANDS", "List or show threads.", LOOK),
    "show": CommandRef(
        "ckpt_cli.commands.show:show", "Show a checkpoint's state, or a thread's tree.", LOOK
    ),
    "history": CommandRef(
        "ckpt_cli.commands.history:history", "List a thread's checkpoints, newest first.", LOOK
    ),
    "diff": CommandRef(
        "ckpt_cli.commands.diff:diff", "Show what changed between two checkpoints.", LOOK
    ),
    "interrupts": CommandRef(
        "ckpt_cli.commands.interrupts:interrupts", "List questions that wait for an answer.", LOOK
    ),
    "messages": CommandRef(
        "ckpt_cli.commands.messages:messages", "Print the conversation of a thread.", LOOK
    ),
    "grep": CommandRef("ckpt_cli.commands.grep:grep", "Search the values of all threads.", LOOK),
    "blame": CommandRef(
        "ckpt_cli.commands.blame:blame", "Say which step and task set a value.", LOOK
    ),
    "tail": CommandRef(
        "ckpt_cli.commands.tail:tail", "Print a thread's checkpoints as they come.", LOOK
    ),
    "tui": CommandRef(
        "ckpt_cli.commands.tui:tui",
        "Browse threads, their trees and checkpoints on one screen, and long-term memory.",
        LOOK,
    ),
    "sessions": CommandRef(
        "ckpt_cli.commands.sessions:COMMANDS", "List or show an application's sessions.", LOOK
    ),
    "memory": CommandRef(
        "ckpt_cli.commands.memory:COMMANDS",
        "List, search or remove what is remembered across threads.",
        LOOK,
    ),
    "replay": CommandRef(
        "ckpt_cli.commands.replay:replay",
        "Prove each checkpoint by its parent and the writes.",
        PROVE,
    ),
    "stats": CommandRef(
        "ckpt_cli.commands.stats:stats", "Say which nodes write how much to which channels.", PROVE
    ),
    "rollback": CommandRef(
        "ckpt_cli.commands.rollback:rollback",
        "Go back to an earlier checkpoint, by adding a copy of it.",
        CHANGE,
    ),
    "fork": CommandRef(
        "ckpt_cli.commands.fork:fork", "Go on from a checkpoint in a new branch or thread.", CHANGE
    ),
    "undo": CommandRef(
        "ckpt_cli.commands.undo:undo", "Take back the last rollback or fork of a thread.", CHANGE
    ),
    "purge": CommandRef(
        "ckpt_cli.commands.purge:purge",
        "Remove old threads, or prune old checkpoints inside them.",
        CLEAN,
    ),
    "gc": CommandRef("ckpt_cli.commands.gc:gc", "Delete orphaned rows.", CLEAN),
    "export": CommandRef(
        "ckpt_cli.commands.export:export", "Write threads to files, or print them.", CLEAN
    ),
    "import": CommandRef(
        "ckpt_cli.commands.import_:import_", "Restore archived threads, row for row.", CLEAN
    ),
    "du": CommandRef("ckpt_cli.commands.du:du", "Say what takes how much room.", STORES),
    "stores": CommandRef(
        "ckpt_cli.commands.stores:stores", "Say which stores are here and what they are.", STORES
    ),
    "demo": CommandRef("ckpt_cli.commands.demo:demo", "Write a small sample store.", STORES),
}


def root() -> LazyGroup:
    """The `ckpt` command."""
    group = LazyGroup(name="ckpt", refs=COMMANDS, help=HELP, options=global_options)
    group.params.append(_version_option())
    return group


def _version_option() -> Parameter:
    """`--version`, which the root command alone has."""

    def show(ctx: Context, param: Parameter, value: bool) -> None:  # noqa: ARG001
        if value:
            typer.echo(f"ckpt {__version__}")
            ctx.exit()

    return typer.core.TyperOption(
        param_decls=["--version"],
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=show,
        help="Print the version and leave.",
    )
