"""Bounds what this process may allocate: DuckDB counts no single huge value.

`memory_limit` of DuckDB is for its buffers. A value that a function makes, such as that of
`repeat('x', 4000000000)`, is allocated beside them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_ROOM = 3 * 2**29
"""Bytes that a query may allocate: what DuckDB may hold, and a value with its copy."""


@contextmanager
def bounded_allocation() -> Iterator[None]:
    """Let this process allocate only so many bytes more, on Linux.

    Other systems do not tell or do not keep such a limit. What is larger raises `MemoryError`, or
    the error of the library that asked for it.
    """
    if sys.platform != "linux":
        yield
        return
    import resource

    before = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[0])
    limit = pages * resource.getpagesize() + _ROOM
    if before[0] != resource.RLIM_INFINITY:
        limit = min(limit, before[0])
    resource.setrlimit(resource.RLIMIT_AS, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
