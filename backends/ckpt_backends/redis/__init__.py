"""Opens Redis layouts: the JSON documents of LangGraph's savers, and those of plain savers."""
