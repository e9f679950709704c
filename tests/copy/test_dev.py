"""What only the files of `langgraph dev` have when threads are copied to or from them."""

import os
import pickle
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from ckpt_backends.errors import Refused, StoreChanged, StoreUnavailable, Unsupported
from ckpt_backends.langgraph_dev import files
from ckpt_backends.model import Kind, Record, TypedBytes
from ckpt_backends.open_for_writing import create_store
from ckpt_backends.registry import open_store
from ckpt_backends.testing.scenarios.catalog import SCENARIOS
from ckpt_backends.transfer.bodies import close_body, open_body
from ckpt_backends.transfer.copying import Arrival
from ckpt_backends.transfer.form import CannotHold, Language
from ckpt_backends.url import parse_url
from tests.copy.round_trip import (
    check_round_trip,
    in_order,
    newest_of,
    receive,
    records_for,
    run_scenarios,
    stored_records,
)
from tests.kit.command import ckpt
from tests.kit.savers.dev import FileSaver, stored

pytestmark = pytest.mark.filterwarnings("ignore")

FILES = files.NAMES


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with empty files."""
    found = tmp_path / "project" / ".langgraph_api"
    create(found)
    return found


def create(path: Path) -> None:
    create_store(parse_url(f"langgraph-dev:///{path}"), Language.PYTHON)


def test_the_server_reads_what_is_received_and_writes_the_same(scenes: Path, folder: Path) -> None:
    names = check_round_trip(scenes, folder, "langgraph-dev")
    saver = FileSaver(folder)
    for name in names:
        config: Any = {"configurable": {"thread_id": name}}
        graph = SCENARIOS[name].build(saver)
        assert list(graph.get_state_history(config)), name
    # The saver makes namespaces by asking for them.
    assert saver.storage[names[0]]["a namespace that is new"] == {}
    saver.sync()
    assert [pickle.loads((folder / one).read_bytes()) for one in FILES] == saver.tables


def test_a_new_folder_is_as_the_server_makes_it(folder: Path, tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    FileSaver(theirs).sync()
    assert stored(folder) == stored(theirs)
    assert not {*os.listdir(folder)} - {*FILES}
    before = stored(folder)
    create(folder)
    create(folder.parent)
    assert stored(folder) == before
    assert ckpt("-s", folder, "threads", "list", "-o", "json").json == []


def test_a_folder_is_made_only_where_nothing_else_is(tmp_path: Path) -> None:
    (tmp_path / ".langgraph_api").mkdir()
    (tmp_path / ".langgraph_api" / "notes.txt").write_text("mine")
    with pytest.raises(Refused, match=r"notes\.txt"):
        create(tmp_path)
    (tmp_path / ".langgraph_api" / "notes.txt").unlink()
    (tmp_path / ".langgraph_api" / "store.pckl").write_text("theirs")
    with pytest.raises(StoreUnavailable, match="is running"):
        create(tmp_path)
    os.utime(tmp_path / ".langgraph_api" / "store.pckl", (0, 0))
    create(tmp_path)
    assert {*os.listdir(tmp_path / ".langgraph_api")} == {*FILES, "store.pckl"}


def test_nothing_is_received_while_the_server_runs(scenes: Path, folder: Path) -> None:
    before = stored(folder)
    (folder / ".langgraph_ops.pckl").write_bytes(b"")
    result = ckpt("-s", scenes, "copy", "--all", "--to", folder, "--yes")
    assert result.code != 0
    assert "langgraph dev is running" in result.err
    (folder / ".langgraph_ops.pckl").unlink()
    assert stored(folder) == before


def test_what_is_there_is_not_added_again(scenes: Path, folder: Path) -> None:
    records = records_for(scenes, "langgraph-dev", "chat")
    receive(folder, Arrival("chat", records))
    with pytest.raises(StoreChanged):
        receive(folder, Arrival("chat", records, {"": newest_of(records)}))


def test_all_threads_of_a_call_are_added_or_none(scenes: Path, folder: Path) -> None:
    first, second = (records_for(scenes, "langgraph-dev", one) for one in ("chat", "zoo-nested"))
    before = stored(folder)
    write = next(one for one in first if one.kind is Kind.WRITE)
    far = Record.write(write.key, write.task_id, "", 1 << 40, write.channel, write.value)
    with pytest.raises(CannotHold, match="has the index"):
        receive(folder, Arrival("zoo-nested", second), Arrival("chat", [*first, far]))
    assert stored(folder) == before


def test_versions_keep_the_type_that_bodies_have(scenes: Path, folder: Path) -> None:
    """Releases of LangGraph before 0.2 counted versions in integers."""
    records = records_for(scenes, "langgraph-dev", "chat")
    texts = sorted({one.version for one in records if one.kind is Kind.VALUE})
    for at, record in enumerate(records):
        if record.kind is Kind.VALUE:
            records[at] = record._replace(version=str(texts.index(record.version) + 1))
        elif record.kind is Kind.CHECKPOINT:
            body = open_body(record.value, "")
            versions = body.fields["channel_versions"]
            body.fields["channel_versions"] = {
                name: texts.index(one) + 1 for name, one in versions.items()
            }
            value = close_body(body, "msgpack", "", has_values=False)
            records[at] = record._replace(value=value)
    receive(folder, Arrival("chat", records))
    saver = FileSaver(folder)
    assert {type(key[3]) for key in saver.blobs} == {int}
    newest = saver.get_tuple({"configurable": {"thread_id": "chat"}})
    assert newest is not None
    assert newest.checkpoint["channel_values"]
    with open_store(str(folder)) as store:
        assert in_order(stored_records(store, "chat")) == in_order(records)


def test_old_folders_are_read_and_not_written(scenes: Path, tmp_path: Path, folder: Path) -> None:
    """langgraph-checkpoint before 2.1 stored values in bodies, and had no third file."""
    old = tmp_path / "old" / ".langgraph_api"
    saver = FileSaver(old)
    run_scenarios(saver, "chat")
    config: Any = {"configurable": {"thread_id": "chat", "checkpoint_ns": ""}}
    values = {one.checkpoint["id"]: one.checkpoint["channel_values"] for one in saver.list(config)}
    rows = saver.storage["chat"][""]
    for one in list(saver.list(config)):
        _, metadata, parent = rows[one.checkpoint["id"]]
        rows[one.checkpoint["id"]] = saver.serde.dumps_typed(one.checkpoint), metadata, parent
    saver.sync()
    (old / FILES[2]).unlink()
    assert ckpt("-s", old, "copy", "chat", "--to", folder, "--yes").code == 0
    there = FileSaver(folder)
    found = {one.checkpoint["id"]: one.checkpoint["channel_values"] for one in there.list(config)}
    assert found == values
    with pytest.raises(Unsupported, match=r"before 2\.1"):
        check_round_trip(scenes, old, "langgraph-dev")


@pytest.mark.nightly
def test_memory_does_not_grow_with_the_values(folder: Path) -> None:
    """Values wait in a file, and only their keys in memory."""
    value = TypedBytes("bytes", b"x" * (1 << 20))
    parts = (Record.apart("big", "", "text", str(number), value) for number in range(200))
    tracemalloc.start()
    receive(folder, Arrival("big", parts))
    assert tracemalloc.get_traced_memory()[1] < 30 << 20
    tracemalloc.stop()
    assert (folder / FILES[2]).stat().st_size > 200 << 20
