"""Whatever bytes a row holds, the deep checks end, and name that row if it cannot be read."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.doctor.sweeping import sweep_url
from tests.kit.planting.steps import make_store

ROWS = {
    "checkpoint": "UPDATE checkpoints SET type = ?, checkpoint = ? WHERE checkpoint_id = ?",
    "metadata": "UPDATE checkpoints SET type = coalesce(?, type), metadata = ?"
    " WHERE checkpoint_id = ?",
    "write": "UPDATE writes SET type = ?, value = ? WHERE checkpoint_id = ?",
}
TAGS = ("msgpack", "json", "pickle", "bytes", "null", "empty", "msgpack+aes", "int", "")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("garbage") / "store.db"
    make_store(path)
    return path


def mutated(data: bytes, changes: list[tuple[int, int]]) -> bytes:
    """Replace single bytes."""
    found = bytearray(data)
    for place, byte in changes:
        found[place % len(found)] = byte
    return bytes(found)


@example(step=7, row="checkpoint", tag="msgpack", made=b"\xc1")
@example(step=0, row="write", tag="msgpack", made=b"")
@example(step=3, row="metadata", tag="json", made=b'{"step": "x", "parents": []}')
@example(step=3, row="metadata", tag="json", made=b"[]")
@example(step=9, row="checkpoint", tag="msgpack", made=b"\x81\xaechannel_values\x01")
@example(step=9, row="checkpoint", tag="json", made=b'{"channel_versions": {"a": 1e999}}')
@given(
    step=st.integers(0, 14),
    row=st.sampled_from(sorted(ROWS)),
    tag=st.sampled_from(TAGS),
    made=st.binary(max_size=60)
    | st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 255)), min_size=1, max_size=4),
)
def test_garbage_is_survived(store: Path, step: int, row: str, tag: str, made: Any) -> None:
    with closing(sqlite3.connect(store)) as db:
        ids = [one for (one,) in db.execute("SELECT checkpoint_id FROM checkpoints ORDER BY 1")]
        saved = list(db.execute("SELECT rowid, type, checkpoint, metadata FROM checkpoints"))
        writes = list(db.execute("SELECT rowid, type, value FROM writes"))
        data = made
        if isinstance(made, list):
            query = "SELECT checkpoint FROM checkpoints WHERE checkpoint_id = ?"
            ((body,),) = db.execute(query, [ids[step]])
            data, tag = mutated(body, made), "msgpack"
        with db:
            db.execute(ROWS[row], [tag, data, ids[step]])
        try:
            found, _ = sweep_url(str(store))
        finally:
            with db:
                restore = "UPDATE checkpoints SET type = ?2, checkpoint = ?3, metadata = ?4"
                db.executemany(f"{restore} WHERE rowid = ?1", saved)
                db.executemany("UPDATE writes SET type = ?2, value = ?3 WHERE rowid = ?1", writes)
    for one in found:
        assert one.checkpoint_id in ids
        assert len(one.detail) < 200
