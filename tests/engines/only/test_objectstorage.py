"""What only object storage has: compressed and encrypted objects, rows of archives."""

from pathlib import Path
from typing import Any

import pytest
from langgraph_checkpoint_objectstorage import ObjectStorageSaver

from ckpt_backends.errors import Refused
from ckpt_backends.registry import open_store
from ckpt_backends.rows import Row
from tests.engines.answers import refuses
from tests.kit.agents.steps import config_of, graph_of
from tests.kit.command import ckpt
from tests.kit.harness.objectstorage import ObjectStorageHarness

pytestmark = pytest.mark.engines
LAYOUT = "objectstorage"


class OneKey:
    """The key of an encrypting saver."""

    def get_key(self, thread_id: str, key_id: str | None = None) -> tuple[str, bytes]:
        return "first", b"0123456789abcdef0123456789abcdef"


def run(place: ObjectStorageHarness, thread_id: str = "trip", **options: Any) -> Any:
    """Run a graph, or read its state."""
    graph = graph_of(ObjectStorageSaver(place.files, place.root, **options))
    graph.invoke({"items": ["in"]}, config_of(thread_id))
    return graph


def test_a_folder_is_known_by_its_objects(place: ObjectStorageHarness, tmp_path: Path) -> None:
    run(place)
    for store in (place.root, f"objectstorage:///{place.root}"):
        (found,) = ckpt("-s", store, "stores", "-o", "json").json
        assert found["layout"] == "objectstorage"
    other = tmp_path / "other"
    (other / "runs" / "checkpoints").mkdir(parents=True)
    (other / "runs" / "checkpoints" / "model.msgpack.part").touch()
    says = "no checkpoints of ObjectStorageSaver"
    refuses(f"objectstorage:///{other}", "threads", "list", says=says)
    refuses(f"objectstorage:///{other}/nosuch", "threads", "list", says="no such folder")


@pytest.mark.parametrize("compression", ["zlib", "lzma"])
def test_compressed_objects_stay_so(place: ObjectStorageHarness, compression: str) -> None:
    graph = run(place, compression=compression)
    shown = ckpt("-s", place.url, "show", "trip", "-o", "json").json
    assert shown["values"] == graph.get_state(config_of("trip")).values
    before = place.objects()
    ckpt("-s", place.url, "copy", "trip", "--as", "other", "--yes", code=0)
    assert {path: one for path, one in place.objects().items() if path in before} == before
    copied = {one for path, one in place.objects().items() if path.startswith("other/")}
    assert all(compression.encode() in one for one in copied)
    assert graph.get_state(config_of("other")).values == shown["values"]


def test_an_object_that_goes_meanwhile_is_left_out(place: ObjectStorageHarness) -> None:
    run(place)
    with open_store(place.url) as store:
        head, *others = [one.key for one in store.checkpoints("trip")]
        (path,) = Path(place.root).glob(f"trip/**/checkpoints/**/{head.checkpoint_id}*")
        path.unlink()
        assert [one.key for one in store.checkpoints("trip", body=True)] == others
        assert len(list(store.rows("trip"))) == len(place.objects())


def test_an_encrypted_object_is_shown_as_such_and_not_copied(place: ObjectStorageHarness) -> None:
    run(place, encryption=OneKey())
    before = place.fingerprint()
    shown = ckpt("-s", place.url, "show", "trip")
    assert "encrypted by its saver under the key 'first'" in shown.out + shown.err
    refuses(place.url, "copy", "trip", "--as", "other", "--yes", says="encrypted")
    assert place.fingerprint() == before
    ckpt("-s", place.url, "threads", "delete", "trip", "--yes", code=0)
    assert place.objects() == {}


# Rows of an archive


def test_an_archive_hides_no_values_in_an_unopened_object(place: ObjectStorageHarness) -> None:
    run(place)
    names = ("thread_id", "checkpoint_ns", "checkpoint_id", "task_id", "idx")
    with open_store(place.url) as store:
        row = next(iter(store.rows("trip")))
        key = {name: row.cells[name] for name in names}
        data = next(one for path, one in place.objects().items() if path.endswith("/0.msgpack"))
        with pytest.raises(Refused, match="hides values"):
            list(store.own_rows("trip", [Row(row.table, {**key, "data": data})]))
