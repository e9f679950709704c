"""All scenarios, in the order in which they are run: importing their modules registers them."""

from __future__ import annotations

from ckpt_backends.testing.scenarios import control_flow, conversations, delta_channels, values
from ckpt_backends.testing.scenarios.running import SCENARIOS, SKIPPED

__all__ = ["SCENARIOS", "SKIPPED", "control_flow", "conversations", "delta_channels", "values"]
