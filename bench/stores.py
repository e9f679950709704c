"""The stores that are measured: SQLite files by the official saver, and copies of them elsewhere.

Files are kept between runs, and made anew if what makes them changes. `ckpt copy` brings them to
servers, in each run anew; tests prove that a copy equals its source.
"""

import hashlib
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from bench import agents, raw
from bench.measure import CKPT, run
from ckpt_backends.open_for_writing import create_store
from ckpt_backends.transfer.form import Language
from ckpt_backends.url import parse_url
from tests.kit import servers

ENGINES = ("sqlite", "postgres", "mysql", "redis", "mongodb")
SIZES = {
    "agents": [(20_000, 1000), (3000, 100), (2000, 100), (1000, 100), (60, 20)],
    "small": [(100_000, 5000), (10_000, 500), (5000, 500), (3000, 500), (500, 200)],
    "states": [(1000, 200), (1000, 100), (1000, 100), (500, 50), (100, 20)],
    "long": [(10_000, 1000), (10_000, 1000)],
    "copied": [(5000, 500)],
    "vast": [(1_000_000, 20_000)],
    "value": [(100, 10)],
}
"""Threads, checkpoints of a thread or MB of each store on each engine; and those with `--small`.

MongoDB has few: SecantusDB, which stands in for it, takes milliseconds for a request.
"""
_SERVERS: dict[str, tuple[Callable[[], servers.Server], Callable[..., Any]]] = {
    "postgres": (servers.start_postgres, servers.postgres_database),
    "mysql": (servers.start_mysql, servers.mysql_database),
    "mongodb": (servers.start_mongodb, servers.mongodb_database),
}


class Store(NamedTuple):
    """A store that was made."""

    engine: str
    url: str
    facts: Mapping[str, str]
    """What command lines name in braces."""
    file: Path
    """The SQLite file of which it is a copy, or which it is."""


class Stores:
    """Makes stores when they are first asked for."""

    def __init__(self, stack: ExitStack, folder: Path, *, small: bool) -> None:
        self._stack = stack
        self._folder = folder
        self._small = small
        self._found: dict[tuple[str, str], Store] = {}
        self._servers: dict[str, servers.Server] = {}

    def get(self, name: str, engine: str) -> Store:
        """Return a store. Raises `servers.Unavailable` if there is no such server here."""
        if not name:
            return Store("", "", {}, Path())
        if (name, engine) not in self._found:
            number = SIZES[name][ENGINES.index(engine)][self._small]
            file = self._file(name, number)
            url = str(file)
            if engine != "sqlite":
                url = self._stack.enter_context(self._empty(engine))
                _fill(engine, url, file, "--all")
            self._found[name, engine] = Store(engine, url, _facts(file, number), file)
        return self._found[name, engine]

    @contextmanager
    def changed(self, store: Store, change: str) -> Iterator[Store]:
        """Yield a store that one run may change: by `copy` to a target, or by `purge`."""
        if change == "copy":
            with self._empty(store.engine) as target:
                yield store._replace(facts={**store.facts, "target": target})
        elif store.engine == "sqlite":
            with TemporaryDirectory(prefix="ckpt-bench-") as folder:
                yield store._replace(url=shutil.copy(store.file, folder))
        else:
            yield store
            _fill(store.engine, store.url, store.file, "--match", "old-*")

    @contextmanager
    def _empty(self, engine: str) -> Iterator[str]:
        """Yield the URL of a new store, as the official saver would set it up."""
        with ExitStack() as stack:
            if engine == "sqlite":
                folder = stack.enter_context(TemporaryDirectory(prefix="ckpt-bench-"))
                url = str(Path(folder, "new.db"))
            elif engine == "redis":
                # Search indexes exist in one database of a server only.
                server = servers.start_redis(modules=True)
                stack.callback(server.stop)
                url = server.url
            else:
                start, database = _SERVERS[engine]
                if engine not in self._servers:
                    self._servers[engine] = start()
                    self._stack.callback(self._servers[engine].stop)
                url = stack.enter_context(database(self._servers[engine]))
            create_store(parse_url(url), Language.PYTHON)
            yield url

    def _file(self, name: str, number: int) -> Path:
        recipe = version("langgraph").encode() + Path(agents.__file__).read_bytes()
        path = self._folder / f"{name}-{number}-{hashlib.sha256(recipe).hexdigest()[:12]}.db"
        if not path.exists():
            self._folder.mkdir(parents=True, exist_ok=True)
            for stale in self._folder.glob(f"{name}-{number}-*"):
                stale.unlink()
            part = path.with_suffix(".part")
            agents.RECIPES[name](part, number)
            for rest in ("-wal", "-shm"):
                part.with_name(part.name + rest).unlink(missing_ok=True)
            part.rename(path)
        return path


def _fill(engine: str, url: str, file: Path, *threads: str) -> None:
    """Copy threads to a server, and let it count for its plans what it counts by itself later."""
    run([CKPT, "-s", file, "copy", *threads, "--to", url, "--yes", "-q"])
    tables = ", ".join(raw.TABLES.get(engine, ""))
    counts = {"postgres": "VACUUM (ANALYZE)", "mysql": f"ANALYZE TABLE {tables}"}
    if engine in counts:
        with closing(raw.connect(url)) as connection:
            connection.autocommit = True
            connection.cursor().execute(counts[engine])


def _facts(file: Path, number: int) -> dict[str, str]:
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as connection:
        (found,) = connection.execute(
            "SELECT count(DISTINCT thread_id), count(*), (SELECT min(thread_id) FROM writes WHERE"
            " channel = '__interrupt__') FROM checkpoints"
        )
    names = ("threads", "checkpoints", "waiting")
    return {**dict(zip(names, map(str, found), strict=True)), "number": str(number)}
