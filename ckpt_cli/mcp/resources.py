"""Threads and checkpoints as resources: ckpt://thread/THREAD and ckpt://thread/THREAD@REF."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import unquote

from ckpt_backends.errors import NotFound
from ckpt_cli.mcp.asking import Asked, Tool
from ckpt_cli.mcp.pages import Item
from ckpt_cli.mcp.tools import TOOLS

PREFIX = "ckpt://thread/"
TEMPLATES = {
    f"{PREFIX}{{thread}}": (
        "A thread",
        "The tree of a thread: its steps, forks, questions and errors. Percent-encode the id.",
    ),
    f"{PREFIX}{{thread}}@{{ref}}": (
        "A checkpoint",
        "The state at a checkpoint; the ref is head, an id, ~2, step:3 or a time.",
    ),
}


def resource(uri: str) -> Tool:
    """Return what answers a resource. Raises `NotFound` for a URI of another form."""
    name = unquote(uri.removeprefix(PREFIX), errors="surrogateescape")
    if not uri.startswith(PREFIX) or not name:
        raise NotFound(f"no resource '{uri}'", hint=f"a URI is {' or '.join(TEMPLATES)}")

    def read(asked: Asked) -> Iterator[Item]:
        if name in asked.store.handle or "@" not in name:
            return iter(TOOLS["tree"].answer(_with(asked, thread=name)))
        thread, _, ref = name.rpartition("@")
        return iter(TOOLS["show"].answer(_with(asked, thread=thread, ref=ref)))

    # The URI may hold the id of a thread, so it is no name to print outside of the marks.
    return Tool("resource", "", "", {}, read)


def _with(asked: Asked, **arguments: str) -> Asked:
    return Asked(asked.store, arguments, asked.watch)
