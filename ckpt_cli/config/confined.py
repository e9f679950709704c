"""What a profile of a configuration that nobody trusted may do: open a local store beside it.

Such a file may come from a stranger. A list says what is allowed; everything else needs
`ckpt trust`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from ckpt_backends.discovery import backend_of, bundled
from ckpt_backends.url import VARIABLE, parse_url

_PARAMS = frozenset({"layout"})


def needs_trust(url: str, params: Mapping[str, str], folder: Path) -> str | None:
    """Return what a store of an untrusted configuration does that needs trust; None if nothing.

    The URL and the parameters are as written, and a path is already relative to the right folder.
    Raises `UsageError` if the URL cannot be parsed.
    """
    found = VARIABLE.search(" ".join((url, *params, *params.values())))
    if found is not None:
        return f"uses the environment variable '{found[1]}'"
    parsed = parse_url(url)
    backend = backend_of(parsed.scheme)
    if backend is None or not backend.is_local:
        return "names a server"
    if others := sorted({*parsed.params, *params} - _PARAMS):
        return f"sets '{others[0]}'"
    root = os.path.realpath(folder)
    # A link in a store that is a folder may lead anywhere.
    local = (backend, *(one for one in bundled() if one.is_local))
    inner = ("", *(path for one in local for path in one.inner_paths))
    places = (os.path.realpath(os.path.join(parsed.path, path)) for path in inner)
    if any(os.path.commonpath((place, root)) != root for place in places):
        return "names a file outside its folder"
    return None
