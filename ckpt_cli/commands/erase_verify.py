"""`ckpt erase --verify`: check that nothing of a receipt has come back."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from typer import Exit

from ckpt_backends import shell
from ckpt_backends.errors import PartlyDone, StoreUnavailable, UsageError
from ckpt_backends.files.regular_file import read_regular
from ckpt_backends.url import StoreUrl
from ckpt_cli.core.erasure.receipt import ErasureReceipt, receipt_from_record
from ckpt_cli.operations.place import place_of
from ckpt_cli.queries.erase_verification import verified_places
from ckpt_cli.render.erase import place_columns, verification_record
from ckpt_cli.render.terminal.table import table_lines
from ckpt_cli.render.values.one_line import counted
from ckpt_cli.session import Session

_LONGEST = 256 << 20


def verify(
    session: Session, path: Path, memories: Iterable[StoreUrl], folders: Iterable[Path]
) -> None:
    """Check each place of a receipt, and print the answer.

    Exits with 1 if something is back. Raises `PartlyDone` if a place cannot be checked.
    """
    receipt = _read(path)
    url = session.names.store_url
    if receipt.place != place_of(url):
        raise UsageError(
            f"cannot verify '{path}' in '{url}': it is of the store '{receipt.store}'",
            hint=f"use `-s {shell.word(receipt.store)}`",
        )
    named = dict.fromkeys([*map(Path, receipt.named_folders), *(one.absolute() for one in folders)])
    places = list(verified_places(receipt, url, lambda: session.store, memories, named))
    record = verification_record(str(path), places)
    session.output.document(
        lambda: record,
        lambda: table_lines(record["places"], place_columns(), session.output.width),
        rows=lambda: record["places"],
        columns=place_columns(),
    )
    if back := [one for one in places if one.state == "kept"]:
        session.note(f"something is back in {counted(len(back), 'place')}")
        raise Exit(1)
    if unread := [one for one in places if one.state == "unreachable"]:
        number = counted(len(unread), "place")
        raise PartlyDone(f"{number} could not be checked: {unread[0].reason}")


def _read(path: Path) -> ErasureReceipt:
    try:
        return receipt_from_record(json.loads(read_regular(path, _LONGEST)))
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UsageError(f"cannot read the receipt '{path}': {reason}") from error
    except StoreUnavailable as error:
        raise UsageError(error.message, hint=error.hint) from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise UsageError(
            f"cannot read the receipt '{path}': not a receipt of an erasure",
            hint="give a file that `ckpt erase --receipt FILE` wrote",
        ) from error
