"""Answer questions: one module for each question. Nothing here changes a store."""
