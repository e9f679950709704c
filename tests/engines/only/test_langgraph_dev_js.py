"""The file of LangGraph.js's dev server: what its API told, damage, files of Python beside it."""

import json
import os
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ckpt_backends.errors import SeveralLayouts
from ckpt_backends.langgraph_dev import files as server
from ckpt_backends.langgraph_dev.declaration import CHECKPOINTS, JAVASCRIPT
from ckpt_backends.registry import open_store
from ckpt_cli.reading.states import read_state
from ckpt_cli.reading.thread import ThreadReader, TriggerInference
from tests.engines.answers import refuses, succeeds
from tests.kit.command import FIXTURES, ckpt, ids_of

OLD, NEW = FIXTURES / "dev" / "js-0.0.15", FIXTURES / "dev" / "js-1.5.1"
"""By the release of @langchain/langgraph-api."""
LAYOUT = "langgraph-dev-js"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What a server left, in its folder."""
    return left_by(NEW, tmp_path)


def left_by(source: Path, project: Path) -> Path:
    made = project / ".langgraph_api"
    made.mkdir(parents=True)
    shutil.copyfile(source / JAVASCRIPT, made / JAVASCRIPT)
    return made


def told(source: Path = NEW) -> dict[str, Any]:
    """What the server's API told of its threads, by id."""
    threads: dict[str, Any] = json.loads((source / "truth.json").read_text("utf-8"))["threads"]
    return threads


def thread_of(name: str) -> str:
    return next(one for one, truth in told().items() if truth["name"] == name)


def change(folder: Path, edit: Callable[[Any], object]) -> None:
    """Edit the stored JSON; `edit` gets storage and writes."""
    whole = json.loads((folder / JAVASCRIPT).read_text("utf-8"))
    edit(whole["json"])
    (folder / JAVASCRIPT).write_text(json.dumps(whole), "utf-8")


def answer(folder: Path, *words: str) -> Any:
    said = succeeds(folder, *words, "-o", "json")
    return said.json


def made_old(folder: Path) -> None:
    """Let the file age, as one that nobody writes now."""
    os.utime(folder / JAVASCRIPT, (time.time() - 60,) * 2)


@pytest.mark.parametrize("source", [OLD, NEW], ids=lambda source: source.name)
def test_threads_read_as_the_server_told_them(source: Path, tmp_path: Path) -> None:
    folder = left_by(source, tmp_path)
    before = (folder / JAVASCRIPT).read_bytes()
    with open_store(str(folder)) as store:
        # The saver is told by its writes.
        assert ("checkpoint 1.2" in store.describe().saver) == (source is NEW)
        assert {one.thread_id for one in store.threads()} == told(source).keys()
        inference = TriggerInference(store)
        for thread_id, truth in told(source).items():
            reader = ThreadReader(store, thread_id, inference)
            moments = reader.moments("", values=True, state=True)
            for moment, one in zip(moments, truth["history"], strict=True):
                assert moment.key.checkpoint_id == one["checkpoint"]["checkpoint_id"]
                parent = (one["parent_checkpoint"] or {}).get("checkpoint_id")
                assert moment.checkpoint.parent_checkpoint_id == parent
                assert read_state(reader, moment).values == one["values"]
                # No checkpoint of an old release shows that nothing follows a node.
                is_open = source is OLD and one["next"] == []
                assert moment.step.next == (None if is_open else (*one["next"],))
                assert one["metadata"].items() >= moment.metadata.items()
    assert [(one["node"], one["value"]) for one in answer(folder, "interrupts")] == [
        ("ask", "which?")
    ]
    assert (folder / JAVASCRIPT).read_bytes() == before


def test_it_is_found_and_listed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder.parent)
    (found,) = ckpt("stores", "-o", "json").json
    told = (found["layout"], found["engine"], found["tables"])
    assert told == (LAYOUT, "JSON file", [JAVASCRIPT])
    # A link that leads out of the folder is passed over.
    linked = folder.parent / "other" / ".langgraph_api"
    linked.mkdir(parents=True)
    (linked / JAVASCRIPT).symlink_to(folder / JAVASCRIPT)
    monkeypatch.chdir(linked.parent)
    assert "no store given" in ckpt("show").err
    assert ckpt("-s", ".langgraph_api", "show").code == 0


def test_one_of_two_languages_must_be_chosen(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in (FIXTURES / "dev" / "runtime-0.36.7").glob("*.pckl"):
        shutil.copyfile(path, folder / path.name)
    monkeypatch.chdir(folder.parent)
    with pytest.raises(SeveralLayouts):
        open_store(".langgraph_api")
    said = ckpt("show")
    assert said.code == 4
    assert "holds 2 stores: of langgraph dev for Python, and of LangGraph.js" in said.err
    listed = ckpt("stores", "-o", "json").json
    for name, layout, one in zip(
        (CHECKPOINTS, JAVASCRIPT), ("langgraph-dev", LAYOUT), listed, strict=True
    ):
        assert f"-s .langgraph_api/{name}" in said.err
        for way in (f".langgraph_api/{name}", one["url"]):
            (found,) = ckpt("-s", way, "stores", "-o", "json").json
            assert found["layout"] == layout
            assert ckpt("-s", way, "threads", "list").code == 0
    url = "langgraph-dev:///.langgraph_api?layout=other"
    refuses(url, "show", says="known: langgraph-dev, langgraph-dev-js", code=2)


def test_a_change_is_refused_with_a_reason_and_a_way_out(folder: Path, tmp_path: Path) -> None:
    thread_id, before = thread_of("asking"), (folder / JAVASCRIPT).read_bytes()
    says = "its server overwrites the file with what is in its memory"
    hint = f"hint: copy its threads to a file that LangGraph.js opens: `ckpt -s {folder}"
    for words in (["rollback", thread_id, "head"], ["threads", "delete", thread_id]):
        assert hint in refuses(folder, *words, "--yes", says=says).err
    source = FIXTURES / "js-1.7.3" / "store.db"
    says = "threads cannot be copied into this layout"
    refuses(source, "copy", "linear", "--to", folder, "--yes", says=says)
    assert (folder / JAVASCRIPT).read_bytes() == before
    new = tmp_path / "new.db"
    done = ckpt("-s", folder, "copy", "--all", "--to", new, "--create", "--yes", "-o", "json")
    assert done.json["verified"], done.err
    for words in (["show", thread_id], ["history", thread_id], ["interrupts"]):
        assert answer(new, *words) == answer(folder, *words)
    assert ckpt("-s", new, "rollback", thread_id, "~1", "--yes").code == 0


LONG = "x" * 500


def _first(stored: Any) -> tuple[Any, str]:
    """The checkpoints of the root of a thread, and the id of the first."""
    rows = stored["storage"][thread_of("asking")][""]
    return rows, min(rows)


def _replace(new: Any) -> Callable[[Any], None]:
    """Replace the first checkpoint by another value."""

    def edit(stored: Any) -> None:
        rows, first = _first(stored)
        rows[first] = new

    return edit


def _write(key: str, row: Any) -> Callable[[Any], None]:
    return lambda one: one["writes"].setdefault('["a","","b"]', {}).update({key: row})


HOSTILE: list[tuple[Callable[[Any], object], str]] = [
    (lambda one: one["storage"].update(t=[]), "a thread: a list of 0 instead of an obj"),
    (lambda one: one["storage"].update(t={"": 7}), "a namespace: a number instead"),
    (_replace(["e30="]), "a checkpoint: a list of 1 instead of a list of 3"),
    (_replace(["e30=", "e30=", {}]), "a checkpoint: an object instead of text"),
    (lambda one: one["writes"].update({LONG: {}}), "writes: no key of a checkpoint: 'xxx"),
    (lambda one: one["writes"].update({'["a",null,"b"]': {}}), "writes: nothing instead"),
    (lambda one: one["writes"].update({"[" * 9999: {}}), "writes: no key of a checkpoint"),
    (_write("x,0", ["y", "c", "MQ=="]), "a write: it has the key of another one"),
    (_write("x,1e3", ["x", "c", "MQ=="]), "a write: it has the key of another one"),
    (_write("x,0", ["x", True, "MQ=="]), "a write: true or false instead of text"),
    (_write("\u202e\x1b[31m,0", ["y", "c", "MQ=="]), r"'\u202e\x1b[31m,0'"),
]
"""What is stored, and what is said of it."""


def test_what_no_server_writes_is_named_and_passed_over(folder: Path) -> None:
    whole = (folder / JAVASCRIPT).read_bytes()
    for edit, named in HOSTILE:
        (folder / JAVASCRIPT).write_bytes(whole)
        change(folder, edit)
        said = succeeds(folder, "show", thread_of("answered")).err
        (note,) = [line for line in said.splitlines() if "no saver writes" in line]
        assert named in note
        assert len(note) < 250
        assert not {"\u202e", "\x1b"} & set(said)
    said = ckpt("-s", folder, "doctor", "--deep").out
    assert "an entry that no saver writes" in said
    assert not {"\u202e", "\x1b"} & set(said)


@pytest.mark.parametrize("value", ["%%%", "e30", None, {"0": 123}])
def test_a_value_that_is_no_base64_cannot_be_read(folder: Path, value: object) -> None:
    def edit(stored: Any) -> None:
        rows, first = _first(stored)
        rows[first][0] = value

    change(folder, edit)
    thread_id, ids = thread_of("asking"), ids_of(folder, thread_of("asking"))
    assert ids == [one["checkpoint"]["checkpoint_id"] for one in told()[thread_id]["history"]]
    said = ckpt("-s", folder, "show", f"{thread_id}@{min(ids)}")
    assert "base64" in said.out + said.err
    assert "Traceback" not in said.err
    assert "body-unreadable" in ckpt("-s", folder, "doctor", "--deep").out


def test_a_file_that_no_server_wrote(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = folder / JAVASCRIPT
    text = path.read_text("utf-8")
    path.write_text(text.replace('"storage":{', '"storage":{"t":{},"t":{},', 1))
    made_old(folder)
    said = ckpt("-s", folder, "threads", "list", "-o", "json")
    assert len(said.json) == 3
    assert "an earlier value of 't', which occurs twice" in said.err
    with monkeypatch.context() as patch:
        patch.setattr(server, "_MOST_VALUES", 100)
        refuses(folder, "threads", "list", says="more than 100 values")
        patch.setattr(server, "MOST_BYTES", 1000)
        refuses(folder, "threads", "list", says="longer than 1000 bytes")
    for data, reason in (
        (b"", "it is empty"),
        (b"{", "no JSON"),
        (b'{"json":[]}', "a list of 0 instead of an object"),
        (b'{"json":{"storage":{}}}', "nothing instead of an object"),
        (b'{"json":{"storage":NaN,"writes":{}}}', "no JSON: NaN"),
        (b"[" * 100_000, "nested too deeply"),
        (b"\xff\xfe\x00", "no JSON"),
        (b"1" * 5000, "instead of an object"),
    ):
        path.write_bytes(data)
        made_old(folder)
        said = refuses(folder, "threads", "list", says=reason)
        assert "hint: the server writes it in place" in said.err
    path.unlink()
    os.mkfifo(path)
    refuses(folder, "threads", "list", says="it is a FIFO")


def test_a_file_that_is_being_written_is_read_again(folder: Path) -> None:
    data = (folder / JAVASCRIPT).read_bytes()
    (folder / JAVASCRIPT).write_bytes(data[: len(data) // 2])

    timer = threading.Timer(0.3, (folder / JAVASCRIPT).write_bytes, [data])
    timer.start()
    with open_store(str(folder)) as store:
        assert len(list(store.threads())) == 3
    timer.join()


def test_a_running_server_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = "/x/node_modules/@langchain/langgraph-api/dist/cli/entrypoint.mjs"
    monkeypatch.setattr("ckpt_backends.platform.processes", lambda: [("7", ["node", entry])])
    monkeypatch.setattr("ckpt_backends.platform.works_in", lambda pid, at: at == folder.parent)
    said = ckpt("-s", folder, "show", thread_of("asking"))
    assert "langgraph dev may be running (process 7 is its server)" in said.err
