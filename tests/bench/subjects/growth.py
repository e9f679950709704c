"""How cost grows: with checkpoints, with the steps of one thread, with the size of one value."""

from __future__ import annotations

from tests.bench.declared import Measurement, Subject, ckpt

_COMMANDS = {
    "threads list (50)": ("threads", "list"),
    "threads list --all -o json": ("threads", "list", "--all", "-o", "json"),
    "interrupts": ("interrupts",),
    "show THREAD": ("show", "{thread}"),
    "show THREAD --tree": ("show", "{thread}", "--tree"),
    "history THREAD": ("history", "{thread}"),
    "history THREAD --limit 50": ("history", "{thread}", "--limit", "50"),
    "replay THREAD --verify": ("replay", "{thread}", "--verify"),
    "grep THREAD, no hit": ("grep", "-F", "zebra finch", "{thread}"),
    "grep, no hit": ("grep", "-F", "zebra finch"),
    "doctor": ("doctor",),
}
_STORES = (
    *("sqlite grown 0", "sqlite grown 1", "sqlite grown 2", "sqlite one thread"),
    *("sqlite one value", "postgres grown 0", "postgres grown 1", "postgres grown 2"),
)
SUBJECT = Subject(
    "growth",
    "how cost grows",
    [
        Measurement(what=what, store=store, ours=ckpt(*words), rounds=0, limit=60)
        for store in _STORES
        for what, words in _COMMANDS.items()
    ],
    grows=True,
)
