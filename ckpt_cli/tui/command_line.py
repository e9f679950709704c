"""Texts to copy: command lines for what the screen shows, refs and configs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from glob import escape

from ckpt_backends.memory import ItemKey
from ckpt_backends.model import CheckpointKey
from ckpt_backends.shell import command
from ckpt_cli.core.memory import format_namespace
from ckpt_cli.core.resume import UserMetadata
from ckpt_cli.reading.graphs import GraphPaths
from ckpt_cli.tui.panes.threads import ThreadFilter, is_pattern
from ckpt_cli.tui.tabs.content import CheckpointTab

_WORDS: dict[CheckpointTab, tuple[str, ...]] = {
    "state": ("show",),
    "diff": ("diff",),
    "writes": ("diff", "--writes"),
    "messages": ("messages",),
    "metadata": ("show", "--metadata"),
    "raw": ("show", "--raw"),
}


def tab_command(
    store: Sequence[str], tab: CheckpointTab, place: CheckpointKey, base: CheckpointKey | None
) -> str | None:
    """Return the command that prints a tab of a checkpoint; a diff starts at `base`, if given.

    None for a diff of two subgraph calls, because `ckpt diff` takes one namespace.
    """
    words = *_WORDS[tab], *_inside(place.checkpoint_ns)
    if tab != "diff" or base is None:
        return command("ckpt", *store, *words, ids=[ref(place)])
    if base.checkpoint_ns != place.checkpoint_ns:
        return None
    return command("ckpt", *store, *words, ids=[ref(base), ref(place)])


def value_command(store: Sequence[str], place: CheckpointKey, path: str) -> str:
    """Return the command that prints a value of a checkpoint."""
    words = "show", *_inside(place.checkpoint_ns), "--path", path
    return command("ckpt", *store, *words, ids=[ref(place)])


def timeline_command(store: Sequence[str], place: CheckpointKey) -> str:
    """Return the command that prints the times of the branch up to a checkpoint."""
    return command("ckpt", *store, "timeline", *_inside(place.checkpoint_ns), ids=[ref(place)])


def tree_command(store: Sequence[str], thread_id: str, ns: str | None) -> str:
    """Return the command that draws a thread's tree."""
    return command("ckpt", *store, "show", "--tree", *_inside(ns), ids=[thread_id])


def _inside(ns: str | None) -> Sequence[str]:
    return ["--ns", ns] if ns else []


def list_command(store: Sequence[str], wanted: ThreadFilter) -> str:
    """Return the command that lists the threads of a filter."""
    words = [*store, "threads", "list", "--all"]
    for one in sorted(wanted.status):
        words += ["--status", one]
    if wanted.user is not None:
        words += ["--user", wanted.user]
    if wanted.text:
        words += ["--match", match_of(wanted.text)]
    if wanted.written:
        words += ["--where", wanted.written]
    return command("ckpt", *words)


def purge_command(store: Sequence[str], wanted: ThreadFilter) -> str:
    """Return the command that shows what a purge by a filter would remove."""
    return command("ckpt", *store, "purge", "--where", wanted.written, "--dry-run")


def write_command(store: Sequence[str]) -> str:
    """Return the command that starts a screen that can change the store."""
    return command("ckpt", *store, "tui", "--write")


def match_of(text: str) -> str:
    """Return the shell pattern for the text of a filter."""
    return text if is_pattern(text) else f"*{escape(text)}*"


def ref(place: CheckpointKey) -> str:
    """Return a checkpoint as THREAD@REF."""
    return f"{place.thread_id}@{place.checkpoint_id}"


def check_command(store: Sequence[str], thread_id: str, *, deep: bool) -> str:
    """Return the command that prints the findings of a thread."""
    return command("ckpt", *store, "doctor", *(["--deep"] if deep else []), ids=[thread_id])


def compat_command(store: Sequence[str], graphs: GraphPaths, thread_id: str) -> str:
    """Return the command that prints what a new graph does to a thread."""
    old = () if graphs.old is None else ("--from", str(graphs.old))
    words = "compat", str(graphs.new), *old, "--match", escape(thread_id)
    return command("ckpt", *store, *words)


def errors_command(store: Sequence[str], thread_id: str) -> str:
    """Return the command that lists all failed tasks of a thread."""
    return command("ckpt", *store, "errors", "--history", ids=[thread_id])


def config(place: CheckpointKey, metadata: UserMetadata) -> str:
    """Return the config dict with which a graph reads or resumes a checkpoint."""
    found = {"configurable": place._asdict(), **({"metadata": metadata} if metadata else {})}
    return json.dumps(found, ensure_ascii=False)


def memory_command(memory: Sequence[str], key: ItemKey) -> str:
    """Return the command that prints a memory item."""
    namespace = ["--namespace", format_namespace(key.namespace)]
    return command("ckpt", *memory, "memory", "show", *namespace, ids=[key.key])


def thread_memory_command(store: Sequence[str], memory: str, thread_id: str) -> str:
    """Return the command that prints a thread with its memory items."""
    return command("ckpt", *store, "show", "--memory", memory, ids=[thread_id])
