"""The command that adds a missing package to this installation of `ckpt`: of pip, pipx or uv."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from ckpt_backends.shell import command

DISTRIBUTION = "langgraph-ckpt"
"""The distribution of `ckpt` and of the bundled backends."""


@cache
def install_command(requirement: str, prefix: str = sys.prefix) -> str:
    """Return the command that installs a requirement, such as `langgraph-ckpt[tui]`, here.

    `prefix` is the environment. pipx and uv know it by the name of its folder.
    """
    where = Path(prefix)
    if (where / "pipx_metadata.json").is_file():
        return command("pipx", "inject", where.name, *_added(requirement))
    if (where / "uv-receipt.toml").is_file():
        # uv keeps only what this command names.
        wanted = dict.fromkeys([*_kept(where), *_added(requirement)])
        added = (word for one in wanted for word in ("--with", one))
        return command("uv", "tool", "install", *added, where.name)
    return command("pip", "install", requirement)


def upgrade_command(prefix: str = sys.prefix) -> str:
    """Return the command that installs the newest `ckpt` here."""
    where = Path(prefix)
    if (where / "pipx_metadata.json").is_file():
        return command("pipx", "upgrade", where.name)
    if (where / "uv-receipt.toml").is_file():
        return command("uv", "tool", "upgrade", where.name)
    return f"pip install -U {DISTRIBUTION}"


def _added(requirement: str) -> list[str]:
    """Return what to add beside `ckpt`: for an extra of its own, the packages of the extra."""
    own = re.fullmatch(rf"{DISTRIBUTION}\[([\w-]+)\]", requirement)
    return [*(_packages_of(own[1]) if own else ())] or [requirement]


def _packages_of(extra: str) -> Iterator[str]:
    """Yield the packages of an extra without their versions, such as `psycopg[binary]`."""
    from importlib.metadata import PackageNotFoundError, requires

    try:
        found = requires(DISTRIBUTION) or []
    except PackageNotFoundError:
        return
    for one in found:
        package, _, marker = one.partition(";")
        if re.search(rf"""extra == ['"]{extra}['"]""", marker):
            yield re.split(r"[\s<>=!~]", package, maxsplit=1)[0]


def _kept(tool: Path) -> Iterator[str]:
    """Yield the packages that a user added to a tool of uv before."""
    import tomllib

    try:
        receipt = tomllib.loads((tool / "uv-receipt.toml").read_text("utf-8"))
        found = receipt["tool"]["requirements"]
        names = [(one["name"], one.get("extras", [])) for one in found]
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return
    for name, extras in names:
        if name != tool.name:
            yield f"{name}[{','.join(extras)}]" if extras else name
