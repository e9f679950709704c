"""Declares the folders in which `langgraph dev` stores its checkpoints."""

import os

from ckpt_backends.declaration import SAVER, Backend
from ckpt_backends.transfer.form import Form, Language, Place

FOLDER = ".langgraph_api"
"""The folder of the files, inside the folder in which the server was started."""
SUFFIX = ".pckl"
CHECKPOINTS = f".langgraph_checkpoint.1{SUFFIX}"
"""The file with the checkpoints."""

FORM = Form(values=Place.APART, metadata_type="msgpack", marks_absent=True, encrypts_metadata=True)
OLD_FORM = FORM._replace(values=Place.BODY, marks_absent=False)
"""The form of langgraph-checkpoint before 2.1."""


def _claims(path: str) -> bool:
    """Whether a path is the folder, one of its files, or the project that contains it."""
    if os.path.basename(os.path.normpath(path)) == FOLDER or path.endswith(SUFFIX):
        return True
    return any(os.path.exists(os.path.join(path, name)) for name in (FOLDER, CHECKPOINTS))


BACKEND = Backend(
    title="langgraph dev",
    layouts={"langgraph-dev": SAVER},
    schemes=("langgraph-dev",),
    is_local=True,
    claims_path=_claims,
    file_names=(f"{FOLDER}/",),
    inner_paths=(FOLDER, CHECKPOINTS, f"{FOLDER}/{CHECKPOINTS}"),
    impossible_faults={"branches-share-value": "versions are unique"},
    forms={"langgraph-dev": (FORM,)},
    parts="ckpt_backends.langgraph_dev.parts:parts_of",
    creates={Language.PYTHON: "langgraph-dev"},
    create="ckpt_backends.langgraph_dev.create:create_store",
    checkpoints="ckpt_backends.langgraph_dev.opening:open_store",
    changes="ckpt_backends.langgraph_dev.opening:open_writable",
)
