"""The layouts of langgraph-checkpoint-redis."""
