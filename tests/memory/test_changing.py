"""What `ckpt memory` removes, erases and takes back, the official library finds so, and no more."""

from pathlib import Path

import pytest
import redis

from ckpt_backends.errors import StoreChanged
from ckpt_backends.open_for_writing import open_writable_memory
from ckpt_backends.registry import open_memory
from ckpt_backends.url import parse_url
from tests.kit.command import ckpt
from tests.kit.memory.benches import Bench
from tests.kit.memory.contents import (
    ITEMS,
    Items,
    exported,
    fill,
    keys,
    memory,
    official,
    settle,
    told,
)
from tests.kit.savers.redis import dump

DOOMED = [(("users", "anna"), "profile"), (("a b", "c:d"), "k/1"), (("用户", "张三"), "记忆")]
NAMES = ["users/anna/profile", r"a b/c:d/k\/1", "用户/张三/记忆"]


def test_items_go_with_their_vectors_and_neighbours_stay(bench: Bench) -> None:
    fill(bench)
    before, vectors = exported(bench), bench.vectors()
    receipt = memory(bench, "delete", *NAMES, "--yes", "-o", "json").json
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
    assert (set(keys(bench)), set(official(bench, len(left)))) == (left, left)


def test_a_run_has_a_limit_and_says_what_it_leaves(bench: Bench) -> None:
    fill(bench)
    assert memory(bench, "delete", "--match", "*", "-n", "4", "--yes", "-o", "json").code == 7
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
    assert memory(bench, "import", answer.json["archive"], "--yes").code == 6
    assert official(bench, 1)[("w",), "k"][0] == {"text": "second"}
    assert keys(bench) == [(("w",), "k")]


def test_an_archive_is_of_its_layout_and_whole(bench: Bench, tmp_path: Path, sample: Path) -> None:
    fill(bench, {(("w",), "k"): {"text": "first"}})
    answer = memory(bench, "delete", "k", "--archive", tmp_path, "--yes", "-o", "json")
    bundle = Path(answer.json["archive"])
    threads = ckpt("-s", str(sample), "import", bundle, "--yes")
    assert (threads.code, " memory import " in threads.err) == (5, True)
    assert ckpt("-s", str(sample), "export", "trip-to-kyoto", "--to", tmp_path / "t").code == 0
    (thread,) = (tmp_path / "t").iterdir()
    assert memory(bench, "import", thread, "--yes").code == 5
    bundle.write_bytes(bundle.read_bytes()[:-20])
    assert memory(bench, "import", bundle, "--yes").code == 4
    assert not keys(bench)


def run(bench: Bench, *words: str | Path) -> None:
    done = ckpt("-s", bench.url, *words, "--yes")
    assert done.code == 0, done.err


def test_removed_and_restored_items_are_taken_back(bench: Bench, tmp_path: Path) -> None:
    fill(bench)
    first, vectors, archive = exported(bench), bench.vectors(), tmp_path / "archive"
    run(bench, "memory", "delete", "--match", "*p*", "--archive", archive)
    left = exported(bench)
    assert left != first
    planned = ckpt("-s", bench.url, "undo", "--dry-run", "-o", "table").out
    assert f"{len(first) - len(left)} items" in planned.splitlines()[0]
    run(bench, "undo")
    assert (exported(bench), bench.vectors()) == (first, vectors)
    run(bench, "redo")
    assert exported(bench) == left
    (bundle,) = archive.iterdir()
    run(bench, "memory", "import", bundle)
    assert exported(bench) == first
    run(bench, "undo")
    assert exported(bench) == left


def test_items_that_were_used_since_stay(bench: Bench, tmp_path: Path) -> None:
    fill(bench, {(("n",), "k"): {"text": "x"}, (("n",), "m"): {"text": "y"}})
    run(bench, "memory", "delete", "k", "m", "--archive", tmp_path)
    (bundle,) = tmp_path.glob("memory-*")
    run(bench, "memory", "import", bundle)
    with bench.store() as store:
        store.put(("n",), "k", {"text": "used"})
    used = exported(bench)
    undone = ckpt("-s", bench.url, "undo", "--yes")
    assert undone.code == 6, undone.err
    assert "cannot undo: item 'n/k' was used since" in undone.err
    assert exported(bench) == used


CANARY = "canary8f3a"
PEOPLE: Items = {
    (("users", CANARY), "profile"): {"text": f"{CANARY} likes tea"},
    (("users", "bert"), "profile"): {"text": "likes coffee"},
}


def erase(bench: Bench) -> list[str]:
    """Erase the items of the canary. Returns the places that a later run could erase."""
    url = parse_url(bench.url)
    with open_memory(url) as memory:
        items = list(memory.items(prefix=("users", CANARY)))
    with open_writable_memory(url) as writable:
        writable.begin_erasure()
        assert writable.remove(items) == 1
        remains = writable.erase_remains(rewrite=True)
    assert "backups" in {one.place for one in remains.places}
    return [one.place for one in remains.places if one.is_reachable]


def keys_and_terms(url: str) -> str:
    """Return all keys of Redis, and all terms of its search indexes."""
    with redis.Redis.from_url(url, protocol=2) as client:
        names = client.execute_command("FT._LIST")
        terms = [client.execute_command("FT.DEBUG", "DUMP_TERMS", one) for one in names]
    return f"{dump(url)} {terms}"


def test_an_erased_item_is_gone_and_no_other(bench: Bench) -> None:
    fill(bench, PEOPLE)
    has_terms = bench.url.startswith("redis")
    assert not has_terms or CANARY in keys_and_terms(bench.url)
    with bench.store() as store:
        before = told(store)
    assert erase(bench) == []
    assert not has_terms or CANARY not in keys_and_terms(bench.url)
    with bench.store() as store:
        after = told(store)
    gone, _ = PEOPLE
    assert after == {key: one for key, one in before.items() if key != gone}
