"""Tests of the screen are coroutines; `seat` sits before a screen that is open on a store."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from inspect import iscoroutinefunction, signature
from typing import Any

import pytest

from ckpt_backends.testing.screen import Seat, sitting


@pytest.fixture
def seat(request: pytest.FixtureRequest) -> AbstractAsyncContextManager[Seat]:
    """A seat, with the options of the marker `screen`: `on` is the fixture that it shows."""
    marker = request.node.get_closest_marker("screen")
    options = {"on": "sample", **({} if marker is None else marker.kwargs)}
    return sitting(request.getfixturevalue(options.pop("on")), **options)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine; it gets its seat when the screen is open."""
    if not iscoroutinefunction(pyfuncitem.obj):
        return None
    given = {name: pyfuncitem.funcargs[name] for name in signature(pyfuncitem.obj).parameters}
    asyncio.run(_run(pyfuncitem.obj, given))
    return True


async def _run(test: Callable[..., Coroutine[Any, Any, None]], given: dict[str, Any]) -> None:
    if "seat" not in given:
        await test(**given)
        return
    async with given["seat"] as seat:
        await test(**{**given, "seat": seat})
