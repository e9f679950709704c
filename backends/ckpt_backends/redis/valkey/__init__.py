"""The layout of ValkeySaver of langgraph-checkpoint-aws."""
