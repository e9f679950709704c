"""`ckpt tui`: threads, the tree of one thread, and one checkpoint, on one screen.

Data flows in one direction: a `StoreWorker` runs the functions of `content` in its own thread,
these turn the answer of a query into lines, and the `panes` show the lines. No widget reads a store
or contains rules of LangGraph. Only `writing` can change a store, and it is imported only for
`--write`.
"""
