"""The programs that write what documents quote, and the completions."""

import sys
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from typing import Any

from tests.kit.command import ROOT


@cache
def generator(folder: str = "docs") -> Any:
    spec = spec_from_file_location(f"generate_{folder}", ROOT / folder / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
