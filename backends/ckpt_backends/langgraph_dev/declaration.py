"""Declares the folders in which `langgraph dev` stores its checkpoints, for both languages."""

import os

from ckpt_backends.declaration import CLEARS, SAVER, Backend
from ckpt_backends.model import Capability
from ckpt_backends.transfer.form import Form, Language, Place, Serializer

FOLDER = ".langgraph_api"
"""The folder of the files, inside the folder in which the server was started."""
SUFFIX = ".pckl"
CHECKPOINTS = f".langgraph_checkpoint.1{SUFFIX}"
"""The file with the checkpoints."""
JAVASCRIPT = ".langgraphjs_api.checkpointer.json"
"""The file of LangGraph.js with the checkpoints and the writes."""
LAYOUT, JAVASCRIPT_LAYOUT = "langgraph-dev", "langgraph-dev-js"

FORM = Form(values=Place.APART, metadata_type="msgpack", marks_absent=True, encrypts_metadata=True)
OLD_FORM = FORM._replace(values=Place.BODY, marks_absent=False)
"""The form of langgraph-checkpoint before 2.1."""


def _claims(path: str) -> bool:
    """Whether a path is the folder, one of its files, or the project that contains it."""
    name = os.path.basename(os.path.normpath(path))
    if name in {FOLDER, JAVASCRIPT} or path.endswith(SUFFIX):
        return True
    return any(os.path.exists(os.path.join(path, one)) for one in (FOLDER, CHECKPOINTS, JAVASCRIPT))


BACKEND = Backend(
    title="langgraph dev",
    layouts={
        LAYOUT: SAVER,
        JAVASCRIPT_LAYOUT: (SAVER & ~Capability.ADDING)
        | Capability.INLINE_VALUES
        | Capability.READ_ONLY,
    },
    schemes=("langgraph-dev",),
    is_local=True,
    claims_path=_claims,
    file_names=(f"{FOLDER}/",),
    inner_paths=(
        *(FOLDER, CHECKPOINTS, f"{FOLDER}/{CHECKPOINTS}"),
        *(JAVASCRIPT, f"{FOLDER}/{JAVASCRIPT}"),
    ),
    impossible_faults={
        f"{LAYOUT}:branches-share-value": "versions are unique",
        f"{JAVASCRIPT_LAYOUT}:type-blocked": "values are stored as JSON",
        f"{JAVASCRIPT_LAYOUT}:plaintext-among-encrypted": "LangGraph.js does not encrypt",
        f"{JAVASCRIPT_LAYOUT}:state-by-library": CLEARS,
    },
    forms={
        LAYOUT: (FORM,),
        JAVASCRIPT_LAYOUT: (
            Form(
                language=Language.JAVASCRIPT,
                serializer=Serializer.JAVASCRIPT,
                body_types=("json",),
                has_task_paths=False,
                keeps_write_order=True,
                receives=False,
            ),
        ),
    },
    records="ckpt_backends.langgraph_dev.records:records_of",
    edits="ckpt_backends.sql.records:edited_row",
    creates={Language.PYTHON: LAYOUT},
    create="ckpt_backends.langgraph_dev.write:create_store",
    checkpoints="ckpt_backends.langgraph_dev.store:open_store",
    changes="ckpt_backends.langgraph_dev.write:open_writable",
)
