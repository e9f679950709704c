"""A person in a store: threads and long-term memory by the official libraries, and a neighbour."""

import gzip
import shutil
from pathlib import Path
from typing import Any

from ckpt_backends.registry import open_memory, open_store
from ckpt_backends.url import parse_url
from ckpt_cli.config.machine import state_folder
from tests.kit.agents.steps import graph_of
from tests.kit.command import CommandResult, ckpt
from tests.kit.memory.benches import Bench, SqliteBench

CANARY = "canary8f3a"
"""The name of the person; part of everything that is theirs and of nothing else."""
THREADS = ("talk-1", "talk-2")
OTHER = "neighbour"
CONFIG = """
[stores.a]
url = "{url}"
[stores.a.erase]
subject = "metadata.user"
memory = "users/{{subject}}"
archives = ["backups"]
"""


def fill(bench: Bench) -> None:
    """Store two threads and three items of the person, and a thread and an item of another."""
    with bench.saver() as saver:
        for thread, user in ((THREADS[0], CANARY), (THREADS[1], CANARY), (OTHER, "bert")):
            talk(saver, thread, user)
    with bench.store(embeds=False) as store:
        store.put(("users", CANARY), "profile", {"text": f"{CANARY} likes tea"})
        store.put(("notes",), "from-talk", {"text": "a secret", "thread_id": THREADS[0]})
        store.put(("users", "bert"), "profile", {"text": "likes coffee"})


def talk(saver: Any, thread: str, user: str) -> Any:
    """Run the graph twice; returns its last state."""
    config = {"configurable": {"thread_id": thread}, "metadata": {"user": user}}
    graph = graph_of(saver)
    graph.invoke({"items": [f"{user} says hello"]}, config)
    return graph.invoke({"items": [f"{user} says more"]}, config)


def neighbours(url: str) -> tuple[list[Any], list[Any]]:
    """Return what is stored of those who stay, as it is stored."""
    with open_store(parse_url(url)) as store:
        rows = sorted(store.rows(OTHER), key=repr)
    with open_memory(parse_url(url)) as memory:
        items = [
            sorted(memory.rows(one.key), key=repr) for one in memory.items(prefix=("users", "bert"))
        ]
    assert rows
    assert items
    return rows, items


def configure(folder: Path, url: str) -> None:
    """Write a profile `a` for a store, and trust it."""
    path = folder / "ckpt.toml"
    path.write_text(CONFIG.format(url=url))
    ckpt("trust", "--yes", path, code=0)


def unpacked(folder: Path) -> bytes:
    """Return the bytes and the names of all files below a folder, packed ones also unpacked."""
    found = b""
    for one in sorted(folder.rglob("*")):
        found += one.name.encode()
        if one.is_file():
            data = one.read_bytes()
            found += data + (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else b"")
    return found


SUBJECT = ("--subject", CANARY)


class Home:
    """A folder with a store, its archives and ckpt's own state."""

    def __init__(self, folder: Path, filled: Path | None = None) -> None:
        """Make it; `filled` is a store to copy."""
        self.folder = folder
        self.store = folder / "data" / "agent.db"
        self.backups = folder / "backups"
        self.store.parent.mkdir()
        self.bench = SqliteBench(str(self.store))
        if filled is None:
            fill(self.bench)
        else:
            shutil.copyfile(filled, self.store)
        self.before = neighbours(str(self.store))
        configure(folder, "data/agent.db")

    def run(self, *words: str | Path) -> CommandResult:
        return ckpt("-s", "a", *words)

    def erase(self, *words: str | Path) -> CommandResult:
        return self.run("erase", *words, "-o", "json", "--yes")

    @property
    def threads(self) -> set[str]:
        return {one["thread_id"] for one in self.run("threads", "list", "--all", "-o", "json").json}

    @property
    def state(self) -> Path:
        return state_folder("x").parent

    def everything(self) -> bytes:
        """Return all bytes of the store, the archives and the state."""
        return b"".join(map(unpacked, (self.store.parent, self.backups, self.state)))


def use(home: Home) -> None:
    """Make operations, archives and a saved plan that name the person's threads."""
    assert home.run("rollback", THREADS[0], "--steps", "1", "--yes", "--reason", CANARY).code == 0
    assert home.run("export", *THREADS, OTHER, "--to", home.backups).code == 0
    words = ("purge", "--match", "talk-?", "--plan-out", home.backups / "plan.ndjson")
    assert home.run(*words).code == 0
    named = ("profile", "--namespace", f"users/{CANARY}", "--archive", home.backups)
    assert home.run("memory", "delete", *named, "--yes").code == 0
    with home.bench.store(embeds=False) as store:
        store.put(("users", CANARY), "profile", {"text": f"{CANARY} likes tea"})
