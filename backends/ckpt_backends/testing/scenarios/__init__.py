"""Graphs and the calls made on them: one thread for each thing that LangGraph can store.

The suite runs them with the installed LangGraph, `fixtures/make` with older ones. So nothing here
imports `ckpt` or pytest, and all of it must build with each of these releases.
"""

import sys
from pathlib import Path

# Stored values name these classes by a module of the application, which readers do not have.
_TYPES = str(Path(__file__).parent / "stored_types")
if _TYPES not in sys.path:
    sys.path.append(_TYPES)
