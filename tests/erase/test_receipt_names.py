"""A receipt names nobody, and its verification says what it cannot find without the names."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from ckpt_cli.apply.erase import write_receipt
from ckpt_cli.core.erasure import ErasedIds, ErasureReceipt, ErasureReport, ErasureScope, left_place
from ckpt_cli.render.erase import receipt_record
from tests.kit.command import ckpt

THREAD = "trip-to-kyoto"


def test_no_file_and_no_folder_tells_an_id(tmp_path: Path) -> None:
    """The archive that could not be read may be of anybody."""
    archive = "/srv/user_42_old/it%27s%20bert-968ccf654c35-20260101T000000Z.ckpt.gz"
    reason = f"cannot read the archive '{archive}': it is cut off"
    report = ErasureReport(None, is_dry_run=False)
    report.add(left_place(archive, "archives", None, None, reason))
    receipt = ErasureReceipt("/srv/a.db", "", ErasedIds(), ("/srv/user_42_old", "/srv/x"), ())
    path = tmp_path / "receipt.json"
    write_receipt(path, receipt_record(report, receipt, ErasureScope(threads={"user_42"}), {}))
    record = json.loads(path.read_text())
    assert record["folders"] == ["/srv/[erased]_old", "/srv/x"]
    (place,) = record["places"]
    assert place["store"] == "/srv/[erased]_old/[erased].ckpt.gz"
    assert place["reason"].endswith("[erased].ckpt.gz': it is cut off")


def test_a_folder_without_its_name_is_not_called_checked(tmp_path: Path) -> None:
    store, receipt = tmp_path / "a.db", tmp_path / "receipt.json"
    folder = tmp_path / f"{THREAD}_old"
    assert ckpt("demo", store).code == 0
    assert ckpt("-s", store, "export", THREAD, "--to", folder).code == 0
    shutil.copytree(folder, tmp_path / "kept")
    words = (THREAD, "--archives", folder, "--receipt", receipt, "--yes")
    assert ckpt("-s", store, "erase", *words).code == 0
    assert "kyoto" not in receipt.read_text().replace(str(tmp_path), "")
    verify = ("-s", store, "erase", "--verify", receipt)
    unnamed = ckpt(*verify)
    assert (unnamed.code, "--archives" in unnamed.err) == (7, True)
    assert ckpt(*verify, "--archives", folder).code == 0
    shutil.copytree(tmp_path / "kept", folder, dirs_exist_ok=True)
    assert ckpt(*verify, "--archives", folder).code == 1
