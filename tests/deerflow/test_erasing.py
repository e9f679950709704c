"""What is erased from DeerFlow's memory is in no file, whole or in part, and its lock is heeded."""

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
from tests.kit.command import ckpt
from tests.kit.savers.deerflow import BODY, FRONT, THREAD, fact, memory, read, save, write_fact

CANARY = "canary8f3a"
OLD = (0, 0)
"""The times of a file that nobody writes any more."""


@pytest.fixture
def users(tmp_path: Path) -> Path:
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


def test_no_file_holds_an_erased_item(users: Path) -> None:
    user = users / "users" / "anna"
    with watched(users) as files:
        remains = erase(users)
    assert len(files) == 8
    assert not any(CANARY.encode() in one for one in files)
    named = [one for one in users.rglob("*") if one.is_file()]
    assert not any(CANARY in f"{one} {one.read_text()}" for one in named)
    left = [one.key for one in read(users)]
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


def test_other_copies_are_named(users: Path) -> None:
    for name in (".recovery", ".retrieval", "threads"):
        (users / "users" / "anna" / name).mkdir()
    fresh = users / "users" / "anna" / "memory.tmp"
    fresh.write_text(CANARY)
    places = {one.place for one in erase(users).places}
    assert {
        "'.recovery'",
        "'.retrieval'",
        "'threads'",
        "unfinished files of DeerFlow (.tmp)",
    } <= places
    assert fresh.exists()


def test_nothing_is_erased_after_a_change_by_deerflow(users: Path) -> None:
    url = parse_url(str(users))
    items = [one for one in read(users) if one.key.key in {CANARY, "topOfMind", "fact_b"}]
    write_fact(users, "anna", "coder", CANARY, FRONT, "# later\n\nsomething else\n")
    with open_writable_memory(url) as writable, watched(users) as files:
        writable.begin_erasure()
        with pytest.raises(StoreChanged):
            writable.remove(items)
    assert sum(CANARY.encode() in one for one in files) == 6


def test_an_unfinished_change_of_deerflow_is_not_touched(users: Path) -> None:
    (users / "users" / "anna" / ".memory.journal.json").write_text("{}")
    with pytest.raises(Refused, match="not finished"):
        erase(users)
    assert CANARY in [one.key.key for one in read(users)]


def test_the_lock_of_deerflow_is_heeded(users: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ckpt_backends.files._LOCK_SECONDS", 0.1)
    with (users / "users" / "anna" / ".memory.lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(StoreUnavailable, match="another process is writing"):
            erase(users)


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
