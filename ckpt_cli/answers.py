"""What each command prints with `-o json`: for docs/json.md, docs/schema, and the tests."""

from __future__ import annotations

from collections.abc import Mapping

from ckpt_cli.commands.trust import TRUST, TRUSTED
from ckpt_cli.render import (
    bisect,
    blame,
    compat,
    copy,
    doctor,
    erase,
    history,
    incidents,
    memory,
    messages,
    operations,
    plan,
    purge,
    replay,
    search,
    show,
    stores,
    summaries,
    thread_tests,
    threads,
    timeline,
    usage,
    value_diff,
)
from ckpt_cli.render.fields import Schema, Shape, Type
from ckpt_cli.render.types import ANY, either
from ckpt_cli.sql.planning import COLUMN, TABLE

_SQL = "The columns of a query; a second column of one name gets `_2`."
_ANSWERS: Mapping[str, Type] = {
    "threads list": threads.LISTED.list,
    "show": show.SHOW,
    "show --path": ANY,
    "show --tree": history.ENTRY.list,
    "show --mermaid": history.ENTRY.list,
    "show --svg": history.ENTRY.list,
    "show --where": show.SOURCES,
    "history": history.HISTORY.list,
    "tail": history.MOVEMENT.list,
    "tail THREAD": history.ENTRY.list,
    "messages": messages.MESSAGE.list,
    "messages --stat": messages.STATISTICS,
    "blame": blame.BLAME,
    "grep": search.HIT.list,
    "stores": stores.STORE.list,
    "stores --layouts": stores.LAYOUT.list,
    "stats": usage.STATS,
    "stats --by": usage.STATS_BY,
    "du": usage.DU,
    **{f"du --by {by}": shape.list for by, shape in usage.AMOUNTS.items()},
    "metrics": usage.METRICS,
    "sql": Type({"type": "object", "description": _SQL}).list,
    "sql --tables": TABLE.list,
    "sql --schema": COLUMN.list,
    "timeline": timeline.TIMELINE,
    "interrupts": incidents.WAITING.list,
    "compat": compat.COMPATIBILITY,
    "errors": incidents.FAILURE.list,
    "errors --summary": summaries.ERRORS,
    "errors --by error": incidents.FAILURE_GROUPS["error"].list,
    "errors --by node": incidents.FAILURE_GROUPS["node"].list,
    "errors --by user": incidents.FAILURE_GROUPS["user"].list,
    "errors --by KEY": incidents.FAILURE_GROUPS["metadata"].list,
    "rollback THREAD": plan.PLAN,
    "rollback THREADS": plan.OUTCOME.list,
    "repair values THREAD": plan.REPAIR,
    "undo OP": operations.UNDO_PLAN,
    "ops list": operations.OPERATION.list,
    "ops show": operations.SHOWN_OPERATION,
    "ops verify": operations.CHAIN,
    "copy": copy.COPY,
    "copy --as": either(
        "A copy in the same store: of a thread, of its history, or of that of several threads.",
        copy.DUPLICATE,
        plan.PLAN,
        plan.OUTCOME.list,
    ),
    "import": copy.RESTORED.list,
    "export": copy.EXPORTED.list,
    **dict.fromkeys(
        (f"export --format {form}" for form in ("parquet", "csv", "ndjson")),
        copy.EXPORTED_TABLE.list,
    ),
    "export --as": thread_tests.WRITTEN_TESTS.list,
    "rekey": copy.REKEY,
    "trust": TRUST,
    "trust --list": TRUSTED.list,
    "memory list": memory.LISTED_ITEM.list,
    "memory show": memory.READ_ITEM.list,
    "memory show KEY": memory.READ_ITEM,
    "memory search": memory.ITEM_HIT.list,
    "memory export": memory.READ_ITEM.list,
    "memory edit": memory.ITEM_EDIT,
    "memory delete": memory.ITEM_REMOVAL,
    "memory copy": memory.MEMORY_COPY,
    "memory import": memory.ITEM_ARCHIVE.list,
    "memory sessions": memory.SESSION.list,
    "memory sessions SESSION": memory.SESSION,
    "bisect": bisect.BISECTION,
    "diff": value_diff.DIFF,
    "diff --writes": replay.WRITTEN,
    "doctor": doctor.EXAMINATION,
    "doctor --summary": summaries.DOCTOR,
    "doctor --types": doctor.EXAMINATION_WITH_TYPES,
    "replay": replay.REPLAY,
    "secrets": search.SECRET.list,
    "secrets --kinds": search.SECRET_KIND.list,
    "replay --all": replay.REPLAYED_THREAD.list,
    "replay --all-steps": replay.TRANSITION.list,
    "purge": purge.REMOVAL,
    "purge --summary": purge.PURGE_SUMMARY,
    "gc": purge.REMOVAL,
    "threads delete": purge.REMOVAL,
    "erase": erase.ERASURE,
    "erase --value": erase.ERASED_ANSWER,
    "erase --values-from": erase.ERASED_ANSWER,
    "erase --verify": erase.VERIFICATION,
}
_PLANNED = (
    *("rollback THREAD", "rollback THREADS", "repair values THREAD", "undo OP", "copy"),
    *("copy --as", "import", "rekey", "memory copy", "memory edit", "memory delete"),
    *("memory import", "erase", "erase --value", "purge", "purge --summary"),
)
"""The answers of commands whose plans can be saved."""
ANSWERS: Mapping[str, Type] = {
    **_ANSWERS,
    "apply": either(
        "As the command prints that made the plan.", *map(_ANSWERS.__getitem__, _PLANNED)
    ),
}
"""By the words of a command line, with an option only where the answer differs from that without.

A word in capitals stands for an argument.
"""
_CHANGES = ("fork", "migrate", "repair messages", "repair writes", "undo", "redo")
SAME_AS = {
    "replay --match": "replay --all",
    "replay --where": "replay --all",
    "replay --repair": "repair values THREAD",
    **{f"{one} THREAD": "rollback THREAD" for one in _CHANGES},
    **{f"{one} THREADS": "rollback THREADS" for one in (*_CHANGES, "repair values")},
    "redo OP": "undo OP",
}
"""Other words with the answer of these."""

LINES: Mapping[str, Shape] = {
    "doctor": doctor.FINDING,
    "doctor --types": doctor.TYPE,
    "compat": compat.JUDGED,
}
"""What a line of `-o ndjson` is, where the answer is not a list whose items are the lines."""

_HOME = "https://raw.githubusercontent.com/langgraph-ckpt/ckpt/main/docs/schema"


def schema_of(name: str) -> Schema:
    """Return the JSON Schema of an answer."""
    found = ANSWERS[name].schema
    text = found.get("description") or found.get("items", {}).get("description", "")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"{_HOME}/{file_name(name)}",
        "title": f"ckpt {name}",
        **found,
        "description": text,
    }


def file_name(name: str) -> str:
    """Return the name of the file with the schema of an answer: `errors-by-error.json`."""
    return f"{name.lower().replace(' --', ' ').replace(' ', '-')}.json"
