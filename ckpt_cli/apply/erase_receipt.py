"""Write the receipt of an erasure."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ckpt_backends.errors import PartlyDone, UsageError
from ckpt_backends.files.atomic_write import writing
from ckpt_cli.core.erasure.places import ErasureReport
from ckpt_cli.core.erasure.receipt import ErasureReceipt, receipt_record
from ckpt_cli.core.erasure.scope import ErasureScope


def check_receipt_path(path: Path) -> None:
    """Raise `UsageError` if a receipt could not be written there after the erasure."""
    if path.is_dir():
        raise UsageError(f"cannot write the receipt '{path}': it is a folder")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise UsageError(
            f"cannot write the receipt '{path}': its folder does not exist or is not writable",
            hint="give a file in another folder",
        )


def write_receipt(
    path: Path,
    report: ErasureReport,
    receipt: ErasureReceipt,
    scope: ErasureScope,
    facts: Mapping[str, Any],
) -> None:
    """Write a receipt that only its owner can read. Raises `PartlyDone` if that fails."""
    record = receipt_record(report, receipt, facts, scope.hidden_names())
    try:
        with writing(path) as file:
            file.write(json.dumps(record, indent=2).encode() + b"\n")
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise PartlyDone(f"the erasure was carried out, but not its receipt: {reason}") from error
