"""`ckpt` without a word: which stores there are, and what to type."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from typer import Context

from ckpt_backends import shell
from ckpt_backends.errors import CkptError
from ckpt_backends.installing import run_words
from ckpt_backends.url import printable
from ckpt_cli import __version__
from ckpt_cli.api.opening import open as open_store
from ckpt_cli.api.store import StoreHandle
from ckpt_cli.commands.stores import stores
from ckpt_cli.config.found import found_in
from ckpt_cli.render.text import StyledLine, line, safe_text, wrap
from ckpt_cli.session import Session

_MOST = 50
"""How many threads of a store are looked at; each needs its head."""
_STORES = 6
_NOTHING = (
    "No store was found in this folder, nor below it in data, db or checkpoints, nor where dcode"
    " and EvoScientist keep theirs."
)


class StoreSummary(NamedTuple):
    """A store in a line."""

    name: str
    words: Sequence[str]
    """The options that name it."""
    said: str
    thread: str | None = None
    """A thread to look at: the newest that failed or waits, or else the newest."""


def overview(ctx: Context) -> None:
    """Print what was found, and the commands to go on with; for scripts, as `ckpt stores` does."""
    session: Session = ctx.obj
    if session.output.text:
        found = list(_stores(session))
        session.output.document(list, lambda: _lines(found, session.output.width))
    else:
        stores(ctx)


def _stores(session: Session) -> Iterator[StoreSummary]:
    names = session.names
    if names.store_name is not None or names.profiles.default is not None:
        yield _summary(names.label, names.words, session.handle)
        return
    for one in islice(found_in(Path.cwd()), _STORES):
        if one.server is not None:
            source = shell.word(one.server.source.name)
            todo = f"run `ckpt trust {source}` to open it" if one.server.distrust else "a server"
            yield StoreSummary(printable(str(one.url)), (), f"named in {source}; {todo}")
            continue
        try:
            with open_store(
                one.url.path,
                aes_key_file=session.settings.get("aes_key_file"),
                redact=bool(session.settings.get("redact")),
            ) as store:
                yield _summary(one.url.path, one.words, store)
        except CkptError as error:
            yield StoreSummary(one.url.path, one.words, error.message)


def _summary(name: str, words: Sequence[str], store: StoreHandle) -> StoreSummary:
    threads = [(one.status, one.id) for one in store.threads(limit=_MOST)]
    counted = Counter(status for status, _ in threads)
    parts = ", ".join(f"{count} {status}" for status, count in counted.most_common())
    number = "1 thread" if len(threads) == 1 else f"{len(threads)} threads"
    said = f"the newest {number}" if len(threads) == _MOST else number
    troubled = (one for status, one in threads if status in {"error", "interrupted"})
    thread = next(troubled, threads[0][1] if threads else None)
    return StoreSummary(name, tuple(words), f"{said}: {parts}" if parts else "no threads", thread)


def _lines(found: Sequence[StoreSummary], width: int) -> Iterator[StyledLine]:
    yield line(f"ckpt {__version__} reads LangGraph checkpoints, without the agent's code.")
    yield line()
    longest = max((len(one.name) for one in found), default=0)
    for one in found:
        yield line((safe_text(one.name), "bold"), f"{'':{longest - len(one.name)}}  {one.said}")
    if not found:
        where = "this folder and those below it that are named data, db or checkpoints"
        for text in wrap(
            f"No store was found in {where}, nor one of dcode or EvoScientist.", width
        ):
            yield line(text)
    yield line()
    rows = list(_next(found))
    widest = max(len(text) for text, _ in rows)
    for text, what in rows:
        yield line(("  " + safe_text(text), "bold"), (f"{'':{widest - len(text)}}  {what}", "dim"))


def _next(found: Sequence[StoreSummary]) -> Iterator[tuple[str, str]]:
    """Yield commands to type, each with what it does."""
    itself = run_words()
    opened = next((one for one in found if one.thread is not None), None)
    if opened is None:
        yield shell.command(*itself, "demo", "sample.db"), "write a sample store to try"
        yield shell.command(*itself, "-s", "agent.db", "threads", "list"), "open a file"
        url = "postgresql://HOST/DB"
        yield shell.command(*itself, "-s", url, "threads", "list"), "or a server"
    else:
        named = [*itself, *opened.words]
        yield shell.command(*named, "threads", "list"), "which threads wait or failed, and why"
        thread = opened.thread or ""
        shown = ["--tree", "--", thread] if thread.startswith("-") else [thread, "--tree"]
        yield shell.command(*named, "show", *shown), "what happened in one"
        yield shell.command(*named, "tui"), "look around"
    yield shell.command(*itself, "--help"), "all commands"
