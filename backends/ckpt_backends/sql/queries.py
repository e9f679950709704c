"""The tables of LangGraph's savers as queries see them. A query for rows names its table `c`."""

# Without `annotations` of `__future__`: a `NamedTuple` would compile each of these texts.
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ckpt_backends.model import Capability, CheckpointKey
from ckpt_backends.sql.database import Database

if TYPE_CHECKING:
    from ckpt_backends.sql.blob_layout import BlobLayout

KEYS_AT_ONCE, BODIES_AT_ONCE, STATES_AT_ONCE = 5000, 200, 4
"""Rows in memory at a time: keys, bodies without values, and bodies with values."""


class SqlTable(NamedTuple):
    """A table of LangGraph's saver."""

    name: str
    """Its name in archives and in `Usage`."""
    sql: str
    """Its quoted name for a query."""
    columns: Mapping[str, str]
    """By stored column, the expression for an archive."""
    sizes: Mapping[str, str]
    """By column whose space counts, the expression for its bytes."""
    view: str = ""
    """A subquery with the columns of the full layout, if the table does not have them."""

    @property
    def source(self) -> str:
        """What a query for checkpoints or writes reads from."""
        return self.view or self.sql

    @property
    def size(self) -> str:
        """The expression for the bytes of a row."""
        return " + ".join(self.sizes.values())


def by_name(ns: str) -> Mapping[str, object]:
    """The cells with which most savers find the rows of a namespace."""
    return {"checkpoint_ns": ns}


class SqlTables(NamedTuple):
    """The layout as found in one database."""

    layout: str
    names: tuple[str, ...]
    """The plain names of the tables, with schema."""
    checkpoints: SqlTable
    writes: SqlTable
    task_path: bool
    """Whether writes have the column `task_path`."""
    can_add: bool
    """Whether `ckpt` can add checkpoints."""
    blobs: SqlTable | None = None
    """None if values are in the bodies."""
    shallow: bool = False
    """Whether the layout stores only the newest state, without checkpoint ids and versions."""
    own_id: str = "checkpoint_id"
    """The expression for the id of a row of `checkpoints`."""
    namespace: Callable[[str], Mapping[str, object]] = by_name
    """The cells with which the rows of a namespace are found."""

    @property
    def capabilities(self) -> Capability:
        """What `ckpt` can do with a store of this layout."""
        can = Capability.WRITES | Capability.ENFORCED_READ_ONLY
        can |= Capability(0) if self.shallow else Capability.HISTORY
        can |= Capability.ADDING if self.can_add else Capability(0)
        can |= Capability.TASK_PATH if self.task_path else Capability(0)
        return can | (Capability(0) if self.blobs else Capability.INLINE_VALUES)

    @property
    def all(self) -> tuple[SqlTable, ...]:
        """The tables, checkpoints last."""
        return (*([self.blobs] if self.blobs else []), self.writes, self.checkpoints)


def tables_with_blobs(
    database: Database,
    layout: "BlobLayout[Any]",
    /,
    *,
    size: str,
    length: str,
    view: str,
    **rest: Any,
) -> SqlTables:
    """The tables of a saver that keeps values in a table of blobs.

    `size` and `length` are expressions for the bytes of JSON and of a value, with `{}` for the
    column; `view` is the subquery for a shallow layout, and `rest` the other fields of `SqlTables`.
    """

    def table(found: Any, *sized: str, size: str = length, view: str = "") -> SqlTable:
        # In a query with parameters, `%` must be written as `%%`.
        name = found.sql.replace("%", "%%")
        columns = {column: database.archived(found.name, column) for column in found.stored}
        sizes = {column: size.format(column) for column in sized}
        return SqlTable(found.name, name, columns, sizes, view.format(checkpoints=name))

    row = view if layout.shallow else ""
    return SqlTables(
        checkpoints=table(layout.checkpoints, "checkpoint", "metadata", size=size, view=row),
        writes=table(layout.writes, "blob"),
        blobs=table(layout.blobs, "blob"),
        task_path=layout.task_path,
        shallow=layout.shallow,
        **rest,
    )


class RowQuery(NamedTuple):
    """A query for rows of checkpoints or writes, without the condition that selects them."""

    table: SqlTable
    columns: str
    order: str
    """The order of the rows of one namespace."""
    join: str = ""
    only: str = ""
    """A further condition, such as `c.channel = 'a'`."""
    values: Mapping[str, object] = {}
    """The parameters of all these."""
    at_once: int = KEYS_AT_ONCE
    has_bodies: bool = False
    """Whether bodies or metadata are read."""

    @property
    def rest(self) -> str:
        """The end of a query for the checkpoints with the numbers `n`, or for their writes."""
        where = f"WHERE {self.only}" if self.only else ""
        return where if self.has_bodies else f"{where} ORDER BY n, {self.order}"


def keyed(
    thread_id: str, rows: Iterable[Sequence[Any]], text: Callable[[Any], str]
) -> Iterator[tuple[CheckpointKey, Sequence[Any]]]:
    """Rows of a thread that begin with namespace and checkpoint id, as their keys and the rest."""
    place, key = None, CheckpointKey(thread_id, "", "")
    for ns, checkpoint_id, *row in rows:
        if place != (ns, checkpoint_id):  # The writes of a checkpoint come one after the other.
            place, key = (
                (ns, checkpoint_id),
                CheckpointKey(thread_id, text(ns), text(checkpoint_id)),
            )
        yield key, row


def namespaces_query(database: Database, tables: SqlTables, thread_is: str) -> str:
    """The query for the namespaces of a thread, in order."""
    return (
        f"SELECT DISTINCT {database.exact('c.checkpoint_ns')} AS ns"
        f" FROM {tables.checkpoints.source} c WHERE {thread_is} ORDER BY ns"
    )


def size_queries(database: Database, tables: SqlTables, thread_is: str) -> Iterator[str]:
    """The queries for the number and bytes of a thread's checkpoints and writes.

    The columns are namespace, checkpoint id, number of checkpoints, number of writes, and bytes.
    """
    ns, name = map(database.exact, ("c.checkpoint_ns", "c.checkpoint_id"))
    for table, counted in ((tables.checkpoints, "COUNT(*), 0"), (tables.writes, "0, COUNT(*)")):
        yield (
            f"SELECT {ns} AS ns, {name} AS name, {counted}, COALESCE(SUM({table.size}), 0)"
            f" FROM {table.source} c WHERE {thread_is} GROUP BY ns, name"
        )


def usage_query(database: Database, tables: SqlTables, rest: str, body_type: str) -> str:
    """The query for the space that is used, ordered by thread; see `Usage`.

    `rest` is the end of the query for stored values; `body_type` is the expression for the type of
    a body.
    """
    exact, parts = database.exact, []
    for table in reversed(tables.all):
        for column, size in table.sizes.items():
            channel, tag = "NULL", exact("'json'" if column == "metadata" else body_type)
            if table is not tables.checkpoints:
                channel, tag = exact("c.channel"), exact("COALESCE(c.type, '')")
            parts.append(
                f"SELECT thread, '{table.name}', '{column}', ns, channel, tag, COUNT(*),"
                f" COALESCE(SUM(size), 0) FROM (SELECT {exact('c.thread_id')} AS thread,"
                f" {exact('c.checkpoint_ns')} AS ns, {channel} AS channel, {tag} AS tag,"
                f" {size} AS size FROM {table.source} c {rest}) used"
                " GROUP BY thread, ns, channel, tag"
            )
    return f"{' UNION ALL '.join(parts)} ORDER BY thread"


def writes_query(
    database: Database,
    tables: SqlTables,
    channels: Collection[str] | None,
    values: bool | Collection[str],
    length: str,
    most: int,
) -> RowQuery:
    """The query for writes; `channels` and `values` are those of `Store.writes`.

    `length` is the expression for the bytes of a stored value. Longer values than `most` are not
    read.
    """
    bound: dict[str, object] = {}
    wanted = "TRUE" if values else "FALSE"
    if not isinstance(values, bool):
        wanted, bound = database.among("c.channel", "read", values)
    only = ""
    if channels is not None:
        only, names = database.among("c.channel", "of", channels)
        bound |= names
    path = "c.task_path" if tables.task_path else "''"
    value = f"c.{database.quoted(next(iter(tables.writes.sizes)))}"
    size = length.format(value)
    order = map(database.exact, ("c.checkpoint_id", path, "c.task_id"))
    return RowQuery(
        table=tables.writes,
        columns=f"c.task_id, {path}, c.idx, c.channel, c.type, {size}, {wanted},"
        f" CASE WHEN {wanted} AND {size} <= {most} THEN {value} END",
        order=f"{', '.join(order)}, c.idx",
        only=only,
        values=bound,
        at_once=KEYS_AT_ONCE if values is False else BODIES_AT_ONCE,
    )
