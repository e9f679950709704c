"""What all layouts on Redis share: connection, listing, changes. Knows no layout.

The parameters of URLs are here, since the declarations import no driver.
"""

from ckpt_backends.declaration import NAME, NUMBER

_PREFIX = r"[\w.,+:{}-]*"
PARAMS = {
    **dict.fromkeys(("prefix", "write_prefix"), _PREFIX),
    **dict.fromkeys(("store_prefix", "vector_prefix"), NAME),
    "connect_timeout": NUMBER,
    # Of a layout whose threads have actors.
    "actor": NAME,
}
"""The parameters that may be printed, each with the pattern of its values."""
