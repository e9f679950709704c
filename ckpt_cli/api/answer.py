"""Answers of the Python interface, with the same keys as the command's JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar, overload

Found = TypeVar("Found")


class Answer(Mapping[str, Any], Generic[Found]):
    """What a command prints with `-o json`, as a mapping; `docs/json.md` lists its keys.

    The JSON form is made when a key is first asked for. `found` is what the command prints as
    text; its attributes may change between versions, the keys do not.
    """

    def __init__(self, found: Found, record: Callable[[Found], dict[str, Any]]) -> None:
        self.found = found
        self._make = record
        self._record: dict[str, Any] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form: dicts, lists, strings, numbers, booleans and None."""
        if self._record is None:
            self._record = self._make(self.found)
        return self._record

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

    def __init__(self, found: Found, records: Callable[[Found], Iterable[dict[str, Any]]]) -> None:
        self.found = found
        self._make = records
        self._records: list[dict[str, Any]] | None = None

    def to_list(self) -> list[dict[str, Any]]:
        """Return the records as a list of dicts."""
        if self._records is None:
            self._records = list(self._make(self.found))
        return self._records

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
