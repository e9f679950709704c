"""What `ckpt secrets` leaves out, as a profile lists it: `[PATH:]KIND[@THREAD]`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from fnmatch import fnmatchcase

from ckpt_backends.errors import UsageError
from ckpt_cli.core.secrets.finding import SecretFinding
from ckpt_cli.core.secrets.kinds import known_kinds
from ckpt_cli.core.values.paths import All, Path, parse_path

EXAMPLE = "jwt, messages[].content:jwt or *@test-*"
_ENTRY = re.compile(r"(?:(?P<path>.+?):)?(?P<kind>[a-z0-9*?-]+)(?:@(?P<thread>.+))?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class IgnoredSecrets:
    """One entry; all that it names must fit."""

    kind: str
    """A shell pattern."""
    path: Path | None = None
    """The whole path; `[]` stands for any index or key. None for any path."""
    thread: str | None = None
    """A shell pattern; None for any thread, and for memory."""
    text: str = field(default="", compare=False)
    """The entry as written."""

    def fits(self, found: SecretFinding) -> bool:
        """Return whether a finding is to be left out."""
        if not fnmatchcase(found.kind, self.kind):
            return False
        if self.thread is not None and not fnmatchcase(found.thread_id or "", self.thread):
            return False
        return self.path is None or (
            len(self.path) == len(found.path)
            and all(a is All.ALL or a == b for a, b in zip(self.path, found.path, strict=True))
        )


def parse_ignored(texts: Iterable[str]) -> Sequence[IgnoredSecrets]:
    """Return the entries of a list.

    Raises `UsageError` for one that cannot be read or names no known kind.
    """
    return tuple(map(_parse, texts))


def _parse(text: str) -> IgnoredSecrets:
    match = _ENTRY.fullmatch(text)
    if match is None:
        raise UsageError(f"cannot read '{text}'", hint=f"write [PATH:]KIND[@THREAD]: {EXAMPLE}")
    kinds = list(known_kinds())
    if not any(fnmatchcase(kind, match["kind"]) for kind in kinds):
        close = get_close_matches(match["kind"], kinds, n=1)
        hint = f"did you mean '{close[0]}'?" if close else "`ckpt secrets --kinds` lists them"
        raise UsageError(f"unknown kind '{match['kind']}' in '{text}'", hint=hint)
    path = None if match["path"] is None else parse_path(match["path"])
    return IgnoredSecrets(match["kind"], path, match["thread"], text)
