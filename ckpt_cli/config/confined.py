"""What a profile of a configuration that nobody trusted may do: open a local store beside it.

Such a file may come from a stranger. A list says what is allowed; everything else needs
`ckpt trust`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from ckpt_backends.url import DEV_FILE, DEV_FOLDER, MEMORY, VARIABLE, parse_url

_SCHEMES = frozenset({"sqlite", "langgraph-dev", "deerflow"})
"""Stores that are local files."""
_PARAMS = frozenset({"layout"})
_INNER = (
    *("", DEV_FOLDER, DEV_FILE, f"{DEV_FOLDER}/{DEV_FILE}"),
    *(*MEMORY, f"{MEMORY[1]}/{MEMORY[0]}"),
)
"""Files and folders of a store that is a folder. A link may lead anywhere."""


def needs_trust(url: str, params: Mapping[str, str], folder: Path) -> str | None:
    """Return what a store of an untrusted configuration does that needs trust; None if nothing.

    The URL and the parameters are as written, and a path is already relative to the right folder.
    Raises `UsageError` if the URL cannot be parsed.
    """
    found = VARIABLE.search(" ".join((url, *params, *params.values())))
    if found is not None:
        return f"uses the environment variable '{found[1]}'"
    parsed = parse_url(url)
    if parsed.scheme not in _SCHEMES:
        return "names a server"
    if others := sorted({*parsed.params, *params} - _PARAMS):
        return f"sets '{others[0]}'"
    root = os.path.realpath(folder)
    places = (os.path.realpath(os.path.join(parsed.path, inner)) for inner in _INNER)
    if any(os.path.commonpath((place, root)) != root for place in places):
        return "names a file outside its folder"
    return None
