"""LangGraph's four Stores, filled by their official libraries, are read as these read them."""

import hashlib
import json
from pathlib import Path

import pytest

from ckpt_backends.memory import ItemKey
from ckpt_backends.registry import open_memory
from ckpt_backends.url import parse_url
from tests.kit.command import ckpt
from tests.kit.memory.benches import IN_VECTORS, Bench, SqliteBench
from tests.kit.memory.contents import ITEMS, exported, fill, keys, listed, memory, told


def test_items_are_those_of_the_official_store(bench: Bench) -> None:
    fill(bench)
    with bench.store() as store:
        truth = told(store)
        namespaces = set(store.list_namespaces(limit=100))
        got = {
            (namespace, key): found.value
            for namespace, key in ITEMS
            if (found := store.get(namespace, key, refresh_ttl=False)) is not None
        }
    assert {at: value for at, (value, _, _) in truth.items()} == ITEMS
    assert exported(bench) == truth
    assert not bench.gets or got == ITEMS
    with open_memory(parse_url(bench.url)) as memory:
        assert {one.namespace for one in memory.namespaces()} == namespaces


def test_a_namespace_is_its_labels_and_not_the_beginning_of_a_text(bench: Bench) -> None:
    fill(bench)
    found = keys(bench, "users/anna")
    assert found == sorted(at for at in ITEMS if at[0][:2] == ("users", "anna"))
    with bench.store() as store:
        official = set(told(store, prefix=("users", "anna")))
    assert official == set(found) or bench.prefix_is_text
    with open_memory(parse_url(bench.url)) as memory:
        assert [one.namespace for one in memory.namespaces(("users", "anna"))] == [
            ("users", "anna"),
            ("users", "anna", "memories"),
        ]
        assert not list(memory.items(prefix=("users.anna",)))
        assert not list(memory.items(prefix=("users", "ann")))


def test_the_order_is_that_of_labels_and_keys(bench: Bench) -> None:
    fill(bench)
    assert keys(bench) == sorted(ITEMS)
    with open_memory(parse_url(bench.url)) as memory:
        namespaces = list(memory.namespaces())
        assert [one.namespace for one in namespaces] == sorted({at for at, _ in ITEMS})
        assert {one.namespace: one.items for one in namespaces}["a b", "c:d"] == 2
        items = list(memory.items())
        assert sum(one.bytes for one in namespaces) == sum(one.size for one in items) > 0
        assert all(one.value is None for one in items)
        wanted = [ItemKey(*at) for at in sorted(ITEMS)[2:5]]
        some = list(memory.items(keys=[*reversed(wanted), ItemKey(("no",), "such")], values=True))
        assert [one.key for one in some] == wanted
        assert all(one.value is not None for one in some)
        assert [one.key.namespace for one in memory.items(key="profile")] == [
            ("users", "anna"),
            ("users", "anna-2"),
        ]


def test_vectors_are_named_and_never_printed(bench: Bench) -> None:
    fill(bench, {(("v",), "with"): {"text": "some"}, (("v",), "without"): {"other": 1}})
    found = {one["key"]: one["vectors"] for one in listed(bench)}
    assert len(found["with"]) == 1
    assert found["with"][0]["field"]
    assert found["with"][0]["bytes"] > 0
    assert sum(map(len, found.values())) == bench.vectors()
    for words in (["list"], ["list", "-o", "table"], ["show", "with"], ["export"]):
        assert str(IN_VECTORS) not in memory(bench, *words).out


def test_items_are_found_by_the_thread_that_their_values_name(bench: Bench) -> None:
    with bench.store() as store:
        store.put(("s",), "plain", {"text": "x", "thread_id": "one"})
        store.put(("s",), "nested", {"text": "y", "metadata": {"threadId": "one"}})
        store.put(("s",), "other", {"thread_id": "two", "text": "one"})
    assert sorted(one["key"] for one in listed(bench, "--source", "one")) == ["nested", "plain"]


def test_times_to_live_are_told(bench: Bench) -> None:
    with bench.with_lifetime(minutes=60) as store:
        store.put(("t",), "goes", {"text": "x"})
    (one,) = listed(bench)
    (shown,) = listed(bench, "--no-expired")
    assert shown == one
    assert not one["expired"]
    assert one["expires_at"] > one["updated_at"]
    table = memory(bench, "list", "-o", "table").out
    assert "expires in 59m" in table or "expires in 1h" in table
    text = memory(bench, "show", "goes").out
    (expiry,) = [one for one in text.splitlines() if one.startswith("expires ")]
    assert expiry.count("expires") == 1
    assert not listed(bench, "--expired")


def test_what_has_expired_is_marked_until_it_is_swept(bench: Bench) -> None:
    if not bench.keeps_expired:
        # Redis removes keys by itself: there is nothing that could be marked.
        with bench.store() as store:
            store.put(("t",), "went", {"text": "x"}, ttl=0.001)
        assert not listed(bench)
        return
    with bench.with_lifetime(minutes=60) as store:
        store.put(("t",), "stays", {"text": "x"})
        store.put(("t",), "went", {"text": "y"})
        bench.expire(("t",), "went")
        assert store.get(("t",), "went", refresh_ttl=False).value == {"text": "y"}
    assert [(one["key"], one["expired"]) for one in listed(bench)] == [
        ("stays", False),
        ("went", True),
    ]
    assert keys(bench, "--expired") == [(("t",), "went")]
    assert keys(bench, "--no-expired") == [(("t",), "stays")]
    assert "expired " in memory(bench, "list", "-o", "table").out


def test_one_item_is_shown_by_key_or_by_namespace_and_key(bench: Bench) -> None:
    fill(bench)
    for name, at in {
        "记忆": (("用户", "张三"), "记忆"),
        "users/anna/profile": (("users", "anna"), "profile"),
        "a b/c:d/k/1": (("a b", "c:d"), "k/1"),
        r"a b/c:d/k\/1": (("a b", "c:d"), "k/1"),
        r"a b/c:d/k\\2": (("a b", "c:d"), "k\\2"),
        "k\\2": (("a b", "c:d"), "k\\2"),
    }.items():
        record = memory(bench, "show", name, "-o", "json").json
        assert (tuple(record["namespace"]), record["key"]) == at
        assert record["value"] == ITEMS[at]
    words = ["memory", "show", "profile", "--namespace"]
    assert ckpt("-s", bench.url, *words, "users/anna", "-o", "json").json["value"]["age"] == 41.5
    ambiguous = memory(bench, "show", "profile")
    assert (ambiguous.code, "'users/anna/profile'" in ambiguous.err) == (3, True)
    assert memory(bench, "show", "nothing").code == 3
    assert memory(bench, "show", "no/such/thing").code == 3


def test_the_stored_bytes_are_written_raw(bench: Bench) -> None:
    fill(bench, {(("r",), "k"): {"text": "as stored"}})
    assert b"as stored" in memory(bench, "show", "k", "--raw").raw
    assert memory(bench, "show", "k", "--raw", "--redact").code == 2


def test_search_looks_in_values_keys_and_namespaces(bench: Bench) -> None:
    fill(bench)

    def found(*words: str) -> list[tuple[str, str, str | None]]:
        records = memory(bench, "search", *words, "-o", "json").json
        return [(one["key"], one["in"], one["path"]) for one in records]

    assert found("green tea") == [("tea", "value", "text")]
    assert (found("披萨"), found("张三")) == (
        [("记忆", "value", "text")],
        [("记忆", "namespace", None)],
    )
    assert ("tea", "key", None) in found("tea")
    assert found("100% [x]*?") == [('it\'s "odd" 100% [x]*?', "key", None)]
    assert found("-iE", "SOMEBODY|upper case") == [
        ("upper", "value", "text"),
        ("profile", "value", "text"),
    ]
    assert found("de", "--namespace", "users/anna") == [("profile", "value", "languages[0]")]
    assert memory(bench, "search", "nothing fits").code == 1
    assert memory(bench, "search", "-E", "(").code == 2
    assert len(found("-n", "2", "-E", ".")) == 2


def test_a_tree_has_each_label_once_and_all_that_is_odd_made_visible(bench: Bench) -> None:
    fill(bench)
    lines = memory(bench, "list", "-o", "table").out.splitlines()
    assert [line for line in lines if line.endswith("/")] == [
        *("a b/", "  c:d/", "users/", "  Anna/", "  anna/", "    memories/", "  anna-2/"),
        *("x%y/", "x_y/", "用户/", "  张三/"),
    ]
    assert len(lines) == 11 + len(ITEMS)
    for words in (["list", "--flat", "-o", "table"], ["list"], ["show", "x_y/new\nline"]):
        out = memory(bench, *words).out
        assert "\x1b" not in out
        assert "\u202e" not in out
        assert "new\\nline" in out


def test_listings_are_limited_and_filtered(bench: Bench) -> None:
    fill(bench)
    answer = memory(bench, "list", "-n", "3", "-o", "json")
    assert len(answer.json) == 3
    assert "--all for more" in answer.err
    assert keys(bench, "--match", "prof*") == [
        (("users", name), "profile") for name in ("anna", "anna-2")
    ]
    assert len(keys(bench, "--since", "1h")) == len(ITEMS)
    assert not keys(bench, "--until", "1h")
    rows = memory(bench, "list", "--all").out.splitlines()
    assert rows[0].split("\t")[:4] == ["namespace", "key", "updated_at", "bytes"]
    assert r"a b/c:d" in rows[1]


def test_values_and_what_leads_to_them_are_redacted(bench: Bench) -> None:
    fill(bench, {(("r",), "k"): {"secret_field": "canary4711", "text": "canary4711"}})
    for words in (
        *(["list"], ["list", "-o", "table"], ["show", "k"], ["show", "k", "-o", "json"]),
        *(["search", "canary"], ["search", "canary", "-o", "json"], ["export"]),
        ["delete", "k", "--dry-run", "-o", "json"],
    ):
        answer = memory(bench, *words, "--redact")
        assert answer.code == 0
        assert "canary" not in answer.out + answer.err
        assert "secret_field" not in answer.out


def test_an_export_is_written_whole_to_a_file(bench: Bench, tmp_path: Path) -> None:
    fill(bench)
    target = tmp_path / "out.ndjson"
    words = ["memory", "export", "--namespace", "users/anna", "--to", str(target)]
    assert ckpt("-s", bench.url, *words).code == 0
    records = [json.loads(line) for line in target.read_text().splitlines()]
    assert [one["key"] for one in records] == [key for _, key in keys(bench, "users/anna")]
    assert [one.name for one in tmp_path.iterdir() if one.name.endswith(".part")] == []
    assert memory(bench, "export", "--to", str(tmp_path / "no" / "x")).code == 4


def test_where_there_are_only_items_threads_say_so(bench: Bench) -> None:
    fill(bench, {(("m",), "k"): {"text": "x"}})
    answer = ckpt("-s", bench.url, "threads", "list")
    assert (answer.code, " memory list`" in answer.err) == (4, True)


def test_where_there_is_no_store_memory_says_so(bench: Bench, sample: Path) -> None:
    url = str(sample) if isinstance(bench, SqliteBench) else bench.url
    answer = ckpt("-s", url, "memory", "list")
    assert (answer.code, "no long-term memory" in answer.err) == (4, True)
    assert "hint:" in answer.err


def test_an_empty_store_is_a_store(bench: Bench) -> None:
    with bench.store():
        pass
    answer = memory(bench, "list")
    assert (answer.code, "no items" in answer.err) == (0, True)


@pytest.mark.parametrize("words", [["list"], ["show", "tea"], ["search", "tea"], ["export"]])
def test_reading_leaves_a_file_as_it_was(tmp_path: Path, words: list[str]) -> None:
    bench = SqliteBench(str(tmp_path / "memory.db"))
    fill(bench)
    before = hashlib.sha256(Path(bench.url).read_bytes()).digest()
    assert memory(bench, *words).code == 0
    assert hashlib.sha256(Path(bench.url).read_bytes()).digest() == before
