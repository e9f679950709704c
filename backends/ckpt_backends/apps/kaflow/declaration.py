"""Declares the collection of KaFlow's checkpointer."""

from ckpt_backends.declaration import Backend
from ckpt_backends.model import Capability

BACKEND = Backend(
    title="KaFlow",
    layouts={"kaflow": Capability.HISTORY | Capability.ADDING | Capability.INLINE_VALUES},
    engine="mongodb",
    recognise="ckpt_backends.apps.kaflow.recognise:recognise",
)
