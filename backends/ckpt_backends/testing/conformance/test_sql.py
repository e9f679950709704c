"""Each table of `ckpt sql` has the rows that the JSON of the other commands has."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pytest

from ckpt_backends.testing.conformance.answers import run
from ckpt_backends.testing.filling import FilledStore
from ckpt_cli.api.opening import open as open_handle
from ckpt_cli.api.store import StoreHandle
from ckpt_cli.reading.thread import TriggerInference
from ckpt_cli.sql.database import TableRequest
from ckpt_cli.sql.tables import TABLES

KEYS = ("thread_id", "checkpoint_ns", "checkpoint_id")
OWN = {
    "threads": (),
    "interrupts": (),
    "errors": (),
    "tasks": (),
    "writes": (),
    "checkpoints": ("is_head", "bytes"),
    "values": ("is_head", "version", "type", "bytes"),
    "messages": (
        *("checkpoint_id", "channel", "text", "ts"),
        *("input_tokens", "output_tokens", "total_tokens"),
    ),
}
"""The tables that have a command of their own, and their columns that it does not print."""


@pytest.fixture
def store(filled: FilledStore) -> Iterator[StoreHandle]:
    with open_handle(filled.harness.url) as opened:
        yield opened


def sorted_rows(rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> list[str]:
    """Return rows as texts, in an order of their own; a missing key is as null."""

    def cell(row: Mapping[str, Any], name: str) -> Any:
        value = row.get(name)
        # The text counts the seconds until now.
        return value["code"] if name == "why" and value is not None else value

    return sorted(json.dumps([cell(row, one) for one in columns], sort_keys=True) for row in rows)


def read_rows(
    store: StoreHandle, table: str, columns: Sequence[str], names: Iterable[str]
) -> list[Mapping[str, Any]]:
    """Return the rows of a table as they go to DuckDB, with these columns."""
    around = store._around
    request = TableRequest(table, tuple(columns), around.opening, around.names.prices, around.now)
    reading = request.reading(store._store, TriggerInference(store._store))
    threads = [store[name].reader.thread for name in names]
    return [{one: row.get(one) for one in columns} for row in TABLES[table].rows(reading, threads)]


def answers(filled: FilledStore, store: StoreHandle) -> dict[str, list[Mapping[str, Any]]]:
    """Return what commands print, as rows of the tables."""
    listed = run(filled, "threads", "list", "--all", "--long", "-o", "json").json
    found: dict[str, list[Mapping[str, Any]]] = {one: [] for one in OWN}
    for name in filled.sampled_threads:
        thread = store[name]
        found["threads"] += [one for one in listed if one["thread_id"] == name]
        found["interrupts"] += thread.interrupts()
        found["errors"] += [{**one, "failed_at": one["at"]} for one in thread.errors(history=True)]
        found["messages"] += [{**one, "thread_id": name} for one in thread.head.messages]
        for one in thread.history(all_ns=True):
            entry = one.listed().to_dict()
            found["checkpoints"].append(entry)
            at = {key: entry[key] for key in (*KEYS, "ts", "step")}
            found["tasks"] += [{**at, **task, "task_id": task["id"]} for task in entry["tasks"]]
        for shown in thread.export():
            at = {key: shown[key] for key in (*KEYS, "ts", "step")}
            found["writes"] += [
                {"encrypted": False, **at, **write, "written_at": write.get("at")}
                for write in shown["writes"]
            ]
            for channel, value in shown["values"].items():
                how = shown["rebuilt"].get(channel)
                found["values"].append({**at, "channel": channel, "value": value, "rebuilt": how})
    return found


def test_tables_have_the_rows_of_the_other_answers(filled: FilledStore, store: StoreHandle) -> None:
    want, names = answers(filled, store), list(filled.sampled_threads)
    for table, own in OWN.items():
        columns = [one for one in TABLES[table].names if one not in own]
        assert sorted_rows(read_rows(store, table, columns, names), columns) == sorted_rows(
            want[table], columns
        ), table


@pytest.mark.nightly
def test_fewer_columns_are_those_of_all(filled: FilledStore, store: StoreHandle) -> None:
    """What is left unread changes nothing about the rest."""
    names = list(filled.sampled_threads)
    for table in ("checkpoints", "tasks", "writes", "values"):
        every = TABLES[table]
        whole = read_rows(store, table, every.names, names)
        for need in dict.fromkeys(one.needs for one in every.columns):
            lean = [*KEYS, *(one.name for one in every.columns if one.needs is need)]
            found = read_rows(store, table, lean, names)
            assert sorted_rows(found, lean) == sorted_rows(whole, lean), (table, need)
        without = [one for one in every.names if one not in {"node", "task_path"}]
        found = read_rows(store, table, without, names)
        assert sorted_rows(found, without) == sorted_rows(whole, without), table


def test_a_query_answers_from_all_threads(filled: FilledStore) -> None:
    pytest.importorskip("duckdb")
    kinds = ("input", "output", "cache_read", "cache_creation", "reasoning", "total")
    sums = ", ".join(f"sum({one}) AS {one}" for one in kinds)
    query = f"SELECT model, thread_id, count(*) AS messages, {sums} FROM usage GROUP BY ALL"
    found = run(filled, "sql", query, "-o", "json").json
    stats = run(filled, "stats", "--by", "model,thread", "-o", "json").json
    columns = ("model", "thread_id", "messages", *kinds)
    assert sorted_rows(found, columns) == sorted_rows(stats["by"], columns)
