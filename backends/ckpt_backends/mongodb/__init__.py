"""Opens the MongoDB layouts of LangGraph's savers and of KaFlow."""
