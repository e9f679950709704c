"""What tokens cost, by the prices that a configuration gives for each model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from ckpt_cli.core.usage.tokens import TokenCounts

_PER = 1_000_000


@dataclass(frozen=True, slots=True)
class ModelPrice:
    """The prices of a model, for a million tokens."""

    input: float
    output: float
    cache_read: float | None = None
    """None: as other input."""
    cache_creation: float | None = None
    """None: as other input."""

    def cost(self, tokens: TokenCounts) -> float:
        """Return what these tokens cost."""
        read = self.input if self.cache_read is None else self.cache_read
        creation = self.input if self.cache_creation is None else self.cache_creation
        plain = max(0, tokens.input - tokens.cache_read - tokens.cache_creation)
        return (
            plain * self.input
            + tokens.cache_read * read
            + tokens.cache_creation * creation
            + tokens.output * self.output
        ) / _PER


@dataclass(frozen=True, slots=True)
class PriceList:
    """The prices of all models that a configuration names."""

    currency: str = "USD"
    models: Mapping[str, ModelPrice] = field(default_factory=dict)
    """By name of a model, or by a pattern such as `gpt-4o*`."""

    def of(self, model: str | None) -> ModelPrice | None:
        """Return the price of a model: by its name, or else by the longest pattern that fits."""
        if model is None or model in self.models:
            return self.models.get(model or "")
        fitting = [name for name in self.models if fnmatchcase(model, name)]
        return self.models[max(fitting, key=len)] if fitting else None
