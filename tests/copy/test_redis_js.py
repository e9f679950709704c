"""`ckpt copy` to and from the documents of LangGraph.js in Redis."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import redis

from ckpt_backends.errors import StoreChanged
from ckpt_backends.model import CheckpointKey, TypedBytes
from ckpt_backends.open_for_writing import create_store
from ckpt_backends.protocol import Store
from ckpt_backends.redis.engine import receiving
from ckpt_backends.registry import open_store
from ckpt_backends.transfer.convert import Conversion
from ckpt_backends.transfer.errors import CannotHold
from ckpt_backends.transfer.form import Language
from ckpt_backends.transfer.parts import Arrival, CheckpointPart, Part, WritePart
from ckpt_backends.transfer.routes import parts_of_rows, route
from ckpt_backends.transfer.sealing import AsStored
from ckpt_backends.url import parse_url
from tests.copy.round_trip import half, receive, stored_parts, sum_of
from tests.plugin import redis_of_its_own
from tests.redis_savers import dump
from tests.restore import restore_javascript_keys
from tests.support import FIXTURES, ckpt

FOLDER = FIXTURES / "js-1.7.3"


@pytest.fixture(scope="module")
def source() -> Iterator[str]:
    """A Redis with the threads of LangGraph.js."""
    with redis_of_its_own(modules=True) as server:
        restore_javascript_keys(FOLDER / "redis.jsonl.gz", server.url)
        yield server.url


@pytest.fixture
def target(redis_stack_url: str) -> str:
    """A Redis with the indexes of LangGraph.js, and no thread."""
    create_store(parse_url(redis_stack_url), Language.JAVASCRIPT)
    return redis_stack_url


def parts_for(source: Store, layout: str, thread_id: str) -> list[Part]:
    """The parts of a thread in the form of a layout."""
    here = source.describe().layout
    way = route(here, layout, Language.JAVASCRIPT)
    parts = parts_of_rows(here, source.rows(thread_id))
    return list(Conversion(way.source, way.target, AsStored()).of_thread(parts))


def thread_ids(url: str) -> list[str]:
    with open_store(url) as store:
        return sorted(one.thread_id for one in store.threads())


def sent_to(source: str, target: str) -> dict[str, list[Part]]:
    """Add all threads that Redis can hold. Return their parts."""
    sent: dict[str, list[Part]] = {}
    refused: dict[str, str] = {}
    with open_store(source) as store:
        for name in [one.thread_id for one in store.threads()]:
            parts = parts_for(store, "redis-js", name)
            try:
                receive(target, Arrival(name, parts))
                sent[name] = parts
            except CannotHold as error:
                refused[name] = error.message
    print(refused)
    return sent


def test_x(source: str, target: str) -> None:
    sent = sent_to(source, target)
    with open_store(target) as store:
        for name, parts in sent.items():
            assert sum_of(stored_parts(store, name)) == sum_of(parts), name
    assert 0
