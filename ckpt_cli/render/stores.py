"""Lists of stores and of layouts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from ckpt_backends.declaration import DISTRIBUTION
from ckpt_backends.installing import install_command
from ckpt_cli.render.fields import Field, Part, Shape, known, optional
from ckpt_cli.render.table import Column, size
from ckpt_cli.render.types import BYTES, TEXT

if TYPE_CHECKING:
    from ckpt_backends.model import Capability
    from ckpt_cli.queries.stores import OpenableLayout


def _names(capabilities: Iterable[Capability]) -> list[str]:
    return sorted(str(one.name).lower() for one in capabilities)


def _limits(commands: Mapping[str, str]) -> str:
    """The commands that are not fully supported, by what they do instead."""
    limited: dict[str, list[str]] = {}
    for name, cell in commands.items():
        if cell != "yes":
            limited.setdefault(cell, []).append(name)
    return "; ".join(f"{cell}: {', '.join(names)}" for cell, names in limited.items())


_CAPABILITIES = TEXT.list.converted_by(_names)
_LAYOUT = Field("layout", TEXT, "Layout.")
_ENGINE = Field("engine", TEXT.or_null, "Database or format of the file.")
_TABLES = Field("tables", TEXT.list, "Its tables, collections or keys.")
_NOTES = Field("notes", TEXT.list, "What a reader should know of it.")
STORE = Shape(
    "A store that was found.",
    Field("name", TEXT, "Profile, file or URL."),
    Field("url", TEXT, "URL without secrets."),
    known("error", TEXT, "Why it cannot be opened.", lambda one: one.error and one.error.message),
    Part(Shape("Memory without threads.", _LAYOUT, _ENGINE, _TABLES, _NOTES), "memory"),
    Part(
        Shape(
            "A store that can be opened.",
            _LAYOUT,
            _ENGINE,
            Field("saver", TEXT.or_null, "The saver that wrote it."),
            Field("size", BYTES.or_null, "Size on disk."),
            known("log", BYTES, "Size of its write-ahead log."),
            _TABLES,
            Field("capabilities", _CAPABILITIES, "What the layout can do."),
            _NOTES,
        ),
        "info",
    ),
    Part(
        Shape(
            "Where threads name their users.",
            Field("user_key", TEXT, "Field with the user.", "name"),
            Field("user_key_why", TEXT, "Why it was taken.", "why"),
        ),
        "user_key",
    ),
)
STORE_COLUMNS = STORE.columns(
    Column("NAME", "name", style="head"),
    Column("LAYOUT", "layout"),
    Column("SIZE", "size", size, right=True),
    Column("LOG", "log", lambda log: size(log) if log else "", right=True, drop=4),
    Column("SAVER", "saver", cut=True, drop=1),
    Column("USER", "user_key", drop=2),
    Column("ENGINE", "engine", drop=2),
    Column("URL", "url", drop=3),
    Column("ERROR", "error", style="error", drop=1),
)


def _openable(one: OpenableLayout) -> OpenableLayout | None:
    return None if one.error else one


def _engine(one: OpenableLayout) -> str | None:
    return None if one.schemes else one.engine


def _described(one: OpenableLayout) -> OpenableLayout | None:
    return None if one.capabilities is None else one


LAYOUT = Shape(
    "A layout that can be opened.",
    Field("layout", TEXT.or_null, "Layout.", lambda one: one.layout or None),
    Field("backend", TEXT, "Its backend.", "title"),
    Field("package", TEXT, "Package that has it."),
    optional("error", TEXT, "Why the backend cannot be loaded."),
    Part(
        Shape(
            "A layout whose backend is loaded.",
            optional("schemes", TEXT.list, "Schemes of its URLs."),
            known("engine", TEXT, "Database or format of the file, if without schemes.", _engine),
            Field("file_names", TEXT.list, "Names of its files."),
            optional("needs", TEXT, "The driver that is not installed."),
            Part(
                Shape(
                    "What it supports.",
                    Field("capabilities", _CAPABILITIES, "What it can do."),
                    Field("commands", TEXT.by_name, "Commands, and how far it supports them."),
                ),
                _described,
            ),
            _NOTES,
        ),
        _openable,
    ),
)
LAYOUT_COLUMNS = LAYOUT.columns(
    Column("LAYOUT", "layout", style="head"),
    Column("BACKEND", "backend", cut=True),
    Column("SCHEMES", "schemes", ", ".join, drop=2),
    Column("ENGINE", "engine", drop=4),
    Column("FILES", "file_names", ", ".join, drop=6),
    Column("PACKAGE", "package", lambda name: "" if name == DISTRIBUTION else name, drop=1),
    "capabilities",
    Column("MISSING", "needs", install_command, drop=3),
    Column("LIMITS", "commands", _limits, cut=True, least=24, drop=5),
    # Too long for a table: stderr has the notes.
    *("notes", "error"),
)
