"""How a backend declares what it opens. Reading a declaration imports no driver.

Each backend is a package with a module `declaration` that defines `BACKEND`. The registry finds
bundled packages by their folders, and installed ones by the entry point group `ckpt.backends`; an
entry point names the object, as in `toy = "ckpt_toy.declaration:BACKEND"`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ckpt_backends.model import Capability


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """The adapter for the layouts of one saver or application.

    Fields of the form `module:function` name what is imported when it is needed.
    """

    name: str
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
    """The URL parameters whose values may be printed, each with a regular expression that the
    whole value must match; the values of all others are masked."""
    claims_path: Callable[[str], bool] | None = None
    """Whether a path is a store of this backend, by its name and the names inside it."""
    is_server: bool = False
    """Whether its URLs name hosts."""

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
    sessions: str = ""
    """`module:function(url) -> SessionStore`."""
