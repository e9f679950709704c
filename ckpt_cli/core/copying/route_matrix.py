"""Between which layouts threads can be copied: the matrices of docs/copy.md."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ckpt_backends.transfer.form import Language
from ckpt_backends.transfer.routes import languages_of, refusal


@dataclass(frozen=True, slots=True)
class RouteMatrix:
    """Sources by targets, for the threads of one language."""

    targets: list[str]
    """The layouts that receive threads."""
    rows: list[list[str]] = field(default_factory=list)
    """Each a source with a cell for each target: `yes`, or `no` with the number of a reason."""
    reasons: list[str] = field(default_factory=list)
    """The reasons by number."""
    closed: dict[str, list[str]] = field(default_factory=dict)
    """The layouts that receive no threads, by reason."""


def route_matrix(layouts: Iterable[str], language: Language) -> RouteMatrix:
    """Return the matrix of a language, for the layouts that may have threads of it."""
    names = [one for one in layouts if language in (languages_of(one) or (Language.PYTHON,))]
    refused = {one: {other: refusal(one, other, language) for other in names} for one in names}
    found = RouteMatrix([one for one in names if not all(refused[other][one] for other in names)])
    numbers: dict[str, int] = {}
    for one in names:
        cells = [one]
        for other in found.targets:
            reason = refused[one][other]
            number = numbers.setdefault(reason, len(numbers) + 1) if reason else 0
            cells.append(f"no ({number})" if reason else "yes")
        found.rows.append(cells)
        if one not in found.targets:
            for other in found.targets[:1]:
                found.closed.setdefault(refused[other][one], []).append(one)
    found.reasons.extend(f"{number}. {reason}" for reason, number in numbers.items())
    return found
