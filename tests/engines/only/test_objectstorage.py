"""What only object storage has: compressed and encrypted objects, records of changes, a lease."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langgraph_checkpoint_objectstorage import ObjectStorageSaver

from ckpt_backends.errors import Refused
from ckpt_backends.objectstorage.engine.objects import FileObjects
from ckpt_backends.registry import open_store
from ckpt_backends.rows import Row
from ckpt_backends.url import parse_url
from tests.engines.answers import refuses, threads_of
from tests.kit.agents.steps import config_of, graph_of
from tests.kit.command import ckpt, ids_of
from tests.kit.harness.objectstorage import BucketHarness, ObjectStorageHarness
from tests.kit.servers import Server

pytestmark = pytest.mark.engines

KEY_OF_WRITE = ("thread_id", "checkpoint_ns", "checkpoint_id", "task_id", "idx")
KEY = b"0123456789abcdef0123456789abcdef"


class OneKey:
    """The key of an encrypting saver."""

    def get_key(self, thread_id: str, key_id: str | None = None) -> tuple[str, bytes]:
        return "first", KEY


@pytest.fixture
def place(tmp_path: Path) -> Iterator[ObjectStorageHarness]:
    with ObjectStorageHarness(tmp_path) as made:
        yield made


def run(place: ObjectStorageHarness, thread_id: str = "trip", **options: Any) -> Any:
    """Run a graph, or read its state."""
    saver = ObjectStorageSaver(place.files, place.root, **options)
    graph = graph_of(saver)
    graph.invoke({"items": ["in"]}, config_of(thread_id))
    return graph


# Opening


def test_a_folder_is_known_by_its_name_and_its_objects(
    place: ObjectStorageHarness, tmp_path: Path
) -> None:
    run(place)
    for store in (place.root, f"objectstorage:///{place.root}"):
        (found,) = ckpt("-s", store, "stores", "-o", "json").json
        assert found["layout"] == "objectstorage"
    (tmp_path / "other" / "runs" / "checkpoints").mkdir(parents=True)
    (tmp_path / "other" / "runs" / "checkpoints" / "model.msgpack.part").touch()
    refuses(
        f"objectstorage:///{tmp_path}/other",
        *["threads", "list"],
        says="no checkpoints of ObjectStorageSaver",
    )
    refuses(f"objectstorage:///{tmp_path}/other/nosuch", "threads", "list", says="no such folder")


# Compressed and encrypted objects


@pytest.mark.parametrize("compression", ["zlib", "lzma"])
def test_a_compressed_object_is_read_and_stays_compressed(
    place: ObjectStorageHarness, compression: str
) -> None:
    graph = run(place, compression=compression)
    shown = ckpt("-s", place.url, "show", "trip", "-o", "json").json
    assert shown["values"] == graph.get_state(config_of("trip")).values
    before = place.objects()
    assert ckpt("-s", place.url, "copy", "trip", "--as", "other", "--yes").code == 0
    assert {path: one for path, one in place.objects().items() if path in before} == before
    copied = {one for path, one in place.objects().items() if path.startswith("other/")}
    assert all(compression.encode() in one for one in copied)
    assert graph.get_state(config_of("other")).values == shown["values"]


def test_an_encrypted_object_is_shown_as_such_and_copied_nowhere(
    place: ObjectStorageHarness,
) -> None:
    run(place, encryption=OneKey())
    before = place.fingerprint()
    shown = ckpt("-s", place.url, "show", "trip")
    assert "encrypted by its saver under the key 'first'" in shown.out + shown.err
    refuses(place.url, "copy", "trip", "--as", "other", "--yes", says="encrypted")
    assert place.fingerprint() == before
    assert ckpt("-s", place.url, "threads", "delete", "trip", "--yes").code == 0
    assert place.objects() == {}


# Changes under way


def test_what_a_killed_run_began_is_completed_or_taken_back(place: ObjectStorageHarness) -> None:
    run(place)
    before, objects = place.objects(), FileObjects(parse_url(place.url))
    head = max(path for path in before if path.startswith("trip/checkpoints/"))
    later = f"trip/checkpoints/{'f' * 8}-0000-6000-8000-{'0' * 12}.msgpack"
    objects.begin([later, "trip/checkpoints/missing.msgpack"], [])
    place.put(later, before[head])
    assert Path(later).stem not in ids_of(place.url, "trip")
    run(place, "other")
    assert ckpt("-s", place.url, "threads", "delete", "other", "--yes").code == 0
    assert place.objects() == before

    # What it removed is gone, and the next change removes the rest.
    run(place, "other")
    objects.begin([], [path for path in place.objects() if path.startswith("trip/")])
    assert threads_of(place.url) == ["other"]
    assert ckpt("-s", place.url, "threads", "delete", "other", "--yes").code == 0
    assert place.objects() == {}


def test_a_change_waits_for_the_lease_of_a_bucket(
    dynamodb_server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with BucketHarness(tmp_path, dynamodb_server) as place:
        run(place)
        monkeypatch.setattr("ckpt_backends.objects._PATIENCE", 0.0)
        before = place.fingerprint()
        with FileObjects(parse_url(place.url)).lock():
            answer = ckpt("-s", place.url, "threads", "delete", "trip", "--yes")
        assert (answer.code, "lock of a killed run" in answer.err) == (4, True), answer.err
        assert place.fingerprint() == before
        place.put(".ckpt/lock", b"")
        monkeypatch.setattr("ckpt_backends.objects._HELD", 0.0)
        monkeypatch.setattr("ckpt_backends.objects._PATIENCE", 9.0)
        assert ckpt("-s", place.url, "threads", "delete", "trip", "--yes").code == 0
        assert place.objects() == {}


# Rows of an archive


def test_an_archive_hides_no_values_in_an_unopened_object(place: ObjectStorageHarness) -> None:
    run(place)
    with open_store(place.url) as store:
        row = next(iter(store.rows("trip")))
        key = {name: row.cells[name] for name in KEY_OF_WRITE}
        end = "/0.msgpack"
        data = next(one for path, one in place.objects().items() if path.endswith(end))
        with pytest.raises(Refused, match="hides values"):
            list(store.own_rows("trip", [Row(row.table, {**key, "data": data})]))
