"""A pytest plug-in that runs the conformance suite on any layout.

    pytest -p ckpt_backends.testing.plugin --ckpt-harness MODULE:CLASS \\
        --pyargs ckpt_backends.testing.conformance

or, in `pyproject.toml`, after which `pytest` without a path runs the suite too:

    [tool.pytest.ini_options]
    addopts = "-p ckpt_backends.testing.plugin"
    ckpt_harnesses = ["my_tests.harness:MyHarness"]
    testpaths = ["tests"]
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

pytest.register_assert_rewrite(
    "ckpt_backends.testing.command_line",
    "ckpt_backends.testing.library",
    "ckpt_backends.testing.trials",
    "ckpt_backends.testing.screen",
    "ckpt_backends.testing.conformance.answers",
    "ckpt_backends.testing.conformance.changes",
    "ckpt_backends.testing.conformance.comparison",
    "ckpt_backends.testing.conformance.replaying",
)

from ckpt_backends.testing import hooks  # noqa: E402
from ckpt_backends.testing.harness import Harness, TestServer  # noqa: E402

SUITE = Path(__file__).parent / "conformance"
MARKERS = {
    "engines": "takes longer; the project runs it on all layouts in its second tier",
    "nightly": "takes long, and shows seldom what no other test shows",
    "xdist_group(name)": "tests that one worker runs together",
}


def pytest_addoption(parser: pytest.Parser) -> None:
    about = "a harness to run the conformance suite on, as MODULE:CLASS; may be repeated"
    group = parser.getgroup("ckpt", "conformance suite of ckpt")
    group.addoption(
        "--ckpt-harness", action="append", default=[], metavar="MODULE:CLASS", help=about
    )
    group.addoption(
        "--ckpt-few",
        action="store_true",
        help="fill stores with six scenarios, and leave out the tests that need more",
    )
    parser.addini("ckpt_harnesses", f"{about} (list)", type="args", default=[])


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    pluginmanager.add_hookspecs(hooks)


def pytest_configure(config: pytest.Config) -> None:
    # Add the suite to the tests of a package that names its harnesses, unless paths are given.
    if config.getini("ckpt_harnesses") and config.args_source != config.ArgsSource.ARGS:
        config.args.append(str(SUITE))
    for name, about in MARKERS.items():
        config.addinivalue_line("markers", f"{name}: {about}")


@pytest.hookimpl(trylast=True)
def pytest_ckpt_harnesses(config: pytest.Config) -> Sequence[type[Harness]]:
    """Import the harnesses that the command line names, or else those of the settings."""
    names = named_harnesses(config)
    if not names:
        raise pytest.UsageError("no layout to test: give --ckpt-harness MODULE:CLASS")
    return [_imported(name) for name in names]


def named_harnesses(config: pytest.Config) -> list[str]:
    """The harnesses that the command line or the settings name, as MODULE:CLASS."""
    return [*(config.getoption("--ckpt-harness") or config.getini("ckpt_harnesses"))]


def _imported(name: str) -> type[Harness]:
    module, _, attribute = name.partition(":")
    try:
        found = getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise pytest.UsageError(f"cannot import the harness {name!r}: {error}") from error
    if not (isinstance(found, type) and issubclass(found, Harness)):
        raise pytest.UsageError(f"{name!r} is no subclass of ckpt_backends.testing.harness.Harness")
    return found


@pytest.hookimpl(trylast=True)
def pytest_ckpt_filled_stores(
    config: pytest.Config, harnesses: Sequence[type[Harness]]
) -> list[Any]:
    from ckpt_backends.testing.filling import FEW_SCENARIOS, Fill

    few = FEW_SCENARIOS if config.getoption("--ckpt-few") else None
    return [pytest.param(Fill(one, few or one.only_scenarios), id=one.name) for one in harnesses]


@pytest.hookimpl(trylast=True)
def pytest_ckpt_empty_stores(harnesses: Sequence[type[Harness]]) -> list[Any]:
    return [pytest.param(one, id=one.name) for one in harnesses]


@pytest.hookimpl(trylast=True)
def pytest_ckpt_time_travel(
    config: pytest.Config, harnesses: Sequence[type[Harness]], names: Sequence[str], every: bool
) -> list[Any]:
    from ckpt_backends.testing.trials import FEW, can_travel

    chosen = FEW if every else names
    if config.getoption("--ckpt-few"):
        chosen = [name for name in names if name in {"linear", "interrupt-nested"}] or names[:1]
    return [
        pytest.param(one, name, id=f"{one.name}-{name}")
        for one in harnesses
        for name in chosen
        if can_travel(one, name)
    ]


@pytest.hookimpl(trylast=True)
def pytest_ckpt_server(harness: type[Harness]) -> AbstractContextManager[TestServer | None]:
    if harness.server is not None:
        pytest.fail(
            f"no plug-in starts a server {harness.server!r} for {harness.__name__}:"
            " start it in `create` and leave `server` None, or implement pytest_ckpt_server"
        )
    return nullcontext(None)


@contextmanager
def opened_harness(
    kind: type[Harness], request: pytest.FixtureRequest, folder: Path
) -> Iterator[Harness]:
    """Yield the harness of an empty store, with the server that it needs."""
    with (
        request.config.hook.pytest_ckpt_server(harness=kind, request=request) as server,
        kind(folder, server) as harness,
    ):
        yield harness


# Must run before xdist, which reads the marks in a hook of the same name.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Group the tests of the suite by store for `--dist loadgroup`, so that each is filled once."""
    # Once for each file, since thousands of tests share a few hundred.
    is_suite = cache(lambda path: SUITE in path.parents)
    for item in items:
        if not is_suite(item.path):
            continue
        params = getattr(item, "callspec", None)
        given = {} if params is None else params.params
        if "travel_store" in given:
            name = f"travel {given['travel_store'].name}"
        else:
            name = getattr(given.get("filled"), "name", None) or item.path.name
        item.add_marker(pytest.mark.xdist_group(f"ckpt {name}"))
