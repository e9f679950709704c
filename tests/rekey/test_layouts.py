"""The official library reads rekeyed threads with the new key, and only with that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ckpt_backends.testing.harness import Harness
from tests.kit.command import ckpt
from tests.kit.encrypted import KEY, NEW, key_of, types_of
from tests.kit.harness import HARNESSES
from tests.kit.official import fill, what_follows, what_is_read
from tests.rekey.conftest import Places

SCENARIOS = frozenset({"chat", "interrupt-parallel", "delta-rarely"})
"""Messages, waiting questions and a DeltaChannel."""
FAST = {"sqlite"}
OTHERS = {"postgres", "mysql", "langgraph-dev", "mongodb", "valkey", "dynamodb"}
OTHERS |= {"redis-plain", "redis-hash"}
SLOW = {"mongodb", "dynamodb", "redis-plain", "redis-hash"}
"""Test servers in Python, and layouts beside another one of their engine."""
BY_ARRIVAL = {"valkey", "redis-plain", "redis-hash"}
"""Their savers return the writes of parallel tasks in the order of their arrival."""


def _layouts() -> list[Any]:
    found = []
    for kind in HARNESSES:
        if kind.name in FAST:
            found.append(pytest.param(kind, id=kind.name))
        elif kind.name in OTHERS:
            tier = pytest.mark.slow if kind.name in SLOW else pytest.mark.engines
            found.append(pytest.param(kind, id=kind.name, marks=tier))
    return found


def fails(harness: Harness, name: str, key: bytes | None) -> bool:
    """Return whether the library cannot read a thread with a key."""
    try:
        with key_of(harness, key):
            what_is_read(harness, name)
    except Exception:
        return True
    return False


@pytest.mark.parametrize("kind", _layouts())
def test_the_library_reads_what_was_rekeyed(
    kind: type[Harness], places: Places, old_key: Path, new_key: Path
) -> None:
    harness = places(kind)
    with key_of(harness, KEY):
        source = fill(harness, SCENARIOS)
    words = ("-s", harness.url, "rekey", "--all", "--yes", "-o", "json")
    done = ckpt(*words, "--aes-key-file", old_key, "--new-key-file", new_key)
    assert done.code == 0, done.err
    assert done.json["verified"]
    assert done.json["threads"] == len(SCENARIOS)
    assert done.json["rekeyed"] == done.json["values"] > 0
    for name in SCENARIOS:
        with key_of(harness, NEW):
            assert what_is_read(harness, name) == source.read[name]
        assert fails(harness, name, KEY)
    again = ckpt(*words, "--aes-key-file", old_key, "--new-key-file", new_key).json
    assert (again["rekeyed"], again["done_before"]) == (0, done.json["rekeyed"])
    decrypted = ckpt(*words, "--aes-key-file", new_key, "--decrypt")
    assert decrypted.json["rekeyed"] == done.json["rekeyed"], decrypted.err
    for name in SCENARIOS:
        assert not any(tag.endswith("+aes") for tag in types_of(harness.url, name))
        assert what_is_read(harness, name) == source.read[name]
    encrypted = ckpt(*words, "--encrypt", "--new-key-file", old_key)
    assert encrypted.json["rekeyed"] == done.json["values"], encrypted.err
    for name in SCENARIOS:
        with key_of(harness, KEY):
            assert what_is_read(harness, name) == source.read[name]
            resumed = what_follows(harness, name, name, source.inputs[name])
            if not (kind.name in BY_ARRIVAL and name == "delta-rarely"):
                assert resumed == source.resumed[name]
