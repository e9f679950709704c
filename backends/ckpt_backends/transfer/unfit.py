"""Why a value has no equal form in another serializer."""

from __future__ import annotations


class NoEqualForm(ValueError):
    """A value has no equal form; the message continues a sentence that begins with the value."""
