"""What waits, what failed, what is damaged, and where a text is."""

from __future__ import annotations

from collections.abc import Iterator

from ckpt_backends.errors import UsageError
from ckpt_cli.mcp.asking import OPEN_HINT, Asked, Tool
from ckpt_cli.mcp.pages import Item
from ckpt_cli.mcp.parameters import CHANNELS, NAMESPACE, SINCE, THREADS, WHERE, flag, text
from ckpt_cli.render.doctor import checked_record


def _interrupts(asked: Asked) -> Iterator[Item]:
    found = asked.store.handle.interrupts(
        asked.get("threads"),
        where=asked.where,
        older_than=asked.get("older_than"),
        watch=asked.watch,
    )
    return (one.to_dict() for one in found)


def _errors(asked: Asked) -> Iterator[Item]:
    store, threads, since = asked.store.handle, asked.get("threads"), asked.get("since")
    history, by = asked.get("history", False), asked.get("by")
    if by is not None:
        return iter(
            store.errors_by(
                by, threads, where=asked.where, since=since, history=history, watch=asked.watch
            )
        )
    found = store.errors(
        threads, where=asked.where, since=since, history=history, watch=asked.watch
    )
    return (one.to_dict() for one in found)


def _grep(asked: Asked) -> Iterator[Item]:
    allowed = asked.store.allowed
    channels = asked.get("channels", () if allowed.values else list(allowed.channels))
    if not allowed.values and not allowed.allows(channels):
        # That something matches would tell what is hidden.
        raise UsageError("this server hides the values to search", hint=OPEN_HINT)
    hits = asked.store.whole.grep(
        asked.arguments["pattern"],
        asked.get("threads"),
        fixed=not asked.get("regex", False),
        ignore_case=asked.get("ignore_case", False),
        where=asked.where,
        channels=channels,
        ns=asked.get("ns"),
        head_only=asked.get("head_only", False),
        watch=asked.watch,
    )
    yield from (one.to_dict() for one in hits)
    if hits.missed:
        yield {"missed": hits.missed}


def _doctor(asked: Asked) -> Iterator[Item]:
    found = asked.store.handle.doctor(
        asked.get("threads"),
        where=asked.where,
        deep=asked.get("deep", False),
        watch=asked.watch,
    )
    yield from (one.to_dict() for one in found)
    yield {"complete": found.complete, "checked": checked_record(found.checked)}


TOOLS = (
    Tool(
        "interrupts",
        "List open questions",
        "List the questions for whose answer threads wait, with thread, node and since when.",
        {
            "threads": THREADS,
            "where": WHERE,
            "older_than": text("Only questions older than this, such as 2h."),
        },
        _interrupts,
    ),
    Tool(
        "errors",
        "List failed tasks",
        "List the failed tasks for whose retry threads wait, with node, error and time. With by,"
        " count the same errors together: begin so if there are many.",
        {
            "threads": THREADS,
            "where": WHERE,
            "since": SINCE,
            "history": flag("Include failures that were retried or handled since."),
            "by": text("Count by this.", choices=("error", "node")),
        },
        _errors,
    ),
    Tool(
        "grep",
        "Search values",
        "Search the values, writes, questions and errors of threads for a text. On a large store,"
        " name threads or a filter: every value may have to be read.",
        {
            "pattern": text("The text to search for.", required=True),
            "regex": flag("Take the pattern as a regular expression; its time is limited."),
            "ignore_case": flag("Ignore the difference of upper and lower case."),
            "threads": THREADS,
            "where": WHERE,
            "channels": CHANNELS,
            "ns": NAMESPACE,
            "head_only": flag("Search the newest state only."),
        },
        _grep,
    ),
    Tool(
        "doctor",
        "Check for damage",
        "Check threads for missing or unreadable values, conversations that model APIs refuse,"
        " interrupted steps and more. Each finding names the command that mends it, for a person"
        " to run. The last item tells what was checked.",
        {
            "threads": THREADS,
            "where": WHERE,
            "deep": flag("Decode every value and replay every step; takes long on many threads."),
        },
        _doctor,
    ),
)
