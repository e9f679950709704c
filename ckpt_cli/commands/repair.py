"""`ckpt repair`: the table of its kinds, which is all that help needs."""

from __future__ import annotations
