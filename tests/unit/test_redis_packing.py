"""Commands for a Redis server are packed as by the driver."""

from __future__ import annotations

from typing import Any

import pytest
import redis

from ckpt_backends.redis.engine.connection import PackingConnection, PackingTlsConnection

TEXTS: list[Any] = [b"name %d" % n for n in range(400)]
COMMANDS: list[tuple[Any, ...]] = [
    ("PING",),
    ("MEMORY USAGE", b"\r\nname\x00\xff"),
    (b"GET", "n\u00e4me"),
    ("JSON.SET", b"name", "$", '"\u00e4"' * 500, "NX"),
    ("PEXPIRE", "name", -7),
    ("UNLINK", *TEXTS),
]


@pytest.mark.parametrize(
    ("kind", "driver_kind"),
    [(PackingConnection, redis.Connection), (PackingTlsConnection, redis.SSLConnection)],
)
def test_commands_are_packed_as_by_the_driver(kind: type[Any], driver_kind: type[Any]) -> None:
    own, driver = kind(), driver_kind()
    for command in COMMANDS:
        expected = b"".join(driver.pack_command(*command))
        # The second time, its words are remembered.
        assert [*own.pack_command(*command), *own.pack_command(*command)] == [expected] * 2
    assert own.pack_commands(COMMANDS) == [b"".join(driver.pack_commands(COMMANDS))]
