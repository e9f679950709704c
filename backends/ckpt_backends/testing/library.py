"""An empty store, in which each test makes threads by LangGraph and removes them again."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol, TypedDict

from langgraph.types import Command, interrupt

from ckpt_backends.registry import open_store
from ckpt_backends.testing.command_line import CommandResult, ckpt
from ckpt_backends.testing.scenarios.building import chain

if TYPE_CHECKING:
    from ckpt_backends.testing.harness import Harness


class WordList(TypedDict):
    items: Annotated[list[str], lambda old, new: old + new]


def graph_of(saver: Any, *, asks: bool = False) -> Any:
    """Return a graph of two nodes, the first of which may ask a question."""

    def first(state: WordList) -> Any:
        return {"items": [f"first {interrupt('which?') if asks else len(state['items'])}"]}

    nodes = {"first": first, "second": lambda state: {"items": ["second"]}}
    return chain(nodes, WordList).compile(checkpointer=saver)


def config_of_thread(thread_id: str) -> dict[str, Any]:
    return {"configurable": {"thread_id": thread_id}}


class Library(Protocol):
    """Runs `graph_of` on a store, and reads its threads with the official saver."""

    def run(self, thread_id: str, word: str) -> Any:
        """Run the graph to its end, with `word` as its input. Return its state."""

    def ask(self, thread_id: str, word: str) -> Any:
        """Run the graph until it asks a question, which stays unanswered."""

    def answer(self, thread_id: str, word: str) -> Any:
        """Answer the question. Return the state at the end."""

    def next(self, thread_id: str) -> list[str]:
        """Return the nodes that run next."""

    def read(self, thread_id: str) -> list[Any]:
        """Return what the saver has of a thread; [] if nothing."""

    def forget(self, thread_id: str) -> None:
        """Remove a thread without `ckpt`."""

    def close(self) -> None:
        """End what was started."""


class PythonLibrary:
    """The installed LangGraph on the store of a harness."""

    def __init__(self, harness: Harness) -> None:
        self._harness = harness

    @contextmanager
    def _saver(self) -> Iterator[Any]:
        with warnings.catch_warnings(), self._harness.saver() as saver:
            warnings.simplefilter("ignore")
            yield saver

    def run(self, thread_id: str, word: str) -> Any:
        with self._saver() as saver:
            return graph_of(saver).invoke({"items": [word]}, config_of_thread(thread_id))

    def ask(self, thread_id: str, word: str) -> Any:
        with self._saver() as saver:
            return graph_of(saver, asks=True).invoke({"items": [word]}, config_of_thread(thread_id))

    def answer(self, thread_id: str, word: str) -> Any:
        with self._saver() as saver:
            graph = graph_of(saver, asks=True)
            return graph.invoke(Command(resume=word), config_of_thread(thread_id))

    def next(self, thread_id: str) -> list[str]:
        with self._saver() as saver:
            return list(graph_of(saver, asks=True).get_state(config_of_thread(thread_id)).next)

    def read(self, thread_id: str) -> list[Any]:
        with self._saver() as opened:
            saver = self._harness.corrected_saver(opened)
            config = config_of_thread(thread_id)
            found = [
                (row.checkpoint["id"], row.checkpoint, row.metadata) for row in saver.list(config)
            ]
            head = saver.get_tuple(config)
            assert (head is None) == (not found)
            return found if head is None else [*found, sorted(map(repr, head.pending_writes or ()))]

    def forget(self, thread_id: str) -> None:
        self._harness.forget(thread_id)

    def close(self) -> None:
        """Do nothing: each call opens the store anew."""


class EmptyStore:
    """A store of its own, in which each test makes its threads and removes them."""

    def __init__(self, harness: Harness, library: Library) -> None:
        self.harness = harness
        self.library = library
        self.made: list[str] = []
        """The threads to remove after the test."""

    @property
    def url(self) -> str:
        return self.harness.url

    def fill(self, *threads: str, asks: bool = False) -> None:
        """Make threads, each by one run of `graph_of`."""
        for thread_id in threads:
            (self.library.ask if asks else self.library.run)(thread_id, "in")
            self.made.append(thread_id)

    def read(self, thread_id: str) -> Any:
        """Return what the official saver has of a thread."""
        return self.library.read(thread_id)

    def rows(self, thread_id: str) -> list[Any]:
        """Return the rows of a thread as `ckpt` reads them, in a form that can be compared."""
        with open_store(self.url) as store:
            return sorted(
                repr((row.table, sorted(row.cells.items()))) for row in store.rows(thread_id)
            )

    def ckpt(self, *words: str | Path) -> CommandResult:
        return ckpt("-s", self.url, *words)

    def imported(self, *words: str | Path) -> CommandResult:
        """Import archives that this test has made, so their pickles are its own."""
        allowed = ["--allow-pickle"] if self.harness.stores_pickles else []
        return self.ckpt("import", *words, *allowed, "--yes", "-o", "json")

    def clear(self) -> None:
        """Remove the threads that were made."""
        for thread_id in self.made:
            self.library.forget(thread_id)
        self.made.clear()
