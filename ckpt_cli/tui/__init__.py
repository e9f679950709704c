"""`ckpt tui`: threads, the tree of one thread, and one checkpoint, on one screen.

Data flows one way: a `Lane` queries the store in its own thread, where functions of `reading` and
`render` turn the answer into lines, and widgets show lines. No widget reads a store or knows a rule
of LangGraph. Only `writing` can change a store, and it is imported only for `--write`.
"""
