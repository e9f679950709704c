"""What only the files of `langgraph dev` have: pickles, a server, and three of them a change; and
the file of LangGraph.js's dev server.
"""

import json
import os
import pickle
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from langgraph.types import Command

from ckpt_backends import files as folder_lock
from ckpt_backends.codec import Opaque, decode
from ckpt_backends.errors import (
    SeveralLayouts,
    StoreChanged,
    StoreUnavailable,
    UnknownLayout,
    Unsupported,
)
from ckpt_backends.langgraph_dev import files, write
from ckpt_backends.langgraph_dev import files as server
from ckpt_backends.langgraph_dev.declaration import CHECKPOINTS, JAVASCRIPT
from ckpt_backends.model import CheckpointKey, Record, TypedBytes
from ckpt_backends.open_for_writing import open_writable
from ckpt_backends.registry import open_store
from ckpt_backends.rows import Restored, Row, RowEdit
from ckpt_backends.transfer.copying import Arrival
from ckpt_backends.transfer.form import CannotHold
from ckpt_backends.url import parse_url
from ckpt_cli.reading.states import read_state
from ckpt_cli.reading.thread import ThreadReader, TriggerInference
from tests.engines.answers import refuses, succeeds, threads_of
from tests.kit.agents.steps import config_of
from tests.kit.command import FIXTURES, ckpt, ids_of
from tests.kit.harness.langgraph_dev import FileSaver, graph_of, stored

pytestmark = pytest.mark.filterwarnings("ignore")

SECRET = "the secret of one thread " * 20
FILES = files.NAMES


def tables(folder: Path) -> list[Any]:
    """The files as the server loads them."""
    return [pickle.loads((folder / name).read_bytes()) for name in FILES]


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The threads `a` and `b`, both with a question."""
    folder = tmp_path_factory.mktemp("dev") / ".langgraph_api"
    saver = FileSaver(folder)
    for name in ("a", "b"):
        graph_of(saver).invoke({"items": [SECRET if name == "b" else "in"]}, config_of(name))
    saver.sync()
    return folder


@pytest.fixture
def folder(filled: Path, tmp_path: Path) -> Path:
    """A copy of it, in a project of its own."""
    return Path(shutil.copytree(filled, tmp_path / "project" / ".langgraph_api"))


def test_each_of_its_names_opens_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = folder.parent
    names = [folder, f"{folder}/", *(folder / name for name in FILES), project]
    for name in [*map(str, names), f"langgraph-dev:///{folder}", f"langgraph-dev:///{project}"]:
        assert set(threads_of(name)) == {"a", "b"}
    monkeypatch.chdir(project)
    (found,) = ckpt("stores", "-o", "json").json
    assert (found["layout"], found["name"]) == ("langgraph-dev", ".langgraph_api")
    ckpt("-s", ".", "show", "a", code=0)
    shutil.rmtree(folder)
    refuses(folder, "threads", "list", says="no such folder")
    folder.mkdir()
    refuses(project, "threads", "list", says="when the server stops")


def test_a_removal_says_what_the_server_keeps_and_the_others_go_on(folder: Path) -> None:
    own, kept = folder / server.SERVERS_OWN, "belongs to the server"
    own.write_bytes(b"")
    os.utime(own, (0, 0))
    assert f"note: {own.name} {kept}" in succeeds(folder, "threads", "delete", "b", "--yes").err
    # In new namespaces after the file was written.
    saver = FileSaver(folder)
    graph = graph_of(saver)
    assert graph.invoke(Command(resume="this"), config_of("a"))["items"][-1] == "this"
    before = set(saver.storage["a"])
    graph.invoke({"items": ["again"]}, config_of("a"))
    assert set(saver.storage["a"]) > before
    own.unlink()
    assert kept not in ckpt("-s", folder, "threads", "delete", "a", "--yes").err


def test_files_of_older_savers_are_read_and_kept_in_their_form(folder: Path) -> None:
    """Before 2.1 values stood in the bodies; before that, writes had no paths."""
    saver = FileSaver(folder)
    rows = saver.storage["a"][""]
    for one in saver.list(config_of("a")):
        _, metadata, parent = rows[one.checkpoint["id"]]
        rows[one.checkpoint["id"]] = saver.serde.dumps_typed(one.checkpoint), metadata, parent
    saver.sync()
    storage, writes, _ = tables(folder)
    old = {key: {task: row[:3] for task, row in rows.items()} for key, rows in writes.items()}
    for name, table in zip(FILES, (storage, old), strict=False):
        (folder / name).write_bytes(pickle.dumps(table, 2))
    words = ["show", "a", "-o", "json"]
    new = ckpt("-s", folder, *words).json
    (folder / FILES[2]).unlink()
    shown = ckpt("-s", folder, *words).json
    assert (shown["values"], shown["waiting"]) == (new["values"], ["ask"])
    ckpt("-s", folder, "copy", "a@head", "--as", "c", "--yes", code=0)
    assert sorted(stored(folder)) == sorted(FILES[:2])
    again, kept = (pickle.loads((folder / name).read_bytes()) for name in FILES[:2])
    assert again["c"][""].keys() == again["a"][""].keys()
    assert {len(row) for rows in kept.values() for row in rows.values()} == {3}


SERVED, SERVED_2025 = (FIXTURES / "dev" / f"runtime-{one}" for one in ("0.36.7", "0.2.1"))
"""Metadata of 2025 are pickles, because they hold the user of a request."""


def told(served: Path) -> dict[str, Any]:
    """What the server told of its threads."""
    found: dict[str, Any] = json.loads((served / "truth.json").read_text("utf-8"))["threads"]
    return found


@pytest.mark.parametrize("served", [SERVED, SERVED_2025], ids=lambda one: str(one.name))
def test_what_the_server_stored_reads_as_the_server_told_it(served: Path) -> None:
    assert set(threads_of(served)) == set(told(served))
    for thread_id, truth in told(served).items():
        history = truth["history"]
        assert ids_of(served, thread_id) == [one["checkpoint_id"] for one in history]
        for expected in history:
            ref = f"{thread_id}@{expected['checkpoint_id']}"
            shown = ckpt("-s", served, "show", ref, "--metadata", "-o", "json").json
            assert shown["values"] == {k: v for k, v in expected["values"].items() if v}
            assert shown["next"] == expected["next"]
            assert shown["parent_checkpoint_id"] == expected["parent_checkpoint_id"]
            if served == SERVED_2025:
                user = expected["metadata"].get("langgraph_auth_user", "")
                shown["metadata"] = plain(shown["metadata"], user)
            assert shown["metadata"] == expected["metadata"]
            assert [one["value"] for one in shown["interrupts"]] == [
                one["value"] for task in expected["tasks"] for one in task["interrupts"]
            ]


def plain(metadata: Any, user: Any) -> Any:
    """Return metadata of 2025 as the server told it: it shows the user of a request as `user`."""
    text = json.dumps(metadata)
    found = json.loads(text, object_hook=lambda one: [one.pop("$type", None), one][1])
    if "langgraph_auth_user" in found:
        found["langgraph_auth_user"] = user
    return found


def test_metadata_of_a_request_becomes_plain_data(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(SERVED_2025, tmp_path / ".langgraph_api"))
    os.utime(folder / ".langgraph_ops.pckl", (0, 0))
    thread_id = next(one for one, thread in told(folder).items() if thread["name"] == "answered")
    made = ckpt("-s", folder, "rollback", thread_id, "~2", "--yes", "-o", "json").json
    rows = FileSaver(folder).storage[thread_id][""]
    tags = [metadata[0] for _, metadata, _ in rows.values()]
    assert rows[made["checkpoint_id"]][1][0] == "msgpack"
    assert tags.count("pickle") == len(rows) - 1
    ckpt("-s", folder, "copy", thread_id, "--at", "head", "--as", "new", "--yes", code=0)
    copy = tmp_path / "agent.db"
    ckpt("-s", folder, "copy", "--all", "--to", copy, "--create", "--yes", code=0)
    with closing(sqlite3.connect(copy)) as db:
        copied = [json.loads(one) for (one,) in db.execute("SELECT metadata FROM checkpoints")]
    user = {"$type": "langgraph_api.auth.noop.UnauthenticatedUser", "$args": []}
    assert all(one.get("langgraph_auth_user", user) == user for one in copied)
    assert sum("langgraph_auth_user" in one for one in copied) > 20


class Evil:
    """Makes a folder when it is loaded."""

    def __init__(self, marker: Path) -> None:
        self._marker = marker

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self._marker),)


@pytest.mark.parametrize("protocol", [0, 2, 5])
def test_a_hostile_pickle_is_shown_as_what_it_is(folder: Path, protocol: int) -> None:
    marker = folder.parent / "run"
    storage, evil = tables(folder)[0], Evil(marker)
    newest = max(storage["a"][""])
    _, metadata, parent = storage["a"][""][newest]
    storage["a"][""][newest] = (("msgpack", evil), metadata, parent)
    storage |= {"c": evil, "d": {"": {"1": evil}}}
    (folder / FILES[0]).write_bytes(pickle.dumps(storage, protocol))
    before = stored(folder)
    with open_store(str(folder)) as store:
        body = next(store.checkpoints("a", checkpoint_ns="", body=True)).body
        assert body is not None
        value = decode(body)
        assert isinstance(value, Opaque)
        assert ".mkdir instead of bytes; no code of it was run" in value.reason
        assert len(store.notes()) == 2
        assert all("mkdir" in note for note in store.notes())
        assert {one.thread_id for one in store.threads()} == {"a", "b"}
    for words in (["threads", "list", "--long"], ["show", "a", "--writes"], ["history", "a"]):
        ckpt("-s", folder, *words).ends_cleanly(0, 4)
    refuses(folder, "rollback", "b", "~1", "--yes", says="no saver writes")
    assert stored(folder) == before
    assert not marker.exists()


def test_keys_that_no_saver_makes_are_left_out(folder: Path) -> None:
    storage, writes, blobs = tables(folder)
    value, some = ("msgpack", b"\xc0"), next(iter(writes))
    bad_blobs = [("a", "", "x"), ("a", "", "x", 10**5000), ("a", "", 1, "1"), ("a", "", "x", ()), 7]
    bad_writes = [("t", 1 << 40), ("t", True), ("t", "0"), (1, 1), ("other", 0), "t"]
    writes[some] |= dict.fromkeys(bad_writes, ("t", "items", value, ""))
    changed: list[Any] = [storage, writes, blobs | dict.fromkeys(bad_blobs, value)]
    for name, table in zip(FILES, changed, strict=True):
        (folder / name).write_bytes(pickle.dumps(table, 2))
    kept = sum(len(rows) for key, rows in writes.items() if key[0] == some[0]) - len(bad_writes)
    with open_store(str(folder)) as store:
        assert store.size("a").blobs == sum(key[0] == "a" for key in blobs)
        assert (store.size(some[0]).writes, len(store.notes())) == (kept, 4)
        assert "more" in store.notes()[-1]
    ckpt("-s", folder, "gc", "--scope", "all", "--dry-run", code=0)
    ckpt("-s", folder, "threads", "delete", "a", "--yes", code=4)


def test_a_file_that_is_no_dict_is_refused(folder: Path) -> None:
    marker = folder.parent / "run"
    path = folder / FILES[0]
    whole = path.read_bytes()
    bad = [pickle.dumps(one, protocol) for one in (Evil(marker), [1]) for protocol in range(6)]
    bad += [b"", b"\xff.", whole[: len(whole) // 2], whole + b".", b"\x80\x02X\xff\xff\xff\x7f."]
    for data in bad:
        path.write_bytes(data)
        with pytest.raises(UnknownLayout):
            open_store(str(folder))
    ckpt("-s", folder, "threads", "list", code=4)
    assert not marker.exists()


def test_nothing_is_written_while_the_server_runs(folder: Path) -> None:
    before = stored(folder)
    line = [sys.executable, "-c", "print(flush=True); input()", "langgraph", "dev", "--no-browser"]
    piped: Any = dict.fromkeys(("stdin", "stdout"), subprocess.PIPE)
    with subprocess.Popen(line, cwd=folder.parent, **piped) as process:
        assert process.stdout is not None
        process.stdout.readline()
        for words in (["rollback", "a", "~1"], ["threads", "delete", "b"]):
            refused = refuses(folder, *words, "--yes", says=f"process {process.pid}")
            assert "hint: stop the server" in refused.err
        ckpt("-s", folder, "show", "a", code=0)
        process.communicate(b"\n")
    assert stored(folder) == before
    ckpt("-s", folder, "rollback", "a", "~1", "--yes", code=0)


def test_replaced_files_are_not_overwritten(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before, write_now = tables(folder), write.write_table

    def write_late(*args: Any) -> None:
        FileSaver(folder).sync()
        write_now(*args)

    monkeypatch.setattr(write, "write_table", write_late)
    refuses(folder, "rollback", "a", "~1", "--yes", says="changed meanwhile", code=6)
    assert sorted(stored(folder)) == sorted(FILES)
    assert tables(folder) == before


NUMBER = TypedBytes("json", b"1")


def came(own: int, versions: dict[str, Any], values: object = None) -> Record:
    """A checkpoint of thread `c`, as it comes from another store."""
    body = {"v": 4, "id": f"{own}", "channel_values": values or {}, "channel_versions": versions}
    stored = TypedBytes("json", json.dumps(body).encode())
    return Record.checkpoint(CheckpointKey("c", "", f"{own}"), None, stored, NUMBER)


def test_a_draft_takes_only_rows_that_fit_and_did_not_change(folder: Path) -> None:
    with open_store(str(folder)) as store:
        rows = {row.table: row for row in store.rows("a")}
    before, write_row = stored(folder), rows["checkpoint_writes"]
    other = Row(write_row.table, {**write_row.cells, "channel": "other"})
    with open_writable(parse_url(str(folder))) as store:
        for change in (
            lambda: store.restore([other]),
            lambda: store.replace("a", [RowEdit(other, write_row)]),
        ):
            with pytest.raises(StoreChanged):
                change()
        for wrong in (
            Row("items", other.cells),
            Row(other.table, {**other.cells, "idx": 1 << 31}),
            Row(other.table, {**other.cells, "idx": "0"}),
            Row(other.table, {k: v for k, v in other.cells.items() if k != "blob"}),
        ):
            with pytest.raises(Unsupported):
                store.restore([wrong])
        for records, says in (
            ([came(1, {}, values={"x": 1})], "has values in its body"),
            ([came(1, {"x": 1 << 40})], "version of channel 'x' at checkpoint '1' is too large"),
            ([came(1, {"x": 1}), came(2, {"x": "1"})], "has two types"),
            ([Record.write(CheckpointKey("c", "", "1"), "t", "", 1 << 40, "x", NUMBER)], "index"),
        ):
            value = Record.apart("c", "", "x", "1", NUMBER)
            with pytest.raises(CannotHold, match=says):
                store.receive([Arrival("c", [value, *records])])
        assert store.restore(rows.values()) == Restored(0, 3)
        assert stored(folder) == before
        (folder / server.SERVERS_MEMORY[0]).write_bytes(b"")
        (left,) = [one for one in store.erase_remains().places if "memory" in one.reason]
        assert server.SERVERS_MEMORY[0] in left.place


def test_files_of_two_moments_are_not_read_together_and_changes_wait_for_each_other(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "TRIES", 2)
    half = folder / f"{FILES[1]}.tmp"
    half.write_bytes(b"half")
    refuses(folder, "threads", "list", says="is writing to it")
    os.utime(half, (0, 0))  # Of a server that was killed.
    monkeypatch.setattr(folder_lock, "_LOCK_SECONDS", 0.0)
    back = ("rollback", "a", "~1", "--yes")
    with folder_lock.locked(folder):
        refuses(folder, *back, says="another process is writing to it")
    ckpt("-s", folder, *back, code=0)
    with open_store(str(folder)) as store:
        for name in FILES:
            (folder / name).unlink()
        with pytest.raises(StoreUnavailable):
            store.refresh()


# LangGraph.js: what its API told, damage, files of Python beside it


OLD, NEW = FIXTURES / "dev" / "js-0.0.15", FIXTURES / "dev" / "js-1.5.1"
"""By the release of @langchain/langgraph-api."""
LAYOUT = "langgraph-dev-js"


@pytest.fixture
def js_folder(tmp_path: Path) -> Path:
    """What a server left, in its folder."""
    return left_by(NEW, tmp_path)


def left_by(source: Path, project: Path) -> Path:
    made = project / ".langgraph_api"
    made.mkdir(parents=True)
    shutil.copyfile(source / JAVASCRIPT, made / JAVASCRIPT)
    return made


def thread_of(name: str) -> str:
    return next(one for one, truth in told(NEW).items() if truth["name"] == name)


def change(js_folder: Path, edit: Callable[[Any], object]) -> None:
    """Edit the stored JSON; `edit` gets storage and writes."""
    whole = json.loads((js_folder / JAVASCRIPT).read_text("utf-8"))
    edit(whole["json"])
    (js_folder / JAVASCRIPT).write_text(json.dumps(whole), "utf-8")


def answer(js_folder: Path, *words: str) -> Any:
    return succeeds(js_folder, *words, "-o", "json").json


def made_old(js_folder: Path) -> None:
    """Let the file age, as one that nobody writes now."""
    os.utime(js_folder / JAVASCRIPT, (time.time() - 60,) * 2)


@pytest.mark.parametrize("source", [OLD, NEW], ids=lambda source: source.name)
def test_threads_read_as_the_server_told_them(source: Path, tmp_path: Path) -> None:
    js_folder = left_by(source, tmp_path)
    before = (js_folder / JAVASCRIPT).read_bytes()
    with open_store(str(js_folder)) as store:
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
    assert [(one["node"], one["value"]) for one in answer(js_folder, "interrupts")] == [
        ("ask", "which?")
    ]
    assert (js_folder / JAVASCRIPT).read_bytes() == before


def test_it_is_found_and_listed(js_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(js_folder.parent)
    (found,) = ckpt("stores", "-o", "json").json
    told = (found["layout"], found["engine"], found["tables"])
    assert told == (LAYOUT, "JSON file", [JAVASCRIPT])
    # A link that leads out of the folder is passed over.
    linked = js_folder.parent / "other" / ".langgraph_api"
    linked.mkdir(parents=True)
    (linked / JAVASCRIPT).symlink_to(js_folder / JAVASCRIPT)
    monkeypatch.chdir(linked.parent)
    assert "no store given" in ckpt("show").err
    ckpt("-s", ".langgraph_api", "show", code=0)


def test_a_language_of_two_must_be_chosen(js_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in (FIXTURES / "dev" / "runtime-0.36.7").glob("*.pckl"):
        shutil.copyfile(path, js_folder / path.name)
    monkeypatch.chdir(js_folder.parent)
    with pytest.raises(SeveralLayouts):
        open_store(".langgraph_api")
    said = ckpt("show", code=4)
    assert "holds 2 stores: of langgraph dev for Python, and of LangGraph.js" in said.err
    listed = ckpt("stores", "-o", "json").json
    for name, layout, one in zip(
        (CHECKPOINTS, JAVASCRIPT), ("langgraph-dev", LAYOUT), listed, strict=True
    ):
        assert f"-s .langgraph_api/{name}" in said.err
        for way in (f".langgraph_api/{name}", one["url"]):
            (found,) = ckpt("-s", way, "stores", "-o", "json").json
            assert found["layout"] == layout
            ckpt("-s", way, "threads", "list", code=0)
    url = "langgraph-dev:///.langgraph_api?layout=other"
    refuses(url, "show", says="known: langgraph-dev, langgraph-dev-js", code=2)


def test_a_change_is_refused_with_a_reason_and_a_way_out(js_folder: Path, tmp_path: Path) -> None:
    thread_id, before = thread_of("asking"), (js_folder / JAVASCRIPT).read_bytes()
    says = "its server overwrites the file with what is in its memory"
    hint = f"hint: copy its threads to a file that LangGraph.js opens: `ckpt -s {js_folder}"
    for words in (["rollback", thread_id, "head"], ["threads", "delete", thread_id]):
        assert hint in refuses(js_folder, *words, "--yes", says=says).err
    source = FIXTURES / "js-1.7.3" / "store.db"
    says = "threads cannot be copied into this layout"
    refuses(source, "copy", "linear", "--to", js_folder, "--yes", says=says)
    assert (js_folder / JAVASCRIPT).read_bytes() == before
    new = tmp_path / "new.db"
    done = ckpt("-s", js_folder, "copy", "--all", "--to", new, "--create", "--yes", "-o", "json")
    assert done.json["verified"], done.err
    for words in (["show", thread_id], ["history", thread_id], ["interrupts"]):
        assert answer(new, *words) == answer(js_folder, *words)
    ckpt("-s", new, "rollback", thread_id, "~1", "--yes", code=0)


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


def test_what_no_server_writes_is_named_and_passed_over(js_folder: Path) -> None:
    whole = (js_folder / JAVASCRIPT).read_bytes()
    for edit, named in HOSTILE:
        (js_folder / JAVASCRIPT).write_bytes(whole)
        change(js_folder, edit)
        said = succeeds(js_folder, "show", thread_of("answered")).err
        (note,) = [line for line in said.splitlines() if "no saver writes" in line]
        assert named in note
        assert len(note) < 250
        assert not {"\u202e", "\x1b"} & set(said)
    said = ckpt("-s", js_folder, "doctor", "--deep").out
    assert "an entry that no saver writes" in said
    assert not {"\u202e", "\x1b"} & set(said)


@pytest.mark.parametrize("value", ["%%%", "e30", None, {"0": 123}])
def test_a_value_that_is_no_base64_cannot_be_read(js_folder: Path, value: object) -> None:
    def edit(stored: Any) -> None:
        rows, first = _first(stored)
        rows[first][0] = value

    change(js_folder, edit)
    thread_id, ids = thread_of("asking"), ids_of(js_folder, thread_of("asking"))
    assert ids == [one["checkpoint"]["checkpoint_id"] for one in told(NEW)[thread_id]["history"]]
    said = ckpt("-s", js_folder, "show", f"{thread_id}@{min(ids)}")
    assert "base64" in said.out + said.err
    assert "Traceback" not in said.err
    assert "body-unreadable" in ckpt("-s", js_folder, "doctor", "--deep").out


def test_a_file_that_no_server_wrote(js_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = js_folder / JAVASCRIPT
    path.write_text(path.read_text("utf-8").replace('"storage":{', '"storage":{"t":{},"t":{},', 1))
    made_old(js_folder)
    said = ckpt("-s", js_folder, "threads", "list", "-o", "json")
    assert len(said.json) == 3
    assert "an earlier value of 't', which occurs twice" in said.err
    with monkeypatch.context() as patch:
        patch.setattr(server, "_MOST_VALUES", 100)
        refuses(js_folder, "threads", "list", says="more than 100 values")
        patch.setattr(server, "MOST_BYTES", 1000)
        refuses(js_folder, "threads", "list", says="longer than 1000 bytes")
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
        made_old(js_folder)
        said = refuses(js_folder, "threads", "list", says=reason)
        assert "hint: the server writes it in place" in said.err
    path.unlink()
    os.mkfifo(path)
    refuses(js_folder, "threads", "list", says="it is a FIFO")


def test_a_file_that_is_being_written_is_read_again(js_folder: Path) -> None:
    data = (js_folder / JAVASCRIPT).read_bytes()
    (js_folder / JAVASCRIPT).write_bytes(data[: len(data) // 2])

    timer = threading.Timer(0.3, (js_folder / JAVASCRIPT).write_bytes, [data])
    timer.start()
    with open_store(str(js_folder)) as store:
        assert len(list(store.threads())) == 3
    timer.join()


def test_a_running_server_is_named(js_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = "/x/node_modules/@langchain/langgraph-api/dist/cli/entrypoint.mjs"
    monkeypatch.setattr("ckpt_backends.platform.processes", lambda: [("7", ["node", entry])])
    monkeypatch.setattr("ckpt_backends.platform.works_in", lambda pid, at: at == js_folder.parent)
    said = ckpt("-s", js_folder, "show", thread_of("asking"))
    assert "langgraph dev may be running (process 7 is its server)" in said.err
