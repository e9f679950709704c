"""A damaged file is said to be damaged, once, and no command calls it a bug of its own."""

import json
import random
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ckpt_backends.sqlite import health as damage
from ckpt_backends.testing.chance import Chance
from ckpt_cli.render.doctor import unchecked_notes
from tests.doctor.asking import faults
from tests.doctor.engine_faults import contradict_index
from tests.kit.command import FIXTURES, SAMPLE, ckpt, copy_store
from tests.kit.harness.langgraph_dev import FileSaver, graph_of

PAGE = 4096
PAGES = SAMPLE.stat().st_size // PAGE
THREAD = "research-agent"
COMMANDS: list[tuple[str, ...]] = [
    ("doctor",),
    ("doctor", "--deep"),
    ("doctor", "--types"),
    ("threads", "list", "--long"),
    ("show", THREAD),
    ("history", THREAD),
    ("replay", "--all"),
    ("grep", "the"),
    ("du",),
    ("stats",),
    ("secrets",),
]


def spoilt(path: Path, *places: int, kind: str = "zeroed", seed: int = 0) -> Path:
    """Write a copy of the sample with spoilt pages; the first one is number 0."""
    chance = random.Random(seed)
    data = bytearray(SAMPLE.read_bytes())
    for place in places:
        begin, end = place * PAGE, (place + 1) * PAGE
        if kind == "zeroed":
            data[begin:end] = bytes(PAGE)
        elif kind == "random":
            data[begin:end] = chance.randbytes(PAGE)
        elif kind == "swapped":
            other = chance.randrange(PAGES) * PAGE
            page = data[begin:end]
            data[begin:end], data[other : other + PAGE] = data[other : other + PAGE], page
        elif kind == "bytes":
            for _ in range(6):
                data[chance.randrange(begin, end)] = chance.randrange(256)
        else:
            del data[begin + PAGE // 2 :]
    path.write_bytes(data)
    return path


def findings(path: Path, *words: str) -> Any:
    return [one for one in told(path, *words) if one["code"] == "file-damaged"]


def told(path: Path, *words: str) -> Any:
    return json.loads(ckpt("-s", str(path), "doctor", *words, "-o", "json").out)["findings"]


def check_all(path: Path) -> None:
    for words in COMMANDS:
        answer = ckpt("-s", str(path), *words)
        assert "internal error" not in answer.out + answer.err, (words, answer.err)
        answer.ends_cleanly(0, 1, 3, 4, 7)


@pytest.mark.parametrize(
    ("kind", "place", "seed"),
    [("zeroed", 5, 0), ("cut off", 40, 0), ("random", 20, 1), ("swapped", 9, 1), ("bytes", 29, 5)],
)
def test_no_command_fails_on_spoilt_pages(kind: str, place: int, seed: int, tmp_path: Path) -> None:
    check_all(spoilt(tmp_path / "store.db", place, kind=kind, seed=seed))


@pytest.mark.nightly
def test_no_command_fails_on_any_page(tmp_path: Path, chance: Chance) -> None:
    for dice in chance.rounds(60):
        kind = dice.choice(["zeroed", "random", "swapped", "bytes", "cut off"])
        place, seed = dice.randrange(PAGES), dice.getrandbits(32)
        print(f"{kind} page {place}, seed {seed}")
        check_all(spoilt(tmp_path / "store.db", place, kind=kind, seed=seed))


def test_zeroed_pages_are_named_once_with_what_saves_the_rest(tmp_path: Path) -> None:
    path = spoilt(tmp_path / "a store.db", 5, 9, 30)
    (found,) = findings(path)
    assert found["severity"] == "error"
    assert "in table 'checkpoints'" in found["detail"]
    if has_dbstat():
        assert found["detail"].startswith("pages 6, 10 and 31 of the file cannot be read")
    line = f"sqlite3 '{path}' .recover | sqlite3 recovered.db"
    assert found["detail"].endswith(f"; `{line}` saves what is left")
    assert not found["fix"]
    assert ckpt("-s", str(path), "doctor", code=7).err.count("cannot check") == 1


def has_dbstat() -> bool:
    with closing(sqlite3.connect(SAMPLE)) as file:
        try:
            file.execute("SELECT * FROM dbstat LIMIT 1")
        except sqlite3.OperationalError:
            return False
    return True


def test_what_only_the_application_has_is_no_damage(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    shutil.copyfile(SAMPLE, path)
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        file.create_collation("OURS", lambda one, other: (one > other) - (one < other))
        file.execute("CREATE TABLE notes (text TEXT COLLATE OURS UNIQUE)")
        file.execute("INSERT INTO notes VALUES ('b'), ('a')")
    answer = ckpt("-s", str(path), "doctor", "-o", "json")
    assert (answer.code, answer.json["findings"]) == (0, [])
    contradict_index(str(path))
    assert len(findings(path)) == 1


def test_a_large_file_is_read_with_deep_or_after_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(damage, "UP_TO", 0)
    path = tmp_path / "index.db"
    shutil.copyfile(SAMPLE, path)
    contradict_index(str(path))
    assert findings(path) == []
    assert len(findings(path, "--deep")) == 1
    assert len(findings(spoilt(tmp_path / "zeroed.db", 5))) == 1


def test_threads_that_cannot_be_checked_for_one_reason_are_counted() -> None:
    lost = dict.fromkeys("abcd", "it is damaged")
    assert list(unchecked_notes({"": "it is damaged", **lost, "e": "no key"})) == [
        "cannot check the whole store: it is damaged",
        "cannot check 4 threads, such as 'a': it is damaged",
        "cannot check thread 'e': no key",
    ]


_LEAF = b"\x0d"
"""First byte of a page that holds rows of a table."""


def test_a_damaged_page_hides_no_more_than_its_rows(tmp_path: Path) -> None:
    path = copy_store(FIXTURES / "lg-1.2.22" / "store.db", tmp_path)
    with closing(sqlite3.connect(path)) as connection:
        ((size,),) = connection.execute("PRAGMA page_size")
        heads = dict(
            connection.execute("SELECT thread_id, max(checkpoint_id) FROM checkpoints GROUP BY 1")
        )
    data = bytearray(path.read_bytes())
    leaves = [at for at in range(size, len(data), size) if data[at : at + 1] == _LEAF]
    on_page = {
        at: {name for name, head in heads.items() if head.encode() in data[at : at + size]}
        for at in leaves
    }
    start, hidden = next((at, names) for at, names in on_page.items() if names)
    data[start : start + 8] = b"\xff" * 8
    path.write_bytes(data)
    done = ckpt("-s", path, "doctor", "-o", "json")
    answer = json.loads(done.raw)
    assert (done.code, answer["complete"]) == (7, False)
    unchecked = {one["thread_id"] for one in answer["unchecked"]}
    assert None in unchecked  # the comparison of all keys
    assert hidden & unchecked
    assert answer["checked"]["threads"] == len(heads)
    assert len(unchecked) < len(heads) / 2


def test_entries_of_langgraph_dev_that_no_saver_writes_are_named(tmp_path: Path) -> None:
    saver = FileSaver(tmp_path / ".langgraph_api", at_each_put=False)
    graph_of(saver).invoke({"items": ["in"]}, {"configurable": {"thread_id": "one"}})
    rows: Any = saver.storage["one"][""]
    rows[max(rows)] = "no checkpoint"
    written: Any = saver.writes
    written[next(iter(written))] = {"no": "write"}
    saver.sync()
    found = faults(tmp_path)
    assert sorted(one.code for one in found) == ["body-unreadable", "value-unreadable"]
    assert not any("no checkpoint" in one.detail for one in found)
