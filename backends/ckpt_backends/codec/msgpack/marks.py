"""Texts that take the place of long values in a body, so that one call decodes all the rest.

Only where a mark comes out as the value of a channel did the long value stand there.
"""

from __future__ import annotations

from os import urandom

MARKS = [urandom(16).hex() for _ in range(32)]
"""Texts that nobody can have stored."""
STORED_MARKS = [b"\xd9\x20" + mark.encode() for mark in MARKS]
"""The same as stored."""
MORE_REST = 4 << 10
"""Bytes by which the rest of a body may grow before its long values are looked for again."""
