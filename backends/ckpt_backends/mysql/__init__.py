"""The layouts of langgraph-checkpoint-mysql, on MySQL and MariaDB: `checkpoints`,
`checkpoint_blobs` and `checkpoint_writes`."""

from __future__ import annotations

from typing import ClassVar

from ckpt_backends.errors import MissingDependency
from ckpt_backends.protocol import Store, WritableStore
from ckpt_backends.url import StoreUrl


class MySQLBackend:
    """Opens MySQL and MariaDB databases that LangGraph's savers wrote."""

    schemes: ClassVar[tuple[str, ...]] = ("mysql", "mariadb")

    @classmethod
    def open(cls, url: StoreUrl) -> Store:
        """Open for reading. Raises `StoreUnavailable`, `UnknownLayout` or `MissingDependency`."""
        _need_driver(url)
        from ckpt_backends.mysql.connect import connect
        from ckpt_backends.mysql.read import MySQLStore

        return MySQLStore(connect(url), url)

    @classmethod
    def open_writable(cls, url: StoreUrl) -> WritableStore:
        """Open for changing. Raises what `open` raises, and `Unsupported`."""
        _need_driver(url)
        from ckpt_backends.mysql.connect import connect
        from ckpt_backends.mysql.write import WritableMySQLStore

        return WritableMySQLStore(connect(url, writable=True), url)


def _need_driver(url: StoreUrl) -> None:
    try:
        import pymysql  # noqa: F401
    except ImportError as error:
        raise MissingDependency(
            f"cannot open '{url}': MySQL and MariaDB need the driver PyMySQL",
            hint="install it: pip install 'langgraph-ckpt[mysql]'",
        ) from error
