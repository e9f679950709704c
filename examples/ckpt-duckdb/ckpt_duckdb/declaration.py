"""Declares DuckDB files to `ckpt`. Imports no driver."""

from ckpt_backends.declaration import SAVER, Backend
from ckpt_backends.model import Capability
from ckpt_backends.transfer.form import Form

BACKEND = Backend(
    title="DuckDB",
    layouts={"duckdb": SAVER | Capability.INLINE_VALUES | Capability.ENFORCED_READ_ONLY},
    schemes=("duckdb",),
    is_local=True,
    claims_path=lambda path: path.endswith(".duckdb"),
    file_names=("*.duckdb",),
    checkpoints="ckpt_duckdb.store:open_store",
    forms={"duckdb": (Form(),)},
    records="ckpt_backends.sql.records:records_of",  # the rows have the columns of the SQLite saver
    changes="ckpt_duckdb.store:WritableDuckDBStore",
)
