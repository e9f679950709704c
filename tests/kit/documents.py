"""The program that writes what documents quote."""

from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from typing import Any

from tests.kit.command import ROOT


@cache
def generator() -> Any:
    spec = spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
