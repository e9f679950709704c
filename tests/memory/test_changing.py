"""What `ckpt memory delete` removes is gone for the official library, and all else is as it was."""

from __future__ import annotations

from pathlib import Path

import pytest

from ckpt_backends.errors import StoreChanged
from ckpt_backends.open_for_writing import open_writable_memory
from ckpt_backends.registry import open_memory
from ckpt_backends.url import parse_url
from tests.kit.command import ckpt
from tests.kit.memory.benches import Bench
from tests.kit.memory.contents import ITEMS, exported, fill, keys, memory, official, settle

DOOMED = [(("users", "anna"), "profile"), (("a b", "c:d"), "k/1"), (("用户", "张三"), "记忆")]
NAMES = ["users/anna/profile", r"a b/c:d/k\/1", "用户/张三/记忆"]


def test_items_go_with_their_vectors_and_neighbours_stay(bench: Bench) -> None:
    fill(bench)
    before, vectors = exported(bench), bench.vectors()
    answer = memory(bench, "delete", *NAMES, "--yes", "-o", "json")
    receipt = answer.json
    assert {(tuple(one["namespace"]), one["key"]) for one in receipt["items"]} == set(DOOMED)
    assert receipt["removed"] == receipt["before"]
    assert receipt["removed"]["items"] == receipt["removed"]["vectors"] == len(DOOMED)
    assert receipt["after"] == {"items": 0, "vectors": 0, "bytes": 0}
    left = {at: one for at, one in before.items() if at not in DOOMED}
    assert exported(bench) == left
    assert official(bench, len(left)) == left
    assert bench.vectors() == vectors - len(DOOMED)


def test_nothing_goes_unasked(bench: Bench, tmp_path: Path) -> None:
    fill(bench, {(("n",), "k"): {"text": "x"}})
    planned = memory(bench, "delete", "k", "--dry-run", "--archive", tmp_path / "not", "-o", "json")
    assert planned.json["dry_run"]
    assert planned.json["removed"]["items"] == 0
    assert [one["key"] for one in planned.json["items"]] == ["k"]
    assert not (tmp_path / "not").exists()
    assert memory(bench, "delete", "k").code == 5
    for words in ([], ["k", "--expired"], ["--all"], ["--namespace", "n"]):
        assert memory(bench, "delete", *words, "--yes").code == 2
    assert memory(bench, "delete", "nothing", "--yes").code == 3
    assert keys(bench) == [(("n",), "k")]


def test_what_fits_a_rule_goes(bench: Bench) -> None:
    fill(bench)
    assert memory(bench, "delete", "--older-than", "1h", "--yes").code == 0
    assert memory(bench, "delete", "--older-than", "2020-01-01", "--yes").code == 0
    assert memory(bench, "delete", "--match", "k*", "--yes").code == 0
    assert memory(bench, "delete", "--namespace", "users/anna", "--all", "--yes").code == 0
    left = {at for at in ITEMS if at[0][:2] != ("users", "anna") and at[1][0] != "k"}
    assert set(keys(bench)) == left
    assert set(official(bench, len(left))) == left


def test_a_run_has_a_limit_and_says_what_it_leaves(bench: Bench) -> None:
    fill(bench)
    answer = memory(bench, "delete", "--match", "*", "-n", "4", "--yes", "-o", "json")
    assert answer.code == 7
    assert len(keys(bench)) == len(ITEMS) - 4


def test_what_has_expired_goes_and_what_has_not_stays(bench: Bench) -> None:
    with bench.with_lifetime(minutes=60) as store:
        store.put(("t",), "stays", {"text": "x"})
        store.put(("t",), "went", {"text": "y"})
    expired = bench.keeps_expired
    if expired:
        bench.expire(("t",), "went")
    assert memory(bench, "delete", "--expired", "--yes").code == 0
    assert keys(bench) == [(("t",), "stays"), *([] if expired else [(("t",), "went")])]
    with bench.store() as store:
        assert not hasattr(store, "sweep_ttl") or not store.sweep_ttl()


def test_an_item_that_changed_meanwhile_stops_it_all(bench: Bench) -> None:
    fill(bench)
    with open_memory(parse_url(bench.url)) as read:
        planned = list(read.items())
    with bench.store() as store:
        store.put(("users", "anna"), "profile", {"text": "changed by the application"})
        settle(store, len(ITEMS))
    before = exported(bench)
    with open_writable_memory(parse_url(bench.url)) as writable:
        with pytest.raises(StoreChanged) as refused:
            writable.remove(planned)
        assert refused.value.exit_code == 6
        assert exported(bench) == before
        with bench.store() as store:
            store.delete(("users", "anna"), "profile")
            settle(store, len(ITEMS) - 1)
        with pytest.raises(StoreChanged, match="no longer exists"):
            writable.remove(planned)
    assert len(keys(bench)) == len(ITEMS) - 1


def test_an_archive_brings_everything_back(bench: Bench, tmp_path: Path) -> None:
    fill(bench)
    truth, vectors = official(bench, len(ITEMS)), bench.vectors()
    answer = memory(
        bench, "delete", "--match", "*", "--archive", tmp_path / "a", "--yes", "-o", "json"
    )
    bundle = Path(answer.json["archive"])
    assert not keys(bench)
    assert bench.vectors() == 0
    assert memory(bench, "import", bundle, "--dry-run").code == 0
    assert memory(bench, "import", bundle).code == 5
    assert not keys(bench)
    (done,) = memory(bench, "import", bundle, "--yes", "-o", "json").json
    assert done["added"] == done["rows"]
    assert official(bench, len(ITEMS)) == truth
    assert exported(bench) == truth
    assert bench.vectors() == vectors
    (again,) = memory(bench, "import", bundle, "--yes", "-o", "json").json
    assert (again["added"], again["there"]) == (0, done["rows"])


def test_an_archive_goes_over_nothing(bench: Bench, tmp_path: Path) -> None:
    fill(bench, {(("w",), "k"): {"text": "first"}, (("w",), "l"): {"text": "other"}})
    answer = memory(bench, "delete", "k", "l", "--archive", tmp_path, "--yes", "-o", "json")
    with bench.store() as store:
        store.put(("w",), "k", {"text": "second"})
        settle(store, 1)
    refused = memory(bench, "import", answer.json["archive"], "--yes")
    assert refused.code == 6
    assert official(bench, 1)[("w",), "k"][0] == {"text": "second"}
    assert keys(bench) == [(("w",), "k")]


def test_an_archive_is_of_its_layout_and_whole(bench: Bench, tmp_path: Path, sample: Path) -> None:
    fill(bench, {(("w",), "k"): {"text": "first"}})
    answer = memory(bench, "delete", "k", "--archive", tmp_path, "--yes", "-o", "json")
    bundle = Path(answer.json["archive"])
    threads = ckpt("-s", str(sample), "import", bundle, "--yes")
    assert threads.code == 5
    assert " memory import " in threads.err
    assert ckpt("-s", str(sample), "export", "trip-to-kyoto", "--to", tmp_path / "t").code == 0
    (thread,) = (tmp_path / "t").iterdir()
    assert memory(bench, "import", thread, "--yes").code == 5
    bundle.write_bytes(bundle.read_bytes()[:-20])
    assert memory(bench, "import", bundle, "--yes").code == 4
    assert not keys(bench)
