"""Lists threads."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from fnmatch import translate
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from ckpt_backends.codec import to_json
from ckpt_backends.errors import NotFound, Unreadable, UsageError
from ckpt_backends.model import ALL_THREADS, Status, Thread, ThreadBounds
from ckpt_backends.protocol import Store
from ckpt_cli.core.refs import LONGEST_MAKING, just_made
from ckpt_cli.core.state import read_body, stored_time
from ckpt_cli.core.times import NEVER
from ckpt_cli.queries.heads import (
    ListedThread,
    Watch,
    with_details,
    with_sizes,
    with_titles,
    with_users,
)
from ckpt_cli.queries.messages import conversation
from ckpt_cli.reading.store import shown
from ckpt_cli.reading.target import Target, find_thread
from ckpt_cli.reading.thread import ThreadReader, TriggerInference

if TYPE_CHECKING:
    from ckpt_backends.codec.values import Value
    from ckpt_cli.core.filters import Filter


_GLOB = re.compile(r"[*?[]")


def bounds_of_selection(wanted: Selection, now: datetime) -> ThreadBounds:
    """Return bounds of all threads that a selection can choose, with ages as of `now`."""
    pattern, ids = wanted.match or "", None
    special = _GLOB.search(pattern)
    if wanted.match is not None and special is None:
        ids = frozenset({pattern})
    bounds = ThreadBounds(
        ids=ids,
        prefix=pattern[: special.start()] if special else "",
        since=wanted.since,
        until=None if wanted.until is None else later(wanted.until, LONGEST_MAKING),
        users=None if wanted.user is None else frozenset({wanted.user}),
        head_channels=wanted.head_channels,
    )
    condition = wanted.filter
    if condition is None:
        return bounds
    # Imported late, like all about filters: most lists have none.
    from ckpt_cli.core.filters import both, bounds_of

    return both(bounds, bounds_of(condition, now))


def later(moment: datetime, gap: timedelta) -> datetime:
    """Return a later time, or the same at the end of the calendar."""
    try:
        return moment + gap
    except OverflowError:
        return moment


Sort = Literal["last", "first", "id", "checkpoints", "namespaces", "step", "bytes"]
SORTS: tuple[Sort, ...] = ("last", "first", "id", "checkpoints", "namespaces", "step", "bytes")


class Selection(NamedTuple):
    """Conditions for threads; all that are given must hold."""

    match: str | None = None
    """Shell pattern that the whole thread id must match."""
    since: datetime | None = None
    until: datetime | None = None
    """Bounds of the time of the newest checkpoint, both inclusive."""
    status: frozenset[Status] = frozenset()
    """The thread must be in one of these conditions; any if empty."""
    user: str | None = None
    """The owner of the thread, in layouts that store one."""
    where: Filter | None = None
    head_channels: frozenset[str] | None = None
    """A write on one of these channels must be stored with the thread's root head."""

    @property
    def filter(self) -> Filter | None:
        """The status and `where` as one filter."""
        if not self.status:
            return self.where
        # Imported late, like all about filters: most lists have none.
        from ckpt_cli.core.filters import Condition, FilterField, Operand, Operator, all_of

        operands = tuple(map(Operand, sorted(self.status)))
        status = Condition(FilterField("status"), Operator.IN, operands)
        return status if self.where is None else all_of([status, self.where])


def parse_status(text: str) -> Status:
    """Return a status by its name. Raises `UsageError` if there is none."""
    try:
        return Status(text)
    except ValueError:
        raise UsageError(f"no status '{text}'", hint=f"use one of {', '.join(Status)}") from None


def list_threads(
    store: Store,
    wanted: Selection,
    *,
    sort: Sort = "last",
    details: bool = False,
    sizes: bool = True,
    first_messages: bool = False,
    titles: bool = False,
    skip: int = 0,
    limit: int | None = None,
    now: datetime | None = None,
    watch: Watch = iter,
) -> Iterator[ListedThread]:
    """Yield the selected threads in the requested order; streams them if the store has this order.

    The first `skip` are left out; then at most `limit` are returned. Details include the thread's
    size unless `sizes` is false; if heads decide which threads are listed, all come with details.
    Ages are measured at `now`. `watch` gets each thread before more than the index is read, to show
    progress. Details include titles of threads with an id that says nothing; with `titles`, of all.
    """
    wanted = _of_users(store, wanted)
    as_stored = wanted == Selection() and sort == "last"
    most = skip + limit if as_stored and limit is not None else None
    inference = TriggerInference(store)
    now = now or datetime.now(UTC)
    bounds = bounds_of_selection(wanted, now)
    listed = store.threads(limit=most) if bounds == ALL_THREADS else store.threads_within(bounds)
    threads: Iterable[Thread] = matching(listed, wanted, partial(_last_made, store))
    by_head = sort in {"step", "bytes"}
    condition = wanted.filter
    rows: Iterator[ListedThread]
    if condition is None:
        rows = map(ListedThread, watch(threads) if by_head else threads)
    else:
        # Imported late, like all about filters: most lists have none.
        from ckpt_cli.queries.filters import ThreadChooser

        chooser = ThreadChooser(store, condition, inference, now)
        threads = filter(chooser.may_match, threads)
        if by_head or not chooser.needs_index_only:
            threads = watch(threads)
        rows = chooser.choose(threads)
        details |= chooser.needs_heads
    if by_head:
        rows = with_details(store, rows, inference, now)
    if sort == "bytes":
        rows = with_sizes(store, rows)
    if sort != "last":
        rows = iter(sorted(rows, key=lambda row: _order(row, sort)))
    rows = islice(rows, skip, None if limit is None else skip + limit)
    if details or by_head:
        rows = with_titles(store, with_details(store, rows, inference, now), every=titles)
        rows = with_users(store, rows)
        if sizes:
            rows = with_sizes(store, rows)
    if first_messages:
        rows = (row._replace(first_message=first_message(store, row.thread)) for row in rows)
    yield from (shown(store, row) for row in rows)


def _of_users(store: Store, wanted: Selection) -> Selection:
    """Return a selection that asks for users where the threads of a store name them."""
    if wanted.user is None and wanted.where is None:
        return wanted
    # Late, like all about filters: most lists have none.
    from ckpt_cli.core.filters import all_of, equal
    from ckpt_cli.reading.users import filter_with_users, user_key_of

    where = wanted.where
    if wanted.user is not None and user_key_of(store) is not None:
        where = all_of(filter(None, (where, equal("user", wanted.user))))
        wanted = wanted._replace(user=None)
    return wanted._replace(where=None if where is None else filter_with_users(store, where))


def described_threads(
    store: Store,
    threads: Iterable[Thread],
    inference: TriggerInference,
    now: datetime,
    *,
    details: bool,
) -> Iterator[ListedThread]:
    """Yield these threads in their order, with all but the size of what `threads list --long` says.

    Heads are read for `details`.
    """
    rows: Iterator[ListedThread] = map(ListedThread, threads)
    if details:
        rows = with_titles(store, with_details(store, rows, inference, now), every=True)
        rows = with_users(store, rows)
    return (shown(store, row) for row in rows)


def first_message(store: Store, thread: Thread) -> str | None:
    """Return the first human message in a thread; None if its head has no messages."""
    if thread.head is None:
        return None
    head = Target(ThreadReader(store, thread), "", thread.head, chosen=False)
    try:
        said = [one.message for one in conversation(head, None).turns]
    except (NotFound, Unreadable):
        return None
    return next((_as_text(one.content) for one in said if one.role == "human"), None)


def _as_text(content: Value) -> str | None:
    """Return the content of a message: text unchanged, the rest as JSON."""
    if content is None or isinstance(content, str):
        return content
    return json.dumps(to_json(content), ensure_ascii=False)


def _last_made(store: Store, thread: Thread, checkpoint_id: str) -> datetime | None:
    """Return the time that a checkpoint of a thread holds."""
    for one in store.checkpoints(thread.thread_id, checkpoint_ids=[checkpoint_id], body=True):
        return stored_time(read_body(one))
    return None


def matching(
    threads: Iterable[Thread],
    wanted: Selection,
    made: Callable[[Thread, str], datetime | None] = lambda *_: None,
) -> Iterator[Thread]:
    """Yield the threads that a selection accepts, as far as the index shows.

    `made` returns the time that a checkpoint holds, for those whose id is just after a bound.
    """
    if wanted == Selection(where=wanted.where, status=wanted.status):
        return iter(threads)
    pattern = None if wanted.match is None else re.compile(translate(wanted.match))

    def fits(thread: Thread) -> bool:
        if pattern is not None and pattern.match(thread.thread_id) is None:
            return False
        if wanted.user is not None and thread.user != wanted.user:
            return False
        if wanted.since is not None and (thread.last_at or NEVER) < wanted.since:
            return False
        last = thread.last_at
        if wanted.until is None or last is None or last <= wanted.until:
            return wanted.until is None or last is not None
        if not isinstance(thread.last, str):
            return False
        asked = partial(made, thread)
        return any(just_made(wanted.until, {thread.last: last}, asked))

    return filter(fits, threads)


def _order(row: ListedThread, sort: Sort) -> tuple[Any, ...]:
    """Return a sort key: newest or largest first, ids alphabetically."""
    thread, details = row.thread, row.details
    keys: dict[Sort, Any] = {
        "first": -(thread.first_at or NEVER).timestamp(),
        "id": 0,
        "checkpoints": -thread.checkpoints,
        "namespaces": -thread.namespaces,
        "step": -((details.head.step if details and details.head else None) or 0),
        "bytes": -((details.bytes if details else None) or 0),
    }
    return keys[sort], thread.thread_id


def filtered_threads(
    store: Store,
    names: Sequence[str],
    match: str | None,
    where: Filter | None,
    now: datetime,
    watch: Watch = iter,
    head_channels: frozenset[str] | None = None,
) -> Iterator[Thread]:
    """Return the threads with these names; without names, all threads that match.

    With `head_channels`, threads without a name must have a write on one of these channels at
    their head. Ages are measured at `now`. Raises `NotFound` for an unknown name, and `UsageError`
    if both names and conditions are given.
    """
    if names:
        if match is not None or where is not None:
            raise UsageError(
                "THREAD cannot be combined with --match or --where",
                hint="leave out THREAD or these options",
            )
        named = [find_thread(store, name, lambda _: None).thread for name in dict.fromkeys(names)]
        return iter(watch(named))
    return selected_threads(
        store, Selection(match=match, where=where, head_channels=head_channels), now, watch
    )


def selected_threads(
    store: Store, wanted: Selection, now: datetime, watch: Watch = iter
) -> Iterator[Thread]:
    """Return the threads that a selection describes, newest first, with ages as of `now`."""
    is_in_index = True
    if (condition := wanted.filter) is not None:
        from ckpt_cli.core.filters import ReadFrom, sources_of  # late, as above

        is_in_index = sources_of(condition) <= {ReadFrom.INDEX}
    told = iter if is_in_index else watch
    rows = list_threads(store, wanted, sizes=False, now=now, watch=told)
    found = (row.thread for row in rows)
    return iter(watch(found)) if is_in_index else found
