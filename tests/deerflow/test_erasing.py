"""What is erased from DeerFlow's memory is in no file, whole or in part, and its lock is heeded."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ckpt_backends.changes import Remains
from ckpt_backends.errors import Refused, StoreChanged, StoreUnavailable
from ckpt_backends.open_for_writing import open_writable_memory
from ckpt_backends.registry import open_memory
from ckpt_backends.url import parse_url
from tests.deerflow.test_files import BODY, FRONT, read
from tests.kit.savers.deerflow import fact, memory, save, write_fact

CANARY = "canary8f3a"
OLD = (0, 0)
"""The times of a file that nobody writes any more."""


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """The memory of two users: facts as Markdown with all that DeerFlow keeps about them, and the
    memory.json of an older release."""
    base = tmp_path / ".deer-flow"
    user = base / "users" / "anna"
    for ident in (CANARY, "fact_two"):
        write_fact(base, "anna", "coder", ident, FRONT, BODY.replace("第二行", f"{ident} said so"))
    summaries = {
        "topOfMind": {"summary": f"{CANARY} likes tea", "updatedAt": ""},
        "workContext": {},
    }
    save(user / "memory.json", {"version": "2.0", "revision": 3, "user": summaries})
    content = f"计划将团队 CI/CD 迁移到 GitHub Actions\n\n{CANARY} said so"
    before = {**memory(), "facts": [fact("x", content, "goal", 1), fact(CANARY, "", "", 1)]}
    save(user / "memory.json.v1.bak", before)
    metadata = user / "agents" / "coder" / ".metadata"
    evicted = [{"factId": CANARY}, {"factId": "fact_two"}]
    shadow = {"wouldEvict": [CANARY, "fact_two"], "disagrees": False}
    metadata.mkdir()
    (metadata / "fact-usage.json").write_text(json.dumps({CANARY: {"accessCount": 1}}))
    audit = [{"evicted": evicted, "shadow": shadow}]
    (metadata / "eviction-audit.json").write_text(json.dumps(audit))
    left = user / ".memory.json.0123.tmp"
    left.write_text(CANARY)
    os.utime(left, OLD)
    bert = {**memory(), "facts": [fact("fact_b", f"{CANARY} is a friend", "context", 1)]}
    save(base / "users" / "bert" / "memory.json", bert)
    return base


@contextmanager
def watched(base: Path) -> Iterator[list[bytes]]:
    """Yield what all files of the beginning hold at the end, under any name."""
    kept = [os.open(one, os.O_PATH) for one in sorted(base.rglob("*")) if one.is_file()]
    found: list[bytes] = []
    yield found
    for one in kept:
        found.append(Path(f"/proc/self/fd/{one}").read_bytes())
        os.close(one)


def erase(base: Path) -> Remains:
    """Erase all items in which the canary is."""
    url = parse_url(str(base))
    with open_memory(url) as store:
        items = [one for one in store.items(values=True) if CANARY in f"{one.key} {one.value}"]
    with open_writable_memory(url) as writable:
        writable.begin_erasure()
        assert writable.remove(items) == len(items)
        return writable.erase_remains()


def test_no_file_holds_an_erased_item(base: Path) -> None:
    user = base / "users" / "anna"
    with watched(base) as files:
        remains = erase(base)
    assert len(files) == 8
    assert not any(CANARY.encode() in one for one in files)
    named = [one for one in base.rglob("*") if one.is_file()]
    assert not any(CANARY in f"{one} {one.read_text()}" for one in named)
    left = [one.key for one in read(base)]
    assert [one.key for one in left if "anna" in one.namespace] == ["fact_two", "workContext"]
    assert [one.key for one in left if "bert" in one.namespace] == ["topOfMind", "workContext"]
    assert json.loads((user / "memory.json").read_text())["revision"] == 4
    assert json.loads((user / "memory.json.v1.bak").read_text())["facts"] == []
    (event,) = json.loads((user / "agents/coder/.metadata/eviction-audit.json").read_text())
    assert event == {
        "evicted": [{"factId": "fact_two"}],
        "shadow": {"wouldEvict": ["fact_two"], "disagrees": False},
    }
    assert CANARY not in f"{remains}"
    assert remains.done[0] == "overwrite Markdown facts"
    assert [one.place for one in remains.places] == [
        *("memory of a running DeerFlow", "free blocks of the disk", "backups")
    ]


def test_other_copies_are_named(base: Path) -> None:
    for name in (".recovery", ".retrieval", "threads"):
        (base / "users" / "anna" / name).mkdir()
    fresh = base / "users" / "anna" / "memory.tmp"
    fresh.write_text(CANARY)
    places = {one.place for one in erase(base).places}
    assert {
        "'.recovery'",
        "'.retrieval'",
        "'threads'",
        "unfinished files of DeerFlow (.tmp)",
    } <= places
    assert fresh.exists()


def test_nothing_is_erased_after_a_change_by_deerflow(base: Path) -> None:
    url = parse_url(str(base))
    items = [one for one in read(base) if one.key.key in {CANARY, "topOfMind", "fact_b"}]
    write_fact(base, "anna", "coder", CANARY, FRONT, "# later\n\nsomething else\n")
    with open_writable_memory(url) as writable, watched(base) as files:
        writable.begin_erasure()
        with pytest.raises(StoreChanged):
            writable.remove(items)
    assert sum(CANARY.encode() in one for one in files) == 6


def test_an_unfinished_change_of_deerflow_is_not_touched(base: Path) -> None:
    (base / "users" / "anna" / ".memory.journal.json").write_text("{}")
    with pytest.raises(Refused, match="not finished"):
        erase(base)
    assert CANARY in [one.key.key for one in read(base)]


def test_the_lock_of_deerflow_is_heeded(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ckpt_backends.files._LOCK_SECONDS", 0.1)
    with (base / "users" / "anna" / ".memory.lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(StoreUnavailable, match="another process is writing"):
            erase(base)
