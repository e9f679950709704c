"""The table of commands."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import typer
from typer.main import get_command

from ckpt_cli.commands import MOVED
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


COMMANDS: Mapping[str, Mapping[str, str]] = {
    "Read threads and memory": {
        "threads": "List or delete threads.",
        "threads list": "List threads, newest first.",
        "threads delete": "Remove threads, whatever their status.",
        "show": "Show what is wrong with a thread, how to resume it, and its state.",
        "history": "List a thread's checkpoints, newest first.",
        "diff": "Show what changed between two checkpoints.",
        "messages": "Print the conversation of a thread.",
        "grep": "Search values, questions, errors and writes for a text.",
        "tail": "Print new checkpoints as they are saved, of all threads or one.",
        "memory": "Show, search and change long-term memory; list chat sessions.",
        "memory list": "List items by namespace, without values.",
        "memory show": "Show one item with its value, or all items.",
        "memory search": "Search namespaces, keys and values.",
        "memory export": "Export items with their values as JSON.",
        "memory edit": "Edit a fact or a section of DeerFlow's memory.",
        "memory delete": "Delete items and their vectors.",
        "memory copy": "Copy items to another Store of LangGraph.",
        "memory import": "Restore archived items.",
        "memory sessions": "List an application's chat sessions, or show one.",
        "tui": "Browse threads, checkpoints and long-term memory in the terminal.",
    },
    "Find out what went wrong": {
        "interrupts": "List the questions that wait for an answer.",
        "compat": "Tell which threads another version of their graph would break.",
        "errors": "List the tasks that failed.",
        "blame": "Show which step and task set a value.",
        "bisect": "Find the first checkpoint where a condition holds.",
        "replay": "Verify that a thread's states follow from its tasks' writes.",
        "doctor": "Check threads for damage and other faults.",
        "report": "Write an HTML page about a thread, for a ticket.",
    },
    "Measure and query": {
        "stats": "Show runs, writes, times and tokens of each node.",
        "timeline": "Show how long each step of a thread took.",
        "du": "Show disk usage by thread, channel and type.",
        "metrics": "Print metrics of the store for a monitoring system.",
        "sql": "Query threads, checkpoints, values and messages with SQL.",
        "mcp": "Serve the store to an agent, read-only (MCP).",
    },
    "Change threads": {
        "rollback": "Roll a thread back to an earlier checkpoint.",
        "fork": "Fork a branch from a checkpoint, edited if wanted.",
        "migrate": "Let threads resume in another version of their graph.",
        "repair": "Mend messages, values or answers that are stored wrongly.",
        "repair messages": "Answer tool calls that have no result.",
        "repair values": "Restore values that are missing or unreadable.",
        "repair writes": "Drop answers that were used already, or that made a task fail.",
        "undo": "Undo the last change of a thread, or one operation.",
        "redo": "Redo what an undo took back.",
        "apply": "Carry out a saved plan.",
        "ops": "List or show what ckpt changed.",
        "ops list": "List what ckpt changed, newest first.",
        "ops show": "Show one operation: what it changed in each thread.",
        "ops verify": "Check the chain of an audit file.",
    },
    "Clean up": {
        "purge": "Remove old threads, or prune old checkpoints inside them.",
        "gc": "Delete rows that nothing refers to.",
    },
    "Erase and encrypt": {
        "secrets": "Find keys, tokens and passwords in threads and memory.",
        "erase": "Erase a person, threads or single values for good.",
        "rekey": "Encrypt threads with another key, or decrypt them.",
    },
    "Copy and archive": {
        "copy": "Copy threads to another store, or to a new thread.",
        "export": "Write threads to archive files, as JSON, as tables, or as tests.",
        "import": "Restore archived threads, into a store of any layout.",
    },
    "Set up": {
        "stores": "List stores with their layout, size and saver.",
        "trust": "Trust a configuration file, after showing what it would do.",
        "completion": "Print or install the completion script of a shell.",
        "demo": "Create a small sample store.",
    },
}
"""By their panel in the help, each command and group with its line, the first of the docstring.

`ckpt memory list` is `list_` in `commands/memory.py`.
"""
ELSEWHERE = {"threads delete": "delete"}
"""Commands that are not in the module of their group: a list need not load what removes."""


@cache
def root() -> Group:
    """Return the `ckpt` command with all others, none of which is imported yet."""
    app = typer.Typer(
        cls=Group,
        callback=global_options,
        help=HELP,
        invoke_without_command=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=MARKUP,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    found: Any = get_command(app)
    found.moved = MOVED
    without_type_of_flags(found.params)
    for panel, commands in COMMANDS.items():
        for words, line in commands.items():
            group, _, name = words.rpartition(" ")
            if group:
                module = ELSEWHERE.get(words, group)
                found.commands[group].add_command(LazyCommand(name, line, module=module))
            elif any(other.startswith(f"{words} ") for other in commands):
                found.add_command(_group(name, line, panel, found.shared))
            else:
                found.add_command(LazyCommand(name, line, panel))
    return found  # type: ignore[no-any-return]


def _group(name: str, line: str, panel: str, shared: list[Any]) -> Group:
    more: Any = {"rich_help_panel": panel, "rich_markup_mode": MARKUP, "no_args_is_help": True}
    return Group(name=name, help=line, params=shared, **more)
