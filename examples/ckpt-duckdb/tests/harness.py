"""Fills DuckDB files for the conformance suite."""

from contextlib import nullcontext
from pathlib import Path

from ckpt_backends.testing.harness import Harness, TestServer

from ckpt_duckdb.saver import DuckDBSaver


class DuckDBHarness(Harness):
    """DuckDBSaver on a file. It locks the file during its calls only, so all can keep it open."""

    name = "duckdb"
    excludes_writers = True

    def create(self, folder: Path, server: TestServer | None) -> str:
        return str(folder / "store.duckdb")

    def saver(self) -> nullcontext[DuckDBSaver]:
        return nullcontext(DuckDBSaver(self.url))

    def fingerprint(self) -> object:
        return Path(self.url).read_bytes()
