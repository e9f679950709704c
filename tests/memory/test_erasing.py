"""What is erased from a Store is in no row, key or index."""

from __future__ import annotations

import redis

from ckpt_backends.open_for_writing import open_writable_memory
from ckpt_backends.registry import open_memory
from ckpt_backends.url import parse_url
from tests.kit.memory.benches import Bench
from tests.kit.memory.contents import Items, fill, told
from tests.kit.savers.redis import dump

CANARY = "canary8f3a"
ITEMS: Items = {
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
    fill(bench, ITEMS)
    has_terms = bench.url.startswith("redis")
    assert not has_terms or CANARY in keys_and_terms(bench.url)
    with bench.store() as store:
        before = told(store)
    assert erase(bench) == []
    assert not has_terms or CANARY not in keys_and_terms(bench.url)
    with bench.store() as store:
        after = told(store)
    gone, _ = ITEMS
    assert after == {key: one for key, one in before.items() if key != gone}
