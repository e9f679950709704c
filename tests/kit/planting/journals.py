"""SQLite stores with the rollback journal of a writer that was killed."""

import shutil
import subprocess
import sys
from pathlib import Path

from tests.kit.command import SAMPLE

KILLED = """
import os, signal, sqlite3, sys
path, mode, pages = sys.argv[1:]
writer = sqlite3.connect(path, isolation_level=None)
writer.execute(f"PRAGMA journal_mode = {mode}")
writer.execute(f"PRAGMA cache_size = {pages}")
writer.execute("BEGIN IMMEDIATE")
writer.execute("UPDATE checkpoints SET thread_id = 'UNCOMMITTED' || thread_id")
os.kill(os.getpid(), signal.SIGKILL)
"""
SPILLED, CACHED = "1", "-20000"
"""With a cache of one page, changed pages stand in the file; with a large one, none do."""
MAGIC = bytes.fromhex("d9d505f920a163d7")


def journal(store: Path) -> Path:
    return store.with_name(store.name + "-journal")


def killed(store: Path, mode: str = "delete", pages: str = SPILLED) -> Path:
    """A store in which a writer was killed in the middle of a transaction."""
    shutil.copyfile(SAMPLE, store)
    subprocess.run([sys.executable, "-c", KILLED, store, mode, pages], check=False)
    # SQLite writes the magic number when the journal is synced, before it changes the file.
    assert journal(store).read_bytes()[:8] == (MAGIC if pages == SPILLED else bytes(8))
    assert (b"UNCOMMITTED" in store.read_bytes()) == (pages == SPILLED)
    return store
