"""Refs: the words that name a checkpoint of a thread."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta, tzinfo
from typing import NamedTuple

from ckpt_backends import shell
from ckpt_backends.errors import Ambiguous, NotFound, UsageError
from ckpt_cli.core.lineage import Parentage
from ckpt_cli.core.times import looks_like_time, parse_time

_PARENTS = re.compile(r"(?:\d{0,9}~)+", re.ASCII)
"""The end of a ref, backwards: from the front, each `~` of a long text could be its start."""
_SHOWN_CANDIDATES = 8


class NamespaceRefs(NamedTuple):
    """The checkpoints of one namespace, in which refs are resolved."""

    thread_id: str
    parentage: Parentage
    head: str | None
    steps: Callable[[], Mapping[str, int | None]]
    """Returns the step of each checkpoint id. Only called for `step:N`, since it reads metadata."""
    times: Callable[[], Mapping[str, datetime | None]]
    """Returns the time of each checkpoint id, in UTC."""
    stored_time: Callable[[str], datetime | None] = lambda _: None
    """Returns the time that one checkpoint holds, in UTC."""


def split_target(text: str, exists: Callable[[str], bool]) -> tuple[str, str | None]:
    """Split `THREAD` or `THREAD@REF` into (thread id, ref).

    The whole text is tried as a thread id first, since thread ids are often e-mail addresses.
    """
    if "@" not in text or exists(text):
        return text, None
    thread_id, _, ref = text.rpartition("@")
    return (thread_id, ref) if thread_id and ref else (text, None)


def is_shortened(checkpoint_ns: str, text: str) -> bool:
    """Whether a text is a namespace as lists and trees show it: `gather:327f5b0c…`."""
    if "…" not in text:
        return False
    first, *middle, last = map(re.escape, text.split("…"))
    # Atomic groups: without them, each `…` could end at many places.
    parts = "".join(rf"(?>[^|]*?{one})" for one in middle)
    pattern = rf"(.*\|)?{first}{parts}[^|]*{last}"
    return re.fullmatch(pattern, checkpoint_ns, re.DOTALL) is not None


def named(names: Sequence[str]) -> str:
    """Some namespaces, or short refs, as a hint lists them."""
    shown = ", ".join(map(shell.name, names[:_SHOWN_CANDIDATES]))
    more = len(names) - _SHOWN_CANDIDATES
    return shown + (f" and {more} more" if more > 0 else "")


def is_ref(text: str) -> bool:
    """Return whether a text is always a ref, even if a thread has this id."""
    return text == "head" or text.startswith(("~", "head~", "step:", "tip:"))


def resolve(ref: str, line: NamespaceRefs, now: datetime, zone: tzinfo) -> str:
    """Return the id of the checkpoint that a ref names.

    Raises `NotFound`, `Ambiguous` if several match, or `UsageError` if the ref is malformed.
    """
    if ref in line.parentage:
        return ref
    match = _PARENTS.match(ref[::-1])
    if match is None:
        return _base(ref, line, now, zone)
    at = len(ref) - match.end()
    start = _base(ref[:at] or "head", line, now, zone)
    ups = [int(up or 1) for up in ref[at:].split("~")[1:]]
    return _up(start, sum(ups), ref, line)


def _base(ref: str, line: NamespaceRefs, now: datetime, zone: tzinfo) -> str:
    if ref == "head":
        if line.head is None:
            raise NotFound(f"thread '{line.thread_id}' has no checkpoint in this namespace")
        return line.head
    if ref.startswith("step:"):
        return _only(_of_step(ref, line), ref, line)
    if ref.startswith("tip:"):
        return _tip(ref, line)
    if looks_like_time(ref):
        return as_of(parse_time(ref, now, zone), line, zone)
    if len(ref) < SHORTEST:
        hint = "give at least 4 characters of an id, or head, ~N, step:N, tip:N or a time"
        if ref.isdecimal():
            hint = f"did you mean step:{ref}?"
        raise NotFound(f"no checkpoint '{ref}' in thread '{line.thread_id}'", hint=hint)
    begin = [one for one in line.parentage if one.startswith(ref)]
    end = [one for one in line.parentage if one.endswith(ref)]
    return _only(list(dict.fromkeys(begin + end)), ref, line)


def as_of(moment: datetime, line: NamespaceRefs, zone: tzinfo) -> str:
    """Return the newest checkpoint at a time.

    Raises `NotFound`, with times in `zone`, if there was none yet.
    """
    times = line.times()
    by_then = set(just_made(moment, times, line.stored_time))
    for one in line.parentage:
        at = times.get(one)
        if (at is not None and at <= moment) or one in by_then:
            return one
    known = [at for at in times.values() if at is not None]
    hint = f"its first checkpoint is from {_text(min(known), zone)}" if known else None
    raise NotFound(
        f"thread '{line.thread_id}' had no checkpoint at {_text(moment, zone)}", hint=hint
    )


LONGEST_MAKING = timedelta(seconds=1)
"""LangGraph takes the time of a checkpoint, copies the values, and then makes the id
(`create_checkpoint` in `langgraph/pregel/_checkpoint.py`); `created_at` of a state is the first.
"""


def just_made(
    moment: datetime,
    times: Mapping[str, datetime | None],
    stored_time: Callable[[str], datetime | None],
) -> Iterator[str]:
    """Yield the checkpoints whose id is from after a moment, but that were made up to then.

    `times` are those of the ids. The stored time is only asked of the next ones after the moment.
    """
    near = [
        (at, one)
        for one, at in times.items()
        if at is not None and at > moment and at - moment <= LONGEST_MAKING
    ]
    for _, one in sorted(near):
        at = stored_time(one)
        if at is None or at > moment:
            break
        yield one


def _text(moment: datetime, zone: tzinfo) -> str:
    """A time as a ref."""
    try:
        return moment.astimezone(zone).isoformat(timespec="seconds")
    except OverflowError:  # At the ends of the calendar.
        return moment.isoformat(timespec="seconds")


def _of_step(ref: str, line: NamespaceRefs) -> list[str]:
    number = ref.removeprefix("step:")
    if re.fullmatch(r"-?\d{1,9}", number, re.ASCII) is None:
        raise UsageError(f"'{ref}' is not a step", hint="use step:3 or step:-1")
    steps = line.steps()
    return [one for one in line.parentage if steps.get(one) == int(number)]


def _tip(ref: str, line: NamespaceRefs) -> str:
    found = line.parentage.tips
    number = ref.removeprefix("tip:")
    if re.fullmatch(r"\d{1,9}", number, re.ASCII) is None:
        raise UsageError(f"'{ref}' is not a tip", hint="tip:0 is the newest tip, tip:1 the next")
    if int(number) >= len(found):
        last = len(found) - 1
        hint = f"its tips are tip:0 to tip:{last}" if last else "its only tip is tip:0"
        raise NotFound(f"no '{ref}' in thread '{line.thread_id}'", hint=hint)
    return found[int(number)]


def _up(start: str, count: int, ref: str, line: NamespaceRefs) -> str:
    way = list(line.parentage.line(start))
    if count >= len(way):
        raise NotFound(
            f"no '{ref}' in thread '{line.thread_id}'", hint=f"~{len(way) - 1} is the oldest"
        )
    return way[count]


def _only(found: list[str], ref: str, line: NamespaceRefs) -> str:
    if len(found) == 1:
        return found[0]
    if not found:
        raise NotFound(f"no checkpoint '{ref}' in thread '{line.thread_id}'", hint=_nearest(line))
    short = short_refs([*line.parentage])
    shown = ", ".join(shell.word(short[one]) for one in found[:_SHOWN_CANDIDATES])
    more = len(found) - _SHOWN_CANDIDATES
    raise Ambiguous(
        f"'{ref}' is ambiguous: {len(found)} checkpoints of thread '{line.thread_id}' match",
        hint=f"use one of {shown}" + (f", or {more} more" if more > 0 else ""),
    )


def _nearest(line: NamespaceRefs) -> str:
    ids = [*line.parentage]
    if not ids:
        return "this namespace has no checkpoints"
    short = short_refs(ids)
    newest = ", ".join(shell.word(short[one]) for one in ids[:_SHOWN_CANDIDATES])
    history = shell.command("ckpt", "history", ids=[line.thread_id])
    return f"newest first: {newest}; `{history}` lists all {len(ids)}"


# Short refs: the ends of checkpoint ids, for people to read and type.
#
# All ids of a thread begin with a time and so begin alike; their ends differ.


SHORTEST = 4
_COUNTED = r"[^0-9]{4,8}[0-9]{1,4}"
"""A numbered id such as `ckpt_007`; if all ids are numbered, they are shown in full."""
_TRIED = 64
"""Number of lengths that are tried before an id is shown in full."""
_OTHER_REF = (
    r"(?s)[0-9]{1,5}"  # could be read as a year or a step; longer numbers cannot
    r"|head|(?:step|tip):.*"
    r"|-.*"  # could be read as an option
    r"|.*~[0-9]*"  # could be read as parents of another ref
)


class ShortRefs(Mapping[str, str]):
    """The shortest unique end of each id, at least four characters, found when it is asked for.

    The end gets longer while it could be read as another kind of ref, or while another id begins
    with it. An id that another id ends with is shown in full.
    """

    def __init__(self, ids: Sequence[str]) -> None:
        self._ordered = sorted(ids)
        self._by_end = sorted([one[::-1] for one in ids])
        self._are_numbered = all(re.fullmatch(_COUNTED, one) for one in ids)
        self._found: dict[str, str] = {}

    def __getitem__(self, full: str) -> str:
        found = self._found.get(full)
        if found is None:
            found = self._found[full] = self._find(full)
        return found

    def _find(self, full: str) -> str:
        end, ends = full[::-1], self._by_end
        place = bisect_left(ends, end)
        if ends[place : place + 1] != [end]:
            raise KeyError(full)
        if self._are_numbered:
            return full
        # An id that is there twice has no end of its own.
        near = [*ends[max(place - 1, 0) : place], *ends[place + 1 : place + 2]]
        shared = max([_common(one, end) for one in near], default=0)
        return _readable(full, max(SHORTEST, shared + 1), self._ordered)

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(self._ordered))

    def __len__(self) -> int:
        return len(set(self._ordered))


def short_refs(ids: Sequence[str]) -> Mapping[str, str]:
    """Return the short ref of each of these ids."""
    return ShortRefs(ids)


def _common(left: str, right: str) -> int:
    """Return the length of the common prefix of two texts."""
    length = min(len(left), len(right))
    for place in range(length):
        if left[place] != right[place]:
            return place
    return length


def _readable(full: str, length: int, ordered: list[str]) -> str:
    for size in range(length, min(length + _TRIED, len(full))):
        ref = full[-size:]
        other = looks_like_time(ref) or re.fullmatch(_OTHER_REF, ref)
        if not other and not _begins_another(ref, full, ordered):
            return ref
    return full


def _begins_another(ref: str, full: str, ordered: list[str]) -> bool:
    place = bisect_left(ordered, ref)
    return any(other.startswith(ref) and other != full for other in ordered[place : place + 2])
