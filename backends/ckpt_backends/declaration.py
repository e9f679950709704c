"""How a backend declares what it opens. Reading a declaration imports no driver.

Each backend is a package with a module `declaration` that defines `BACKEND`. `discovery` finds
bundled packages by their folders, and installed ones by the entry point group `ckpt.backends`; an
entry point names the object, as in `toy = "ckpt_toy.declaration:BACKEND"`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ckpt_backends.model import Capability

SAVER = Capability.HISTORY | Capability.WRITES | Capability.TASK_PATH | Capability.ADDING
"""What LangGraph's savers store, except those that keep only the newest checkpoint."""
NAME, WORD, NUMBER = r"[\w.,+-]*", "[a-z-]{0,14}", r"[\d,]*"
"""Patterns for `Backend.params`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """The adapter for the layouts of one saver or application.

    Fields of the form `module:function` name what is imported when it is needed.
    """

    title: str
    """The name of the engine or application in messages, such as `PostgreSQL`."""
    layouts: Mapping[str, Capability] = field(default_factory=dict)
    """The layouts by name, as `ckpt stores` prints it, with what each can do.

    `Store.describe` may list fewer capabilities for a store of an old or unknown saver.
    """
    schemes: tuple[str, ...] = ()
    """The URL schemes that it opens, the usual one first; empty if it only recognises databases."""
    engine: str = ""
    """The engine that hands it databases to recognise, such as `redis`; see `recognise`."""
    recognise: str = ""
    """`module:function` that an engine calls to find out whether a database has these layouts. The
    engine's package documents the arguments."""
    driver: str = ""
    """The package to import for the driver; `''` if none is needed."""
    extra: str = ""
    """The extra of this distribution that installs the driver."""
    params: Mapping[str, str] = field(default_factory=dict)
    """The URL parameters whose values may be printed, each with a regular expression (ASCII) that
    the whole value must match. The values of all others are masked, except that of `layout`."""
    is_local: bool = False
    """Whether its stores are files and folders, so that its URLs name no host."""
    claims_path: Callable[[str], bool] | None = None
    """Whether a path is a store of this backend, by its name and the names of files in it.

    It must not open a file: closing it again would release the locks of an open database.
    """
    opens_other_paths: bool = False
    """Whether it opens the paths that no backend claims."""
    file_names: tuple[str, ...] = ()
    """Patterns for the names that `ckpt stores` looks for in a folder. One that ends with `/` is
    of a folder."""
    inner_paths: tuple[str, ...] = ()
    """The files and folders that it opens inside a folder."""

    checkpoints: str = ""
    """`module:function(url) -> Store`."""
    changes: str = ""
    """`module:function(url) -> WritableStore`; `''` if checkpoints are read-only."""
    memory: str = ""
    """`module:function(url) -> MemoryStore`; `''` if it has no long-term memory."""
    memory_changes: str = ""
    """`module:function(url) -> WritableMemoryStore`."""
    memory_edits: str = ""
    """`module:function(url) -> EditableMemoryStore`."""
    memory_near: Callable[[str], str | None] | None = None
    """The path of its memory that belongs to a file of threads, by the path of that file."""
    threads_of_memory: str = ""
    """`module:function(url) -> ThreadsOfMemory`; `''` if they are in the same store."""
    sessions: str = ""
    """`module:function(url) -> SessionStore`."""
