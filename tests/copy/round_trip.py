"""Adds threads to a store as `ckpt copy` does, and reads them back."""

import json
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

from langgraph.checkpoint.sqlite import SqliteSaver

from ckpt_backends.model import Kind, Record
from ckpt_backends.open_for_writing import open_writable
from ckpt_backends.protocol import Store
from ckpt_backends.registry import open_store
from ckpt_backends.testing.filling import quiet
from ckpt_backends.testing.harness import Harness
from ckpt_backends.testing.scenarios.catalog import SCENARIOS
from ckpt_backends.testing.scenarios.running import ScenarioRun
from ckpt_backends.transfer.convert import Conversion
from ckpt_backends.transfer.copying import (
    Arrival,
    RecordsSum,
    record_digest,
    record_key,
    records_of_rows,
    route,
)
from ckpt_backends.transfer.form import Language
from ckpt_backends.transfer.sealing import AsStored
from ckpt_backends.url import parse_url
from tests.kit.command import ckpt
from tests.kit.pairs import creating, form_of


def run_scenarios(saver: Any, *names: str) -> None:
    with quiet():
        for one in map(SCENARIOS.__getitem__, names):
            # Otherwise LangGraph may store a value of the next step, if that runs while it stores.
            one.drive(ScenarioRun(one.build(saver), one.thread_config(), {"durability": "sync"}))


def sqlite_source(path: Path, names: Iterable[str]) -> Path:
    with SqliteSaver.from_conn_string(str(path)) as saver:
        saver.setup()
        run_scenarios(saver, *names)
    return path


def records_for(
    source: Store | str | Path, layout: str, thread_id: str, language: Language = Language.PYTHON
) -> list[Record]:
    """The parts of a thread in the form of a layout."""
    if isinstance(source, str | Path):
        with open_store(str(source)) as store:
            return records_for(store, layout, thread_id, language)
    here = source.describe().layout
    way = route(here, layout, language)
    records = records_of_rows(here, source.rows(thread_id))
    return list(Conversion(way.source, way.target, AsStored()).of_thread(records))


def stored_records(store: Store, thread_id: str) -> list[Record]:
    return list(records_of_rows(store.describe().layout, store.rows(thread_id)))


def receive(url: object, *arrivals: Arrival) -> None:
    with open_writable(parse_url(str(url))) as writable:
        writable.receive(arrivals)


def check_round_trip(
    source_url: object, url: object, layout: str, only: Collection[str] | None = None
) -> list[str]:
    """Copy threads; what is read back equals what was sent. Return their ids."""
    with open_store(str(source_url)) as source:
        names = sorted(one.thread_id for one in source.threads())
        names = names if only is None else [one for one in names if one in only]
        sent = {name: records_for(source, layout, name) for name in names}
        paths = {(one.task_id, one.task_path) for name in names for one in source.writes(name)}
    assert sent
    if form_of(layout).has_task_paths:
        writes = [one for name in names for one in sent[name] if one.kind is Kind.WRITE]
        assert {(one.task_id, one.task_path) for one in writes} == paths
    receive(url, *(Arrival(name, parts) for name, parts in sent.items()))
    for name, parts in sent.items():
        check_stored(url, name, parts)
    return names


def copy_all(source: Harness, target: Harness) -> dict[str, str]:
    """Copy all threads. Return the reasons for those that were left out, by id."""
    words = ["copy", "--all", "--to", target.url, "--yes", "-o", "json", *creating(target)]
    done = ckpt("-s", source.url, *words)
    assert done.code in {0, 7}, done.err
    report = json.loads(done.out)
    assert report["verified"]
    skipped = {one["thread_id"]: one["reason"] for one in report["skipped"]}
    assert all(skipped.values())
    return skipped


def check_told(store: Store, thread_id: str, records: list[Record]) -> None:
    found = {one.key: one for one in records if one.kind is Kind.CHECKPOINT}
    told = list(store.checkpoints(thread_id, body=True, metadata=True))
    assert found.keys() == {one.key for one in told}
    for one in told:
        record = found[one.key]
        assert one.body is not None
        assert record.value == one.body or json.loads(record.value.data) == json.loads(
            one.body.data
        )
        assert record.metadata == one.metadata
        assert one.parent_checkpoint_id in {record.parent, None}
    names = ("key", "task_id", "task_path", "idx", "channel", "value")
    writes = [one for one in records if one.kind is Kind.WRITE]
    assert sorted(repr([getattr(one, name) for name in names]) for one in writes) == sorted(
        repr([getattr(one, name) for name in names]) for one in store.writes(thread_id, values=True)
    )


def in_order(records: Iterable[Record]) -> list[tuple[Any, ...]]:
    """All that parts hold, and the digests by which a copy is verified.

    Without the order of writes, which a store that is read does not tell. RedisJSON spells JSON in
    its own way, so that its digest counts.
    """
    return sorted(
        (record_key(one), _held(one), one.expires_at, record_digest(one)) for one in records
    )


def _held(record: Record) -> str:
    is_respelled = "redis-json" in {getattr(record.value, "type", ""), record.metadata.type}
    return "" if is_respelled else repr(record._replace(order=""))


def check_stored(url: object, thread_id: str, records: Iterable[Record]) -> None:
    with open_store(str(url)) as store:
        assert in_order(stored_records(store, thread_id)) == in_order(records)


def newest_of(records: Iterable[Record]) -> str:
    return max(
        one.key.checkpoint_id
        for one in records
        if one.kind is Kind.CHECKPOINT and not one.key.checkpoint_ns
    )


def half(records: list[Record]) -> tuple[list[Record], list[Record]]:
    """The parts without the newest checkpoint of the root, and this checkpoint with its writes."""
    newest = newest_of(records)
    late = [one for one in records if record_key(one)[2] == newest]
    return [one for one in records if one not in late], late


def sum_of(records: Iterable[Record], *, any_order: bool = False) -> RecordsSum:
    found = RecordsSum()
    for one in records:
        found.add(one, record_digest(one, any_order=any_order))
    return found
