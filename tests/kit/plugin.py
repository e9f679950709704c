"""The project's own plug-in: a clean environment, servers, and the layouts of the suite."""

from __future__ import annotations

import gc
import json
import os
import shutil
import signal
import ssl
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar
from urllib.parse import urlsplit

import pytest
from hypothesis import HealthCheck, settings

from ckpt_backends.testing import command_line
from ckpt_backends.testing.chance import CHANCE, chance  # noqa: F401  (a fixture)
from ckpt_backends.testing.environment import clean_environment, homes, own_state  # noqa: F401  (fixtures)
from ckpt_backends.testing.plugin import SUITE, named_harnesses
from tests.kit import servers
from tests.kit.answers import check_answer
from tests.kit.command import FIXTURES, SAMPLE, copy_store
from tests.kit.servers import Server

if TYPE_CHECKING:
    from tests.kit.browser import Browser

# The time of an example depends on the load of the machine, not on the code.
settings.register_profile(
    "ckpt", deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=20
)
settings.register_profile("thorough", settings.get_profile("ckpt"), max_examples=100)


@pytest.fixture
def tmp_path(homes: Iterator[Path]) -> Path:  # noqa: F811  (the fixture of that name)
    """A folder of the test, in place of pytest's, which looks at those of all tests before."""
    folder = next(homes)
    folder.mkdir()
    return folder


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    return copy_store(SAMPLE, tmp_path)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a test writes a store of its own."""
    return tmp_path / "store.db"


class _Stoppable(Protocol):
    def stop(self) -> None: ...


_Started = TypeVar("_Started", bound=_Stoppable)


@contextmanager
def started(kind: str, start: Callable[[], _Started]) -> Iterator[_Started]:
    """Start a server for a test; without one, tests are skipped, or fail if it is required."""
    try:
        server = start()
    except servers.Unavailable as error:
        if servers.is_required(kind):
            pytest.fail(str(error))
        MISSING.append(str(error))
        pytest.skip(str(error))
    try:
        yield server
    finally:
        server.stop()


def _server_of(
    kind: str, start: Callable[[], Any], scope: Literal["session", "module"] = "session", **env: str
) -> Any:
    """A fixture of a server, which starts when the first test needs it, with its environment."""

    @pytest.fixture(scope=scope)
    def server() -> Iterator[Any]:
        with pytest.MonkeyPatch.context() as patch:
            for name, value in env.items():
                patch.setenv(name, value)
            with started(kind, start) as found:
                yield found

    return server


def _start_browser() -> Browser:
    from tests.kit.browser import start_browser

    return start_browser()


chromium = _server_of("chromium", _start_browser)
postgres_server = _server_of("postgres", servers.start_postgres)
mongodb_server = _server_of("mongodb", servers.start_mongodb)
cosmosdb_server = _server_of("cosmosdb", servers.start_cosmosdb, COSMOSDB_KEY=servers.COSMOSDB_KEY)
redis_cluster = _server_of("redis", partial(servers.start_redis_cluster, modules=True))
dynamodb_server = _server_of(
    "dynamodb",
    servers.start_dynamodb,
    AWS_ACCESS_KEY_ID="testing",
    AWS_SECRET_ACCESS_KEY="testing",
    AWS_EC2_METADATA_DISABLED="true",
)
redis_server = _server_of("redis", partial(servers.start_redis, modules=False), scope="module")
redis_stack_server = _server_of("redis", partial(servers.start_redis, modules=True), scope="module")


def redis_of_its_own(*, modules: bool, search: bool = True) -> AbstractContextManager[Server]:
    return started("redis", partial(servers.start_redis, modules=modules, search=search))


@pytest.fixture(scope="session")
def firestore_server() -> Iterator[Server]:
    """Google's emulator of Firestore, which its client finds."""
    with (
        pytest.MonkeyPatch.context() as patch,
        started("firestore", servers.start_firestore) as server,
    ):
        patch.setenv("FIRESTORE_EMULATOR_HOST", urlsplit(server.url).netloc)
        yield server


@pytest.fixture(scope="session")
def mysql_server() -> Iterator[Server]:
    """A MariaDB server for the whole run, started when the first test needs it.

    PyMySQL loads the certificates of the system for each connection, which takes 20 ms. Tests of
    TLS name their own.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ssl.SSLContext, "set_default_verify_paths", lambda _: None)
        with started("mysql", servers.start_mysql) as server:
            yield server


def _url_of(server: str, place: Callable[[Any], AbstractContextManager[str]]) -> Any:
    """A fixture of an empty place on a server."""

    @pytest.fixture
    def url(request: pytest.FixtureRequest) -> Iterator[str]:
        with place(request.getfixturevalue(server)) as found:
            yield found

    return url


redis_url = _url_of("redis_server", servers.flushed)
redis_stack_url = _url_of("redis_stack_server", servers.flushed)
cluster_url = _url_of("redis_cluster", servers.flushed)
postgres_url = _url_of("postgres_server", servers.postgres_database)
mongodb_url = _url_of("mongodb_server", servers.mongodb_database)
mysql_url = _url_of("mysql_server", servers.mysql_database)


@pytest.fixture(scope="session")
def langgraph_js(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder where node finds LangGraph.js: `CKPT_TEST_JS`, or one that npm fills now."""
    given = os.environ.get("CKPT_TEST_JS")
    folder = tmp_path_factory.mktemp("js")
    if given is not None:
        (folder / "node_modules").symlink_to(Path(given) / "node_modules")
        return folder
    if shutil.which("npm") is None:
        pytest.fail("npm is not installed: it brings LangGraph.js; or set CKPT_TEST_JS")
    wanted = json.loads((FIXTURES / "make/js/js-1.7.3/package.json").read_text())
    # Left out are packages with a part in C, which may have to be compiled, and the dev server.
    kept = {
        name: version
        for name, version in wanted["dependencies"].items()
        if "sqlite" not in name and not name.endswith("langgraph-api")
    }
    (folder / "package.json").write_text(json.dumps({**wanted, "dependencies": kept}))
    subprocess.run(["npm", "install", "--no-audit", "--no-fund"], cwd=folder, check=True)
    return folder


MISSING: list[str] = []
"""Servers that are not available, with the command that installs them."""
STORES: list[str] = []
"""The filled stores whose turn it is in a nightly run."""


def pytest_configure(config: pytest.Config) -> None:
    """Test the bundled layouts, unless the run names the harnesses of another package."""
    settings.load_profile(config.getoption("--hypothesis-profile") or "ckpt")
    # With 14,000 tests and the libraries of all engines in memory, collecting garbage as often as
    # a small program does takes a tenth of the run.
    gc.set_threshold(50_000, 20, 50)
    command_line.CHECKS.append(check_answer)
    if not named_harnesses(config):
        from tests.kit.harness import tiers

        config.pluginmanager.register(tiers)


def pytest_report_header() -> str:
    """Say how the run is repeated."""
    from tests.kit.harness.tiers import NIGHTS

    return f"chance: CKPT_TEST_SEED={CHANCE.seed} CKPT_TEST_NIGHTS={NIGHTS}"


def _unused(items: list[pytest.Item]) -> Iterator[str]:
    """Yield the beginnings of ids in `in_ci` with which no variant of their test begins."""
    ids: dict[tuple[Path, str], list[str]] = {}
    begin: dict[tuple[Path, str], tuple[str, ...]] = {}
    for item in items:
        if marker := item.get_closest_marker("in_ci"):
            key = item.path, item.originalname  # type: ignore[attr-defined]
            ids.setdefault(key, []).append(f"{item.callspec.id}]")  # type: ignore[attr-defined]
            begin[key] = marker.args
    for key, found in ids.items():
        for one in begin[key]:
            if not any(each.startswith(one) for each in found):
                yield f"{key[0].name}::{key[1]}: in_ci({one!r}) names no variant"


# Must run before xdist, which reads the marks in a hook of the same name.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark variants for their tiers, and group the tests of a store or a file for one worker."""
    if not any("::" in one for one in config.args) and (unused := list(_unused(items))):
        raise pytest.UsageError("\n".join(unused))
    from tests.kit.harness.tiers import IN_CI, is_asked_for, mark_of, waiting

    # Once for each file, since thousands of tests share a few hundred.
    is_suite = cache(lambda path: SUITE in path.parents)
    place_of = cache(lambda path: None if path.parent.name == "screen" else str(path))
    needless = []
    for item in items:
        mark = mark_of(item) if is_suite(item.path) else ""
        if mark is None:
            needless.append(item)
            continue
        if is_suite(item.path) and (stays := IN_CI.get(getattr(item, "originalname", ""))):
            item.add_marker(pytest.mark.in_ci(*stays.split(", ")))
        if (marker := item.get_closest_marker("in_ci")) is not None:
            variant = f"{item.callspec.id}]"  # type: ignore[attr-defined]
            if not variant.startswith(marker.args):
                item.add_marker(pytest.mark.nightly)
        if mark:
            item.add_marker(mark)
        if is_suite(item.path) or (file := place_of(item.path)) is None:
            continue
        params = getattr(item, "callspec", None)
        store = None if params is None else params.params.get("filled")
        group = f"{item.path.parent}/{getattr(store, 'name', store)}" if store else file
        item.add_marker(pytest.mark.xdist_group(group))
    leave_out(config, items, needless)
    if is_asked_for(config, "nightly") and not any("::" in one for one in config.args):
        now, later = waiting(items)
        STORES[:] = sorted(now)
        leave_out(config, items, later)


def leave_out(config: pytest.Config, items: list[pytest.Item], some: Sequence[pytest.Item]) -> None:
    """Take items away, and count them as deselected."""
    config.hook.pytest_deselected(items=some)
    gone = {*some}
    items[:] = [one for one in items if one not in gone]


def pytest_collection_finish() -> None:
    """Leave out what was imported and collected when garbage is searched for."""
    gc.collect()
    gc.freeze()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Pass the servers that a worker used to the main process."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["servers"], output["missing"] = dict(servers.USED), list(MISSING)
        output["stores"] = STORES


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Called for each worker that has ended."""
    output = getattr(node, "workeroutput", {})
    servers.USED.update(output.get("servers", {}))
    MISSING.extend(text for text in output.get("missing", ()) if text not in MISSING)
    STORES[:] = output.get("stores", STORES)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for kind, what in servers.USED.items():
        terminalreporter.write_line(f"server {kind}: {what}")
    if STORES:
        terminalreporter.write_line(f"stores of this night: {', '.join(STORES)}")
    for text in MISSING:
        terminalreporter.write_line(f"not tested, {text}", yellow=True)


@pytest.fixture
def heeded_signals() -> Iterator[None]:
    """Programs that a test starts heed SIGHUP, even if `nohup` runs the tests."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)
