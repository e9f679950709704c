"""What `ckpt memory` removes, erases and takes back, the official library finds so, and no more."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from ckpt_backends.archive import Bundle, check_bundle, write_bundle
from ckpt_backends.errors import Refused, StoreChanged, Unsupported
from ckpt_backends.memory import ItemKey
from ckpt_backends.open_for_writing import open_writable_memory
from ckpt_backends.registry import open_memory
from ckpt_backends.rows import Cell, Row
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
from tests.kit.memory.contents import memory as run
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


def test_nothing_goes_unasked_and_what_fits_a_rule_goes(bench: Bench, tmp_path: Path) -> None:
    fill(bench)
    words = ("tea", "--dry-run", "--archive", tmp_path / "not", "-o", "json")
    planned = memory(bench, "delete", *words).json
    assert (planned["dry_run"], planned["removed"]["items"]) == (True, 0)
    assert [one["key"] for one in planned["items"]] == ["tea"]
    assert not (tmp_path / "not").exists()
    assert memory(bench, "delete", "tea").code == 5
    for more in ([], ["tea", "--expired"], ["--all"], ["--namespace", "users"]):
        assert memory(bench, "delete", *more, "--yes").code == 2
    assert memory(bench, "delete", "nothing", "--yes").code == 3
    assert keys(bench) == sorted(ITEMS)
    assert memory(bench, "delete", "--older-than", "1h", "--yes").code == 0
    assert memory(bench, "delete", "--older-than", "2020-01-01", "--yes").code == 0
    assert memory(bench, "delete", "--match", "k*", "--yes").code == 0
    limited = memory(bench, "delete", "--namespace", "users/anna", "--all", "-n", "1", "--yes")
    assert limited.code == 7
    assert memory(bench, "delete", "--namespace", "users/anna", "--all", "--yes").code == 0
    left = {at for at in ITEMS if at[0][:2] != ("users", "anna") and at[1][0] != "k"}
    assert (set(keys(bench)), set(official(bench, len(left)))) == (left, left)


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


def test_an_archive_and_an_undo_bring_everything_back(bench: Bench, tmp_path: Path) -> None:
    def run(*words: str | Path) -> None:
        done = ckpt("-s", bench.url, *words, "--yes")
        assert done.code == 0, done.err

    fill(bench)
    truth, vectors = official(bench, len(ITEMS)), bench.vectors()
    first, archive = exported(bench), tmp_path / "archive"
    run("memory", "delete", "--match", "*", "--archive", archive)
    (bundle,) = archive.iterdir()
    assert (keys(bench), bench.vectors()) == ([], 0)
    assert memory(bench, "import", bundle, "--dry-run").code == 0
    assert memory(bench, "import", bundle).code == 5
    assert not keys(bench)
    (done,) = memory(bench, "import", bundle, "--yes", "-o", "json").json
    assert done["added"] == done["rows"]
    assert official(bench, len(ITEMS)) == truth
    assert (exported(bench), bench.vectors()) == (first, vectors)
    (again,) = memory(bench, "import", bundle, "--yes", "-o", "json").json
    assert (again["added"], again["there"]) == (0, done["rows"])
    run("undo")
    assert not keys(bench)
    planned = ckpt("-s", bench.url, "undo", "--dry-run", "-o", "table").out
    assert f"{len(ITEMS)} items" in planned.splitlines()[0]
    run("undo")
    assert (exported(bench), bench.vectors()) == (first, vectors)
    run("redo")
    assert not keys(bench)


def test_an_archive_goes_over_nothing_and_items_that_were_used_since_stay(
    bench: Bench, tmp_path: Path
) -> None:
    fill(bench, {(("w",), "k"): {"text": "first"}, (("w",), "l"): {"text": "other"}})
    answer = memory(bench, "delete", "k", "l", "--archive", tmp_path, "--yes", "-o", "json")
    bundle = answer.json["archive"]
    with bench.store() as store:
        store.put(("w",), "k", {"text": "second"})
        settle(store, 1)
    assert memory(bench, "import", bundle, "--yes").code == 6
    assert official(bench, 1)[("w",), "k"][0] == {"text": "second"}
    assert keys(bench) == [(("w",), "k")]
    assert memory(bench, "delete", "k", "--yes").code == 0
    assert memory(bench, "import", bundle, "--yes").code == 0
    with bench.store() as store:
        store.put(("w",), "k", {"text": "used"})
    used = exported(bench)
    undone = ckpt("-s", bench.url, "undo", "--yes")
    assert (undone.code, "cannot undo: item 'w/k' was used since" in undone.err) == (6, True)
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


MINE: Items = {(("users", "anna"), "profile"): {"text": "first"}}
OTHER: Items = {(("users", "bob"), "profile"): {"text": "other"}}


def archived(bench: Bench, folder: Path) -> Bundle:
    """The archive of an item that was removed; another item stays."""
    fill(bench, MINE | OTHER)
    more = ("--archive", folder, "--yes", "-o", "json")
    return check_bundle(Path(run(bench, "delete", "users/anna/profile", *more).json["archive"]))


def foreign_rows(row: Row) -> Iterator[Row]:
    def changed(**cells: Cell) -> Row:
        return Row(row.table, {**row.cells, **cells})

    for table in ("checkpoints", "users", "sqlite_master", 'store" --', ""):
        yield Row(table, row.cells)
        yield Row(table, {"thread_id": "trip", "prefix": "users", "key": "a"})
    yield Row(row.table, {})
    if "bson" in row.cells:
        from bson import decode, encode

        raw = row.cells["bson"]
        assert isinstance(raw, bytes)
        document = decode(raw)
        for name, value in (
            ("namespace", "users.bob"),
            ("namespace", [1]),
            ("namespace", None),
            ("namespace_str", "users/bob"),
            ("namespace_str", ""),
            ("namespace_prefix", ["admin"]),
            ("key", 5),
        ):
            yield changed(bson=encode({**document, name: value}))
        first = encode({"key": "other"})[4:-1]
        yield changed(bson=(len(raw) + len(first)).to_bytes(4, "little") + first + raw[4:])
        yield changed(bson=b"")
        return
    yield changed(key=5)
    yield changed(key=None)
    if "prefix" in row.cells:
        yield changed(prefix=None)
        yield changed(**{"value) SELECT 1; --": "a"})
        yield Row(row.table, {one: row.cells[one] for one in row.cells if one != "prefix"})
    else:
        document = json.loads(str(row.cells["value"]))
        yield changed(key="agent:secret")
        yield changed(type="hash")
        yield changed(value="[]")
        yield changed(value="x")
        for name in ("prefix", "key"):
            yield changed(value=json.dumps({**document, name: None}))
        yield changed(value='{"key": "other", ' + str(row.cells["value"])[1:])


def test_an_archive_brings_nothing_but_items(bench: Bench, tmp_path: Path) -> None:
    bundle = archived(bench, tmp_path)
    rows = list(bundle.rows())
    with open_memory(parse_url(bench.url)) as memory:
        assert {memory.key_of(row) for row in rows} == {ItemKey(("users", "anna"), "profile")}
        for row in foreign_rows(rows[0]):
            with pytest.raises((Refused, Unsupported)):
                pytest.fail(f"{row}: {memory.key_of(row)}")
    before = keys(bench)
    write_bundle(bundle.path, bundle.header, [*rows, Row("users", {"key": "a"})])
    for word in ("--dry-run", "--yes"):
        refused = run(bench, "import", bundle.path, word)
        assert (refused.code, refused.raw, "a row of 'users'" in refused.err) == (5, b"", True)
    assert keys(bench) == before


def test_an_archive_that_is_swapped_at_the_question_brings_nothing(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = archived(bench, tmp_path)
    rows = [Row(row.table, row.cells) for row in bundle.rows()]
    before = keys(bench)
    (planned,) = run(bench, "import", bundle.path, "--dry-run", "-o", "json").json
    assert planned["namespaces"] == [["users", "anna"]]

    def swap(question: str) -> None:
        assert " into users/anna of '" in question
        write_bundle(bundle.path, bundle.header, [*rows, *rows])

    monkeypatch.setattr("ckpt_cli.commands.memory.confirm", swap)
    refused = run(bench, "import", bundle.path)
    assert (refused.code, "changed after it was checked" in refused.err) == (6, True)
    assert keys(bench) == before
