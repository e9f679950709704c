"""The kinds of credentials that can be found, and who describes their forms."""

from __future__ import annotations

from collections.abc import Mapping

from ckpt_cli.core.secrets.key_names import KINDS_BY_NAME
from ckpt_cli.core.secrets.library_rules import DETECTORS, SOURCE
from ckpt_cli.core.secrets.rules import RULES


def known_kinds() -> Mapping[str, list[str]]:
    """Return the kinds in order, each with its sources. Loads no library."""
    found: dict[str, list[str]] = {kind: ["the name of a field"] for kind in KINDS_BY_NAME}
    for rule in RULES:
        found.setdefault(rule.kind, []).append(rule.source)
    for detector in DETECTORS:
        for kind in detector.kinds:
            found.setdefault(kind, []).append(SOURCE)
    return {kind: list(dict.fromkeys(found[kind])) for kind in sorted(found)}
