"""`ckpt tui`: threads, the tree of one of them, and what stands in a checkpoint, on one screen.

Data flows one way here too: a `Lane` asks the store in a thread of its own, functions of `reading`
and `render` make lines of the answer there, and widgets show lines. No widget reads a store, and
none knows a rule of LangGraph's. What changes a store is in `changes` alone, which is imported
only for `--write`.
"""
