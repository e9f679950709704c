"""The editable fields of a fact or a section of DeerFlow's memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ckpt_backends import shell
from ckpt_backends.codec.values import Value
from ckpt_backends.errors import Refused, UsageError
from ckpt_backends.memory.protocol import Item
from ckpt_cli.core.memory.fact_problems import same_as, text_of


def parse_fields(words: Sequence[str], kind: str) -> dict[str, Any]:
    """Parse `FIELD=VALUE` words for a fact or section. Raises `UsageError` if unknown."""
    known = _FIELDS["facts" if kind == "facts" else "section"]
    found: dict[str, Any] = {}
    for word in words:
        name, equals, text = word.partition("=")
        if not equals or name not in known:
            raise UsageError(
                f"cannot set '{name}': " + ("unknown field" if equals else "no value"),
                hint="use " + " or ".join(f"--set {one}=VALUE" for one in known),
            )
        found[name] = known[name](text)
    if not found:
        raise UsageError("nothing to set", hint=f"add --set {next(iter(known))}=VALUE")
    return found


def changes(value: Value, fields: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Return the fields that change, as name to (before, after)."""
    before = value if isinstance(value, dict) else {}
    return {
        name: (before.get(name), new) for name, new in fields.items() if before.get(name) != new
    }


def refuse_duplicate(item: Item, fields: Mapping[str, Any], others: Sequence[Item]) -> None:
    """Raise `Refused` if another fact has the same text, since DeerFlow keeps no duplicates."""
    said = same_as(fields.get("content"))
    for other in others:
        if said is not None and other.key != item.key and same_as(text_of(other)) == said:
            raise Refused(
                f"cannot set content: fact '{other.key.key}' has the same text",
                hint="delete one of them: "
                + shell.command("ckpt", "memory", "delete", ids=[item.key.key]),
            )


def _content(text: str) -> str:
    if not text.strip():
        raise UsageError(
            "fact text must not be empty", hint="to delete the fact: ckpt memory delete KEY"
        )
    return _storable(text.strip())


def _category(text: str) -> str:
    if not text.strip() or not text.isprintable():
        raise UsageError(
            f"cannot set category to '{text}'",
            hint="use a word such as preference, context or goal",
        )
    return _storable(text.strip())


def _confidence(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not 0 <= found <= 1:
        raise UsageError(f"cannot set confidence to '{text}'", hint="use a number from 0 to 1")
    return found


def _storable(text: str) -> str:
    """Return the text. Raises `UsageError` if UTF-8 cannot encode it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UsageError("cannot set a text that is not UTF-8") from None
    return text


_FIELDS: Mapping[str, Mapping[str, Callable[[str], Any]]] = {
    "facts": {"content": _content, "category": _category, "confidence": _confidence},
    "section": {"summary": _storable},
}
