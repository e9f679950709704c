"""What only the files of `langgraph dev` have: pickles, a server, and three of them a change."""

import json
import os
import pickle
import shutil
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from langgraph.types import Command

from ckpt_backends import files as folder_lock
from ckpt_backends.codec import Opaque, decode
from ckpt_backends.errors import StoreUnavailable, UnknownLayout
from ckpt_backends.langgraph_dev import files, write
from ckpt_backends.langgraph_dev import files as server
from ckpt_backends.registry import open_store
from tests.engines.answers import refuses, succeeds, threads_of
from tests.kit.agents.steps import config_of
from tests.kit.command import FIXTURES, ckpt, ids_of
from tests.kit.savers.dev import FileSaver, graph_of, stored

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
    assert ckpt("-s", ".", "show", "a").code == 0
    shutil.rmtree(folder)
    refuses(folder, "threads", "list", says="no such folder")
    folder.mkdir()
    refuses(project, "threads", "list", says="when the server stops")


def test_a_removal_says_what_the_server_keeps_and_the_others_go_on(folder: Path) -> None:
    own, kept = folder / server.SERVERS_OWN, "belongs to the server"
    own.write_bytes(b"")
    os.utime(own, (0, 0))
    done = succeeds(folder, "threads", "delete", "b", "--yes")
    assert f"note: {own.name} {kept}" in done.err
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
    assert shown["values"] == new["values"]
    assert shown["waiting"] == ["ask"]
    assert ckpt("-s", folder, "copy", "a@head", "--as", "c", "--yes").code == 0
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
    assert ckpt("-s", folder, "copy", thread_id, "--at", "head", "--as", "new", "--yes").code == 0
    copy = tmp_path / "agent.db"
    assert ckpt("-s", folder, "copy", "--all", "--to", copy, "--create", "--yes").code == 0
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
        assert store.size(some[0]).writes == kept
        assert len(store.notes()) == 4
        assert "more" in store.notes()[-1]
    assert ckpt("-s", folder, "gc", "--scope", "all", "--dry-run").code == 0
    assert ckpt("-s", folder, "threads", "delete", "a", "--yes").code == 4


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
    assert ckpt("-s", folder, "threads", "list").code == 4
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
        assert ckpt("-s", folder, "show", "a").code == 0
        process.communicate(b"\n")
    assert stored(folder) == before
    assert ckpt("-s", folder, "rollback", "a", "~1", "--yes").code == 0


def test_a_server_is_told_by_the_files_that_it_alone_writes(folder: Path) -> None:
    own = folder / ".langgraph_ops.pckl"
    own.write_bytes(b"")
    assert own.name in server.running(folder)
    assert ckpt("-s", folder, "rollback", "a", "~1", "--yes").code == 4
    assert "may be running" in ckpt("-s", folder, "threads", "list").err
    os.utime(own, (time.time() - server.QUIET_SECONDS - 1,) * 2)
    assert server.running(folder) == ""
    assert ckpt("-s", folder, "rollback", "a", "~1", "--yes").code == 0


def test_replaced_files_are_not_overwritten(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before, write_now = tables(folder), write.write_table

    def write_late(*args: Any) -> None:
        FileSaver(folder).sync()
        write_now(*args)

    monkeypatch.setattr(write, "write_table", write_late)
    refuses(folder, "rollback", "a", "~1", "--yes", says="changed meanwhile", code=6)
    assert sorted(stored(folder)) == sorted(FILES)
    assert tables(folder) == before


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
    assert ckpt("-s", folder, *back).code == 0
    with open_store(str(folder)) as store:
        for name in FILES:
            (folder / name).unlink()
        with pytest.raises(StoreUnavailable):
            store.refresh()
