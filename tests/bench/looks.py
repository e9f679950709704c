"""Time a look of `tail` at a store without news: looks.py STORE -> JSON of seconds"""

from __future__ import annotations

import json
import sys
import time
from statistics import median

from ckpt_backends.registry import open_store
from ckpt_cli.queries.tail import StoreTail

_LAST, _ROUNDS = 5, 5


def looked(url: str) -> dict[str, float]:
    """Return how long a look takes, once the newest checkpoints are known."""
    tail = StoreTail(None, None, all_ns=False)
    looks: list[float] = []
    with open_store(url) as store:
        assert len(list(tail.last(store, _LAST))) == _LAST
        for _ in range(_ROUNDS):
            begun = time.perf_counter()
            assert list(tail.new(store)) == []
            looks.append(time.perf_counter() - begun)
    return {"a look": median(looks)}


if __name__ == "__main__":
    print(json.dumps(looked(sys.argv[1])))
