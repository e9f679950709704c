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
    "Read threads and memory": {
        "threads": (
            "List or delete threads.",
            {
                "list": ("List threads, newest first.", "threads:list_"),
                "delete": ("Remove threads, whatever their status.", "delete:delete"),
            },
        ),
        "show": (
            "Show what is wrong with a thread, how to resume it, and its state.",
            "show:show",
        ),
        "history": ("List a thread's checkpoints, newest first.", "history:history"),
        "diff": ("Show what changed between two checkpoints.", "diff:diff"),
        "messages": ("Print the conversation of a thread.", "messages:messages"),
        "grep": ("Search threads for a text.", "grep:grep"),
        "tail": ("Print new checkpoints as they are saved, of all threads or one.", "tail:tail"),
        "memory": (
            "Show, search and change long-term memory; list chat sessions.",
            {
                "list": ("List items by namespace, without values.", "memory:list_"),
                "show": ("Show one item with its value, or all items.", "memory:show"),
                "search": ("Search namespaces, keys and values.", "memory:search"),
                "export": ("Export items with their values as JSON.", "memory:export"),
                "edit": ("Edit a fact or a section of DeerFlow's memory.", "memory_edit:edit"),
                "delete": ("Delete items and their vectors.", "memory_delete:delete"),
                "copy": ("Copy items to another Store of LangGraph.", "memory_copy:copy"),
                "import": ("Restore archived items.", "memory_import:import_"),
                "sessions": (
                    "List an application's chat sessions, or show one.",
                    "memory:sessions",
                ),
            },
        ),
        "tui": ("Browse threads, checkpoints and long-term memory in the terminal.", "tui:tui"),
    },
    "Find out what went wrong": {
        "interrupts": ("List the questions that wait for an answer.", "interrupts:interrupts"),
        "errors": ("List the tasks that failed.", "errors:errors"),
        "blame": ("Show which step and task set a value.", "blame:blame"),
        "bisect": ("Find the first checkpoint where a condition holds.", "bisect:bisect"),
        "replay": ("Verify that a thread's states follow from its tasks' writes.", "replay:replay"),
        "doctor": ("Check threads for damage and other faults.", "doctor:doctor"),
        "report": ("Write an HTML page about a thread, for a ticket.", "report:report"),
    },
    "Measure and query": {
        "stats": ("Show runs, writes, times and tokens of each node.", "stats:stats"),
        "timeline": ("Show how long each step of a thread took.", "timeline:timeline"),
        "du": ("Show disk usage by thread, channel and type.", "du:du"),
        "metrics": ("Print metrics of the store for a monitoring system.", "metrics:metrics"),
        "sql": ("Ask SQL of threads, checkpoints, values and messages.", "sql:sql"),
        "mcp": ("Serve the store to an agent, read-only (MCP).", "mcp:mcp"),
    },
    "Change threads": {
        "rollback": ("Roll a thread back to an earlier checkpoint.", "rollback:rollback"),
        "fork": ("Fork a branch from a checkpoint, edited if wanted.", "fork:fork"),
        "repair": (
            "Mend messages, values or answers that are stored wrongly.",
            {
                "messages": ("Answer tool calls that have no result.", "repair:messages"),
                "values": ("Restore values that are missing or unreadable.", "repair:values"),
                "writes": (
                    "Drop answers that were used already, or that made a task fail.",
                    "repair:writes",
                ),
            },
        ),
        "undo": ("Undo the last change of a thread, or one operation.", "undo:undo"),
        "redo": ("Take back an undo.", "undo:redo"),
        "apply": ("Carry out a saved plan.", "apply:apply"),
        "ops": (
            "List or show what ckpt changed.",
            {
                "list": ("List what ckpt changed, newest first.", "ops:list_"),
                "show": ("Show one operation: what it changed in each thread.", "ops:show"),
                "verify": ("Check the chain of an audit file.", "ops:verify"),
            },
        ),
    },
    "Clean up": {
        "purge": ("Remove old threads, or prune old checkpoints inside them.", "purge:purge"),
        "gc": ("Delete orphaned rows.", "gc:gc"),
    },
    "Erase and encrypt": {
        "secrets": ("Find keys, tokens and passwords in threads and memory.", "secrets:secrets"),
        "erase": (
            "Erase a person, threads or single values for good.",
            "erase:erase",
        ),
        "rekey": ("Encrypt threads with another key, or decrypt them.", "rekey:rekey"),
    },
    "Copy and archive": {
        "copy": ("Copy threads to another store, or to a new thread.", "copy:copy"),
        "export": ("Write threads to archive files, as JSON, or as tables.", "export:export"),
        "import": ("Restore archived threads, into a store of any layout.", "import_:import_"),
    },
    "Set up": {
        "stores": ("List stores with their layout, size and saver.", "stores:stores"),
        "trust": ("Trust a configuration file, after showing what it would do.", "trust:trust_"),
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
    "threads copy": "copy THREAD --as NEW",
    "fork --to": "copy THREAD@REF --as NEW",
    "copy --set": "fork THREAD@REF --set CHANNEL=JSON --as NEW",
    "copy --append": "fork THREAD@REF --append CHANNEL=JSON --as NEW",
    "copy --as-node": "fork THREAD@REF --as-node NODE --as NEW",
    "sessions": "memory sessions",
    "sessions list": "memory sessions",
    "sessions show": "memory sessions SESSION",
    "stats --time": "stats",
    "stats --tokens": "stats --by model",
    "ops undo": "undo OP",
    "ops redo": "redo OP",
    "purge --plan": "apply FILE",
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
    group = Group(
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
