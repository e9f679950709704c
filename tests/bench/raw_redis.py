"""Baselines on Redis: the driver alone. Each is a program for `python -c`.

It takes the store's URL, as `raw_postgres` does.
"""

from __future__ import annotations

from tests.bench.raw import PARSED

_OPEN = (
    PARSED
    + """
import sys
import redis
client = redis.Redis.from_url(sys.argv[1], protocol=2)
"""
)

SCAN = f"""
{_OPEN}
print(sum(1 for _ in client.scan_iter(sys.argv[2], count=5000)))
"""
"""A pass over the names of all keys; the second argument is the pattern of those to receive."""

WITH_INTERRUPTS = f"""
{_OPEN}
heads = [client.get(name) for name in client.scan_iter("checkpoint_latest:*", count=5000)]
found, _ = client.execute_command(
    "FT.AGGREGATE", "checkpoint_write", "@channel:{{__interrupt__}}", "LOAD", 1, "@__key",
    "WITHCURSOR", "COUNT", 100000)
pipe = client.pipeline(transaction=False)
for row in found[1:]:
    pipe.execute_command("JSON.GET", row[1])
print(len(heads), len(pipe.execute()))
"""
"""The open questions by the search index of writes, and the pointers to the heads."""
