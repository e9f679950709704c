"""The parameters of URLs of servers that speak Redis's protocol. Imports no driver."""

from ckpt_backends.declaration import NAME, NUMBER

_PREFIX = r"[\w.,+:{}-]*"
PARAMS = {
    **dict.fromkeys(("prefix", "write_prefix"), _PREFIX),
    **dict.fromkeys(("store_prefix", "vector_prefix"), NAME),
    "connect_timeout": NUMBER,
}
"""The parameters that may be printed, each with the pattern of its values."""
