"""Stop the official graphs in every way and resume them: python -m tests.resume.matrix FOLDER.

Runs in the environment of any era. It reads names of cells, and writes `CELL.db`, the store before
the resume, and `CELL.json`, what the library did. Imports are paid once: each turn is a fork.
"""

import asyncio
import inspect
import json
import os
import shutil
import signal
import sqlite3
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from tests.kit import graphs
from tests.kit.graphs import CELLS, RELEASE, RESUMED, Cell, note, noted

THREAD = "t"
CONTROL = {"__error__", "__error_source_node__", "__interrupt__", "__resume__"}
CONFIG: Any = {"configurable": {"thread_id": THREAD}}


class Kill:
    """When the saver ends the process; see `Cell.kill`."""

    point: tuple[Any, ...] = ()


def _die(when: str, *seen: Any) -> None:
    if Kill.point == (when, *seen):
        if when == "before put":
            all_written()
        os.kill(os.getpid(), signal.SIGKILL)


def all_written() -> None:
    """Wait until all tasks that ended are stored, since savers are called in many threads."""
    ends = time.monotonic() + 1
    while time.monotonic() < ends:
        lines = noted()
        ended = {words[2].rpartition(":")[2] for words in lines if words[0] == "end"}
        if ended <= {words[1] for words in lines if words[0] == "writes"}:
            # Subgraph calls do not say that they ended.
            time.sleep(0.03)
            return
        time.sleep(0.005)


def _about_to_put(config: Any, metadata: Any) -> tuple[str, int]:
    ns = config["configurable"].get("checkpoint_ns", "")
    found = ns.partition(":")[0], metadata["step"]
    _die("before put", *found)
    return found


def _was_put(found: tuple[str, int]) -> None:
    note("checkpoint", *found)
    _die("after put", *found)


def _were_written(task_id: str, writes: Any) -> None:
    note("writes", task_id, *(channel for channel, _ in writes))


TAKES_PATH = "task_path" in inspect.signature(SqliteSaver.put_writes).parameters
"""LangGraph gives the path to a saver that names this parameter."""


def _path(task_path: str) -> tuple[str, ...]:
    return (task_path,) if TAKES_PATH else ()


class Saver(SqliteSaver):
    """The official saver, which says what it stored, and dies at the kill point."""

    def put(self, config: Any, checkpoint: Any, metadata: Any, *more: Any) -> Any:
        found = _about_to_put(config, metadata)
        done = super().put(config, checkpoint, metadata, *more)
        _was_put(found)
        return done

    def put_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
        super().put_writes(config, writes, task_id, *_path(task_path))
        _were_written(task_id, writes)


class AsyncSaver(AsyncSqliteSaver):
    async def aput(self, config: Any, checkpoint: Any, metadata: Any, *more: Any) -> Any:
        found = _about_to_put(config, metadata)
        done = await super().aput(config, checkpoint, metadata, *more)
        _was_put(found)
        return done

    async def aput_writes(
        self, config: Any, writes: Any, task_id: str, task_path: str = ""
    ) -> None:
        await super().aput_writes(config, writes, task_id, *_path(task_path))
        _were_written(task_id, writes)


def forked(run: Any) -> int:
    """Run something in a fork; return its signal or its exit code."""
    sys.stdout.flush()
    child = os.fork()
    if not child:
        code = 1
        try:
            signal.alarm(30)
            run()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(code)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


@contextmanager
def connected(store: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(store, check_same_thread=False)) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        yield connection


def identity(question: Any) -> str:
    return str(getattr(question, "id", None) or getattr(question, "interrupt_id", ""))


def options(durability: str) -> dict[str, Any]:
    return {"durability": durability} if durability and RELEASE >= (0, 6) else {}


def turn(cell: Cell, store: Path, given: Any) -> None:
    more = options(cell.durability)
    config = {**CONFIG, "recursion_limit": cell.limit}
    said = "returned"
    try:
        if cell.is_async:

            async def go() -> None:
                async with AsyncSaver.from_conn_string(str(store)) as saver:
                    run = asyncio.ensure_future(cell.build(saver).ainvoke(given, config, **more))
                    while cell.cancels and not graphs.has_begun(cell.cancels):
                        await asyncio.sleep(0.005)
                    if cell.cancels:
                        # Give the others time to store what they wrote.
                        await asyncio.sleep(0.05)
                        run.cancel()
                    await run

            asyncio.run(go())
        else:
            with connected(store) as connection:
                graph = cell.build(Saver(connection))
                if callable(given):
                    given = given(pending(SqliteSaver(connection)))
                if isinstance(given, graphs.Update):
                    graph.update_state(CONFIG, {"log": ["changed"]}, as_node=given.node)
                else:
                    graph.invoke(given, config, **more)
    except (Exception, asyncio.CancelledError) as error:
        said = f"raised {type(error).__name__}: {error}"
    note("stopped", said)


def tasks_of(state: Any, path: str = "") -> list[dict[str, Any]]:
    """All tasks of a state and of the states of its subgraph calls."""
    found = []
    for task in state.tasks:
        here = f"{path} > {task.name}" if path else task.name
        found.append({"id": task.id, "path": here, "asks": [str(i.value) for i in task.interrupts]})
        if hasattr(task.state, "tasks"):
            found += tasks_of(task.state, here)
    return found


def rows_of(store: Path, query: str) -> list[Any]:
    with closing(sqlite3.connect(store)) as connection:
        try:
            return connection.execute(query).fetchall()
        except sqlite3.OperationalError:
            return []


def outputs(store: Path) -> set[str]:
    rows = rows_of(store, "SELECT task_id, channel FROM writes")
    return {task for task, channel in rows if channel not in CONTROL}


def calls_of(store: Path, tasks: set[str]) -> set[str]:
    """The paths of subgraph calls of these tasks that have checkpoints, and of stateful ones."""
    found = set()
    for (ns,) in rows_of(store, "SELECT DISTINCT checkpoint_ns FROM checkpoints"):
        name, _, task = ns.partition("|")[0].partition(":")
        if name and (task in tasks or not task):
            found.add(" > ".join(part.partition(":")[0] for part in ns.split("|")))
    return found


def writers(store: Path) -> set[str]:
    return {task for (task,) in rows_of(store, "SELECT task_id FROM writes")}


def resumed(
    cell: Cell, store: Path, given: Any, log: Path, before: list[list[str]], tasks: list[Any]
) -> Any:
    """What a resume does, told by the nodes themselves and by the library's debug stream."""
    graphs.LOG, graphs.TURN = str(log), RESUMED
    log.touch()
    events: list[Any] = []
    more = options(cell.durability and "sync")
    said = "returned"
    had, wrote = outputs(store), writers(store)
    try:
        if cell.is_async:

            async def go() -> None:
                async with AsyncSaver.from_conn_string(str(store)) as saver:
                    graph = cell.build(saver)
                    async for event in graph.astream(given, CONFIG, stream_mode="debug", **more):
                        events.append(event)

            asyncio.run(go())
        else:
            with connected(store) as connection:
                graph = cell.build(Saver(connection))
                for event in graph.stream(given, CONFIG, stream_mode="debug", **more):
                    events.append(event)
    except Exception as error:
        said = f"raised {type(error).__name__}: {error}"
    lines = noted()
    root = {
        event["payload"]["id"]: (event["step"], event["payload"]["name"])
        for event in events
        if event["type"] == "task"
    }
    first_step = min((step for step, _ in root.values()), default=None)

    def ids(place: str) -> list[str]:
        return [part.rpartition(":")[2] for part in place.split("|")]

    begins = [(words[1], words[2]) for words in lines if words[0] == "begin"]
    steps = {words[2]: int(words[3]) for words in lines if words[0] == "begin"}

    def root_step(where: str) -> int:
        """The step of the root's task to which a node belongs; the namespace of a stateful subgraph
        has no ids."""
        task = ids(where)[0]
        steps = [step for one, (step, name) in root.items() if task in (one, name)]
        return min(steps, default=0)

    ran_step = min((root_step(where) for _, where in begins), default=None)
    first = [(path, where) for path, where in begins if root_step(where) == ran_step]
    # Of each subgraph call only the nodes of the first superstep that ran any.
    least: dict[str, int] = {}
    for _, where in first:
        outer = where.rpartition("|")[0]
        least[outer] = min(steps[where], least.get(outer, steps[where]))

    def is_first(where: str) -> bool:
        return steps[where] == least[where.rpartition("|")[0]]

    first = [one for one in first if is_first(one[1])]
    asked_open = Counter((words[1], words[2]) for words in lines if words[0] == "ask") - Counter(
        (words[1], words[2]) for words in lines if words[0] == "answered"
    )
    before_ids = {ids(words[2])[-1] for words in before if words[0] == "begin"}
    # A subgraph call that starts anew gives its tasks other ids.
    before_root = {(words[1], ids(words[2])[0]) for words in before if words[0] == "begin"}
    asked_before = {words[2] for words in before if words[0] == "ask"}
    # A function of `@task` goes by the entrypoint that calls it; `get_state` does not have it.
    had_result = {one["id"]: one["path"] for one in tasks if one["id"] in had} | {
        task: f"main > {name}"
        for task, (step, name) in root.items()
        if step == first_step and task in had and name in {"one", "two"}
    }
    applied = [
        path
        for task, path in had_result.items()
        if not path.endswith("__start__") and not any(task in where for _, where in begins)
    ]
    handlers = [path for path, _ in first if "_error_handler__" in path]
    return {
        "said": said,
        "runs": sorted(path for path, _ in first if "_error_handler__" not in path),
        "handlers": sorted(handlers),
        "applies": sorted(applied),
        "asks": sorted(
            path
            for path, where in asked_open.elements()
            if (path, where) in first and where in asked_before
        ),
        "repeats": sorted(
            path
            for path, where in first
            if ids(where)[-1] in before_ids or (path, ids(where)[0]) in before_root
        ),
        "known_repeats": sorted(
            path for path, where in first if ids(where)[-1] in before_ids & wrote
        ),
    }


def look(cell: Cell, store: Path, folder: Path, name: str, before: list[list[str]]) -> None:
    """Write what the library says of a store, and what each way to resume it does."""
    from langgraph.types import Command

    graphs.LOG, graphs.TURN = os.devnull, RESUMED
    with connected(store) as connection:
        graph = cell.build(SqliteSaver(connection))
        try:
            state = graph.get_state(CONFIG, subgraphs=True)
            after = list(state.next)
            tasks = tasks_of(state)
            questions = pending(SqliteSaver(connection))
        except Exception as error:
            after, questions, tasks = ["raised", repr(error)], {}, []
    ways: dict[str, Any] = {"none": None}
    if questions:
        ways["scalar"] = Command(resume="1")
        if RELEASE >= (0, 6):
            ways["ids"] = Command(resume=dict.fromkeys(questions.values(), "1"))
    ways["input"] = {"log": ["new"]}
    done = {}
    for way, given in ways.items():
        copy = folder / f"{name}.{way}.copy"
        shutil.copyfile(store, copy)
        log = folder / f"{name}.{way}.log"
        log.unlink(missing_ok=True)
        done[way] = resumed(cell, copy, given, log, before, tasks)
        for suffix in ("", "-wal", "-shm"):
            Path(f"{copy}{suffix}").unlink(missing_ok=True)
        log.unlink()
    told = {
        "release": ".".join(map(str, RELEASE)),
        "next": after,
        "namespaces": sorted(calls_of(store, {one["id"] for one in tasks})),
        "resumes": done,
    }
    (folder / f"{name}.json").write_text(json.dumps(told, indent=1))


def pending(saver: Any) -> dict[str, str]:
    """The questions of unfinished tasks, those of error handlers too, which `get_state` leaves out.

    They go by their text; a text that stands there twice gets a mark.
    """
    head = saver.get_tuple(CONFIG)
    writes = head.pending_writes if head else []
    finished = {task for task, channel, _ in writes if channel not in CONTROL}
    found: dict[str, str] = {}
    for task, channel, value in writes:
        if channel == "__interrupt__" and task not in finished:
            for one in value if isinstance(value, (list, tuple)) else [value]:
                text = str(one.value)
                if identity(one) in found.values():
                    continue
                while text in found:
                    text += "'"
                found[text] = identity(one)
    return found


def cell_done(name: str, folder: Path) -> bool:
    cell = CELLS[name]
    store, log = folder / f"{name}.db", folder / f"{name}.log"
    for path in (store, log):
        path.unlink(missing_ok=True)
    log.touch()
    graphs.LOG, graphs.ASYNC = str(log), cell.is_async
    for number, given in enumerate(cell.turns):
        graphs.TURN = number
        Kill.point = cell.kill if number == len(cell.turns) - 1 else ()
        code = forked(lambda: turn(cell, store, given))  # noqa: B023
        if code < 0:
            note("stopped", f"signal {-code}")
    Kill.point = ()
    settle(store)
    before = noted()
    log.unlink()
    return forked(lambda: look(cell, store, folder, name, before)) == 0


def settle(store: Path) -> None:
    """Take the log of a killed process into the file, so that a copy of the file is whole."""
    with closing(sqlite3.connect(store)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.execute("PRAGMA journal_mode=DELETE")
        connection.commit()


if __name__ == "__main__":
    for line in sys.stdin:
        done = cell_done(line.strip(), Path(sys.argv[1]))
        print(line.strip() if done else f"{line.strip()} failed", flush=True)
