"""`ckpt trust`: show what a configuration file would do, ask, and trust it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from typer import Argument, Context, Option

from ckpt_backends.errors import NotFound, Refused, UsageError
from ckpt_backends.url import VARIABLE, printable_param, printable_written, split_url
from ckpt_cli import diagnostics
from ckpt_cli.api.answer import Answer
from ckpt_cli.config import trust as trusted_files
from ckpt_cli.config.found import NamedServer, server_named_in
from ckpt_cli.config.profiles import Profile, Profiles, discover, parse, table_of
from ckpt_cli.options import Yes
from ckpt_cli.render.fields import Field, Shape, View
from ckpt_cli.render.table import Column, table_lines
from ckpt_cli.render.types import FLAG, TEXT
from ckpt_cli.session import Session

_NAMES = ("ckpt.toml", "pyproject.toml")


class ShownProfile(NamedTuple):
    """A profile, or a store or filters without one, as a person is asked to trust it."""

    name: str
    url: str
    variables: list[str]
    settings: Mapping[str, str]
    default: bool


class ShownFile(NamedTuple):
    """A configuration file, and what it would do."""

    path: Path
    sha256: str
    status: str
    default: str | None
    filters: Mapping[str, str]
    profiles: list[ShownProfile]


_PATH = Field("path", TEXT, "Path.", lambda one: str(one.path))
_SHA256 = Field("sha256", TEXT, "Digest of the contents that were shown.")
_PROFILE = Shape(
    "A profile, or what stands outside of one.",
    Field("name", TEXT, "Name."),
    Field("url", TEXT, "URL without secrets."),
    Field("variables", TEXT.list, "Environment variables that it reads."),
    Field("settings", TEXT.by_name, "Its other settings."),
    Field("default", FLAG, "Whether it is the default."),
)
_PROFILE_COLUMNS = (
    Column("PROFILE", "name", style="head"),
    Column("DEFAULT", "default", lambda yes: "yes" if yes else ""),
    Column("URL", "url"),
    Column("VARIABLES", "variables", " ".join),
    Column("SETTINGS", "settings", lambda one: ", ".join(f"{k}={v}" for k, v in one.items())),
)
TRUST = Shape(
    "A configuration file, and what it would do.",
    _PATH,
    _SHA256,
    Field("status", TEXT, "`trusted`, or why it is not."),
    Field("default", TEXT.or_null, "Store that is used if none is named."),
    Field("filters", TEXT.by_name, "Names of filters."),
    Field("profiles", _PROFILE.list, "Its profiles."),
)
TRUSTED = Shape(
    "A trusted file.",
    _PATH,
    _SHA256,
    Field("status", TEXT, "Whether it is still the one.", trusted_files.standing),
)
_TRUSTED_COLUMNS = (Column("PATH", "path", style="head"), Column("STATUS", "status"))


def _rows_of(found: ShownFile) -> list[dict[str, Any]]:
    return list(map(_PROFILE.record, found.profiles))


_SHOWN = View(
    TRUST.record,
    lambda found, ui: table_lines(_rows_of(found), _PROFILE_COLUMNS, ui),
    _rows_of,
    _PROFILE_COLUMNS,
)


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
        session.output.records(map(TRUSTED.record, trusted_files.entries()), _TRUSTED_COLUMNS)
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
        shown = list(_profiles(profiles))
        default = profiles.default and printable_written(profiles.default)
        filters = dict(profiles.filters)
    else:
        server = _server_of(path)
        shown = [_bare(server.url.raw, [server.key])]
        default, filters = str(server.url), {}
    status = "trusted" if yes else trusted_files.distrust(contents) or "trusted"
    found = ShownFile(path, contents.sha256, status, default, filters, shown)
    session.show(Answer(found, _SHOWN))
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


def _bare(url: str, variables: list[str]) -> ShownProfile:
    """Return the default store, which has no profile."""
    return ShownProfile("", printable_written(url), variables, {}, default=True)


def _profiles(profiles: Profiles) -> Iterator[ShownProfile]:
    for one in profiles.stores.values():
        texts = (one.url, *one.params.values(), one.threads or "", one.memory or "")
        yield ShownProfile(
            one.name,
            printable_written(one.url),
            list(dict.fromkeys(VARIABLE.findall(" ".join(texts)))),
            _settings(one),
            default=one.name == profiles.default,
        )
    if profiles.default and profiles.default not in profiles.stores:
        # A file or URL without a profile.
        names = list(dict.fromkeys(VARIABLE.findall(profiles.default)))
        yield _bare(profiles.default, names)
    if profiles.filters:
        yield ShownProfile("", "", [], _filters(profiles.filters), default=False)


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
