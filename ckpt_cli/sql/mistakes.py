"""Errors of DuckDB as errors of `ckpt`: one line, and a caret under the place."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from ckpt_backends.errors import CkptError, ParseError, Refused, UsageError

_KIND = re.compile(r"^[A-Za-z ]+ Error: ")
_PLACE = re.compile(r"^LINE (?P<number>\d+): (?P<text>.*)\n(?P<caret> *\^)", re.MULTILINE)
_NEAR = re.compile(r"^(?:Did you mean|Candidate bindings:|Candidate tables:|Candidate functions:)")
_LONGEST = 200
_WAY_OUT = "--tables lists the tables, --schema TABLE its columns"


@contextmanager
def reported(query: str, *, lines_before: int = 0) -> Iterator[None]:
    """Raise errors of DuckDB about a query as `ParseError`, `UsageError` or `Refused`.

    `lines_before` counts lines that were put before it.
    """
    import duckdb

    try:
        yield
    except (duckdb.OutOfMemoryException, MemoryError) as error:
        raise Refused(
            "the query needs more room than it may have",
            hint="choose fewer threads or columns, or aggregate earlier",
        ) from error
    except duckdb.Error as error:
        raise _mistake(str(error), query, lines_before) from error


def _mistake(text: str, query: str, lines_before: int) -> CkptError:
    found = _PLACE.search(text)
    lines = [one.strip() for one in text[: found.start() if found else None].splitlines()]
    lines = [one for one in lines if one]
    message = _KIND.sub("", lines[0] if lines else text)[:_LONGEST].rstrip(" !")
    if message.startswith("Max expression depth"):
        # DuckDB advises to change a setting, which no query here can.
        return UsageError("the query is nested too deeply", hint="use fewer brackets")
    message = message[:1].lower() + message[1:]
    hints = [one for one in lines[1:] if _NEAR.match(one) and "pg_" not in one]
    hint = hints[0][:_LONGEST] if hints else _WAY_OUT
    if found is None:
        return UsageError(message, hint=hint)
    line = query.splitlines()[int(found["number"]) - 1 - lines_before]
    shown = found["text"].removeprefix("...").removesuffix("...")
    start = line.find(shown)
    # The caret stands below the text after `LINE n: `, of which a long one is a part.
    cut = len("...") if found["text"].startswith("...") else 0
    indent = len(f"LINE {found['number']}: ")
    place = max(start, 0) + len(found["caret"]) - 1 - indent - cut
    return ParseError(message, text=line, position=max(0, min(place, len(line))), hint=hint)
