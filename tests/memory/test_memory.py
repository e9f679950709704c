"""LangGraph's four Stores, filled by their official libraries on real servers, read the same."""
