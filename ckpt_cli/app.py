"""The table of commands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import typer
from typer.main import get_command

from ckpt_cli.lazy import MARKUP, Group, LazyCommand, without_type_of_flags
from ckpt_cli.options import global_options

HELP = """Inspect, verify and roll back LangGraph checkpoints.

ckpt reads a checkpoint store without the agent's code, and never runs anything that is stored
in it. Reading never changes a store. Commands that change one show a plan and ask first.

```
ckpt demo sample.db                        write a sample store to try
ckpt -s sample.db threads list             list threads and their status
ckpt -s sample.db show trip-to-kyoto --tree
ckpt -s sample.db show trip-to-kyoto@head~2 --channel messages
ckpt -s sample.db diff trip-to-kyoto
ckpt -s sample.db rollback trip-to-kyoto --steps 3 --dry-run
```

Name a checkpoint as THREAD@REF. REF is an id or the start or end of one, head, ~N (N parents
up), step:N, tip:N (end of a branch; 0 is the newest), or a time such as 2h (two hours ago) or
2026-04-07T10:00.
"""


COMMANDS: Mapping[str, Mapping[str, tuple[str, Any]]] = {
    "Inspect": {
        "threads": (
            "List, copy or delete threads.",
            {
                "list": ("List threads, newest first.", "threads:list_"),
                "copy": ("Copy a thread with all its history.", "threads_copy:copy"),
                "delete": ("Remove threads, whatever their status.", "delete:delete"),
            },
        ),
        "show": (
            "Show what is wrong with a thread, how to resume it, and its state.",
            "show:show",
        ),
        "history": ("List a thread's checkpoints, newest first.", "history:history"),
        "diff": ("Show what changed between two checkpoints.", "diff:diff"),
        "interrupts": ("List the questions that wait for an answer.", "interrupts:interrupts"),
        "errors": ("List the tasks that failed.", "errors:errors"),
        "messages": ("Print the conversation of a thread.", "messages:messages"),
        "grep": ("Search threads for a text.", "grep:grep"),
        "sql": ("Ask SQL of threads, checkpoints, values and messages.", "sql:sql"),
        "blame": ("Show which step and task set a value.", "blame:blame"),
        "timeline": ("Show how long each step of a thread took.", "timeline:timeline"),
        "bisect": ("Find the first checkpoint where a condition holds.", "bisect:bisect"),
        "tail": ("Print new checkpoints as they are saved, of all threads or one.", "tail:tail"),
        "report": ("Write an HTML page about a thread, for a ticket.", "report:report"),
        "tui": ("Browse threads, checkpoints and long-term memory in the terminal.", "tui:tui"),
        "mcp": ("Serve the store to an agent, read-only (MCP).", "mcp:mcp"),
        "sessions": (
            "List or show an application's sessions.",
            {
                "list": ("List the sessions of an application, newest first.", "sessions:list_"),
                "show": ("Show one session and the status of its thread.", "sessions:show"),
            },
        ),
        "memory": (
            "List, search, edit or delete long-term memory.",
            {
                "list": ("List items by namespace, without values.", "memory:list_"),
                "show": ("Show one item with its value, or all items.", "memory:show"),
                "search": ("Search namespaces, keys and values.", "memory:search"),
                "export": ("Export items with their values as JSON.", "memory:export"),
                "edit": ("Edit a fact or a section of DeerFlow's memory.", "memory_edit:edit"),
                "delete": ("Delete items and their vectors.", "memory_delete:delete"),
                "copy": ("Copy items to another Store of LangGraph.", "memory_copy:copy"),
                "import": ("Restore archived items.", "memory_import:import_"),
            },
        ),
    },
    "Verify": {
        "replay": ("Verify checkpoints against recorded writes.", "replay:replay"),
        "doctor": ("Check threads for damage and other faults.", "doctor:doctor"),
        "secrets": ("Find credentials: keys, tokens and passwords in threads.", "secrets:secrets"),
        "stats": ("Show what nodes write, how long they take, or what tokens cost.", "stats:stats"),
    },
    "Roll back and repair": {
        "rollback": ("Roll a thread back to an earlier checkpoint.", "rollback:rollback"),
        "fork": ("Fork a branch or a new thread from a checkpoint.", "fork:fork"),
        "repair": (
            "Mend messages, values or answers.",
            {
                "messages": ("Answer tool calls that have no result.", "repair_kinds:messages"),
                "values": ("Restore values that are missing or unreadable.", "repair_kinds:values"),
                "writes": (
                    "Drop answers that were used already, or that made a task fail.",
                    "repair_kinds:writes",
                ),
            },
        ),
        "undo": ("Undo the last change of a thread.", "undo:undo"),
        "apply": ("Carry out a saved plan.", "apply:apply"),
        "ops": (
            "List what ckpt changed, and take it back.",
            {
                "list": ("List what ckpt changed, newest first.", "ops:list_"),
                "show": ("Show one operation: what it changed in each thread.", "ops:show"),
                "undo": ("Take back one operation, in all its threads.", "ops:undo"),
                "redo": ("Take back an undo.", "ops:redo"),
                "verify": ("Check the chain of an audit file.", "ops:verify"),
            },
        ),
    },
    "Clean up and archive": {
        "purge": ("Remove old threads, or prune old checkpoints inside them.", "purge:purge"),
        "gc": ("Delete orphaned rows.", "gc:gc"),
        "erase": ("Erase threads, or a person, with all that was made from them.", "erase:erase"),
        "export": ("Write threads to archive files, as JSON, or as tables.", "export:export"),
        "import": ("Restore archived threads, into a store of any layout.", "import_:import_"),
    },
    "Move": {
        "copy": ("Copy threads to another store, of any layout.", "copy:copy"),
        "rekey": ("Encrypt threads with another key, or decrypt them.", "rekey:rekey"),
    },
    "Stores": {
        "du": ("Show disk usage by thread, channel and type.", "du:du"),
        "metrics": ("Print metrics of the store for a monitoring system.", "metrics:metrics"),
        "stores": ("List stores with their layout, size and saver.", "stores:stores"),
        "trust": ("Show what a configuration file would do, ask, and trust it.", "trust:trust_"),
        "completion": (
            "Print or install the completion script of a shell.",
            "completion:completion",
        ),
        "demo": ("Create a small sample store.", "demo:demo"),
    },
}
"""By their panel in the help: a line, the first of the docstring, and the function or the commands
of a group.
"""

MOVED: Mapping[str, str] = {
    "list": "threads list",
    "ls": "threads list",
    "log": "history THREAD",
    "search": "grep PATTERN",
    "find": "threads list --where FILTER",
    "rm": "threads delete THREAD",
    "delete": "threads delete THREAD",
    "resume": "show THREAD",
    "state": "show THREAD",
    "threads show": "show THREAD",
    "tree": "show THREAD --tree",
}
"""Commands and options of former times and of other tools, to what does it here."""


class Ckpt(Group):
    """The `ckpt` command."""

    moved = MOVED


def root() -> Group:
    """Return the `ckpt` command with all others, none of which is imported yet."""
    app = typer.Typer(
        cls=Ckpt,
        callback=global_options,
        help=HELP,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=MARKUP,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    found: Any = get_command(app)
    without_type_of_flags(found.params)
    for panel, commands in COMMANDS.items():
        for name, (line, what) in commands.items():
            found.add_command(_command(found, name, line, what, panel))
    return found  # type: ignore[no-any-return]


def _command(root: Group, name: str, line: str, what: Any, panel: str | None = None) -> Any:
    if isinstance(what, str):
        return LazyCommand(name, what, line, panel)
    group = Ckpt(
        name=name,
        help=line,
        params=root.shared,
        no_args_is_help=True,
        rich_help_panel=panel,
        rich_markup_mode=MARKUP,
    )
    for inner, (text, target) in what.items():
        group.add_command(LazyCommand(inner, target, text))
    return group
