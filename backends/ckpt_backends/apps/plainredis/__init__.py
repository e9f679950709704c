"""The layout of langgraph-checkpoint-plainredis."""
