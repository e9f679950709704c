"""Declares files with one thread as JSON."""

from ckpt_backends.declaration import NAME, Backend
from ckpt_backends.model import Capability

BACKEND = Backend(
    title="Toy",
    layouts={"toy": Capability.HISTORY | Capability.INLINE_VALUES},
    schemes=("toy",),
    params={"box": NAME},
    is_local=True,
    claims_path=lambda path: path.endswith(".toy"),
    file_names=("*.toy",),
    checkpoints="ckpt_toy.store:open_store",
)
