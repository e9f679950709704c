"""`erase --value` on stores of earlier releases and of LangGraph.js."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ckpt_backends.codec import decode
from ckpt_backends.codec.values import Tagged, Value
from ckpt_backends.erasing.formats import Erasure
from ckpt_backends.registry import open_store
from ckpt_backends.testing.harness import Harness
from ckpt_backends.testing.leaky import erase, places_of, skeleton
from ckpt_cli.core.state import read_body, read_metadata, state_values
from ckpt_cli.core.values import format_path
from ckpt_cli.plans.erase_value import KEPT_WORDS
from tests.kit.command import FIXTURES
from tests.kit.harness import HARNESSES
from tests.kit.opening import empty_store

ERAS = sorted(one.parent.name for one in FIXTURES.glob("*/store.db"))
_KEPT = {"source", "step", "parents", "thread_id", "checkpoint_ns", "run_id", "langgraph_node"}


def contents(url: str, thread_id: str) -> list[Any]:
    """Return all values of a thread: of checkpoints, metadata and writes."""
    found: list[Any] = []
    with open_store(url) as store:
        for ns in store.namespaces(thread_id):
            for one in store.checkpoints(
                thread_id, checkpoint_ns=ns, body=True, metadata=True, values=True
            ):
                body = read_body(one)
                found.append(("body", dict(body.values), body.pending_sends, read_metadata(one)))
            for write in store.writes(thread_id, checkpoint_ns=ns, values=True):
                found.append(("write", write.channel, write.value and decode(write.value)))
    return found


def texts_in(value: Value, path: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], str]]:
    """Yield the texts in a value of plain and long enough texts, with their paths."""
    if isinstance(value, str) and len(value) >= 8 and value not in KEPT_WORDS:
        yield path, value
    elif isinstance(value, dict):
        for key, one in value.items():
            if isinstance(key, str) and key != "id":
                yield from texts_in(one, (*path, key))
    elif isinstance(value, list):
        for index, one in enumerate(value):
            yield from texts_in(one, (*path, index))
    elif isinstance(value, Tagged) and isinstance(value.payload, dict):
        yield from texts_in(value.payload, path)


def without(value: Any, erasure: Erasure) -> Any:
    """Return what becomes of a decoded value."""
    if isinstance(value, str):
        return erasure.replaced(value)
    if isinstance(value, bytes):
        return erasure.replaced_bytes(value)
    if isinstance(value, dict):
        return {
            erasure.replaced_key(key) if isinstance(key, str) else key: without(one, erasure)
            for key, one in value.items()
        }
    if isinstance(value, list | tuple):
        return type(value)(without(one, erasure) for one in value)
    if isinstance(value, Tagged):
        return Tagged(value.type, without(value.payload, erasure))
    return value


def without_in_row(row: Any, erasure: Erasure) -> Any:
    if row[0] == "write":
        return row[0], row[1], without(row[2], erasure)
    kind, values, sends, metadata = row
    return (
        kind,
        {name: without(one, erasure) for name, one in values.items()},
        without(sends, erasure),
        {name: one if name in _KEPT else without(one, erasure) for name, one in metadata.items()},
    )


def targets_of(url: str) -> dict[str, tuple[str, str]]:
    """Return, by thread, the name and the text of one value."""
    found: dict[str, tuple[str, str]] = {}
    with open_store(url) as store:
        for thread in list(store.threads()):
            key = thread.thread_id
            for one in store.checkpoints(
                key, checkpoint_ns="", checkpoint_ids=[thread.head or ""], body=True, values=True
            ):
                values: dict[Value, Value] = dict(state_values(read_body(one)).items())
                for path, text in texts_in(values, ()):
                    found.setdefault(key, (f"{key}:{format_path(path)}", text))
    return found


def check_erased(url: str) -> None:
    """Erase one text of each thread, and compare all values with those before."""
    targets = targets_of(url)
    assert targets
    before = {one: contents(url, one) for one in targets}
    ids = {one: skeleton(url, one) for one in targets}
    erase(url, *(name for name, _ in targets.values()))
    for thread, (_, text) in targets.items():
        erasure = Erasure(frozenset({text}))
        expected = [without_in_row(one, erasure) for one in before[thread]]
        assert contents(url, thread) == expected
        assert skeleton(url, thread) == ids[thread]
        assert places_of(url, thread, text) == []


@pytest.mark.in_ci("lg-0.2.14", "lg-1.2.22]")
@pytest.mark.parametrize(
    "era", [pytest.param(one, marks=() if one in ERAS[:3] else pytest.mark.engines) for one in ERAS]
)
def test_stores_of_earlier_releases(era: str, tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    shutil.copy(FIXTURES / era / "store.db", path)
    path.chmod(0o600)
    check_erased(str(path))


@pytest.mark.engines
@pytest.mark.parametrize(
    "kind",
    [one for one in HARNESSES if one.recording and not one.read_only],
    ids=lambda one: one.name,
)
def test_stores_of_javascript(
    kind: type[Harness], request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    with empty_store(kind, request, tmp_path) as harness:
        harness.restore_recording(frozenset({"chat", "fanout-send", "interrupt-nested", "error"}))
        check_erased(harness.url)
