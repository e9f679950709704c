"""Merge writes into a state as LangGraph does, and compare the result with what is stored."""
