"""The command that adds a missing package to this installation of `ckpt`: of pip, pipx or uv."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from ckpt_backends.declaration import DISTRIBUTION
from ckpt_backends.shell import command


def release() -> str:
    """Return the release of `ckpt` that is installed here."""
    from importlib.metadata import version  # 15 ms

    return version(DISTRIBUTION)


@cache
def install_command(requirement: str, prefix: str = sys.prefix) -> str:
    """Return the command that installs a requirement, such as `langgraph-ckpt[tui]`, here.

    `prefix` is the environment. pipx and uv know it by the name of its folder, except that of
    `pipx run` and `uvx`: there, it is the command that runs `ckpt` with the requirement.
    """
    where = Path(prefix)
    match _installer(where):
        case "pipx":
            return command("pipx", "inject", where.name, *_added(requirement))
        case "pipx run":
            return command("pipx", "run", *_with(_added(requirement)), DISTRIBUTION)
        case "uv":
            # uv keeps only what this command names.
            kept = _kept(where)
            itself = kept.pop(where.name, where.name)
            added = _with([*kept.values(), *_added(requirement)])
            return command("uv", "tool", "install", *added, itself)
        case "uvx":
            return command("uvx", *_with(_added(requirement)), DISTRIBUTION)
    return command("pip", "install", requirement)


def run_words(prefix: str = sys.prefix) -> list[str]:
    """Return the words that run this `ckpt`: without an installation, those of uvx or pipx."""
    ways = {"uvx": ["uvx", DISTRIBUTION], "pipx run": ["pipx", "run", DISTRIBUTION]}
    return ways.get(_installer(Path(prefix)), ["ckpt"])


def upgrade_command(prefix: str = sys.prefix) -> str:
    """Return the command that installs the newest `ckpt` here, or runs it."""
    where = Path(prefix)
    match _installer(where):
        case "pipx":
            return command("pipx", "upgrade", where.name)
        case "pipx run":
            return f"pipx run --no-cache {DISTRIBUTION}"
        case "uv":
            return command("uv", "tool", "upgrade", where.name)
        case "uvx":
            return f"uvx {DISTRIBUTION}@latest"
    return f"pip install -U {DISTRIBUTION}"


def _installer(where: Path) -> str:
    """Return what made an environment: pip, pipx, `pipx run`, uv or uvx."""
    if (where / "pipx_metadata.json").is_file():
        return "pipx" if where.parent.name == "venvs" else "pipx run"
    if (where / "uv-receipt.toml").is_file():
        return "uv"
    # `uvx` makes it in uv's cache.
    cached = where.parent.name.startswith("archive-v") and (where / "pyvenv.cfg").is_file()
    return "uvx" if cached else "pip"


def _with(packages: Iterable[str]) -> list[str]:
    """Return the options that add packages to a tool of uv, each once."""
    return [word for one in dict.fromkeys(packages) for word in ("--with", one)]


def _added(requirement: str) -> list[str]:
    """Return what to add beside `ckpt`: for an extra of its own, the packages of the extra."""
    own = re.fullmatch(rf"{DISTRIBUTION}\[([\w-]+)\]", requirement)
    # A package is named once for each Python that needs a release of its own.
    return [*dict.fromkeys(_packages_of(own[1]) if own else ())] or [requirement]


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


def _kept(tool: Path) -> dict[str, str]:
    """Return what a user asked uv to install in a tool: names, with the extras behind them."""
    import tomllib

    try:
        receipt = tomllib.loads((tool / "uv-receipt.toml").read_text("utf-8"))
        found = receipt["tool"]["requirements"]
        names = [(one["name"], one.get("extras", [])) for one in found]
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return {}
    return {name: f"{name}[{','.join(extras)}]" if extras else name for name, extras in names}
