"""Find credentials in values, at any depth."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ckpt_backends.codec.values import Cut, Opaque, Tagged, Value
from ckpt_cli.core.secrets.find_in_text import TextRules
from ckpt_cli.core.secrets.key_names import kind_by_name
from ckpt_cli.core.secrets.library_rules import library_rules
from ckpt_cli.core.secrets.rules import RULES
from ckpt_cli.core.values.paths import Path

MASK = "***"
"""Printed in place of a secret."""
_MOST_KNOWN_TEXT = 16 << 20
"""Characters in the objects whose credentials are remembered."""
_NAMING = ("name", "key", "header")
"""Fields whose text names what the field `value` beside them holds."""


@dataclass(frozen=True, slots=True)
class SecretPart:
    """A credential in a value. `text` must never be printed, logged or stored."""

    path: Path
    """Where the text is. If it is in a key, or below such a key, the path ends before that key."""
    kind: str
    text: str
    in_key: bool = False


@dataclass(slots=True)
class ScannedValue:
    """What was found in a value."""

    parts: list[SecretPart]
    is_whole: bool = True
    """Whether the whole value could be decoded."""
    length: int = 0
    """Characters that were searched."""

    def add(self, other: ScannedValue, step: Path) -> None:
        """Add what was found at a step below."""
        self.is_whole &= other.is_whole
        self.length += other.length
        if other.parts:
            self.parts += (
                one if not step else replace(one, path=(*step, *one.path)) for one in other.parts
            )


class Scanner:
    """Searches values and texts by all rules. Raises `MissingDependency` without detect-secrets.

    Texts and objects that were searched before are remembered, so a growing list costs what is new
    in it. Values must not be changed while the scanner is used.
    """

    def __init__(self) -> None:
        self._rules = TextRules([*RULES, *library_rules()])
        self._known: dict[int, tuple[Tagged, ScannedValue]] = {}
        self._known_text = 0

    @property
    def stopped(self) -> int:
        """How often a text was not searched completely because that took too long."""
        return self._rules.stopped

    def parts(self, value: Value, key: str | None = None) -> Iterator[SecretPart]:
        """Yield the credentials in a value; `key` is the name of the field that holds it."""
        yield from self.scan(value, key).parts

    def scan(self, value: Value, key: str | None = None) -> ScannedValue:
        """Return the credentials in a value, and whether all of it could be decoded."""
        match value:
            case str():
                return ScannedValue(self._in_text(value, key), length=len(value))
            case bytes():
                text = value.decode("latin-1")
                return ScannedValue(self._in_text(text, None), length=len(text))
            case Tagged():
                return self._in_object(value, key)
            case Cut():
                found = self.scan(value.kept, key)
                return replace(found, is_whole=False)
            case Opaque():
                return ScannedValue([], is_whole=False)
            case list():
                return self._in_list(value, key)
            case dict():
                return self._in_dict(value)
        return ScannedValue([])

    def masked(self, text: str) -> str:
        """Return a text, such as the id of a thread, without the credentials in it."""
        found = self._rules.find(text)
        for span in reversed(found):
            text = text[: span.start] + MASK + text[span.end :]
        return text

    def _in_text(self, text: str, key: str | None) -> list[SecretPart]:
        found = self._rules.find(text)
        if not found and key is not None and (kind := kind_by_name(key, text)) is not None:
            return [SecretPart((), kind, text)]
        return [SecretPart((), one.kind, text[one.start : one.end]) for one in found]

    def _in_object(self, value: Tagged, key: str | None) -> ScannedValue:
        if isinstance(value.payload, str):
            return self.scan(value.payload, key)
        known = self._known.get(id(value))
        if known is not None:
            return known[1]
        found = self.scan(value.payload)
        self._known_text += found.length
        if self._known_text > _MOST_KNOWN_TEXT:
            self._known.clear()
            self._known_text = found.length
        self._known[id(value)] = value, found
        return found

    def _in_list(self, value: list[Value], key: str | None) -> ScannedValue:
        found = ScannedValue([])
        for index, item in enumerate(value):
            found.add(self.scan(item, key), (index,))
        return found

    def _in_dict(self, value: dict[Value, Value]) -> ScannedValue:
        found = ScannedValue([])
        naming = next((value[one] for one in _NAMING if isinstance(value.get(one), str)), None)
        for key, item in value.items():
            name = key if isinstance(key, str | int) else str(key)
            in_key = self._in_text(name, None) if isinstance(name, str) else []
            found.parts += (replace(one, in_key=True) for one in in_key)
            label = name if isinstance(name, str) else None
            if name == "value" and isinstance(naming, str):
                label = naming
            inside = self.scan(item, label)
            if in_key:
                inside.parts = [replace(one, path=()) for one in inside.parts]
            found.add(inside, () if in_key else (name,))
        return found
