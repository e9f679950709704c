"""Which server an application's own files name: `langgraph.json`, and the file of its variables.

The variables are those of LangGraph's Agent Server. Its `REDIS_URI` is left out: that is a message
broker and holds no checkpoints. `checkpointer.path` names code, which is never run.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ckpt_backends.discovery import backend_of
from ckpt_backends.errors import UsageError
from ckpt_backends.url import VARIABLE, StoreUrl, parse_url
from ckpt_cli.config import trust

PROJECT, VARIABLES = "langgraph.json", ".env"
_BACKEND = "LS_DEFAULT_CHECKPOINTER_BACKEND"
_MONGO = "mongo"
_URIS: Mapping[str, tuple[str, ...]] = {
    "default": ("DATABASE_URI", "POSTGRES_URI_CUSTOM", "POSTGRES_URI"),
    _MONGO: ("LS_MONGODB_URI", "MONGODB_URI"),
}
"""By the checkpointer of the server, the variables that may hold its URL; the first counts."""
_LINE = re.compile(
    r"""^[ \t]*(?:export[ \t]+)?(?P<name>[A-Za-z_]\w*)[ \t]*=[ \t]*"""
    r"""(?:'(?P<single>[^'\n]*)'|"(?P<double>[^"\n]*)"|(?P<bare>[^\n]*))""",
    re.ASCII | re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class NamedServer:
    """A server that a file of an application names."""

    url: StoreUrl
    key: str
    """The variable, or the key of `langgraph.json`."""
    source: Path
    """The file that holds the URL."""
    distrust: str | None
    """Why it may not be contacted; None if the file is trusted."""


def server_named_in(folder: Path) -> NamedServer | None:
    """Return the server that the files of a folder name; None if they name none.

    Reads two small files at most, and only in the folder.
    """
    folder = Path(os.path.realpath(folder))
    project = _read(folder, PROJECT)
    table = _table(project)
    checkpointer = table.get("checkpointer")
    checkpointer = checkpointer if isinstance(checkpointer, dict) else {}
    if "path" in checkpointer:
        return None
    env = table.get("env", VARIABLES)
    if isinstance(env, dict):
        source, variables = project, {str(name): str(value) for name, value in env.items()}
    else:
        source = _read(folder, env) if isinstance(env, str) else None
        variables = parse_variables(source)
    kind = checkpointer.get("backend", variables.get(_BACKEND, "default"))
    uri = checkpointer.get("uri")
    if kind == _MONGO and project is not None and isinstance(uri, str):
        return _server(uri, "checkpointer.uri", project)
    for name in _URIS.get(kind, ()) if isinstance(kind, str) and source is not None else ():
        if variables.get(name) and source is not None:
            return _server(variables[name], name, source)
    return None


def parse_variables(contents: trust.Contents | None) -> dict[str, str]:
    """Return the variables of a file of lines `NAME=VALUE`, as `dotenv` reads them."""
    if contents is None:
        return {}
    found = {}
    for line in _LINE.finditer(contents.data.decode(errors="replace")):
        quoted = line["single"] if line["double"] is None else line["double"]
        bare = re.split(r"(?:^|\s)#", line["bare"] or "", maxsplit=1)[0].strip()
        found[line["name"]] = bare if quoted is None else quoted
    return found


def _server(text: str, key: str, source: trust.Contents) -> NamedServer | None:
    """Return the server of a URL; None if `ckpt` has no backend for it, or if it is no server."""
    if VARIABLE.search(text):
        return None
    try:
        url = parse_url(text)
    except UsageError:
        return None
    backend = backend_of(url.scheme)
    if "://" not in text or backend is None or backend.is_local:
        return None
    return NamedServer(url, key, source.path, _distrust(source))


def _distrust(source: trust.Contents) -> str | None:
    try:
        source.check_owner()
    except trust.NotOurs as error:
        return f"cannot be used ({error.message.rpartition(': ')[2]})"
    return trust.distrust(source)


def _read(folder: Path, name: str) -> trust.Contents | None:
    """Return a small file that lies in a folder; None if there is none, or if a link leads out."""
    try:
        path = trust.where_it_lies(folder / name)
        inside = Path(os.path.realpath(path)).is_relative_to(folder)
        return trust.read(path) if inside and os.path.lexists(path) else None
    except (UsageError, ValueError):
        return None


def _table(contents: trust.Contents | None) -> Mapping[str, object]:
    if contents is None:
        return {}
    try:
        found = json.loads(contents.data)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
