"""Hooks with which a project chooses the stores of the suite, in place of `--ckpt-harness`."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

import pytest

from ckpt_backends.testing.harness import Harness, TestServer


@pytest.hookspec(firstresult=True)
def pytest_ckpt_harnesses(config: pytest.Config) -> Sequence[type[Harness]] | None:
    """Return the layouts of the run."""


@pytest.hookspec(firstresult=True)
def pytest_ckpt_filled_stores(
    config: pytest.Config, harnesses: Sequence[type[Harness]], distinct: bool
) -> list[Any] | None:
    """Return the filled stores for the tests that read, as values or parameters of
    `ckpt_backends.testing.filling.Fill`.

    `distinct` is for tests whose answers depend on the kind of layout only.
    """


@pytest.hookspec(firstresult=True)
def pytest_ckpt_empty_stores(
    config: pytest.Config, harnesses: Sequence[type[Harness]]
) -> list[Any] | None:
    """Return the layouts for the tests that change stores, as classes or parameters of them."""


@pytest.hookspec(firstresult=True)
def pytest_ckpt_time_travel(
    config: pytest.Config, harnesses: Sequence[type[Harness]], names: Sequence[str], every: bool
) -> list[Any] | None:
    """Return parameters of a layout and a scenario of `names` for the tests of time travel.

    `every` is for the test that goes to every checkpoint of a thread.
    """


@pytest.hookspec(firstresult=True)
def pytest_ckpt_server(
    harness: type[Harness], request: pytest.FixtureRequest
) -> AbstractContextManager[TestServer | None] | None:
    """Return a server of the kind that `harness.server` names, for one store."""
