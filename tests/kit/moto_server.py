"""moto's server, in less time.

moto copies the table of each item of a transaction, to restore it after an error. All of these
copies are alike, and take seconds where a transaction has 100 items. It logs each request.
"""

import copy
import logging
import sys
import threading
from types import SimpleNamespace
from typing import Any

from moto.dynamodb import models
from moto.dynamodb.models.table import Table
from moto.server import main

_HERE = threading.local()
"""The copies of the transaction that runs in this thread, by the table's id."""
_transact = models.DynamoDBBackend.transact_write_items


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


if __name__ == "__main__":
    replaced: Any = models
    replaced.copy = SimpleNamespace(copy=copy.copy, deepcopy=_deepcopy)
    replaced.DynamoDBBackend.transact_write_items = _transact_with_few_copies
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    main(sys.argv[1:])
