"""Print the sessions of an application: a table, single sessions as text, and records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, tzinfo
from typing import TYPE_CHECKING, Any

from ckpt_cli.queries.sessions import FACTS
from ckpt_cli.render.records import values_record
from ckpt_cli.render.status import STATUS_STYLES
from ckpt_cli.render.terminal.fields import field
from ckpt_cli.render.terminal.safe_text import safe_text, visible_id
from ckpt_cli.render.terminal.styled_text import StyledLine, line
from ckpt_cli.render.terminal.table import Column
from ckpt_cli.render.terminal.units import age, iso, left, size, when
from ckpt_cli.render.values.block import block

if TYPE_CHECKING:
    from ckpt_cli.queries.sessions import Joined


def session_record(found: Joined) -> dict[str, Any]:
    """Return one session as JSON; its other fields only if they were read."""
    one = found.session
    record: dict[str, Any] = {
        "session_id": one.session_id,
        "user_id": one.user_id,
        "thread_id": one.thread_id,
        "created_at": one.created_at,
        "updated_at": one.updated_at,
        "bytes": one.size,
        "key": one.key,
    }
    if one.expires_at is not None:
        record["expires_at"] = iso(one.expires_at)
    if found.thread is not None:
        record |= {"status": found.status, "head": found.thread.head}
    if one.fields:
        rest = {name: value for name, value in one.fields.items() if name not in FACTS}
        record["fields"] = values_record(rest)
    return record


def session_columns(now: datetime) -> Sequence[Column]:
    """Return the columns of `memory sessions`."""
    return [
        Column("SESSION", "session_id", style="head"),
        Column("USER", "user_id"),
        Column("THREAD", "thread_id", visible_id, style="id"),
        Column("STATUS", "status"),
        Column("UPDATED", "updated_at", style="time", drop=2),
        Column("EXPIRES", "expires_at", left(now), style="time", right=True, drop=1),
        Column("SIZE", "bytes", size, right=True, drop=3),
        Column("CREATED", "created_at", table=False),
        Column("HEAD", "head", table=False),
        Column("KEY", "key", table=False),
    ]


def session_lines(found: Joined, now: datetime, zone: tzinfo, width: int) -> Iterator[StyledLine]:
    """Yield one session as text."""
    one = found.session
    yield from field("session", one.session_id, width, "head")
    yield from field("user", one.user_id, width)
    yield from field("key", one.key, width)
    if one.thread_id is not None:
        there = "" if found.thread is not None else "  (not in this store)"
        yield from field("thread", one.thread_id + there, width, "id")
    if found.status is not None:
        yield from field("status", found.status, width, STATUS_STYLES[found.status])
    for name, text in (("created", one.created_at), ("updated", one.updated_at)):
        if text is not None:
            yield from field(name, text, width)
    if one.expires_at is not None:
        expires = f"{when(one.expires_at, now, zone)}  ({age(one.expires_at, now)})"
        yield from field("expires", expires, width, "time")
    for name, value in one.fields.items():
        if name not in FACTS:
            yield line("")
            yield line((safe_text(name), "head"))
            yield from map(line, block(value, 2, width))
