"""Adds threads to a store as `ckpt copy` does, and reads them back."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from langgraph.checkpoint.sqlite import SqliteSaver

from ckpt_backends.model import Kind, Record
from ckpt_backends.open_for_writing import open_writable
from ckpt_backends.protocol import Store
from ckpt_backends.registry import open_store
from ckpt_backends.testing.filling import quiet
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

SCENES = (
    *("chat", "interrupt-nested", "fanout-send", "subgraph-stateful", "delta-often"),
    *("error-parallel", "fork-update", "zoo-pydantic", "zoo-nested", "two\nlines"),
)
"""Threads with questions, parallel writes, subgraphs, DeltaChannels, forks, and odd ids."""


def sqlite_source(path: Path, names: Iterable[str] = SCENES) -> Path:
    """Fill a file with the threads of some scenarios."""
    with quiet(), SqliteSaver.from_conn_string(str(path)) as saver:
        saver.setup()
        for name in names:
            one = SCENARIOS[name]
            # Otherwise LangGraph may store a value of the next step, if that runs while it stores.
            options = {"durability": "sync"}
            one.drive(ScenarioRun(one.build(saver), one.thread_config(), options))
    return path


def records_for(source: Store, layout: str, thread_id: str) -> list[Record]:
    """The parts of a thread in the form of a layout."""
    here = source.describe().layout
    way = route(here, layout, Language.PYTHON)
    records = records_of_rows(here, source.rows(thread_id))
    return list(Conversion(way.source, way.target, AsStored()).of_thread(records))


def stored_records(store: Store, thread_id: str) -> list[Record]:
    """The parts of a thread that a store has."""
    return list(records_of_rows(store.describe().layout, store.rows(thread_id)))


def receive(url: object, *arrivals: Arrival) -> None:
    """Add threads to a store."""
    with open_writable(parse_url(str(url))) as writable:
        writable.receive(arrivals)


def check_round_trip(source_url: object, url: object, layout: str) -> list[str]:
    """Copy all threads; what is read back equals what was sent. Return their ids."""
    with open_store(str(source_url)) as source:
        names = sorted(one.thread_id for one in source.threads())
        sent = {name: records_for(source, layout, name) for name in names}
    receive(url, *(Arrival(name, parts) for name, parts in sent.items()))
    with open_store(str(url)) as target:
        for name, parts in sent.items():
            assert in_order(stored_records(target, name)) == in_order(parts), name
    return names


def in_order(records: Iterable[Record]) -> list[tuple[Any, ...]]:
    """All that parts hold, and the digests by which a copy is verified.

    Without the order of writes, which a store that is read does not tell.
    """
    return sorted(
        (record_key(one), repr(one._replace(order="")), record_digest(one)) for one in records
    )


def half(records: list[Record]) -> tuple[list[Record], list[Record]]:
    """The parts without the newest checkpoint of the root, and this checkpoint with its writes."""
    newest = max(
        one.key.checkpoint_id
        for one in records
        if one.kind is Kind.CHECKPOINT and not one.key.checkpoint_ns
    )
    late = [one for one in records if record_key(one)[2] == newest]
    return [one for one in records if one not in late], late


def sum_of(records: Iterable[Record]) -> RecordsSum:
    """The sum of parts, by which a copy is verified."""
    found = RecordsSum()
    for one in records:
        found.add(one, record_digest(one))
    return found
