"""Reads SupabaseSaver's tables."""

from __future__ import annotations

from ckpt_backends.apps.supabase.layout import tables_of, unknown_in
from ckpt_backends.codec.values import unread
from ckpt_backends.model import TypedBytes
from ckpt_backends.servers import STORE, checked
from ckpt_backends.sql.base64_values import Base64Store
from ckpt_backends.sql.database import Database
from ckpt_backends.sql.tables import Tables, why_only_read, with_extras
from ckpt_backends.url import StoreUrl


def open_tables(database: Database, columns: Tables, url: StoreUrl, schema: str) -> SupabaseStore:
    """Open a database with these tables for reading. Raises `UnknownLayout`."""
    return SupabaseStore(database, columns, url, schema)


@checked(*STORE, "faults")
class SupabaseStore(Base64Store):
    """SupabaseSaver's tables, opened for reading."""

    _BODY = "convert_to({}, 'UTF8')"

    def __init__(self, database: Database, columns: Tables, url: StoreUrl, schema: str) -> None:
        self._unknown = unknown_in(columns, url)
        tables = tables_of(database, columns, schema, can_add=not self._unknown)
        super().__init__(database, url, tables)

    def _saver(self) -> str:
        return with_extras("langgraph-checkpoint-supabase", self._unknown)

    @property
    def _only_read(self) -> str:
        return why_only_read(self._unknown, ())

    def _metadata(self, size: int, text: str | None) -> TypedBytes:
        return unread("json", size) if text is None else TypedBytes("json", text.encode())
