"""Edits of memory.json: whole or not at all, never over what DeerFlow wrote meanwhile."""

import fcntl
import inspect
import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ckpt_backends.apps.deerflow import memory as replace_file
from ckpt_backends.changes import Remains
from ckpt_backends.errors import Refused, StoreChanged, StoreUnavailable, Unsupported
from ckpt_backends.memory import Item
from ckpt_backends.open_for_writing import open_editable_memory, open_writable_memory
from ckpt_backends.registry import open_memory
from ckpt_backends.url import parse_url
from tests.kit.cases import cases
from tests.kit.command import ckpt
from tests.kit.savers.deerflow import BODY, FRONT, THREAD, fact, memory, read, save, write_fact

KEY = "fact_a1b2c3d4"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A memory.json with more in it than is known here."""
    data = memory()
    data["facts"][0]["x"] = {"ratio": 0.5, "list": [1, None, True], "é": "\u2028"}
    data["later"] = {"z": 1, "a": [{}]}
    found = tmp_path / ".deer-flow" / "memory.json"
    save(found, data)
    return found


def load(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def edit(path: Path, *words: str) -> Any:
    return ckpt("-s", path, "memory", "edit", *words)


def test_an_edit_changes_its_field_and_nothing_else(path: Path) -> None:
    before, text = load(path), path.read_text(encoding="utf-8")
    path.chmod(0o640)
    answer = edit(path, KEY, "--set", "category=goal", "--set", "confidence=0.5", "--write")
    assert answer.code == 0
    after = load(path)
    assert after["lastUpdated"] > before["lastUpdated"]
    before["facts"][0] |= {"category": "goal", "confidence": 0.5}
    before["lastUpdated"] = after["lastUpdated"]
    assert after == before
    # The order, the indent and the characters are as they were: two lines and the date differ.
    lines = list(zip(text.split("\n"), path.read_text(encoding="utf-8").split("\n"), strict=True))
    assert sum(one != other for one, other in lines) == 3
    assert path.stat().st_mode & 0o777 == 0o640
    assert os.listdir(path.parent) == ["memory.json"]
    assert edit(path, "user/workContext", "--set", "summary=写 Go。", "--write").code == 0
    section = load(path)["user"]["workContext"]
    assert section["summary"] == "写 Go。"
    assert section["updatedAt"] > before["user"]["workContext"]["updatedAt"]


@cases(
    "words code",
    (["--set", "confidence=2"], 2),
    (["--set", "confidence=nan"], 2),
    (["--set", "content= "], 2),
    (["--set", "source=x"], 2),
    (["--set", "category=context"], 0),
    (["--set", "content=计划将团队 ci/cd 迁移到 GitHub Actions "], 5),
)
def test_what_may_not_be_set_or_is_so_already_is_not_written(
    path: Path, words: list[str], code: int
) -> None:
    before = path.read_bytes(), path.stat().st_mtime_ns
    planned = edit(path, KEY, "--set", "content=新的", "-o", "json").json
    assert (planned["changes"]["content"]["after"], planned["written"]) == ("新的", False)
    assert edit(path, KEY, *words, "--write").code == code
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before


@pytest.mark.parametrize("stands", [False, True], ids=["the clock goes", "the clock stands"])
def test_deerflow_itself_notices_an_edit(
    path: Path, monkeypatch: pytest.MonkeyPatch, stands: bool
) -> None:
    """It keeps what it read until the time of the file has changed."""
    real = os.fsync

    def fsync(descriptor: int) -> None:
        real(descriptor)
        os.utime(descriptor, ns=(path.stat().st_mtime_ns, path.stat().st_mtime_ns))

    if stands:
        monkeypatch.setattr(os, "fsync", fsync)
    before = path.stat().st_mtime
    assert edit(path, KEY, "--set", "confidence=0.1", "--write").code == 0
    assert path.stat().st_mtime != before


def test_the_newer_layout_is_only_read(tmp_path: Path) -> None:
    base = tmp_path / ".deer-flow"
    found = write_fact(base, "anna", "coder", "fact_one", FRONT, BODY)
    manifest = base / "users/anna/memory.json"
    save(manifest, {"version": "2.0", "revision": 1, "user": {"topOfMind": {"summary": "x"}}})
    before = found.read_bytes(), manifest.read_bytes()
    for words in (["fact_one", "--set", "category=x"], ["topOfMind", "--set", "summary=y"]):
        answer = edit(base, *words, "--write")
        assert answer.code == 4
        assert "version 2.0 of DeerFlow's memory is read-only here" in answer.err
    with open_writable_memory(parse_url(str(base))) as writable, pytest.raises(Unsupported):
        writable.remove(items(base))
    assert (found.read_bytes(), manifest.read_bytes()) == before


@contextmanager
def at_call(
    monkeypatch: pytest.MonkeyPatch, name: str, number: int, do: Callable[[], None]
) -> Iterator[None]:
    """Do something before the call of that number of a function of `os`, or of the swap of names
    that comes after all checks.

    Calls that record the operation do not count.
    """
    module: Any = replace_file if name == "exchange" else os
    real, seen = getattr(module, name), 0

    def watched(*args: Any, **more: Any) -> Any:
        nonlocal seen
        if not any("/ckpt_cli/operations/" in one.filename for one in inspect.stack(context=0)):
            seen += 1
            if seen == number:
                do()
        return real(*args, **more)

    with monkeypatch.context() as patch:
        patch.setattr(module, name, watched)
        yield
    assert seen >= number


@pytest.mark.parametrize(
    ("name", "number"),
    [("open", 2), ("open", 3), ("fsync", 1), ("exchange", 1)],
    ids=["before the edit", "before the new file", "before the disk", "at the very last moment"],
)
def test_what_the_app_writes_meanwhile_is_never_lost(
    path: Path, monkeypatch: pytest.MonkeyPatch, name: str, number: int
) -> None:
    def app() -> None:
        data = load(path)
        data["facts"].append(fact("fact_new", "新的事实", "context", 0.9))
        data["facts"][0]["confidence"] = 0.1
        # The app's own write goes past what is watched here.
        save(path, data)

    with at_call(monkeypatch, name, number, app):
        answer = edit(path, KEY, "--set", "category=goal", "--write")
    assert answer.code == 6
    assert [one["id"] for one in load(path)["facts"]] == [KEY, "fact_e5f6g7h8", "fact_new"]
    assert load(path)["facts"][0]["category"] == "context"
    assert os.listdir(path.parent) == ["memory.json"]


def test_a_file_that_goes_away_meanwhile_is_not_made_anew(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with at_call(monkeypatch, "fsync", 1, path.unlink):
        answer = edit(path, KEY, "--set", "category=goal", "--write")
    assert answer.code == 6
    assert os.listdir(path.parent) == []


STEPS = ("open", "fchown", "chmod", "fsync", "stat", "utime", "replace", "close", "unlink")


def killed_at(number: int, path: Path, item: Item) -> int:
    """Edit a fact in a process that is killed before the n-th of some system calls.

    Return its exit code; negative if it was killed.
    """
    seen = 0

    def watched(call: Callable[..., Any]) -> Callable[..., Any]:
        def instead(*args: Any, **more: Any) -> Any:
            nonlocal seen
            seen += 1
            if seen == number:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*args, **more)

        return instead

    child = os.fork()
    if child == 0:
        with open_editable_memory(parse_url(str(path))) as writable:
            for name in STEPS:
                setattr(os, name, watched(getattr(os, name)))
            writable.edit(item, {"category": "goal"})
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_process_that_is_killed_leaves_the_old_or_the_new_file(path: Path) -> None:
    """What it leaves beside is no memory, and in nobody's way."""
    old, (item,) = path.read_bytes(), items(path, KEY)
    edited = load(path)
    edited["facts"][0]["category"] = "goal"
    ends: list[tuple[int, bool]] = []
    while not ends or ends[-1][0]:
        path.write_bytes(old)
        code = killed_at(len(ends) + 1, path, item)
        is_old = path.read_bytes() == old
        ends.append((code, is_old))
        assert is_old or load(path) == {**edited, "lastUpdated": load(path)["lastUpdated"]}
        assert len(items(path.parent)) == 4
    assert ends[0] == (-signal.SIGKILL, True)
    assert ends[-2:] == [(-signal.SIGKILL, False), (0, False)]
    assert len(ends) > len(STEPS)


def items(path: Path, *keys: str) -> list[Item]:
    return [one for one in read(path) if not keys or one.key.key in keys]


def test_of_two_facts_alike_the_one_that_is_meant_goes(tmp_path: Path) -> None:
    data = memory()
    data["facts"] = ["x", "x", {"id": "a"}, {"id": "a"}]
    path = tmp_path / "memory.json"
    path.write_text(json.dumps(data), encoding="utf-8")
    with open_writable_memory(parse_url(str(path))) as writable:
        gone = items(path, "[1]", "a")
        writable.remove(gone)
        with pytest.raises(StoreChanged):
            writable.remove(gone)
    assert load(path)["facts"] == ["x", {"id": "a"}]


@pytest.mark.parametrize(("name", "number"), [("fsync", 2), ("exchange", 2)])
def test_all_files_are_changed_or_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, number: int
) -> None:
    """A first file is put back where the second was written meanwhile."""
    base = tmp_path / ".deer-flow"
    both = [base / "memory.json", base / "users" / "anna" / "memory.json"]
    for one in both:
        save(one, memory())
    gone = items(base, KEY)
    assert len(gone) == 2
    old = both[0].read_bytes(), both[0].stat().st_mtime_ns
    with (
        open_writable_memory(parse_url(str(base))) as writable,
        at_call(monkeypatch, name, number, lambda: save(both[1], load(both[1]))),
        pytest.raises(StoreChanged),
    ):
        writable.remove(gone)
    assert (both[0].read_bytes(), both[0].stat().st_mtime_ns) == old
    assert len(load(both[1])["facts"]) == 2
    assert all(os.listdir(one.parent).count("memory.json") == 1 for one in both)
    assert not list(base.rglob("*.part"))


def test_where_names_cannot_be_swapped_a_file_is_replaced_and_a_link_stays(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = tmp_path / "memory.json"
    link.symlink_to(path)
    monkeypatch.setattr(replace_file, "exchange", lambda *_: False)
    assert edit(link, KEY, "--set", "category=goal", "--write").code == 0
    assert link.is_symlink()
    assert load(path)["facts"][0]["category"] == "goal"
    assert os.listdir(path.parent) == ["memory.json"]


def test_items_are_removed_with_an_archive_and_put_back(path: Path, tmp_path: Path) -> None:
    before = load(path)
    line: list[str | Path] = ["-s", path, "memory", "delete", KEY, "user/topOfMind", "--yes"]
    refused = ckpt(*line)
    assert (refused.code, "--write" in refused.err) == (5, True)
    assert load(path) == before
    done = ckpt(*line, "--write", "--archive", tmp_path / "kept")
    (bundle,) = (tmp_path / "kept").iterdir()
    assert done.code == 0
    assert f"archive  {bundle}; `ckpt memory import {bundle}` restores it" in done.out
    left = load(path)
    assert [one["id"] for one in left["facts"]] == ["fact_e5f6g7h8"]
    assert list(left["user"]) == ["workContext"]
    back: list[str | Path] = ["-s", path, "memory", "import", bundle, "--yes"]
    assert ckpt(*back).code == 5
    for _ in range(2):  # what is there is not added again
        assert ckpt(*back, "--write").code == 0
        after = load(path)
        assert (after["facts"], after["user"]) == (before["facts"][::-1], before["user"])


def test_what_changes_while_a_person_reads_the_plan_stays(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Of the same length, and without a time: a fact of the first release has none of changes.
    changed = path.read_text(encoding="utf-8").replace("0.95", "0.11")
    monkeypatch.setattr("ckpt_cli.commands.memory.confirm", lambda _: path.write_text(changed))
    answer = ckpt("-s", path, "--redact", "memory", "delete", KEY, "--write")
    assert (answer.code, "changed" in answer.err, "context" in answer.out) == (6, True, False)
    assert path.read_text(encoding="utf-8") == changed


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
    url = parse_url(str(base))
    with open_memory(url) as store:
        items = [one for one in store.items(values=True) if CANARY in f"{one.key} {one.value}"]
    with open_writable_memory(url) as writable:
        writable.begin_erasure()
        assert writable.remove(items) == len(items)
        return writable.erase_remains()


def test_no_file_holds_an_erased_item(users: Path) -> None:
    user = users / "users" / "anna"
    (user / ".recovery").mkdir()
    (user / "memory.tmp").write_text("fresh")
    with watched(users) as files:
        remains = erase(users)
    assert len(files) == 9
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
        *("unfinished files of DeerFlow (.tmp)", "'.recovery'"),
        *("memory of a running DeerFlow", "free blocks of the disk", "backups"),
    ]


def test_nothing_is_erased_after_a_change_by_deerflow(users: Path) -> None:
    url = parse_url(str(users))
    items = [one for one in read(users) if one.key.key in {CANARY, "topOfMind", "fact_b"}]
    write_fact(users, "anna", "coder", CANARY, FRONT, "# later\n\nsomething else\n")
    with open_writable_memory(url) as writable, watched(users) as files:
        writable.begin_erasure()
        with pytest.raises(StoreChanged):
            writable.remove(items)
    assert sum(CANARY.encode() in one for one in files) == 6
    # Nor while a change of DeerFlow is unfinished.
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
