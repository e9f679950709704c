"""Baselines for the commands: only reading the same rows with the same driver.

Each is a program for `python -c` that takes the store's path. `click` is imported if the budget
includes the start of a command line.
"""

from __future__ import annotations

NOTHING = "pass"
START_UP = "import click"

_OPEN = """
import sqlite3, sys
store = sqlite3.connect(f"file:{sys.argv[1]}?mode=ro", uri=True)
"""
_BY_THREAD = """
SELECT thread_id, min(checkpoint_id), max(checkpoint_id) AS newest, count(*)
FROM checkpoints GROUP BY thread_id ORDER BY newest DESC, thread_id
"""

NEWEST_THREADS = f"""
import click
{_OPEN}
for row in store.execute({_BY_THREAD!r} + "LIMIT 50"):
    print(*row)
"""

ALL_THREADS = f"""
{_OPEN}
for row in store.execute({_BY_THREAD!r}):
    pass
"""

HEAD = f"""
import click
import ormsgpack
{_OPEN}
body, metadata = store.execute(
    "SELECT checkpoint, metadata FROM checkpoints WHERE thread_id = ? AND checkpoint_ns = ''"
    " ORDER BY checkpoint_id DESC LIMIT 1",
    [sys.argv[2]],
).fetchone()
ormsgpack.unpackb(body, ext_hook=lambda code, data: None)
"""
