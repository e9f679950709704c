"""Records the applications, writes their threads as tests, and runs these in this process."""

import asyncio
import contextlib
import io
import unittest
from pathlib import Path
from types import ModuleType
from typing import Any

from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.types import Command

from ckpt_backends.registry import open_store
from ckpt_backends.url import parse_url
from ckpt_cli.api.thread_tests import ThreadTests, WrittenTests
from ckpt_cli.reading.thread import ThreadReader
from tests.kit.agents.small import saver_of
from tests.thread_tests.applications import agents, graphs, states

MODULES: dict[str, ModuleType] = {
    build.__name__: module for module in (agents, graphs, states) for build in module.INPUTS
}
"""By application; its thread has the same name."""


def place_of(name: str) -> str:
    """Return what --graph is given for an application."""
    return f"{MODULES[name].__name__}:{name}"


def record(path: Path, name: str) -> None:
    if name == "asynchronous":
        asyncio.run(_record(path, name))
        return
    with saver_of(path) as saver:
        record_on(saver, name)


def record_on(saver: Any, name: str) -> None:
    build, inputs, config = _application(name)
    graph = build(saver)
    for value in inputs:
        given = value
        if isinstance(value, dict) and "Left?" in value:
            asked = graph.get_state(config).interrupts
            given = Command(resume={one.id: value[one.value] for one in asked})
        graph.invoke(given, config, durability="sync")


def _application(name: str) -> Any:
    build = getattr(MODULES[name], name)
    return build, MODULES[name].INPUTS[build], {"configurable": {"thread_id": name}}


async def _record(path: Path, name: str) -> None:
    build, inputs, config = _application(name)
    async with AsyncSqliteSaver.from_conn_string(str(path)) as saver:
        graph = build(saver)
        for value in inputs:
            await graph.ainvoke(value, config, durability="sync")


def write(path: Path | str, folder: Path, thread: str, graph: str, **options: Any) -> WrittenTests:
    folder.mkdir(exist_ok=True)
    with open_store(parse_url(str(path))) as store:
        return ThreadTests(folder, graph, **options).write(ThreadReader(store, thread))


def failures(path: Path) -> dict[str, str]:
    """Run a test file here, and return test function to why it failed."""
    found: dict[str, Any] = {"__file__": str(path), "__name__": path.stem}
    exec(compile(path.read_text(), str(path), "exec"), found)
    failed: dict[str, str] = {}
    for name in [name for name in found if name.startswith("test_")]:
        try:
            with contextlib.redirect_stderr(io.StringIO()):
                found[name]()
        except unittest.SkipTest:
            continue
        except Exception as error:
            failed[name] = f"{type(error).__name__}: {error}"
    return failed
