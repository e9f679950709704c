"""Answers, and what surrounds them: the store's name, the clock, and how it is opened."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta, tzinfo
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeAlias, TypeVar, overload

from ckpt_backends import codec
from ckpt_backends.codec.values import TUPLE, Cut, Tagged, Value
from ckpt_backends.errors import StoreUnavailable, UsageError
from ckpt_backends.protocol import ScanObserver, Store
from ckpt_backends.url import StoreUrl
from ckpt_cli.config.store_names import StoreNames
from ckpt_cli.core.times import parse_time
from ckpt_cli.reading.store import Opening
from ckpt_cli.render.fields import View

if TYPE_CHECKING:
    from ckpt_backends.model import Thread
    from ckpt_cli.core.filters import Filter
    from ckpt_cli.reading.executor import Executor


class Surroundings(Protocol):
    """The clock, the configuration and the place for notes; a run of `ckpt` is one."""

    @property
    def names(self) -> StoreNames:
        """The names of stores, with their profiles."""

    @property
    def opening(self) -> Opening:
        """How the store was opened, for other processes."""

    @property
    def now(self) -> datetime:
        """The time to which `2h` or `yesterday` refers, in UTC."""

    @property
    def zone(self) -> tzinfo:
        """The time zone of times without one."""

    def open_other(self, url: StoreUrl) -> Store:
        """Open another store in the same way; the caller closes it."""

    def executor(
        self, jobs: int = 1, cluster: str | None = None, *, opening: Opening | None = None
    ) -> Executor:
        """Return what works on many threads of this store, or of one that is opened otherwise.

        It says at the end which were left out.
        """

    def note(self, text: str) -> None:
        """Tell the user something that is no error."""


When: TypeAlias = str | date | timedelta
"""A time: a text such as `2h` or `2026-04-07`, a `datetime` or `date`, or an age."""


def time_text(around: Surroundings, when: When) -> str:
    """Return a time as a text of the command line."""
    if isinstance(when, str):
        return when
    return (around.now - when if isinstance(when, timedelta) else when).isoformat()


def time_of(around: Surroundings, when: When | None) -> datetime | None:
    """Return the time that is meant. Raises `UsageError` for a text that names none."""
    return None if when is None else parse_time(time_text(around, when), around.now, around.zone)


def opening_of(names: StoreNames, settings: dict[str, Any]) -> Opening:
    """Return what is needed to open the store that the settings name.

    Raises `UsageError` for an unknown reducer.
    """
    url, rules = names.store_url, None
    reducers, library = names.reducers, names.library
    if reducers or library:
        from ckpt_cli.core.reducers import Rules, known_reducers

        rules = Rules(known_reducers(dict(reducers)), library)
    keys, redact = settings.get("aes_key_file"), bool(settings.get("redact"))
    paths = names.graphs
    graphs = None
    if paths is not None:
        from ckpt_cli.reading.graphs import GraphPaths

        graphs = GraphPaths(*paths)
    return Opening(url, keys, redact, rules, user_key=names.user_key, graphs=graphs)


def open_named(
    names: StoreNames,
    opening: Opening,
    note: Callable[[str], None],
    observer: Callable[[], ScanObserver] | None = None,
) -> Store:
    """Open a store for reading. Errors also say where the store's name came from."""
    try:
        return opening.open(note, observer)
    except UsageError as error:
        profile = names.profile
        if profile is not None and profile.params:
            error.message += f" (profile '{profile.name}' in {names.profiles.source})"
        raise
    except StoreUnavailable as error:
        error.hint = names.meant() or error.hint
        if names.named_by is not None:
            error.message += f" (named by {names.named_by})"
        hide_values(names, error)
        raise


def hide_values(names: StoreNames, error: StoreUnavailable) -> None:
    """Remove from an error what profiles took from the environment: a server may repeat it."""
    error.message = names.without_values(error.message)
    error.hint = error.hint and names.without_values(error.hint)


_SETS = {"builtins.set": set, "builtins.frozenset": frozenset}


def plain(value: Value) -> Any:
    """Return a value with its tuples, sets and times as Python has them.

    An object of any other class stays a `Tagged` with the name of the class, whose payload is
    plain. What cannot be read stays an `Opaque`, what exceeds a limit a `Cut`.
    """
    if isinstance(value, list):
        return [plain(one) for one in value]
    if isinstance(value, dict):
        return {_key(key): plain(one) for key, one in value.items()}
    if isinstance(value, Cut):
        return Cut(plain(value.kept), value.size, value.reason)
    if isinstance(value, Tagged):
        return _object(value)
    return value


def plain_values(values: Mapping[str, Value]) -> dict[str, Any]:
    """Return the values of channels, each as `plain` gives it."""
    return {name: plain(value) for name, value in values.items()}


def _object(value: Tagged) -> Any:
    payload = plain(value.payload)
    if value.type == TUPLE and isinstance(payload, list):
        return tuple(payload)
    if value.type in _SETS and isinstance(payload, list):
        try:
            found = _SETS[value.type](payload)
        except TypeError:  # an item has no hash
            return Tagged(value.type, payload)
        # A set of JavaScript may have both 1 and true, which are equal here.
        return found if len(found) == len(payload) else Tagged(value.type, payload)
    if value.type == "datetime.datetime" and isinstance(payload, str):
        try:
            return datetime.fromisoformat(payload)
        except ValueError:
            return Tagged(value.type, payload)
    return Tagged(value.type, payload)


def _key(key: Value) -> Any:
    """Return a key of a dict. A key that has no hash any more stays as it is."""
    found = plain(key)
    try:
        hash(found)
    except TypeError:
        return key
    return found


def to_json(value: Any) -> Any:
    """Return a value, or a dict of them such as `CheckpointHandle.values`, in its JSON form.

    `docs/json.md` describes the form; `json.dumps` takes it.
    """
    return codec.to_json(_inert(value))


def _inert(value: Any) -> Value:
    """Reverse `plain`."""
    if isinstance(value, list):
        return [_inert(one) for one in value]
    if isinstance(value, dict):
        return {_inert(key): _inert(one) for key, one in value.items()}
    if isinstance(value, Cut):
        return Cut(_inert(value.kept), value.size, value.reason)
    if isinstance(value, Tagged):
        return Tagged(value.type, _inert(value.payload))
    if isinstance(value, tuple):
        return Tagged(TUPLE, [_inert(one) for one in value])
    if isinstance(value, (set, frozenset)):
        # Sorted, since the order of a set differs from run to run.
        items = sorted(map(_inert, value), key=repr)
        return Tagged(f"builtins.{type(value).__name__}", items)
    if isinstance(value, datetime):
        return Tagged("datetime.datetime", value.isoformat())
    inert: Value = value
    return inert


def texts(given: str | Iterable[str] | None) -> list[str]:
    """Return what was given as one text, as several, or not at all, as a list."""
    if given is None:
        return []
    return [given] if isinstance(given, str) else list(given)


T = TypeVar("T")


def filter_of(
    around: Surroundings, where: str | Iterable[str] | None, *, acts: bool = False
) -> Filter | None:
    """Return the filter that these texts describe together; None if there are none.

    With `acts`, what matches will be changed: then aliases need a trusted configuration. Raises
    `ParseError`.
    """
    written = texts(where)
    if not written:
        return None
    # Imported late, because most commands get no filter.
    from ckpt_cli.core.filters import FilterTerms, all_of, parse_filter

    alias = partial(around.names.filter_alias, acts=acts)
    terms = FilterTerms(alias, around.now, around.zone)
    return all_of(parse_filter(text, terms) for text in written)


def explained_if_none(
    around: Surroundings, where: str | Iterable[str] | None, found: Iterable[T]
) -> Iterator[T]:
    """Yield what filters have found; if that is nothing, note how their short forms were read."""
    any_found = False
    for one in found:
        any_found = True
        yield one
    if not any_found:
        explain_short_forms(around, where)


def explain_short_forms(around: Surroundings, where: str | Iterable[str] | None) -> None:
    """Note for each `KEY=VALUE` that it asked for metadata: KEY may be a misspelled field."""
    written = texts(where)
    if not written:
        return
    from ckpt_cli.core.filters import FIELDS, nearest_field, shorthand_key

    for key in filter(None, map(shorthand_key, written)):
        near = nearest_field(key)
        meant = f"; did you mean the field {near}?" if near in FIELDS else ""
        around.note(f"'{key}=...' was read as metadata.{key}{meant}")


_Item = TypeVar("_Item")


class Watcher(Protocol):
    """Yields the items it is given, and shows how many there were; `tqdm.tqdm` is one."""

    def __call__(self, items: Iterable[_Item], /) -> Iterable[_Item]:
        """Return the same items."""


def unwatched(items: Iterable[_Item], /) -> Iterable[_Item]:
    """Return the items without showing anything."""
    return items


def watchers(executor: Executor, where: object, watch: Watcher) -> tuple[Watcher, Watcher]:
    """Return what watches the choice of threads, and what watches the answers about them.

    A filter may look at many more threads than it chooses. If other processes work on the threads,
    these are chosen ahead, so only the answers tell how far the work is.
    """
    return (watch, unwatched) if where and executor.is_here else (unwatched, watch)


class ThreadWork(NamedTuple):
    """Threads that are asked about, and what works on them."""

    store: Store
    around: Surroundings
    chosen: Iterable[Thread] | None
    """None: the whole store."""
    executor: Executor
    watch: Watcher = unwatched
    """Watches the answers."""

    @property
    def threads(self) -> Iterable[Thread]:
        """The threads, also if these are all."""
        return self.store.threads() if self.chosen is None else self.chosen


Found = TypeVar("Found")


class Answer(Mapping[str, Any], Generic[Found]):
    """What a command prints with `-o json`, as a mapping; `docs/json.md` lists its keys.

    The JSON form is made when a key is first asked for. `found` is what the command prints as
    text; its attributes may change between versions, the keys do not.
    """

    def __init__(self, found: Found, view: View | Callable[[Found], dict[str, Any]]) -> None:
        self.found = found
        self.view = view if isinstance(view, View) else View(view)
        """How it is printed."""
        self._record: dict[str, Any] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form: dicts, lists, strings, numbers, booleans and None."""
        if self._record is None:
            self._record = self.view.record(self.found)
        return self._record

    to_json = to_dict

    def __getitem__(self, key: str) -> Any:
        return self.to_dict()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.to_dict())

    def __len__(self) -> int:
        return len(self.to_dict())

    def __repr__(self) -> str:
        return repr(self.to_dict())


class AnswerList(Sequence[dict[str, Any]], Generic[Found]):
    """The records that a command prints as a list with `-o json`; `found` is as in `Answer`."""

    def __init__(
        self, found: Found, view: View | Callable[[Found], Iterable[dict[str, Any]]]
    ) -> None:
        self.found = found
        self.view = view if isinstance(view, View) else View(view)
        """How it is printed."""
        self._records: list[dict[str, Any]] | None = None

    def to_list(self) -> list[dict[str, Any]]:
        """Return the records as a list of dicts."""
        if self._records is None:
            self._records = list(self.view.record(self.found))
        return self._records

    to_json = to_list

    @overload
    def __getitem__(self, place: int) -> dict[str, Any]: ...

    @overload
    def __getitem__(self, place: slice) -> list[dict[str, Any]]: ...

    def __getitem__(self, place: int | slice) -> dict[str, Any] | list[dict[str, Any]]:
        return self.to_list()[place]

    def __len__(self) -> int:
        return len(self.to_list())

    def __repr__(self) -> str:
        return repr(self.to_list())
