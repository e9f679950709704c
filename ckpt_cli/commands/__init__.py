"""The commands: one module each."""

from collections.abc import Mapping

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
