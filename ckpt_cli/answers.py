"""What each command prints with `-o json`: for docs/json.md, docs/schema, and the tests."""

from __future__ import annotations

from collections.abc import Mapping

from ckpt_cli.commands.trust import TRUST, TRUSTED
from ckpt_cli.render.bisect import BISECTION
from ckpt_cli.render.blame import BLAME
from ckpt_cli.render.copy import COPY, EXPORTED, EXPORTED_TABLE, REKEY, RESTORED
from ckpt_cli.render.doctor import EXAMINATION, EXAMINATION_WITH_TYPES, FINDING, TYPE
from ckpt_cli.render.erase import ERASED_ANSWER, ERASURE, VERIFICATION
from ckpt_cli.render.fields import ANY, Schema, Shape, Type, each
from ckpt_cli.render.history import ENTRY, HISTORY, MOVEMENT
from ckpt_cli.render.incidents import FAILURE, FAILURE_GROUPS, WAITING
from ckpt_cli.render.memory import (
    ITEM_ARCHIVE,
    ITEM_EDIT,
    ITEM_HIT,
    ITEM_REMOVAL,
    LISTED_ITEM,
    MEMORY_COPY,
    READ_ITEM,
    SESSION,
)
from ckpt_cli.render.messages import MESSAGE, STATISTICS
from ckpt_cli.render.operations import CHAIN, OPERATION, SHOWN_OPERATION, UNDO_PLAN
from ckpt_cli.render.plan import OUTCOME, PLAN, REPAIR
from ckpt_cli.render.purge import PURGE_SUMMARY, REMOVAL
from ckpt_cli.render.replay import REPLAY, REPLAYED_THREAD, TRANSITION, WRITTEN
from ckpt_cli.render.search import HIT, SECRET, SECRET_KIND
from ckpt_cli.render.show import SHOW_ANSWER, SOURCES
from ckpt_cli.render.stores import LAYOUT, STORE
from ckpt_cli.render.summaries import DOCTOR, ERRORS
from ckpt_cli.render.threads import LISTED
from ckpt_cli.render.timeline import TIMELINE
from ckpt_cli.render.usage import AMOUNTS, DU, METRICS, STATS, STATS_BY
from ckpt_cli.render.value_diff import DIFF
from ckpt_cli.sql.planning import COLUMN, TABLE

_SQL = "The columns of a query; a second column of one name gets `_2`."
ANSWERS: Mapping[str, Type | Shape] = {
    "threads list": each(LISTED),
    "show": SHOW_ANSWER,
    "show --path": ANY,
    "show --tree": each(ENTRY),
    "show --mermaid": each(ENTRY),
    "show --svg": each(ENTRY),
    "show --where": SOURCES,
    "history": each(HISTORY),
    "tail": each(MOVEMENT),
    "tail THREAD": each(ENTRY),
    "messages": each(MESSAGE),
    "messages --stat": STATISTICS,
    "blame": BLAME,
    "grep": each(HIT),
    "stores": each(STORE),
    "stores --layouts": each(LAYOUT),
    "stats": STATS,
    "stats --by": STATS_BY,
    "du": DU,
    **{f"du --by {by}": each(shape) for by, shape in AMOUNTS.items()},
    "metrics": METRICS,
    "sql": each(Type({"type": "object", "description": _SQL}, "JSON")),
    "sql --tables": each(TABLE),
    "sql --schema": each(COLUMN),
    "timeline": TIMELINE,
    "interrupts": each(WAITING),
    "errors": each(FAILURE),
    "errors --summary": ERRORS,
    "errors --by error": each(FAILURE_GROUPS["error"]),
    "errors --by node": each(FAILURE_GROUPS["node"]),
    "rollback THREAD": PLAN,
    "rollback THREADS": each(OUTCOME),
    "repair values THREAD": REPAIR,
    "undo OP": UNDO_PLAN,
    "ops list": each(OPERATION),
    "ops show": SHOWN_OPERATION,
    "ops verify": CHAIN,
    "copy": COPY,
    "import": each(RESTORED),
    "export": each(EXPORTED),
    **dict.fromkeys(
        (f"export --format {form}" for form in ("parquet", "csv", "ndjson")), each(EXPORTED_TABLE)
    ),
    "rekey": REKEY,
    "trust": TRUST,
    "trust --list": each(TRUSTED),
    "memory list": each(LISTED_ITEM),
    "memory show": each(READ_ITEM),
    "memory show KEY": READ_ITEM,
    "memory search": each(ITEM_HIT),
    "memory export": each(READ_ITEM),
    "memory edit": ITEM_EDIT,
    "memory delete": ITEM_REMOVAL,
    "memory copy": MEMORY_COPY,
    "memory import": each(ITEM_ARCHIVE),
    "memory sessions": each(SESSION),
    "memory sessions SESSION": SESSION,
    "bisect": BISECTION,
    "diff": DIFF,
    "diff --writes": WRITTEN,
    "doctor": EXAMINATION,
    "doctor --summary": DOCTOR,
    "doctor --types": EXAMINATION_WITH_TYPES,
    "replay": REPLAY,
    "secrets": each(SECRET),
    "secrets --kinds": each(SECRET_KIND),
    "replay --all": each(REPLAYED_THREAD),
    "replay --all-steps": each(TRANSITION),
    "purge": REMOVAL,
    "purge --summary": PURGE_SUMMARY,
    "gc": REMOVAL,
    "threads delete": REMOVAL,
    "erase": ERASURE,
    "erase --value": ERASED_ANSWER,
    "erase --values-from": ERASED_ANSWER,
    "erase --verify": VERIFICATION,
}
"""By the words of a command line, with an option only where the answer differs from that without.

A word in capitals stands for an argument.
"""
_CHANGES = ("fork", "repair messages", "repair writes", "undo", "redo")
SAME_AS = {
    "replay --match": "replay --all",
    "replay --where": "replay --all",
    "replay --repair": "repair values THREAD",
    **{f"{one} THREAD": "rollback THREAD" for one in _CHANGES},
    **{f"{one} THREADS": "rollback THREADS" for one in (*_CHANGES, "repair values")},
    "redo OP": "undo OP",
}
"""Other words with the answer of these."""

LINES: Mapping[str, Shape] = {"doctor": FINDING, "doctor --types": TYPE}
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
