"""The table `[stores.NAME.erase]` of a profile: where a store keeps what belongs to a person.

[stores.prod.erase]
subject = "metadata.user"
memory = "users/{subject}"
archives = ["/srv/backups"]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ckpt_backends.errors import UsageError

_TEXTS = ("subject", "memory")
_EXAMPLE = 'subject = "metadata.user"'


@dataclass(frozen=True, slots=True)
class EraseRules:
    """Where the threads and the memory of a person are found."""

    subject: str | None = None
    """The field of a thread that names the person, such as `metadata.user`."""
    memory: str | None = None
    """The namespace of a person in long-term memory, with `{subject}` for the person."""
    archives: tuple[str, ...] = ()
    """Folders with archives, as written."""

    def shown(self) -> Mapping[str, str]:
        """Return its keys and values, to print them."""
        found = {name: getattr(self, name) for name in _TEXTS if getattr(self, name)}
        return {**found, **({"archives": ", ".join(self.archives)} if self.archives else {})}


def parse_erase_rules(profile: str, where: str, table: object) -> EraseRules | None:
    """Return the rules of a profile; None if it has none. Raises `UsageError`."""
    if table is None:
        return None
    hint = f"write [stores.{profile}.erase] and {_EXAMPLE}"
    if not isinstance(table, dict) or set(table) - {*_TEXTS, "archives"}:
        raise UsageError(
            f"erase is not a table with the keys 'subject', 'memory' and 'archives' in {where}",
            hint=hint,
        )
    for name in _TEXTS:
        if not isinstance(table.get(name, ""), str):
            raise UsageError(f"erase.{name} is not text in {where}", hint=hint)
    folders = table.get("archives", [])
    if not isinstance(folders, list) or not all(isinstance(one, str) for one in folders):
        raise UsageError(f"erase.archives is not a list of folders in {where}", hint=hint)
    return EraseRules(table.get("subject"), table.get("memory"), tuple(folders))
