"""The stores by the names that measurements give them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.bench import made_keys, made_servers, made_sqlite, raw_copy
from tests.bench.declared import Made
from tests.bench.sizes import FULL
from tests.bench.stores import Maker, Stores


@contextmanager
def _nothing(_: Stores) -> Iterator[Made]:
    """Yield no store, for what needs none."""
    yield Made("", "")


MAKERS: dict[str, Maker] = {
    "nothing": _nothing,
    "copy to postgres": raw_copy.to_postgres,
    "copy to sqlite": raw_copy.to_sqlite,
    "sqlite": made_sqlite.large,
    "sqlite deep": made_sqlite.deep,
    "sqlite long": made_sqlite.long,
    "sqlite long, a cluster": made_sqlite.long_and_cluster,
    "sqlite states": made_sqlite.states,
    "sqlite filtered": made_sqlite.filtered,
    "sqlite small threads": made_sqlite.small_threads,
    "sqlite one thread": made_sqlite.one_thread,
    "sqlite one value": made_sqlite.one_value,
    "postgres": made_servers.postgres(2),
    "postgres filtered": made_servers.postgres_filtered,
    "postgres small threads": made_servers.postgres_small_threads,
    "mysql": made_servers.mysql,
    "mysql small threads": made_servers.mysql_small_threads,
    "redis": made_keys.on_redis(modules=True),
    "redis hashes": made_keys.on_redis(modules=False),
    "redis small threads": made_keys.small_on_redis(modules=True),
    "redis hashes, small threads": made_keys.small_on_redis(modules=False),
    "mongodb": made_keys.mongodb,
    "mongodb small threads": made_keys.small_on_mongodb,
    "dynamodb": made_keys.dynamodb,
    **{f"sqlite grown {n}": made_sqlite.grown(n) for n, _ in enumerate(FULL.growth)},
    "postgres grown 0": made_servers.postgres(0),
    "postgres grown 1": made_servers.postgres(1),
    "postgres grown 2": made_servers.largest_postgres,
}
