"""Reads the bodies of one thread for answers without values."""

from __future__ import annotations

from ckpt_backends.codec import decode_checkpoint
from ckpt_backends.codec.msgpack import decode_msgpack
from ckpt_backends.codec.successive import SuccessiveValues
from ckpt_backends.codec.values import CHANNELS, DEFAULT_LIMITS, Cut, PastLimit, Value
from ckpt_backends.model import TypedBytes, is_control

_LEAST = 8 << 10
"""Smaller bodies are decoded as fast as they are skimmed."""
_SMALL = 512
"""Values of up to this many bytes are returned."""


class BodySkimmer:
    """Decodes bodies of one thread. Those read one after the other should be alike.

    Keeps the values of one body in memory.
    """

    def __init__(self) -> None:
        self._successive = SuccessiveValues(decode_msgpack)

    def decode(self, body: TypedBytes) -> Value:
        """Decode a body like `decode_checkpoint`, with a `Cut` of None for each large value.

        Values of LangGraph's control channels are always there.
        """
        if body.type != "msgpack" or body.problem or len(body.data) < _LEAST:
            return decode_checkpoint(body)
        try:
            found = self._successive.body(body.data, DEFAULT_LIMITS)
        except (ValueError, IndexError, PastLimit):
            return decode_checkpoint(body)
        if found is None:
            return decode_checkpoint(body)
        channels = found.get(CHANNELS)
        if isinstance(channels, dict):
            found[CHANNELS] = {
                name: self._skimmed(name, value) if isinstance(name, str) else value
                for name, value in channels.items()
            }
        return found

    def _skimmed(self, name: str, value: Value) -> Value:
        size = self._successive.size(name)
        return value if size <= _SMALL or is_control(name) else Cut(None, size, "not read")
