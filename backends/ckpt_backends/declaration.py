"""How a backend declares what it opens. Reading a declaration imports no driver.

Each backend is a package with a module `declaration` that defines `BACKEND`. Bundled packages are
found by their folders, and installed ones by the entry point group `ckpt.backends`; an entry point
names the object, as in `toy = "ckpt_toy.declaration:BACKEND"`.
"""

# Without `annotations` of `__future__`: a `NamedTuple` would compile each of these texts.
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

from ckpt_backends.model import Capability
from ckpt_backends.transfer.form import Form, Language

SAVER = Capability.HISTORY | Capability.WRITES | Capability.TASK_PATH | Capability.ADDING
"""What LangGraph's savers store, except those that keep only the newest checkpoint."""
LAST_STORED = "the head is the checkpoint that was stored last"
"""Why ids that are out of order do no harm, for `Backend.impossible_faults`."""
CLEARS = "all releases of LangGraph.js read the same messages"
"""Why the state does not depend on the library, for `Backend.impossible_faults`."""
NAME, WORD, NUMBER = r"[\w.,+-]*", "[a-z-]{0,14}", r"[\d,]*"
"""Patterns for `Backend.params`."""


class Backend(NamedTuple):
    """The adapter for the layouts of one saver or application.

    A field of the form `module:function`, such as `ckpt_toy.opening:open_store`, names what is
    imported when it is needed. `check_declaration` says what is wrong with a declaration.
    """

    title: str
    """The name of the engine or application in messages: `PostgreSQL`."""
    layouts: Mapping[str, Capability] = {}
    """The layouts by name, as `ckpt stores` prints it, with what each can do:
    `{"toy": Capability.HISTORY | Capability.WRITES}`. No two backends have one name.

    `Store.describe` may list fewer capabilities for a store of an old or unknown saver.
    """
    schemes: tuple[str, ...] = ()
    """The URL schemes that it opens, in lower case, the usual one first: `("toy",)`. Empty if it
    only recognises databases. A bundled backend with the same scheme is opened instead."""
    engine: str = ""
    """The engine that hands it databases to recognise: `redis`, `mongodb`, `postgresql`, or
    `sql` for all with SQL."""
    recognise: str = ""
    """`module:function` that an engine calls to find out whether a database has these layouts:
    `ckpt_toy.tables:recognise`. The engine's module `recognition` documents the arguments."""
    driver: str = ""
    """The module to import for the driver: `duckdb`; `''` if none is needed."""
    extra: str = ""
    """The extra that installs the driver: `postgres`, for `pip install 'PACKAGE[postgres]'`.

    PACKAGE is the one that brings this backend; for a plug-in, its own. `''` if PACKAGE always
    requires the driver.
    """
    params: Mapping[str, str] = {}
    """The URL parameters whose values may be printed, each with a regular expression (ASCII) that
    the whole value must match: `{"schema": NAME}`. The values of all others are masked, except
    that of `layout`. Those of a backend without schemes may be in the URLs of its engine; only
    PostgreSQL passes on such."""
    is_local: bool = False
    """Whether its stores are files and folders, so that its URLs name no host: `True`.

    A configuration file that the user has not trusted may name such a store in its own folder.
    """
    claims_path: Callable[[str], bool] | None = None
    """Whether a path is a store of this backend, by its name and the names of files in it:
    `lambda path: path.endswith(".toy")`.

    It must not open a file: closing it again would release the locks of an open database.
    """
    opens_other_paths: bool = False
    """Whether it opens the paths that no backend claims. Only SQLite does."""
    file_names: tuple[str, ...] = ()
    """Patterns for the names that `ckpt stores` looks for in a folder: `("*.toy",)`. One that ends
    with `/` is of a folder."""
    inner_paths: tuple[str, ...] = ()
    """The files and folders that it opens inside a folder: `("memory.json",)`."""
    usual_paths: Mapping[str, str] = {}
    """Where applications that everybody has keep such a store, relative to the current folder or to
    the home folder (`~/`), each with whose it is:
    `{"~/.toy/sessions.db": "where toy keeps its sessions"}`."""
    engine_faults: tuple[str, ...] = ()
    """The codes that `Store.faults` and `Store.thread_faults` yield for what only its engine has:
    `("index-missing",)`; with the name of a layout, such as `"toy:index-missing"`, only there."""
    mended_faults: tuple[str, ...] = ()
    """Those of `engine_faults` for which it names a statement that mends them."""
    unmended_faults: tuple[str, ...] = ()
    """Codes that commands mend on other layouts with its capabilities, but not on its own; with the
    name of a layout, only there."""
    impossible_faults: Mapping[str, str] = {}
    """Other codes of `ckpt doctor` that cannot occur in its layouts, each with the reason:
    `{"namespace-orphaned": "has no namespaces"}`; with the name of a layout, only there. What
    follows from capabilities is left out."""

    checkpoints: str = ""
    """`module:function(url) -> Store`: `ckpt_toy.opening:open_store`. Of a backend without
    schemes, see its engine."""
    changes: str = ""
    """`module:function(url) -> WritableStore`: `ckpt_toy.opening:open_writable`; `''` if
    checkpoints are read-only."""
    forms: Mapping[str, tuple[Form, ...]] = {}
    """By layout, the form in which threads are stored, for `ckpt copy`; several if the layout is
    that of the Python and of the JavaScript saver. Needs `records`."""
    records: str = ""
    """`module:function(layout, rows) -> Iterator[Record]`: what the rows of one thread hold, as
    `Store.rows` returns them: `ckpt_toy.records:records_of`. It opens no store."""
    edits: str = ""
    """`module:function(layout, row, change) -> Row`: the row with the values that `change` returns,
    for `ckpt erase --value` and `ckpt rekey`: `ckpt_toy.records:edited_row`. See `rows.EditRow`."""
    creates: Mapping[Language, str] = {}
    """By language, the layout that `create` makes."""
    create: str = ""
    """`module:function(url, language) -> None`: makes an empty store as the newest release of the
    official saver does in `setup()`, in a missing file or an empty database. It does nothing if a
    store of this layout is there, and raises `Refused` if anything else is."""
    memory: str = ""
    """`module:function(url) -> MemoryStore`: `ckpt_toy.memory:open_memory`; `''` if it has no
    long-term memory."""
    memory_changes: str = ""
    """`module:function(url) -> WritableMemoryStore`: `ckpt_toy.memory:open_writable`; `''` if
    items cannot be deleted."""
    memory_create: str = ""
    """`module:function(url) -> None`: makes empty long-term memory, as `create` makes a store; it
    may share a place with threads."""
    memory_edits: str = ""
    """`module:function(url) -> EditableMemoryStore`: `ckpt_toy.memory:open_editable`; `''` if items
    cannot be edited."""
    memory_near: Callable[[str], str | None] | None = None
    """The path of its memory that belongs to a file of threads, by the path of that file:
    `lambda path: f"{path}.memory"`; it returns None if there is none.

    A plug-in is asked only for threads that a plug-in opens.
    """
    threads_of_memory: str = ""
    """`module:function(url) -> ThreadsOfMemory`: `ckpt_toy.memory:threads`; `''` if they are in the
    same store."""
    sessions: str = ""
    """`module:function(url) -> SessionStore`: `ckpt_toy.sessions:open_sessions`; `''` if the
    application lists no sessions."""
    session_changes: str = ""
    """`module:function(url) -> WritableSessions`: `ckpt_toy.sessions:open_writable`; `''` if
    sessions cannot be removed."""


def is_read_only(backend: Backend) -> bool:
    """Whether no store of a backend can be changed. One without schemes is opened by its engine."""
    return bool(backend.checkpoints and not backend.changes)


def load(place: str) -> Any:
    """What `module:name` of a declaration names."""
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


# The declarations of all backends. None is imported before it is asked for.
#
# Bundled and installed ones are declared alike, but bundled ones take precedence: reading the entry
# points takes 30 ms, so it is done only for a scheme or a path that no bundled backend claims.


DISTRIBUTION = "langgraph-ckpt"
"""The distribution of `ckpt` and of the bundled backends."""


def bundled() -> tuple[Backend, ...]:
    """The backends of this package. Applications come before the engines that they use."""
    return (*_inner(), *_outer())


def _outer() -> Iterator[Backend]:
    """The backends in the folders of this package."""
    return map(_declaration, _packages("ckpt_backends"))


def _inner() -> Iterator[Backend]:
    """The backends one folder deeper: applications, and the layouts of an engine."""
    root = os.path.dirname(__file__)
    rooms = sorted(one.name for one in os.scandir(root) if one.is_dir())
    packages = (one for room in rooms for one in _packages(f"ckpt_backends.{room}"))
    return map(_declaration, packages)


@cache
def _packages(parent: str) -> tuple[str, ...]:
    """The packages in a folder that declare a backend.

    Who looks for one backend stops at the first that fits, and imports no other. So the order,
    from the last name to the first, begins with the files and servers that are used most.
    """
    folder = os.path.join(os.path.dirname(__file__), *parent.split(".")[1:])
    names = sorted(os.listdir(folder), reverse=True)
    return tuple(
        f"{parent}.{name}"
        for name in names
        if os.path.exists(os.path.join(folder, name, "declaration.py"))
    )


def _declaration(package: str) -> Backend:
    backend: Backend = import_module(f"{package}.declaration").BACKEND
    return backend


def installed() -> tuple[Backend, ...]:
    """The backends of other packages that can be used, sorted by name; see `plugins`."""
    # Here and below, since bundled backends need no entry points.
    from ckpt_backends.plugins import plugins

    return tuple(one.backend for one in plugins() if one.backend is not None)


def known_backends() -> tuple[Backend, ...]:
    """All backends, bundled ones first. For hints and lists: this looks for installed ones."""
    return (*bundled(), *installed())


def package_of(backend: Backend) -> str:
    """The distribution that brings a backend, as `pip` names it."""
    if any(one is backend for one in bundled()):
        return DISTRIBUTION
    from ckpt_backends.plugins import plugins

    found = (one.package for one in plugins() if one.backend is backend)
    return next(found, DISTRIBUTION)


def layouts(backends: Iterable[Backend] | None = None) -> dict[str, Capability]:
    """The layouts of these backends, else of all bundled ones, sorted by name, with what each can
    do. If two have one name, the first counts.
    """
    found: dict[str, Capability] = {}
    for one in bundled() if backends is None else backends:
        found = {**one.layouts, **found}
    return dict(sorted(found.items()))


def declared_for(engine: str) -> Iterator[Backend]:
    """The backends that recognise databases of an engine, bundled ones first."""
    for group in (bundled, installed):
        yield from (one for one in group() if one.engine == engine)


def param_form(scheme: str, name: str) -> str | None:
    """The pattern of a URL parameter's harmless values; None if it has none.

    The backend of the scheme declares it, or that of an application in databases of this engine.
    """
    backend = backend_of(scheme)
    if backend is None or name in backend.params:
        return None if backend is None else backend.params[name]
    applications = (one for engine in backend.schemes for one in declared_for(engine))
    return next((one.params[name] for one in applications if name in one.params), None)


def backend_of(scheme: str) -> Backend | None:
    """The backend for a URL scheme; None if there is none."""
    found = (one for group in (_outer, _inner, installed) for one in group())
    return next((one for one in found if scheme in one.schemes), None)


def backend_claiming(path: str) -> Backend | None:
    """The backend that recognises a path as its store; None if none does.

    A folder is an application's first. A file is found more quickly among the engines.
    """
    first = (_inner, _outer) if os.path.isdir(path) else (_outer, _inner)
    found = (one for group in first for one in group())
    ours = next((one for one in found if one.claims_path and one.claims_path(path)), None)
    return ours or next((one for one in installed() if _claims(one, path)), None)


def _claims(backend: Backend, path: str) -> bool:
    """Whether an installed backend claims a path; False if its function fails."""
    with suppress(Exception):
        return backend.claims_path is not None and bool(backend.claims_path(path))
    return False


def backend_at(path: str) -> Backend:
    """The backend that opens a path."""
    found = backend_claiming(path)
    return found or next(one for one in _outer() if one.opens_other_paths)
