"""Declares the memory files of DeerFlow."""

import os

from ckpt_backends.declaration import NUMBER, Backend

FILE, FOLDER = "memory.json", ".deer-flow"
"""DeerFlow's memory file, and its folder."""


def _claims(path: str) -> bool:
    """Whether a path is the memory file, the folder, or a project that contains it."""
    name = os.path.basename(path.rstrip("/"))
    return name in {FILE, FOLDER} or os.path.isdir(f"{path}/{FOLDER}")


def _near(threads: str) -> str | None:
    """DeerFlow's folder, if it contains the file of the threads."""
    above, found, _ = os.path.abspath(threads).rpartition(f"{os.sep}{FOLDER}{os.sep}")
    return f"{above}{os.sep}{FOLDER}" if found else None


BACKEND = Backend(
    title="DeerFlow",
    schemes=("deerflow",),
    params={"copy": NUMBER},
    is_local=True,
    claims_path=_claims,
    file_names=(FILE, f"{FOLDER}/"),
    inner_paths=(FILE, FOLDER, f"{FOLDER}/{FILE}"),
    checkpoints="ckpt_backends.apps.deerflow.checkpointer:refuse_threads",
    changes="ckpt_backends.apps.deerflow.checkpointer:refuse_threads",
    memory="ckpt_backends.apps.deerflow.memory:DeerFlowMemory",
    memory_changes="ckpt_backends.apps.deerflow.write:WritableDeerFlowMemory",
    memory_edits="ckpt_backends.apps.deerflow.write:WritableDeerFlowMemory",
    memory_near=_near,
    threads_of_memory="ckpt_backends.apps.deerflow.checkpointer:threads_of_memory",
)
