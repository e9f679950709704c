"""Edits of memory.json: whole or not at all, never over what DeerFlow wrote meanwhile."""

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
from ckpt_backends.errors import StoreChanged, Unsupported
from ckpt_backends.memory import Item
from ckpt_backends.open_for_writing import open_editable_memory, open_writable_memory
from ckpt_backends.registry import open_memory
from ckpt_backends.url import parse_url
from tests.kit.command import ckpt
from tests.kit.savers.deerflow import BODY, FRONT, fact, memory, read, save, write_fact

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
    for number in range(1 if stands else 5):
        before = path.stat().st_mtime
        assert edit(path, KEY, "--set", f"confidence=0.{number}", "--write").code == 0
        assert path.stat().st_mtime != before


def test_a_section_is_set_with_its_time_and_nothing_without_write(path: Path) -> None:
    before = path.read_bytes()
    answer = edit(path, KEY, "--set", "content=新的", "-o", "json")
    assert answer.json["changes"]["content"]["after"] == "新的"
    assert answer.json["written"] is False
    assert path.read_bytes() == before
    before = load(path)["user"]["workContext"]["updatedAt"]
    assert edit(path, "user/workContext", "--set", "summary=写 Go。", "--write").code == 0
    section = load(path)["user"]["workContext"]
    assert section["summary"] == "写 Go。"
    assert section["updatedAt"] > before


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--set", "confidence=2"], 2),
        (["--set", "confidence=nan"], 2),
        (["--set", "content= "], 2),
        (["--set", "source=x"], 2),
        (["--set", "category"], 2),
        ([], 2),
        (["--set", "category=context"], 0),
        (["--set", "content=计划将团队 ci/cd 迁移到 GitHub Actions "], 5),
    ],
)
def test_what_may_not_be_set_or_is_so_already_is_not_written(
    path: Path, words: list[str], code: int
) -> None:
    before = path.read_bytes(), path.stat().st_mtime_ns
    assert edit(path, KEY, *words, "--write").code == code
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before


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


def test_other_stores_are_not_edited(sample: Path) -> None:
    assert ckpt("-s", sample, "memory", "edit", "x", "--set", "content=y", "--write").code == 4


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


def test_what_was_removed_is_put_back(path: Path) -> None:
    before = load(path)
    gone = items(path, KEY, "topOfMind")
    with open_memory(parse_url(str(path))) as store:
        rows = [row for one in gone for row in store.rows(one.key)]
    with open_writable_memory(parse_url(str(path))) as writable:
        assert writable.remove(gone) == 2
        left = load(path)
        assert [one["id"] for one in left["facts"]] == ["fact_e5f6g7h8"]
        assert list(left["user"]) == ["workContext"]
        with pytest.raises(StoreChanged):
            writable.remove(gone)
        assert (writable.restore(rows).added, writable.restore(rows).there) == (2, 2)
    after = load(path)
    assert sorted(after["facts"], key=lambda one: str(one["id"])) == before["facts"]
    assert after["user"] == before["user"]


def test_of_two_facts_alike_the_one_that_is_meant_goes(tmp_path: Path) -> None:
    data = memory()
    data["facts"] = ["x", "x", {"id": "a"}, {"id": "a"}]
    path = tmp_path / "memory.json"
    path.write_text(json.dumps(data), encoding="utf-8")
    with open_writable_memory(parse_url(str(path))) as writable:
        writable.remove(items(path, "[1]", "a"))
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


def test_where_names_cannot_be_swapped_a_file_is_replaced(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replace_file, "exchange", lambda *_: False)
    assert edit(path, KEY, "--set", "category=goal", "--write").code == 0
    assert load(path)["facts"][0]["category"] == "goal"
    assert os.listdir(path.parent) == ["memory.json"]


def test_a_link_stays_a_link(tmp_path: Path, path: Path) -> None:
    link = tmp_path / "memory.json"
    link.symlink_to(path)
    assert edit(link, KEY, "--set", "category=goal", "--write").code == 0
    assert link.is_symlink()
    assert load(path)["facts"][0]["category"] == "goal"


def test_facts_are_removed_with_an_archive_and_put_back(path: Path, tmp_path: Path) -> None:
    before = load(path)
    line: list[str | Path] = ["-s", path, "memory", "delete", KEY, "--yes"]
    refused = ckpt(*line)
    assert (refused.code, "--write" in refused.err) == (5, True)
    assert load(path) == before
    done = ckpt(*line, "--write", "--archive", tmp_path / "kept")
    (bundle,) = (tmp_path / "kept").iterdir()
    assert done.code == 0
    assert f"archive  {bundle}; `ckpt memory import {bundle}` restores it" in done.out
    assert [one["id"] for one in load(path)["facts"]] == ["fact_e5f6g7h8"]
    back: list[str | Path] = ["-s", path, "memory", "import", bundle, "--yes"]
    assert ckpt(*back).code == 5
    assert ckpt(*back, "--write").code == 0
    assert load(path)["facts"] == before["facts"][::-1]


def test_a_fact_that_a_person_changed_in_place_is_not_removed(path: Path) -> None:
    # Of the same length, and without a time: a fact of the first release has none of changes.
    url = parse_url(str(path))
    with open_memory(url) as memory:
        (item,) = memory.items(key=KEY)
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("0.95", "0.11"), encoding="utf-8")
    with open_writable_memory(url) as writable, pytest.raises(StoreChanged):
        writable.remove([item])
    assert load(path)["facts"][0]["confidence"] == 0.11


def test_what_changes_while_a_person_reads_the_plan_stays(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = path.read_text(encoding="utf-8").replace("0.95", "0.11")

    def read_for_a_while(_: str) -> None:
        path.write_text(changed, encoding="utf-8")

    monkeypatch.setattr("ckpt_cli.commands.memory.confirm", read_for_a_while)
    answer = ckpt("-s", path, "--redact", "memory", "delete", KEY, "--write")
    assert answer.code == 6
    assert "changed" in answer.err
    assert "context" not in answer.out
    assert path.read_text(encoding="utf-8") == changed
