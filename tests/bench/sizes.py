"""How large the stores are."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Size:
    """Numbers of threads, unless it says otherwise."""

    name: str
    large: int
    """The SQLite file of most measurements, with 14 checkpoints a thread."""
    deep: int
    """Checkpoints of a long thread."""
    steps: int
    """Steps of the threads that are replayed."""
    growth: tuple[int, int, int]
    """SQLite files with a hundred checkpoints a thread."""
    postgres: tuple[int, int, int]
    """PostgreSQL databases with 200 checkpoints a thread; MariaDB has what the second has."""
    servers: int
    """Redis, with 200 checkpoints a thread."""
    documents: int
    """MongoDB and DynamoDB, with a hundred checkpoints a thread."""
    filtered: int
    """A store of which few threads failed or wait."""
    purged: int
    """SQLite and PostgreSQL with small threads, of which a tenth is purged."""
    purged_keys: int
    """The same on MariaDB and Redis."""
    copied: int
    """SQLite file with 14 checkpoints a thread that is copied."""
    value: int
    """MB of one large value."""


FULL = Size(
    name="full",
    large=20_003,
    deep=10_000,
    steps=1000,
    growth=(100, 1000, 10_000),
    postgres=(50, 500, 5000),
    servers=500,
    documents=50,
    filtered=10_000,
    purged=100_000,
    purged_keys=20_000,
    copied=7000,
    value=100,
)
SMALL = Size(
    name="small",
    large=1000,
    deep=1000,
    steps=200,
    growth=(10, 50, 100),
    postgres=(10, 20, 50),
    servers=30,
    documents=5,
    filtered=1000,
    purged=5000,
    purged_keys=1000,
    copied=500,
    value=10,
)
