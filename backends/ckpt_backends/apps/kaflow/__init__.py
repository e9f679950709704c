"""The layout of KaFlow's checkpointer on MongoDB."""
