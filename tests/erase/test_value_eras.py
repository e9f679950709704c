"""`erase --value` on stores of earlier releases and of LangGraph.js."""

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ckpt_backends.erasing.formats import MARKER
from ckpt_backends.testing.harness import Harness
from ckpt_backends.testing.leaky import erase, places_of, skeleton
from ckpt_cli.core.values import format_path
from ckpt_cli.plans.erase_value import KEPT_WORDS
from tests.kit.command import FIXTURES, ckpt
from tests.kit.harness import HARNESSES
from tests.kit.opening import empty_store

ERAS = sorted(one.parent.name for one in FIXTURES.glob("*/store.db"))


def texts_in(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[str, str]]:
    """Yield the long enough texts in a printed value, after their paths."""
    if isinstance(value, str) and len(value) > 8 and value not in KEPT_WORDS:
        yield format_path(path), value
    pairs = enumerate(value) if isinstance(value, list) else ()
    for key, one in value.items() if isinstance(value, dict) else pairs:
        if key != "id" and not str(key).startswith("$"):
            yield from texts_in(one, (*path, key))


def exported(url: str) -> dict[str, list[Any]]:
    """Return all that is stored of each thread."""
    found: dict[str, list[Any]] = {}
    for line in ckpt("-s", url, "export", "--all", "--format", "jsonl").out.split("\n")[:-1]:
        record = json.loads(line)
        found.setdefault(record["thread_id"], []).append(record)
    return found


def stored(records: list[Any]) -> str:
    """Return it as a text, but for the lengths of values."""
    return re.sub("'bytes': [0-9]+", "", repr(records))


def check_erased(url: str) -> None:
    """Erase a text of each thread, and compare all values with those before."""
    texts, before = {}, exported(url)
    for thread, records in before.items():
        root = (one for one in records if not one["checkpoint_ns"])
        head = max(root, key=lambda one: str(one["checkpoint_id"]))
        for path, text in texts_in(head["values"]):
            texts[thread] = path, text
    assert texts
    ids = {thread: skeleton(url, thread) for thread in texts}
    erase(url, *(f"{thread}:{path}" for thread, (path, _) in texts.items()))
    after = exported(url)
    for thread, (_, text) in texts.items():
        expected = stored(before[thread]).replace(repr(text)[1:-1], MARKER)
        assert stored(after[thread]).replace('"', "'") == expected.replace('"', "'")
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
