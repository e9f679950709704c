"""The server of `ckpt mcp`: one store for an agent to read, over the Model Context Protocol.

`tools/` declares what can be asked, `answers` makes a page of it, `server` speaks the protocol.
"""
