"""The stores that are measured, each made when it is first asked for.

SQLite files are kept between runs in an ignored folder; what is on a server is made anew.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Self

from tests import servers
from tests.bench.declared import Made
from tests.bench.sizes import Size
from tests.support import ROOT

CACHE = ROOT / "bench-data"
_HERE = Path(__file__).parent
_RECIPE = ("agent.py", "clone.py", "make_store.py", "make_long.py", "make_steps.py")
_STARTS: dict[str, Callable[[], servers.Server]] = {
    "postgres": servers.start_postgres,
    "mysql": servers.start_mysql,
    "mongodb": servers.start_mongodb,
    "dynamodb": servers.start_dynamodb,
}
Maker = Callable[["Stores"], AbstractContextManager[Made]]


class Stores:
    """Makes stores by their names, and the servers that they need."""

    def __init__(self, size: Size, say: Callable[[str], None]) -> None:
        self.size = size
        self._say = say
        self._stack = ExitStack()
        self._made: dict[str, Made] = {}
        self._servers: dict[str, servers.Server] = {}
        self._missing: dict[str, servers.Unavailable] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def get(self, name: str) -> Made:
        """Return a store. Raises `servers.Unavailable` if there is no such server here."""
        from tests.bench.makers import MAKERS

        if name in self._missing:
            raise self._missing[name]
        if name not in self._made:
            self._say(f"make {name}")
            try:
                self._made[name] = self._stack.enter_context(MAKERS[name](self))
            except servers.Unavailable as error:
                self._missing[name] = error
                raise
        return self._made[name]

    def server(self, kind: str) -> servers.Server:
        """Return a server of this kind, which is stopped at the end."""
        if kind not in self._servers:
            self._servers[kind] = _STARTS[kind]()
            self._stack.callback(self._servers[kind].stop)
        return self._servers[kind]

    def cached(self, name: str, number: int, make: Callable[[Path, int], None]) -> Path:
        """Return a SQLite file, made again if the code that makes it changed."""
        recipe = hashlib.sha256(version("langgraph").encode())
        for source in _RECIPE:
            recipe.update((_HERE / source).read_bytes())
        path = CACHE / f"{name}-{number}-{recipe.hexdigest()[:12]}.db"
        if not path.exists():
            CACHE.mkdir(exist_ok=True)
            for stale in CACHE.glob(f"{name}-{number}-*"):
                stale.unlink()
            part = path.with_suffix(".part")
            make(part, number)
            for rest in ("-wal", "-shm"):
                part.with_name(part.name + rest).unlink(missing_ok=True)
            part.rename(path)
        return path


@contextmanager
def copied_file(path: Path) -> Iterator[Path]:
    """Yield a private copy of a file."""
    with TemporaryDirectory(prefix="ckpt-bench-") as folder:
        copy = Path(folder, "copy.db")
        shutil.copyfile(path, copy)
        yield copy
