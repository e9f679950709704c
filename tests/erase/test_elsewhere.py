"""What servers say about their logs and replicas becomes places, also if they say nothing."""

from collections.abc import Mapping
from typing import Any

from ckpt_backends.mongodb.engine import write as mongodb
from ckpt_backends.mysql import database as mysql
from ckpt_backends.postgres import database as postgres
from ckpt_backends.postgres.connect import Notice
from tests.kit.cases import cases


class Answers:
    """A connection that answers queries by a part of their text."""

    def __init__(self, answers: Mapping[str, list[tuple[Any, ...]]]) -> None:
        self._answers = answers

    def attempt(self, query: str, **_: object) -> list[tuple[Any, ...]] | None:
        return next((rows for part, rows in self._answers.items() if part in query), None)


@cases(
    "answers places",
    (
        {"per_table": [(0,)], "log_bin": [(1,)], "SLAVE": [(1,), (2,)], "histogram": [(1,)]},
        ["shared tablespace (ibdata1)", "binary log", "replicas", "histograms of columns"],
    ),
    ({}, ["binary log", "replicas"]),
)
def test_places_of_mysql(answers: Any, places: list[str]) -> None:
    connection: Any = Answers(answers)
    found = [one.place for one in mysql._elsewhere(connection)]
    assert found == ["undo, redo and doublewrite files", *places]


@cases(
    "answers archive places",
    (
        {"archive": [("on",)], "stat_replication": [(2,)], "slots": [(1,)]},
        "archive_mode: on",
        ["standby servers", "replication slots"],
    ),
    ({}, "archive_mode: unknown", ["standby servers", "replication slots"]),
)
def test_places_of_postgres(answers: Any, archive: str, places: list[str]) -> None:
    connection: Any = Answers(answers)
    log, *others = postgres._elsewhere(connection)
    assert archive in log.reason
    assert [one.place for one in others] == places


@cases(
    "hello places",
    ({}, []),
    (
        {"setName": "rs0", "hosts": ["a", "b"], "passives": ["c"]},
        ["oplog", "other members of the replica set"],
    ),
    ({"msg": "isdbgrid"}, ["oplog", "shards"]),
)
def test_places_of_mongodb(hello: dict[str, Any], places: list[str]) -> None:
    found = [one.place for one in mongodb._elsewhere(hello)]
    assert found == ["journal and older versions of documents", *places]


@cases(
    "said expected",
    ("0 dead row versions cannot be removed yet.", ""),
    ("1 dead row version cannot be removed yet.", "1 removed rows"),
    ("tuples: 3 removed, 4 remain, 2 are dead but not yet removable", "2 removed rows"),
    ("0 Zeilen können noch nicht entfernt werden", "does not say"),
)
def test_rows_that_vacuum_keeps(said: str, expected: str) -> None:
    found = postgres._still_seen([Notice(said, is_warning=False)])
    assert expected in found
    assert bool(found) == bool(expected)
