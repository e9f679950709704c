"""What each command prints with `-o json`: for docs/json.md, docs/schema, and the tests."""

from __future__ import annotations

from collections.abc import Mapping

from ckpt_cli.commands.trust import TRUST, TRUSTED
from ckpt_cli.render.bisect import BISECTION
from ckpt_cli.render.blame import BLAME
from ckpt_cli.render.copy import COPY, EXPORTED, EXPORTED_TABLE, REKEY, RESTORED
from ckpt_cli.render.doctor import EXAMINATION, EXAMINATION_WITH_TYPES, FINDING, TYPE
from ckpt_cli.render.erase import ERASED_ANSWER, ERASURE, VERIFICATION
from ckpt_cli.render.fields import Schema, Shape, Type
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
from ckpt_cli.render.show import SHOW, SOURCES
from ckpt_cli.render.stores import LAYOUT, STORE
from ckpt_cli.render.summaries import DOCTOR, ERRORS
from ckpt_cli.render.threads import LISTED
from ckpt_cli.render.timeline import TIMELINE
from ckpt_cli.render.types import ANY
from ckpt_cli.render.usage import AMOUNTS, DU, METRICS, STATS, STATS_BY
from ckpt_cli.render.value_diff import DIFF
from ckpt_cli.sql.planning import COLUMN, TABLE

_SQL = "The columns of a query; a second column of one name gets `_2`."
ANSWERS: Mapping[str, Type] = {
    "threads list": LISTED.list,
    "show": SHOW,
    "show --path": ANY,
    "show --tree": ENTRY.list,
    "show --mermaid": ENTRY.list,
    "show --svg": ENTRY.list,
    "show --where": SOURCES,
    "history": HISTORY.list,
    "tail": MOVEMENT.list,
    "tail THREAD": ENTRY.list,
    "messages": MESSAGE.list,
    "messages --stat": STATISTICS,
    "blame": BLAME,
    "grep": HIT.list,
    "stores": STORE.list,
    "stores --layouts": LAYOUT.list,
    "stats": STATS,
    "stats --by": STATS_BY,
    "du": DU,
    **{f"du --by {by}": shape.list for by, shape in AMOUNTS.items()},
    "metrics": METRICS,
    "sql": Type({"type": "object", "description": _SQL}).list,
    "sql --tables": TABLE.list,
    "sql --schema": COLUMN.list,
    "timeline": TIMELINE,
    "interrupts": WAITING.list,
    "errors": FAILURE.list,
    "errors --summary": ERRORS,
    "errors --by error": FAILURE_GROUPS["error"].list,
    "errors --by node": FAILURE_GROUPS["node"].list,
    "rollback THREAD": PLAN,
    "rollback THREADS": OUTCOME.list,
    "repair values THREAD": REPAIR,
    "undo OP": UNDO_PLAN,
    "ops list": OPERATION.list,
    "ops show": SHOWN_OPERATION,
    "ops verify": CHAIN,
    "copy": COPY,
    "import": RESTORED.list,
    "export": EXPORTED.list,
    **dict.fromkeys(
        (f"export --format {form}" for form in ("parquet", "csv", "ndjson")), EXPORTED_TABLE.list
    ),
    "rekey": REKEY,
    "trust": TRUST,
    "trust --list": TRUSTED.list,
    "memory list": LISTED_ITEM.list,
    "memory show": READ_ITEM.list,
    "memory show KEY": READ_ITEM,
    "memory search": ITEM_HIT.list,
    "memory export": READ_ITEM.list,
    "memory edit": ITEM_EDIT,
    "memory delete": ITEM_REMOVAL,
    "memory copy": MEMORY_COPY,
    "memory import": ITEM_ARCHIVE.list,
    "memory sessions": SESSION.list,
    "memory sessions SESSION": SESSION,
    "bisect": BISECTION,
    "diff": DIFF,
    "diff --writes": WRITTEN,
    "doctor": EXAMINATION,
    "doctor --summary": DOCTOR,
    "doctor --types": EXAMINATION_WITH_TYPES,
    "replay": REPLAY,
    "secrets": SECRET.list,
    "secrets --kinds": SECRET_KIND.list,
    "replay --all": REPLAYED_THREAD.list,
    "replay --all-steps": TRANSITION.list,
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
