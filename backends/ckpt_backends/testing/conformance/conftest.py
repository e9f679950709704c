"""The stores of the suite, for its tests: filled by scenarios, empty, or for time travel."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ckpt_backends.protocol import Store
from ckpt_backends.registry import open_store
from ckpt_backends.testing.chance import chance  # noqa: F401  (a fixture)
from ckpt_backends.testing.environment import clean_environment, homes, own_state  # noqa: F401  (fixtures)
from ckpt_backends.testing.filling import Fill, FilledStore, fill_store, quiet
from ckpt_backends.testing.harness import Harness
from ckpt_backends.testing.library import EmptyStore
from ckpt_backends.testing.official import ScenarioStore
from ckpt_backends.testing.plugin import opened_harness
from ckpt_backends.testing.trials import NAMES

CHANGES = {
    *("test_changes.py", "test_removal.py", "test_import.py", "test_counts.py", "test_secrets.py")
}
"""Modules with tests of commands that change stores."""
ALL_SCENARIOS = {"test_commands.py", "test_messages.py"}
"""Modules with tests that look for certain scenarios."""
WITH_METADATA = {
    *("test_changes.py", "test_commands.py", "test_messages.py", "test_removal.py"),
    "test_truth.py",
}
"""Modules with tests that need more than the values of checkpoints (`VALUES_ONLY = False`)."""


def _chosen(config: pytest.Config, module: object) -> list[type[Harness]]:
    """Return the layouts for a module of tests. Its `VALUES_ONLY` selects a kind of layout."""
    values_only = getattr(module, "VALUES_ONLY", None)
    harnesses = config.hook.pytest_ckpt_harnesses(config=config)
    return [one for one in harnesses if values_only in {None, one.values_only}]


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out modules that no layout of the run can run.

    What a layout cannot do, `test_matrix.py` and `test_read_only.py` find refused.
    """
    if collection_path.suffix != ".py":
        return None
    harnesses = config.hook.pytest_ckpt_harnesses(config=config)
    name = collection_path.name
    if name in ALL_SCENARIOS and config.getoption("--ckpt-few"):
        return True
    if name == "test_values_only.py":
        harnesses = [one for one in harnesses if one.values_only]
    if name == "test_read_only.py":
        harnesses = [one for one in harnesses if one.read_only]
    if name in WITH_METADATA:
        harnesses = [one for one in harnesses if not one.values_only]
    if name in CHANGES:
        harnesses = [one for one in harnesses if not one.read_only]
    if name == "test_time_travel.py":
        harnesses = [one for one in harnesses if _travels(one)]
    return None if harnesses else True


def _travels(kind: type[Harness]) -> bool:
    return kind.has_history and kind.has_writes and not (kind.read_only or kind.values_only)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run tests on every store that the hooks of the plug-in name."""
    hook, config, module = metafunc.config.hook, metafunc.config, metafunc.module
    if "filled" in metafunc.fixturenames:
        stores = hook.pytest_ckpt_filled_stores(
            config=config,
            harnesses=[
                one
                for one in _chosen(config, module)
                if one.read_only or not getattr(module, "READ_ONLY", False)
            ],
            distinct=getattr(module, "DISTINCT", False),
        )
        metafunc.parametrize("filled", stores, indirect=True, scope="session")
    if "empty_store" in metafunc.fixturenames:
        harnesses = [one for one in _chosen(config, module) if not one.read_only]
        stores = hook.pytest_ckpt_empty_stores(config=config, harnesses=harnesses)
        metafunc.parametrize("empty_store", stores, indirect=True, scope="module")
    if "travelled" in metafunc.fixturenames:
        stores = hook.pytest_ckpt_time_travel(
            config=config,
            harnesses=[one for one in _chosen(config, module) if _travels(one)],
            names=module.THREADS[metafunc.function.__name__],
            every=module.THREADS[metafunc.function.__name__] is NAMES,
        )
        metafunc.parametrize(("travel_store", "travelled"), stores, indirect=True, scope="session")


@pytest.fixture
def store(filled: FilledStore) -> Iterator[Store]:
    with open_store(filled.harness.url) as opened:
        yield opened


@pytest.fixture
def thread_id(filled: FilledStore) -> str:
    """A thread with a root and two subgraph calls, where the layout tells them apart."""
    return "linear" if "subgraph" in filled.harness.skipped_scenarios else "subgraph"


@pytest.fixture(scope="session")
def filled(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[FilledStore]:
    """A store with one thread per scenario, run now through the installed official saver."""
    fill: Fill = request.param
    with opened_harness(fill.kind, request, tmp_path_factory.mktemp("filled")) as harness:
        if fill.kind.recording is not None:
            harness.restore_recording(fill.only)
            threads = {
                name: truth
                for name, truth in harness.recorded_truth().items()
                if fill.only is None or name in fill.only
            }
        else:
            threads = fill_store(harness, fill.only)
        yield FilledStore(harness, threads, fill.third, fill.only)


@pytest.fixture(scope="module")
def empty_store(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EmptyStore]:
    """A store in which each test makes threads."""
    with opened_harness(request.param, request, tmp_path_factory.mktemp("empty")) as harness:
        library = harness.library(request)
        yield EmptyStore(harness, library)
        library.close()


@pytest.fixture(scope="session")
def travel_store(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ScenarioStore]:
    """A store that runs a scenario when its thread is first asked for."""
    with opened_harness(request.param, request, tmp_path_factory.mktemp("travel")) as harness:
        yield ScenarioStore(harness)


@pytest.fixture
def travelled(
    travel_store: ScenarioStore, request: pytest.FixtureRequest
) -> Iterator[tuple[ScenarioStore, str]]:
    """A store of scenarios, and one of them."""
    with quiet():
        yield travel_store, request.param
