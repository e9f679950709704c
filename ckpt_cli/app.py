"""The table of commands."""

from __future__ import annotations

import click

from ckpt_cli import __version__
from ckpt_cli.lazy import CommandRef, LazyGroup
from ckpt_cli.options import global_options

HELP = """Inspect, verify and roll back LangGraph checkpoints.

ckpt reads a checkpoint store without the agent's code, and never runs anything that is stored
in it. Reading never changes a store. Commands that change one show a plan and ask first.

\b
  ckpt demo sample.db                        write a sample store to try
  ckpt -s sample.db threads list             list threads and their status
  ckpt -s sample.db show trip-to-kyoto --tree
  ckpt -s sample.db show trip-to-kyoto@head~2 --channel messages
  ckpt -s sample.db diff trip-to-kyoto
  ckpt -s sample.db rollback trip-to-kyoto --steps 3 --dry-run

Name a checkpoint as THREAD@REF. REF is an id or the start or end of one, head, ~N (N parents
up), step:N, tip:N (end of a branch; 0 is the newest), or a time such as 2h (two hours ago) or
2026-04-07T10:00.
"""

INSPECT = "Inspect"
VERIFY = "Verify"
CHANGE = "Roll back and repair"
CLEAN = "Clean up and archive"
MOVE = "Move"
STORES = "Stores"


COMMANDS = {
    "threads": CommandRef("threads:COMMANDS", "List, show, copy or delete threads.", INSPECT),
    "show": CommandRef(
        "show:show", "Show the state at a checkpoint, or the tree of a thread.", INSPECT
    ),
    "history": CommandRef("history:history", "List a thread's checkpoints, newest first.", INSPECT),
    "diff": CommandRef("diff:diff", "Show what changed between two checkpoints.", INSPECT),
    "interrupts": CommandRef(
        "interrupts:interrupts", "List the questions that wait for an answer.", INSPECT
    ),
    "errors": CommandRef("errors:errors", "List the tasks that failed.", INSPECT),
    "messages": CommandRef("messages:messages", "Print the conversation of a thread.", INSPECT),
    "grep": CommandRef("grep:grep", "Search threads for a text.", INSPECT),
    "sql": CommandRef("sql:sql", "Ask SQL of threads, checkpoints, values and messages.", INSPECT),
    "blame": CommandRef("blame:blame", "Show which step and task set a value.", INSPECT),
    "timeline": CommandRef(
        "timeline:timeline", "Show how long each step of a thread took.", INSPECT
    ),
    "bisect": CommandRef(
        "bisect:bisect", "Find the first checkpoint where a condition holds.", INSPECT
    ),
    "tail": CommandRef(
        "tail:tail", "Print new checkpoints as they are saved, of all threads or one.", INSPECT
    ),
    "report": CommandRef(
        "report:report", "Write an HTML page about a thread, for a ticket.", INSPECT
    ),
    "tui": CommandRef(
        "tui:tui", "Browse threads, checkpoints and long-term memory in the terminal.", INSPECT
    ),
    "mcp": CommandRef("mcp:mcp", "Serve the store to an agent, read-only (MCP).", INSPECT),
    "sessions": CommandRef("sessions:COMMANDS", "List or show an application's sessions.", INSPECT),
    "memory": CommandRef(
        "memory:COMMANDS", "List, search, edit or delete long-term memory.", INSPECT
    ),
    "replay": CommandRef("replay:replay", "Verify checkpoints against recorded writes.", VERIFY),
    "doctor": CommandRef("doctor:doctor", "Check threads for damage and other faults.", VERIFY),
    "secrets": CommandRef(
        "secrets:secrets", "Find credentials: keys, tokens and passwords in threads.", VERIFY
    ),
    "stats": CommandRef(
        "stats:stats", "Show what nodes write, how long they take, or what tokens cost.", VERIFY
    ),
    "rollback": CommandRef(
        "rollback:rollback", "Roll a thread back to an earlier checkpoint.", CHANGE
    ),
    "fork": CommandRef("fork:fork", "Fork a branch or a new thread from a checkpoint.", CHANGE),
    "repair": CommandRef("repair:COMMANDS", "Mend messages, values or answers.", CHANGE),
    "undo": CommandRef("undo:undo", "Undo the last change of a thread.", CHANGE),
    "apply": CommandRef("apply:apply", "Carry out a saved plan.", CHANGE),
    "ops": CommandRef("ops:COMMANDS", "List what ckpt changed, and take it back.", CHANGE),
    "purge": CommandRef(
        "purge:purge", "Remove old threads, or prune old checkpoints inside them.", CLEAN
    ),
    "gc": CommandRef("gc:gc", "Delete orphaned rows.", CLEAN),
    "erase": CommandRef(
        "erase:erase", "Erase threads, or a person, with all that was made from them.", CLEAN
    ),
    "export": CommandRef(
        "export:export", "Write threads to archive files, as JSON, or as tables.", CLEAN
    ),
    "import": CommandRef(
        "import_:import_", "Restore archived threads, into a store of any layout.", CLEAN
    ),
    "copy": CommandRef("copy:copy", "Copy threads to another store, of any layout.", MOVE),
    "rekey": CommandRef("rekey:rekey", "Encrypt threads with another key, or decrypt them.", MOVE),
    "du": CommandRef("du:du", "Show disk usage by thread, channel and type.", STORES),
    "metrics": CommandRef(
        "metrics:metrics", "Print metrics of the store for a monitoring system.", STORES
    ),
    "stores": CommandRef("stores:stores", "List stores with their layout, size and saver.", STORES),
    "trust": CommandRef(
        "trust:trust_", "Show what a configuration file would do, ask, and trust it.", STORES
    ),
    "completion": CommandRef(
        "completion:completion", "Print or install the completion script of a shell.", STORES
    ),
    "demo": CommandRef("demo:demo", "Create a small sample store.", STORES),
}


def root() -> LazyGroup:
    """Return the `ckpt` command."""
    group = LazyGroup(name="ckpt", refs=COMMANDS, help=HELP, options=global_options)
    group.params.append(_version_option())
    return group


def _version_option() -> click.Option:
    """Return `--version`, an option of the root command only."""

    def show(ctx: click.Context, param: click.Parameter, value: bool) -> None:  # noqa: ARG001
        if value:
            click.echo(f"ckpt {__version__}")
            ctx.exit()

    return click.Option(
        param_decls=["--version"],
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=show,
        help="Print the version and exit.",
    )
