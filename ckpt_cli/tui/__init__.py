"""`ckpt tui`: threads, the tree of one thread, and one checkpoint, on one screen.

Data flows in one direction: a `Lane` queries the store in its own thread, functions of `reading`
and `render` turn the answer into lines, and widgets show the lines. No widget reads a store or
contains rules of LangGraph. Only `writing` can change a store, and it is imported only for
`--write`.
"""
