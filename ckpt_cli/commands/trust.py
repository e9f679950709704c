"""`ckpt trust`: show what a configuration file would do, ask, and trust it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Context, Option

from ckpt_backends.errors import NotFound, Refused, UsageError
from ckpt_backends.url import VARIABLE, printable_param, printable_written, split_url
from ckpt_cli import diagnostics
from ckpt_cli.config import trust as trusted_files
from ckpt_cli.config.found import NamedServer, server_named_in
from ckpt_cli.config.profiles import Profile, Profiles, discover, parse, table_of
from ckpt_cli.options import Yes
from ckpt_cli.render.table import Column, table_lines
from ckpt_cli.session import Session

_NAMES = ("ckpt.toml", "pyproject.toml")

_PROFILES = (
    Column("PROFILE", "name", style="head"),
    Column("DEFAULT", "default", lambda yes: "yes" if yes else ""),
    Column("URL", "url"),
    Column("VARIABLES", "variables", " ".join),
    Column("SETTINGS", "settings", lambda one: ", ".join(f"{k}={v}" for k, v in one.items())),
)
_FILES = (Column("PATH", "path", style="head"), Column("STATUS", "status"))


def trust(
    ctx: Context,
    file: Annotated[
        Path | None, Argument(metavar="FILE", help="Configuration file. [default: the nearest]")
    ] = None,
    show_list: Annotated[bool, Option("--list", help="List the trusted files.")] = False,
    remove: Annotated[bool, Option("--remove", help="Stop trusting the file.")] = False,
    yes: Yes = False,
) -> None:
    """Trust a configuration file, after showing what it would do.

    A ckpt.toml or pyproject.toml in this folder or above it may come from somebody else. Until
    you trust it, its profiles can only open local stores in its folder. They cannot read
    environment variables, name a server, or set copy, retention, audit or erase. Its filters
    cannot choose what a command changes.

    The server that a langgraph.json or .env in this folder names is used if no store is given and
    none lies in the folder, but only if you trust that file.

    Records the path and the SHA-256 of the contents, so a changed file must be trusted again.
    Files of --config and your own configuration need no trust.

    ```
    ckpt trust
    ckpt trust .env
    ckpt trust ~/src/agents/ckpt.toml
    ckpt trust --list
    ckpt trust --remove
    ```
    """
    session: Session = ctx.obj
    if show_list and (remove or file is not None):
        raise UsageError("--list cannot be combined with --remove or a file", hint="leave them out")
    if show_list:
        rows = (
            {"path": str(one.path), "sha256": one.sha256, "status": trusted_files.standing(one)}
            for one in trusted_files.entries()
        )
        session.output.records(rows, _FILES)
    elif remove:
        path = _nearest() if file is None else trusted_files.where_it_lies(file)
        if not trusted_files.remove(path):
            raise NotFound(
                f"cannot remove '{path}': it is not trusted",
                hint="`ckpt trust --list` lists the trusted files",
            )
        session.note(f"'{path}' is no longer trusted")
    else:
        _trust(session, _nearest() if file is None else trusted_files.where_it_lies(file), yes=yes)


def _nearest() -> Path:
    found = discover(Path.cwd())
    if found is None:
        raise UsageError(
            "no configuration file in this folder or above it",
            hint="give the file: `ckpt trust FILE`",
        )
    return found[0].path


def _trust(session: Session, path: Path, *, yes: bool) -> None:
    contents = trusted_files.read(path)
    contents.check_owner()
    if path.name in _NAMES:
        table = table_of(contents)
        if table is None:
            raise UsageError(f"cannot trust '{path}': it has no table [tool.ckpt]")
        profiles = parse(path, table)
        rows = list(_rows(profiles))
        default = profiles.default and printable_written(profiles.default)
        filters = dict(profiles.filters)
    else:
        server = _server_of(path)
        rows = [_row("", server.url.raw, [server.key], is_default=True)]
        default, filters = str(server.url), {}
    record = {
        "path": str(path),
        "sha256": contents.sha256,
        "status": "trusted" if yes else trusted_files.distrust(contents) or "trusted",
        "default": default,
        "filters": filters,
        "profiles": rows,
    }
    output = session.output
    output.document(
        lambda: record,
        lambda: table_lines(rows, _PROFILES, output.width),
        rows=lambda: rows,
        columns=_PROFILES,
    )
    if not yes:
        _confirm(path)
    trusted_files.record(contents)
    session.note(f"trusted '{path}'; after a change, run `ckpt trust` again")


def _confirm(path: Path) -> None:
    """Ask a person. Raises `Refused`."""
    answer = diagnostics.ask(f"Trust '{path}'?")
    if answer is None:
        raise Refused(
            f"'{path}' is not trusted: confirmation needed, but there is no terminal",
            hint="read the file, then add --yes",
        )
    if not answer:
        raise Refused(f"not confirmed; '{path}' is not trusted")


def _server_of(path: Path) -> NamedServer:
    """Return the server that a file of an application names. Raises `UsageError` if it names none.

    Another file of its folder, or of this one, may say that it holds the variables.
    """
    for folder in (Path.cwd(), path.parent):
        server = server_named_in(folder)
        if server is not None and server.source == path:
            return server
    raise UsageError(
        f"cannot trust '{path}': only ckpt.toml, pyproject.toml, and what names a server are read",
        hint="a file that --config names needs no trust",
    )


def _row(name: str, url: str, variables: list[str], *, is_default: bool) -> dict[str, Any]:
    return {
        **{"name": name, "url": printable_written(url), "variables": variables},
        **{"settings": {}, "default": is_default},
    }


def _rows(profiles: Profiles) -> Iterator[dict[str, Any]]:
    for one in profiles.stores.values():
        texts = (one.url, *one.params.values(), one.threads or "", one.memory or "")
        yield {
            "name": one.name,
            "url": printable_written(one.url),
            "variables": list(dict.fromkeys(VARIABLE.findall(" ".join(texts)))),
            "settings": _settings(one),
            "default": one.name == profiles.default,
        }
    if profiles.default and profiles.default not in profiles.stores:
        # A file or URL without a profile.
        names = list(dict.fromkeys(VARIABLE.findall(profiles.default)))
        yield _row("", profiles.default, names, is_default=True)
    if profiles.filters:
        yield {**_row("", "", [], is_default=False), "settings": _filters(profiles.filters)}


def _filters(aliases: Mapping[str, str]) -> dict[str, str]:
    return {f"filters.{name}": text for name, text in aliases.items()}


def _ignored(profile: Profile) -> dict[str, str]:
    found = {
        "doctor.ignore": sorted(profile.ignored_codes),
        "secrets.ignore": [one.text for one in profile.ignored_secrets],
    }
    return {name: " ".join(ones) for name, ones in found.items() if ones}


def _settings(profile: Profile) -> dict[str, str]:
    scheme = split_url(profile.url).scheme
    others = {"threads": profile.threads, "memory": profile.memory}
    erase = {} if profile.erase_rules is None else profile.erase_rules.shown()
    return {
        **{name: printable_param(scheme, name, value) for name, value in profile.params.items()},
        **({"retention": profile.retention} if profile.retention else {}),
        **({"audit": profile.audit} if profile.audit else {}),
        **_ignored(profile),
        **{name: printable_written(text) for name, text in others.items() if text},
        **({"library": profile.library} if profile.library else {}),
        **{f"reducers.{channel}": name for channel, name in profile.reducers.items()},
        **{f"erase.{name}": text for name, text in erase.items()},
        **_filters(profile.filters),
    }
