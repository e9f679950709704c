"""`ckpt tui`: threads, the tree of one thread, and one checkpoint, on one screen.

`screens.main` lays out the `panes`, binds the tables of `keys`, and tells each pane what the others
say. A pane asks a `StoreWorker`, which reads in a thread of its own, and posts messages. A tab of
the inspector is named in `tabs.content`, read in `tabs.checkpoint` or made in `panes.inspector`;
its command is in `command_line`. No widget contains rules of LangGraph. Only `writing` can change a
store, and it is imported only for `--write`.
"""
