"""Official graphs that fail and ask in known ways."""

import sqlite3
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from langgraph.types import interrupt

from tests.kit.agents import small
from tests.kit.agents.small import Log, beside, nested

INPUT: Any = {"log": []}


@dataclass
class World:
    """What the nodes of a graph meet outside: a service that is down."""

    is_down: bool = True
    ran: list[str] = field(default_factory=list)

    def node(self, name: str) -> Callable[[Log], dict[str, Any]]:
        """Return a node that fails as long as the service is down."""

        def work(state: Log) -> dict[str, Any]:
            self.ran.append(name)
            if self.is_down:
                self._wait_for_others()
                raise TimeoutError(f"{name}: no answer after {len(self.ran)} s")
            return {"log": [name]}

        return work

    def asking(self, name: str) -> Callable[[Log], dict[str, Any]]:
        def ask(state: Log) -> dict[str, Any]:
            self.ran.append(name)
            return {"log": [interrupt(f"{name}: ship it?")]}

        return ask

    others: int = 0
    """How many other tasks must have run before the failure ends the step."""

    def _wait_for_others(self) -> None:
        end = time.monotonic() + 5
        while len(set(self.ran)) <= self.others and time.monotonic() < end:
            time.sleep(0.01)
        time.sleep(0.1 if self.others else 0)


Build = Callable[[World], Any]


def crashed(world: World) -> Any:
    return beside(Log, {"crash": world.node("crash")})


def two_failed(world: World) -> Any:
    world.others = 1
    return beside(Log, {"first": world.node("first"), "second": world.node("second")})


def question(world: World) -> Any:
    return beside(Log, {"ask": world.asking("ask")})


def two_questions(world: World) -> Any:
    return beside(Log, {"ask": world.asking("ask"), "also": world.asking("also")})


def error_and_question(world: World) -> Any:
    world.others = 1
    return beside(Log, {"ask": world.asking("ask"), "crash": world.node("crash")})


def inner_crash(world: World) -> Any:
    return nested(Log, crashed(world), "research", "inner")


def running(path: Path, build: Build, world: World) -> AbstractContextManager[Any]:
    return small.running(path, build(world))


def fill(path: Path, build: Build, thread_id: str, *, marks: int = 1) -> World:
    """Run a graph until it fails or asks, so that `marks` errors and questions are stored."""
    world = World()
    with running(path, build, world) as graph:
        value: Any = INPUT
        while True:
            with suppress(TimeoutError):
                graph.invoke(value, {"configurable": {"thread_id": thread_id}})
            if _marks(path, thread_id) >= marks:
                return world
            value = None


def _marks(path: Path, thread_id: str) -> int:
    query = (
        "select count(*) from writes where thread_id = ? and checkpoint_ns = ''"
        " and channel in ('__error__', '__interrupt__')"
    )
    with sqlite3.connect(path) as connection:
        found: int = connection.execute(query, (thread_id,)).fetchone()[0]
    connection.close()
    return found
