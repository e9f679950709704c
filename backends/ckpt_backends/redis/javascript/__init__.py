"""The layouts of LangGraph.js on Redis."""
