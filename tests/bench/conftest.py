"""Fixtures of the benchmark: stores and peer, kept between runs in an ignored folder, and the
table.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.bench.measure import Figure, table

_HERE = Path(__file__).parent
_ROOT = _HERE.parent.parent
_CACHE = _ROOT / "bench-data"
_PEER = "langgraph-checkpoint-cli[sqlite]==0.1.0"


@pytest.fixture(scope="session", autouse=True)
def _as_installed() -> Iterator[None]:
    """Measure as after a plain install: with bytecode, and without environment variables of this
    machine.
    """
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith(("PYTHON", "CKPT_STORE"))]:
            patch.delenv(name)
        patch.setenv("PYTHONPYCACHEPREFIX", str(_CACHE / "bytecode"))
        yield


@pytest.fixture(scope="session")
def threads() -> int:
    """Number of threads of the large store."""
    return int(os.environ.get("CKPT_BENCH_THREADS", "20000"))


@pytest.fixture(scope="session")
def stores(threads: int) -> Path:
    """The folder with `large.db` and `deep.db`, created again if the code that makes them
    changed.
    """
    recipe = hashlib.sha256(version("langgraph").encode())
    for name in ("agent.py", "clone.py", "make_store.py"):
        recipe.update((_HERE / name).read_bytes())
    folder = _CACHE / f"stores-{threads}-{recipe.hexdigest()[:12]}"
    if not folder.exists():
        for stale in _CACHE.glob(f"stores-{threads}-*"):
            shutil.rmtree(stale)
        part = folder.with_name(f"{folder.name}-part")
        part.mkdir(parents=True)
        making = [sys.executable, "-m", "tests.bench.make_store", str(part), str(threads)]
        subprocess.run(making, check=True, cwd=_ROOT)
        part.rename(folder)
    return folder


@pytest.fixture(scope="session")
def large(stores: Path) -> Path:
    return stores / "large.db"


@pytest.fixture(scope="session")
def deep(stores: Path) -> Path:
    return stores / "deep.db"


@pytest.fixture(scope="session")
def peer() -> Path:
    """The peer's script, in a separate environment."""
    folder = _CACHE / "peer"
    stamp = folder / "installed"
    if not stamp.exists() or stamp.read_text() != _PEER:
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", _PEER]
        subprocess.run(pip, check=True)
        stamp.write_text(_PEER)
    return folder / "bin" / "langgraph-checkpoint"


@pytest.fixture(scope="session")
def figures() -> Iterator[list[Figure]]:
    """The measured figures; printed at the end."""
    found: list[Figure] = []
    yield found
    print(f"\n\n{table(found)}")
