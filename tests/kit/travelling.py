"""Stores with one thread for each scenario, on which tests of travel and of removal work."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from typing import TypeAlias

import pytest

from ckpt_backends.registry import open_store
from ckpt_backends.testing.filling import quiet
from ckpt_backends.testing.official import ScenarioStore
from tests.kit.harness import HARNESSES as BUNDLED
from tests.kit.harness.tiers import COPIED
from tests.kit.opening import SHARED, empty_store

HARNESSES = {one.name: one for one in BUNDLED if one.name in {"sqlite", *COPIED} - {"kagent"}}
"""The layouts in which a thread can be copied, so that each trial has its own."""
Stores: TypeAlias = Callable[[str], ScenarioStore]


@pytest.fixture(autouse=True)
def quietly() -> Iterator[None]:
    with quiet():
        yield


@pytest.fixture(scope="session")
def stores(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stores]:
    with ExitStack() as alone:

        @cache
        def store(name: str) -> ScenarioStore:
            kind, users = HARNESSES[name], alone
            if kind.server in SHARED:
                # pytest would stop a server that is asked for now before this fixture ends.
                users = request.getfixturevalue(f"{kind.server}_server").users
            folder = tmp_path_factory.mktemp(f"travel-{name}")
            return ScenarioStore(users.enter_context(empty_store(kind, request, folder)))

        yield store


@pytest.fixture
def filled(stores: Stores, request: pytest.FixtureRequest) -> Iterator[ScenarioStore]:
    """The store of SQLite, or of the layout that a test names; threads that it adds are removed."""
    found = stores(getattr(request, "param", "sqlite"))
    yield found
    made = {one.thread_id for one in found.known.values()}
    with open_store(found.harness.url) as store:
        added = [one.thread_id for one in store.threads() if one.thread_id not in made]
    for thread_id in added:
        found.harness.forget(thread_id)
