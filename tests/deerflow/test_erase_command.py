"""`ckpt erase` removes the facts of a thread from DeerFlow's memory, in both of its forms."""

from __future__ import annotations

import json
from pathlib import Path

from tests.kit.command import ckpt
from tests.kit.savers.deerflow import THREAD, write_fact


def bytes_below(folder: Path) -> bytes:
    return b"".join(one.read_bytes() for one in sorted(folder.rglob("*")) if one.is_file())


def test_facts_go_with_their_thread(base: Path, store: Path) -> None:
    front = f"id: fact_1\nsource:\n  type: thread\n  threadId: {THREAD}"
    mine = write_fact(base, "anna", "coder", "fact_1", front, "She works at Canary Ltd.")
    front = "id: fact_2\nsource:\n  type: thread\n  threadId: another"
    other = write_fact(base, "anna", "coder", "fact_2", front, "Likes tea.")
    before = other.read_bytes()
    found = ckpt("-s", store, "erase", THREAD, "--yes", "-o", "json", "--no-mentions").json
    items = {one["kind"]: one["items"] for one in found["places"] if one["state"] == "erased"}
    assert items == {"memory": 3, "threads": 1}
    assert found["complete"] is True
    assert not mine.exists()
    assert other.read_bytes() == before
    assert json.loads((base / "memory.json").read_text())["facts"] == []
    left = bytes_below(base)
    for text in ("Canary Ltd", "fact_a1b2c3d4", "在字节跳动担任后端开发工程师", THREAD):
        assert text.encode() not in left, text


def test_a_person_is_found_by_the_folder_of_their_memory(
    base: Path, store: Path, root: Path
) -> None:
    write_fact(base, "anna", "coder", "fact_1", "id: fact_1", "She works at Canary Ltd.")
    other = write_fact(base, "bert", "coder", "fact_2", "id: fact_2", "Likes tea.")
    config = root / "ckpt.toml"
    config.write_text(
        f'[stores.a]\nurl = "{store}"\n'
        '[stores.a.erase]\nsubject = "metadata.user"\nmemory = "users/{subject}"\n'
    )
    words = ("--config", config, "-s", "a", "erase", "--subject", "anna", "--yes", "-o", "json")
    found = ckpt(*words).json
    assert [one["items"] for one in found["places"] if one["kind"] == "memory"] == [1]
    assert b"Canary Ltd" not in bytes_below(base)
    assert other.exists()
